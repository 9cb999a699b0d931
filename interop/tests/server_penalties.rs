//! Penalties of addresses (`PerSourcePenalties`) while one of their sessions can be resumed (`ResumeGrace`).

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::{Lab, Lhsshd, eventually, make_blob, me, our};

fn args(lab: &Lab, port: u16, command: &str) -> Vec<String> {
    let mut args = lab.client_options();
    // Silence is noticed within seconds.
    for option in ["ServerAliveInterval=1", "ServerAliveCountMax=3", "Resume=yes"] {
        args.extend(["-o".to_owned(), option.to_owned()]);
    }
    args.extend(["-p".to_owned(), port.to_string(), format!("{}@127.0.0.1", me()), command.to_owned()]);
    args
}

/// A client whose session lasts until its standard input ends.
fn session(lab: &Lab, port: u16) -> Child {
    Command::new(our("lhssh"))
        .args(args(lab, port, &format!("touch {}; cat", lab.arg("begun"))))
        .env("HOME", lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The path falls silent, which the client notices after seconds and the server after 80. What the client
/// loses on its way back meanwhile does not lock it out.
///
/// Covers: sshd_config PerSourcePenalties; sshd_config ResumeGrace
#[test]
fn a_client_that_notices_a_break_first_is_not_penalised() {
    let plan = [(1 << 20, Break::Silence)].into_iter().chain([(1000, Break::Reset); 4]).collect::<Vec<_>>();
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 2m\nPerSourcePenalties noauth:30 min:10 max:30\n");
    let cuts = Cuts::to(server.port, plan.clone());
    lab.know(cuts.port);
    make_blob(&lab.path("blob"), 4 << 20);
    let command = format!("cat {}", lab.arg("blob"));
    let ran = lab.run_with(&our("lhssh"), &args(&lab, cuts.port, &command), Stdio::null()).ok("cat");
    assert!(ran.out == std::fs::read(lab.path("blob")).unwrap());
    assert_eq!(cuts.broken(), plan.len());
    assert!(server.log().contains(" resumed from 127.0.0.1 port "), "{}", server.log());
    assert!(!server.log().contains("activating penalty"), "{}", server.log());
    // There is no session now, and the same connection is an offence.
    drop(TcpStream::connect(("127.0.0.1", server.port)).unwrap());
    eventually("the penalty begins", || {
        server.log().contains("activating penalty of 30 seconds for penalty: conn")
    });
}

/// Beside a session that could be resumed, an attempt to log in is charged as ever.
///
/// Covers: sshd_config PerSourcePenalties; sshd_config ResumeGrace
#[test]
fn logins_beside_a_resumable_session_are_charged() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 2m\nPerSourcePenalties authfail:30 min:10 max:30\n");
    let mut running = session(&lab, server.port);
    eventually("the session begins", || lab.path("begun").exists());
    lab.write("authorized_keys", "");
    let ran = lab.run_with(&our("lhssh"), &args(&lab, server.port, "true"), Stdio::null());
    assert_eq!(ran.code, 255);
    let charged = "activating penalty of 30 seconds for penalty: failed authentication";
    eventually("the address is charged", || server.log().contains(charged));
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
}
