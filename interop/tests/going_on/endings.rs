//! Sessions that end although they could be resumed, and what their users hear.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::{Lab, Lhsshd, Terminal, TestUser, eventually, is_root, make_blob, me, our, skip};

use super::{Broken, MB};

/// The server does not keep a session that its client has ended because of a forward.
///
/// Covers: ssh_config ExitOnForwardFailure; sshd_config ResumeGrace
#[test]
fn a_failed_forward_leaves_no_session() {
    let setup = Broken::new("ResumeGrace 10m\n", &[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = format!("RemoteForward=127.0.0.1:{} 127.0.0.1:9", taken.local_addr().unwrap().port());
    let ran = setup.run(&["ExitOnForwardFailure=yes", &forward], "sleep 60", Stdio::null());
    assert_eq!(ran.code, 255, "{}", ran.err);
    eventually("the session has ended", || setup.server.log().contains("Disconnected from user "));
    assert!(!setup.server.log().contains("the session waits"), "{}", setup.server.log());
}

/// Either end alone: everything is as without the extension.
///
/// Covers: ssh_config Resume; sshd_config ResumeGrace
#[test]
fn sessions_end_with_their_connection_unless_both_ends_agree() {
    let plan = [(100_000, Break::Reset); 3];
    for (config, options) in [("ResumeGrace 0\n", &["Resume=yes"][..]), ("", &["Resume=no"])] {
        let setup = Broken::new(config, &plan);
        let ran = setup.run(options, "head -c 1000000 /dev/zero", Stdio::null());
        assert_eq!(ran.code, 255, "{config} {options:?}");
        assert_eq!(setup.cuts.connections(), 1, "{config} {options:?}");
        assert!(!setup.server.log().contains("the session waits"), "{}", setup.server.log());
    }
}

/// A `Match` block takes it away again.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn resume_grace_can_be_matched() {
    let rules = Lab::new();
    rules.write("rules", &format!("Match User {}\nResumeGrace 0\n", me()));
    let config = format!("Include {}\nResumeGrace 2m\n", rules.arg("rules"));
    let setup = Broken::new(&config, &[(100_000, Break::Reset)]);
    make_blob(&setup.lab.path("blob"), 3 << 20);
    // Beyond what is kept for a session, so that a client that kept it would stop.
    let ran = setup.run(&["Resume=yes"], "head -c 1000000 /dev/zero", Stdio::null());
    assert_eq!((ran.code, setup.cuts.connections()), (255, 1));
    let input = File::open(setup.lab.path("blob")).unwrap();
    let sum = setup.run(&["Resume=yes"], "cat | wc -c", input.into()).ok("lhssh");
    assert_eq!(sum.text().trim(), (3 << 20).to_string());
}

/// The program of a session whose client does not come back is hung up when its time is over.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn a_session_ends_when_its_time_is_over() {
    let setup = Broken::new("ResumeGrace 2s\n", &[]);
    let mut client = setup.start(&["Resume=yes"], "echo started; cat; echo over > ended");
    let mut line = [0; 8];
    client.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"started\n");
    // The client says nothing more.
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("the session waits", || setup.server.log().contains("the session waits for 2 seconds"));
    eventually("the session ends", || setup.server.log().contains("its client has not come back"));
}

/// A client that was asleep for longer than the server kept its session says why it cannot go on.
///
/// Covers: ssh_config Resume; sshd_config ResumeGrace
#[test]
fn a_client_hears_that_its_session_is_gone() {
    use rustix::process::{Pid, Signal, kill_process};
    let setup = Broken::new("ResumeGrace 2s\n", &[(100_000, Break::Reset)]);
    let go = setup.lab.arg("go");
    let command = format!("echo started; until test -e {go}; do sleep 0.1; done; head -c 1000000 /dev/zero");
    let mut client = setup.start(&[], &command);
    let mut line = [0; 8];
    client.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    kill_process(Pid::from_child(&client), Signal::STOP).unwrap();
    setup.lab.write("go", "");
    eventually("the session ends", || setup.server.log().contains("its client has not come back"));
    kill_process(Pid::from_child(&client), Signal::CONT).unwrap();
    let ended = client.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(255), "{said}");
    assert!(said.contains("The server does not go on with the session: "), "{said}");
}

