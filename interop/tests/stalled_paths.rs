//! Sessions with `Resume` whose connection stalls without breaking. A new connection takes over the session
//! if it is faster. Otherwise the session keeps its connection.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::{Lab, Lhsshd, eventually, make_blob, me, our};

const MB: u64 = 1 << 20;

/// A server whose sessions wait, and a relay in front of it.
struct RelaySetup {
    lab: Lab,
    server: Lhsshd,
    cuts: Cuts,
}

impl RelaySetup {
    fn new(plan: Vec<(u64, Break)>) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, "ResumeGrace 5m\n");
        let cuts = Cuts::to(server.port, plan);
        lab.know(cuts.port);
        Self { lab, server, cuts }
    }

    /// Starts a client. Keepalives are too rare to notice anything.
    fn start(&self, command: &str) -> Child {
        let mut client = Command::new(our("lhssh"));
        client.args(self.lab.client_options());
        for option in ["Resume=yes", "ServerAliveInterval=1000", "LogLevel=DEBUG"] {
            client.args(["-o", option]);
        }
        client.args(["-p", &self.cuts.port.to_string(), &format!("{}@127.0.0.1", me()), command]);
        client.env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK");
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        client.stderr(std::fs::File::create(self.lab.path("said")).unwrap());
        client.spawn().unwrap()
    }

    fn said(&self) -> String {
        self.lab.read("said")
    }

    fn resumptions(&self) -> usize {
        self.server.resumptions()
    }
}

const STALLED: &str = "the connection is stalled; making another one beside it";
const KEPT: &str = "resume: the link is kept";
const FASTER: &str = "the other connection is faster; changing to it";

/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn a_stalled_download_changes_connections() {
    let setup = RelaySetup::new(vec![(4 * MB, Break::Slow(3000))]);
    make_blob(&setup.lab.path("blob"), 12 << 20);
    let client = setup.start(&format!("cat {}; exit 5", setup.lab.arg("blob")));
    let done = client.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(5), "{}", setup.said());
    assert!(done.stdout == std::fs::read(setup.lab.path("blob")).unwrap(), "{} bytes", done.stdout.len());
    let said = setup.said();
    assert!(said.contains(STALLED) && said.contains(FASTER), "{said}");
    setup.server.await_resumptions(1);
    assert_eq!((setup.cuts.connections(), setup.resumptions()), (2, 1), "{said}{}", setup.server.log());
}

/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn a_stalled_upload_changes_connections() {
    let setup = RelaySetup::new(vec![(4 * MB, Break::Slow(3000))]);
    make_blob(&setup.lab.path("blob"), 12 << 20);
    let mut client = setup.start(&format!("cat > {}; exit 6", setup.lab.arg("copy")));
    let mut input = client.stdin.take().unwrap();
    let blob = std::fs::read(setup.lab.path("blob")).unwrap();
    std::thread::spawn(move || input.write_all(&blob).unwrap());
    assert_eq!(client.wait().unwrap().code(), Some(6), "{}", setup.said());
    lh_interop::assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
    // Before the stall is noticed the connection may count as silent: the relay takes bytes in lumps.
    setup.server.await_resumptions(1);
    assert_eq!(setup.resumptions(), 1, "{}", setup.said());
}

/// All paths are as slow as this one: the session stays, and goes on.
///
/// Covers: ssh_config Resume
#[test]
fn a_session_stays_where_nothing_is_faster() {
    let setup =
        RelaySetup::new(vec![(MB, Break::Slow(3000)), (0, Break::Slow(3000)), (0, Break::Slow(3000))]);
    let mut client = setup.start("head -c 1000000 /dev/zero; exec cat");
    let mut output = client.stdout.take().unwrap();
    output.read_exact(&mut vec![0; 1_000_000]).unwrap();
    let mut input = client.stdin.take().unwrap();
    // It writes until the client is killed.
    let feeder = std::thread::spawn(move || input.write_all(&[b'x'; 300_000]));
    eventually("a second connection is tried", || setup.said().contains(STALLED));
    eventually("it is closed", || setup.said().contains(KEPT));
    assert!(!setup.said().contains(FASTER), "{}", setup.said());
    let mut some = [0; 1000];
    output.read_exact(&mut some).unwrap();
    assert!(some == [b'x'; 1000]);
    assert_eq!(setup.resumptions(), 0, "{}", setup.said());
    client.kill().unwrap();
    client.wait().unwrap();
    let _ = feeder.join();
}
