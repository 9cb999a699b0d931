//! The agent as a service: the service manager listens and passes its socket.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use lh_interop::{Lab, eventually, our};

/// Runs `lhssh-agent` with `flags` as a service manager does: descriptor 3 is the socket, the variables name
/// it.
fn start(lab: &Lab, socket: OwnedFd, sockets: &str, flags: &str) -> Child {
    // The socket arrives as standard input, which Command can set.
    let line = format!(
        "exec 3<&0 4<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS={sockets}; exec '{}' {flags}",
        our("lhssh-agent").display()
    );
    Command::new("sh")
        .args(["-c", &line])
        .env("HOME", lab.path("home"))
        .stdin(Stdio::from(socket))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn listed(lab: &Lab, socket: &str) -> (i32, String) {
    let ran = lab.sh(&format!("SSH_AUTH_SOCK='{socket}' '{}' -l", our("lhssh-add").display()));
    (ran.code, ran.text())
}

/// The first client may connect before the agent runs, and the file stays when it ends.
#[test]
fn agent_serves_the_socket_of_a_manager() {
    let lab = Lab::new();
    let path = lab.path("managed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let waiting = UnixStream::connect(&path).unwrap();
    let kept = listener.try_clone().unwrap();
    for round in 0..2 {
        let mut agent = start(&lab, listener.try_clone().unwrap().into(), "1", "-D");
        eventually("the agent answers", || listed(&lab, &lab.arg("managed.sock")).0 == 1);
        let added = lab.sh(&format!(
            "SSH_AUTH_SOCK='{}' '{}' -q '{}'",
            lab.arg("managed.sock"),
            our("lhssh-add").display(),
            lab.arg("user_ed25519")
        ));
        assert_eq!(added.code, 0, "round {round}: {}", added.err);
        assert_eq!(listed(&lab, &lab.arg("managed.sock")).0, 0, "round {round}");
        let pid = rustix::process::Pid::from_child(&agent);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(agent.wait().unwrap().code(), Some(2), "round {round}");
        assert!(path.exists(), "the manager's socket was removed");
    }
    drop((waiting, kept));
}

/// What a manager passes by mistake is refused with a reason.
#[test]
fn agent_refuses_other_descriptors() {
    let lab = Lab::new();
    let listener = UnixListener::bind(lab.path("managed.sock")).unwrap();
    let (stream, _other) = UnixStream::pair().unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let none = "the service manager passed a descriptor that is no listening Unix socket\n";
    for (socket, count, message) in [
        (OwnedFd::from(stream), "1", none),
        (OwnedFd::from(tcp), "1", none),
        (OwnedFd::from(listener), "2", "the service manager passed 2 sockets, not one\n"),
    ] {
        let output = start(&lab, socket, count, "-D").wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    }
}

/// With `-a` the agent makes the socket that it was told to, whether or not a manager passed another.
#[test]
fn bind_address_goes_before_a_passed_socket() {
    let lab = Lab::new();
    let listener = UnixListener::bind(lab.path("managed.sock")).unwrap();
    let own = lab.arg("own.sock");
    let mut agent = start(&lab, listener.into(), "1", &format!("-D -a '{own}'"));
    eventually("the agent answers", || listed(&lab, &own).0 == 1);
    let pid = rustix::process::Pid::from_child(&agent);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    agent.wait().unwrap();
    assert!(!lab.path("own.sock").exists());
}
