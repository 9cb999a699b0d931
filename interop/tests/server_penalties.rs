//! Penalties of addresses (`PerSourcePenalties`) while one of their sessions can be resumed (`ResumeGrace`).

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::{Lab, Lhsshd, eventually, make_blob, me, our, process};
use rustix::process::{Pid, Signal, kill_process};

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
    server.await_resumptions(1);
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

/// Copies in both directions until the ends.
fn relay(near: TcpStream, far: TcpStream) {
    for (mut from, mut to) in
        [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far.try_clone().unwrap(), near)]
    {
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// The state of a process in `/proc/PID/stat`, which follows the name in parentheses.
fn is_in_state(pid: u32, state: char) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(state))
}

/// What a session said before another connection ended counts for that one, also where the listener learns of
/// both at once.
///
/// Covers: sshd_config PerSourcePenalties; sshd_config ResumeGrace
#[test]
fn a_login_before_a_lost_connection_excuses_it() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 2m\nPerSourcePenalties noauth:30 min:10 max:30\n");
    let processes = || process::below(server.pid());
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let lost = connect();
    eventually("the connection has its processes", || processes().len() == 3);
    let monitor = processes()[0];
    // The server has another connection, of a client whose bytes do not come yet.
    let near = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = near.local_addr().unwrap().port();
    lab.know(port);
    let mut running = session(&lab, port);
    let (client, far) = (near.accept().unwrap().0, connect());
    eventually("the session has its processes", || processes().len() == 6);
    let listener = Pid::from_raw(server.pid().cast_signed()).unwrap();
    kill_process(listener, Signal::STOP).unwrap();
    eventually("the listener has stopped", || is_in_state(server.pid(), 'T'));
    relay(client, far);
    eventually("the session begins", || lab.path("begun").exists());
    drop(lost);
    eventually("the other connection is over", || is_in_state(monitor, 'Z'));
    kill_process(listener, Signal::CONT).unwrap();
    eventually("the listener knows", || !processes().contains(&monitor));
    let excused = "no penalty: a session there may have lost its path";
    eventually("the connection is excused or charged", || {
        [excused, "activating penalty"].iter().any(|line| server.log().contains(line))
    });
    assert!(!server.log().contains("activating penalty"), "{}", server.log());
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
}