/// A client that is told to wait less than the server gives up, with ssh's status.
///
/// Covers: ssh_config Resume
#[test]
fn a_client_gives_up_when_its_time_is_over() {
    let plan: Vec<_> = [(100_000, Break::Reset)].into_iter().chain([(0, Break::End); 40]).collect();
    let setup = Broken::new("ResumeGrace 5s\n", &plan);
    let ran = setup.run(&["Resume=2"], "head -c 1000000 /dev/zero; sleep 1000", Stdio::null());
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(setup.cuts.connections() > 1);
}

/// Other hosts answer at the server's address, as where the network has changed: one with an unknown key, and
/// one whose key is known but that does not have the session. Neither ends it.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn other_hosts_at_the_address_do_not_end_a_session() {
    for (is_known, checking, config) in
        [(false, "yes", ""), (false, "no", ""), (true, "yes", ""), (true, "yes", "ResumeGrace 2m\n")]
    {
        let (lab, elsewhere) = (Lab::new(), Lab::new());
        let server = Lhsshd::start(&lab, "ResumeGrace 2m\n");
        // Labs share their RSA keys, and another host has none of the server's keys.
        for file in ["host_rsa", "host_rsa.pub"] {
            std::fs::remove_file(elsewhere.path(file)).unwrap();
        }
        let own = ["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", &elsewhere.arg("host_rsa")];
        elsewhere.run(&our("lhssh-keygen"), &own).ok("a key");
        // It finds the session on this machine, but may not resume it: it has none of the host keys.
        let other = Lhsshd::start(&elsewhere, config);
        let ports = [server.port, other.port, other.port].into_iter().chain(std::iter::repeat(server.port));
        let cuts = Cuts::to_each(ports, vec![(MB, Break::Reset)]);
        lab.know(cuts.port);
        if is_known {
            elsewhere.know(cuts.port);
            lab.write("known_hosts", &(lab.read("known_hosts") + &elsewhere.read("known_hosts")));
        }
        let known_before = lab.read("known_hosts");
        make_blob(&lab.path("blob"), 3 << 20);
        let setup = Broken { lab, server, cuts };
        let command = format!("cat {}; exit 5", setup.lab.arg("blob"));
        let mut args = setup.args(&["Resume=yes"], &command);
        for arg in args.iter_mut().filter(|arg| *arg == "StrictHostKeyChecking=yes") {
            *arg = format!("StrictHostKeyChecking={checking}");
        }
        let ran = setup.lab.run(&our("lhssh"), &args);
        assert_eq!((ran.code, ran.err.as_str()), (5, ""), "{is_known} {checking}");
        assert!(ran.out == std::fs::read(setup.lab.path("blob")).unwrap(), "{} bytes", ran.out.len());
        assert_eq!(setup.cuts.connections(), 4, "{is_known} {checking}");
        setup.server.await_resumptions(1);
        assert_eq!(setup.resumptions(), 1);
        assert_eq!(setup.lab.read("known_hosts"), known_before);
        let log = other.log();
        assert!(!log.contains("Accepted "), "{log}");
        assert_eq!(log.contains("refused: the session is another server's"), is_known, "{log}");
    }
}

