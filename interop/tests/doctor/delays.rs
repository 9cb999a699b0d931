//! Delays of a fraction of a second, and an agent that signs late.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lh_interop::{Agent, find, our, skip};

use super::path_setup::{PathSetup, Plan, first, spec, takes};

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_short_delay_of_pam() {
    let rules = "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n\
                 account optional pam_exec.so quiet /bin/sleep 0.25\n";
    let plan = Plan { spec: spec(100, 20), pam: Some(rules), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_short_delay_of_pam", &plan) else { return };
    let diagnosis = setup.examine(&[], "login_approval");
    first(&diagnosis, "login_approval", &["/etc/pam.d/sshd", "median of 4 logins"]);
    takes(&diagnosis, 0.25);
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_a_short_line_of_a_start_up_file() {
    let plan = Plan { spec: spec(100, 20), ..Plan::default() };
    let Some(setup) = PathSetup::start("doctor_names_a_short_line_of_a_start_up_file", &plan) else { return };
    std::fs::write(setup.user.home.join(".bash_profile"), "# comment\nsleep 0.25\n").unwrap();
    let diagnosis = setup.examine(&[], "shell_startup");
    first(&diagnosis, "shell_startup", &["sleep 0.25", ".bash_profile line 2"]);
    takes(&diagnosis, 0.25);
}

/// Passes messages on to an agent, and holds requests for signatures back. Returns its socket.
fn late_signer(directory: &Path, agent: PathBuf, delay: Duration) -> PathBuf {
    let socket = directory.join("late-agent");
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(agent) = UnixStream::connect(&agent) else { break };
            std::thread::spawn(move || relay(&client, &agent, delay));
        }
    });
    socket
}

/// Passes on requests and answers of one client.
fn relay(client: &UnixStream, agent: &UnixStream, delay: Duration) {
    // SSH_AGENTC_SIGN_REQUEST (RFC 9987).
    const SIGN: u8 = 13;
    while let Some(request) = message(client) {
        if request.get(4) == Some(&SIGN) {
            std::thread::sleep(delay);
        }
        if { agent }.write_all(&request).is_err() {
            break;
        }
        let Some(answer) = message(agent) else { break };
        if { client }.write_all(&answer).is_err() {
            break;
        }
    }
}

/// A message with its length.
fn message(mut from: &UnixStream) -> Option<Vec<u8>> {
    let mut message = vec![0; 4];
    from.read_exact(&mut message).ok()?;
    let length = u32::from_be_bytes([message[0], message[1], message[2], message[3]]);
    message.resize(4 + length as usize, 0);
    from.read_exact(&mut message[4..]).ok()?;
    Some(message)
}

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn doctor_names_an_agent_that_signs_late() {
    let test = "doctor_names_an_agent_that_signs_late";
    let Some(program) = find("ssh-agent") else { return skip(test, "ssh-agent is not installed") };
    let Some(setup) = PathSetup::start(test, &Plan { spec: spec(100, 20), ..Plan::default() }) else {
        return;
    };
    let agent = Agent::start(&setup.lab, &program, "agent", &[], &[]);
    let added = agent.run(&setup.lab, &our("lhssh-add"), &[setup.lab.arg("user_ed25519")]);
    assert_eq!(added.code, 0, "{}", added.err);
    let socket = late_signer(&setup.lab.path("."), agent.socket.clone(), Duration::from_millis(1200));
    let option = format!("IdentityAgent={}", socket.display());
    let diagnosis = setup.examine(&["-o", &option], "agent");
    first(&diagnosis, "agent", &["agent is slow to sign", "SSH_AUTH_SOCK"]);
    takes(&diagnosis, 1.2);
    assert!(!diagnosis["findings"].to_string().contains("login_approval"), "{diagnosis:#}");
}
