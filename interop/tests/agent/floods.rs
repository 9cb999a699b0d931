//! Clients that leave while the agent works for them, or asks the user: they get no more of the machine than
//! clients that stay.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lh_interop::{Agent, Lab, eventually, our, script};
use lh_wire::Writer as _;

/// Numbers of the protocol: a list of keys and its answer, a signature, a failure, a token to add.
const LIST: u8 = 11;
const LISTED: u8 = 12;
const SIGN: u8 = 13;
const FAILURE: u8 = 5;
const ADD_TOKEN: u8 = 20;

/// Helper processes that the agent runs at a time.
const MOST_JOBS: usize = 16;

fn send(client: &mut UnixStream, body: &[u8]) {
    let mut message = Vec::new();
    message.put_string(body);
    client.write_all(&message).unwrap();
}

/// Sends a request on a connection of its own, which stays open.
fn request(agent: &Agent, body: &[u8]) -> UnixStream {
    let mut client = UnixStream::connect(&agent.socket).unwrap();
    // Only a test that fails waits that long.
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    send(&mut client, body);
    client
}

/// Number of the answer.
fn answer(client: &mut UnixStream) -> u8 {
    let mut length = [0; 4];
    client.read_exact(&mut length).expect("an answer");
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut body).expect("the answer");
    body[0]
}

/// Waits until the agent has seen that earlier clients have gone: it looks at all clients in turn, so the
/// second answer comes after that.
fn pass_a_turn(agent: &Agent) {
    let mut client = request(agent, &[LIST]);
    assert_eq!(answer(&mut client), LISTED);
    send(&mut client, &[LIST]);
    assert_eq!(answer(&mut client), LISTED);
}

fn lines(lab: &Lab, name: &str) -> usize {
    std::fs::read_to_string(lab.path(name)).unwrap_or_default().lines().count()
}

/// A host to which the agent is forwarded can have a security key sign, leave, and ask again, as often as it
/// likes; each of these requests is a process that waits for a touch.
///
/// Covers: ssh-add -s; ssh-agent (number of helpers)
#[test]
fn clients_that_leave_start_no_more_helpers() {
    let lab = Lab::new();
    // It reads requests and answers nothing, as long as its input is open.
    let helper = lab.arg("helper");
    script(Path::new(&helper), &format!("echo start >>{}\ncat >/dev/null", lab.arg("starts")));
    lab.write("library.so", "");
    let library = lab.path("library.so").canonicalize().unwrap();
    let env = [("SSH_PKCS11_HELPER", helper.as_str())];
    let allowed = format!("{}/*", lab.path("").canonicalize().unwrap().display());
    let agent = Agent::start(&lab, &our("lhssh-agent"), "agent", &["-P", &allowed], &env);
    let mut body = vec![ADD_TOKEN];
    body.put_string(library.to_str().unwrap().as_bytes());
    body.put_string(b"1234");
    for _ in 0..MOST_JOBS {
        drop(request(&agent, &body));
    }
    eventually("the helpers run", || lines(&lab, "starts") == MOST_JOBS);
    pass_a_turn(&agent);
    for _ in 0..4 {
        assert_eq!(answer(&mut request(&agent, &body)), FAILURE);
    }
    assert_eq!(lines(&lab, "starts"), MOST_JOBS);
}

/// Covers: ssh-add -c
#[test]
fn questions_of_clients_that_left_are_not_asked() {
    let lab = Lab::new();
    // The first question stays open until the test answers it.
    let askpass = lab.arg("askpass");
    let body = format!(
        "echo asked >>{asked}\nwhile ! test -e {go}; do sleep 0.05; done",
        asked = lab.arg("asked"),
        go = lab.arg("go")
    );
    script(Path::new(&askpass), &body);
    let env = [("SSH_ASKPASS", askpass.as_str())];
    let agent = Agent::start(&lab, &our("lhssh-agent"), "agent", &[], &env);
    agent.run(&lab, &our("lhssh-add"), &["-c", &lab.arg("user_ed25519")]).ok("added");
    let public = lab.read("user_ed25519.pub");
    let (key, _) = lh_crypto::PublicKey::from_openssh_line(public.trim()).unwrap();
    let mut body = vec![SIGN];
    body.put_string(key.blob());
    body.put_string(b"data");
    body.put_u32(0);
    let mut first = request(&agent, &body);
    eventually("the user is asked", || lines(&lab, "asked") == 1);
    for _ in 0..20 {
        drop(request(&agent, &body));
    }
    let mut last = request(&agent, &body);
    pass_a_turn(&agent);
    lab.write("go", "");
    // A signature for both that stayed: one question each, and none for the others.
    assert_ne!(answer(&mut first), FAILURE);
    assert_ne!(answer(&mut last), FAILURE);
    assert_eq!(lines(&lab, "asked"), 2);
}