/// Another host answers until the client gives up, which says so.
///
/// Covers: ssh_config Resume
#[test]
fn a_session_that_ends_for_another_host_says_so() {
    let (lab, elsewhere) = (Lab::new(), Lab::new());
    let server = Lhsshd::start(&lab, "ResumeGrace 2m\n");
    // Labs share their RSA keys; its others are not known.
    let other = Lhsshd::start(&elsewhere, "HostKeyAlgorithms ssh-ed25519\n");
    let ports = std::iter::once(server.port).chain(std::iter::repeat(other.port));
    let cuts = Cuts::to_each(ports, vec![(MB, Break::Reset)]);
    lab.know(cuts.port);
    make_blob(&lab.path("blob"), 3 << 20);
    let setup = Broken { lab, server, cuts };
    let ran = setup.run(&["Resume=2"], &format!("cat {}", setup.lab.arg("blob")), Stdio::null());
    let said = "The session cannot go on: another host answers in place of its server.\r\n";
    assert_eq!(ran.code, 255, "{}", ran.err);
    assert!(ran.err.starts_with(said.trim_end()), "{:?}", ran.err);
}

/// A jump host that refuses the login for a while.
///
/// Covers: ssh_config Resume; ssh_config ProxyJump
#[test]
fn a_jump_host_that_refuses_does_not_end_a_session() {
    let (lab, near) = (Lab::new(), Lab::new());
    let server = Lhsshd::start(&lab, "ResumeGrace 2m\n");
    let jump = Lhsshd::start(&near, "");
    let cuts = Cuts::to(jump.port, vec![(MB, Break::Reset)]);
    near.know(cuts.port);
    lab.write("known_hosts", &(lab.read("known_hosts") + &near.read("known_hosts")));
    near.write("authorized_keys", &lab.read("authorized_keys"));
    lab.write(
        "config",
        &format!(
            "Host near\n Port {}\nHost far\n Port {}\n Resume yes\n ProxyJump near\nHost *\n \
             HostName 127.0.0.1\n User {}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n \
             StrictHostKeyChecking yes\n \
             IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n LogLevel ERROR\n WarnWeakCrypto no\n",
            cuts.port,
            server.port,
            me(),
            lab.arg("known_hosts"),
            lab.arg("user_ed25519"),
        ),
    );
    make_blob(&lab.path("blob"), 3 << 20);
    // Nothing is sent before the jump host refuses: the break comes with the file.
    let command = format!("echo up; read line; cat {}; exit 6", lab.arg("blob"));
    let mut client = Command::new(our("lhssh"))
        .args(["-F", &lab.arg("config"), "far", &command])
        .env("HOME", lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 3];
    client.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let authorised = near.read("authorized_keys");
    near.write("authorized_keys", "");
    client.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let reader = std::thread::spawn(move || client.wait_with_output().unwrap());
    eventually("the jump host refuses", || jump.log().contains("No more authentication methods available"));
    near.write("authorized_keys", &authorised);
    let done = reader.join().unwrap();
    assert_eq!(done.status.code(), Some(6), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout == std::fs::read(lab.path("blob")).unwrap(), "{} bytes", done.stdout.len());
    assert_eq!(cuts.broken(), 1);
}

/// `~.` ends a session whose server cannot be reached.
///
/// Covers: ssh_config Resume; ssh ~.
#[test]
fn a_user_ends_a_session_that_is_away() {
    let plan: Vec<_> = [(60_000, Break::Reset)].into_iter().chain([(0, Break::End); 200]).collect();
    let setup = Broken::new("ResumeGrace 30s\n", &plan);
    let mut args = vec!["-tt".to_owned()];
    args.extend(
        setup.args(&["Resume=yes"], "echo it is $((40+2)); head -c 100000 /dev/zero | tr '\\0' x; cat"),
    );
    let mut shell = Terminal::start(&our("lhssh"), &args, setup.lab.dir(), &setup.lab.path("home"));
    shell.expect("connection lost; reconnecting for ");
    shell.send("\r~.");
    let screen = shell.screen_at_end();
    assert!(screen.contains("~."), "{screen}");
    assert_eq!(shell.wait(), 255);
}

/// A server of root's, and a user who is not: each process has its own rights. An account that has expired
/// meanwhile does not get its session back.
///
/// Covers: sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn sessions_of_other_users_survive_while_they_may() {
    if !is_root() {
        return skip("sessions_of_other_users_survive_while_they_may", "only root can add users");
    }
    // Without PAM, whose modules decide otherwise about locked passwords.
    for (program, flags) in [("chage", ["-E", "1"].as_slice()), ("usermod", &["-L"])] {
        session_ends_when_user_may_not_log_in(program, flags);
    }
}

/// `program` with these flags and the user's name takes the right to log in away.
fn session_ends_when_user_may_not_log_in(program: &str, flags: &[&str]) {
    let config = "ResumeGrace 1m\nAuthorizedKeysFile .ssh/authorized_keys\nUsePAM no\n";
    let setup = Broken::new(config, &[(MB, Break::Reset), (MB, Break::Silence), (20 * MB, Break::Reset)]);
    let user = TestUser::new(&setup.lab);
    let mut args = setup.args(&["Resume=yes"], "id -un; head -c 3000000 /dev/zero; cat > /dev/null; exit 2");
    let host = args.len() - 2;
    args[host] = format!("{}@127.0.0.1", user.name);
    let mut client = Command::new(our("lhssh"))
        .args(args)
        .env("HOME", setup.lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut came = vec![0; user.name.len() + 1 + 3_000_000];
    client.stdout.as_mut().unwrap().read_exact(&mut came).unwrap();
    assert!(came.starts_with(format!("{}\n\0", user.name).as_bytes()));
    assert_eq!(setup.cuts.broken(), 2);
    setup.server.await_resumptions(2);
    let resumptions = setup.resumptions();
    setup.lab.run(std::path::Path::new(program), &[flags, &[user.name.as_str()]].concat()).ok(program);
    // The next break.
    let mut input = client.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || while input.write_all(&[1; 10_000]).is_ok() {});
    assert_eq!(client.wait().unwrap().code(), Some(255));
    feeder.join().unwrap();
    let log = setup.server.log();
    let reasons = ["refused: the account is closed", "has expired", "account is locked"];
    assert!(reasons.iter().any(|reason| log.contains(reason)), "{log}");
    assert_eq!(setup.resumptions(), resumptions);
}

/// Attempts that break before the login do not lock the client out of its own session.
///
/// Covers: sshd_config PerSourcePenalties; sshd_config ResumeGrace
#[test]
fn broken_attempts_are_not_penalised_while_a_session_waits() {
    let plan = [(MB, Break::Reset)].into_iter().chain([(1000, Break::Reset); 4]).collect::<Vec<_>>();
    let config = "ResumeGrace 2m\nPerSourcePenalties noauth:30 min:10 max:30\n";
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, config);
    // The client may come back before the server has noticed the break. Such an attempt is none while a
    // session waits, so it passes the relay later.
    let (port, log) = (server.port, server.log_path().to_owned());
    let waits = move || {
        eventually("the session waits", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.contains("the session waits"))
        });
        Some(port)
    };
    let cuts = Cuts::to_each(std::iter::once(port).chain(std::iter::from_fn(waits)), plan.clone());
    lab.know(cuts.port);
    let setup = Broken { lab, server, cuts };
    make_blob(&setup.lab.path("blob"), 4 << 20);
    let command = format!("cat {}", setup.lab.arg("blob"));
    let ran = setup.run(&["Resume=yes"], &command, Stdio::null()).ok("cat");
    assert!(ran.out == std::fs::read(setup.lab.path("blob")).unwrap());
    setup.server.await_resumptions(1);
    assert_eq!((setup.cuts.broken(), setup.resumptions()), (plan.len(), 1));
    assert!(!setup.server.log().contains("activating penalty"), "{}", setup.server.log());
    // No session waits now, and the same connection is an offence.
    drop(TcpStream::connect(("127.0.0.1", setup.server.port)).unwrap());
    eventually("the penalty begins", || setup.server.log().contains("activating penalty"));
}
