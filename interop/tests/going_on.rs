//! Sessions that are resumed over a new connection after their connection breaks (`Resume`, `ResumeGrace`).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::tunnel::free_port;
use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, Terminal, TestUser, assert_same_file, assert_same_tree, eventually, is_root,
    make_blob, make_tree, me, our, peers, skip, with_default_signals,
};

const MB: u64 = 1 << 20;

/// A server whose sessions wait, and a relay in front of it.
struct Broken {
    lab: Lab,
    server: Lhsshd,
    cuts: Cuts,
}

impl Broken {
    fn new(config: &str, plan: &[(u64, Break)]) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        let cuts = Cuts::to(server.port, plan.to_vec());
        lab.know(cuts.port);
        Self { lab, server, cuts }
    }

    fn args(&self, options: &[&str], command: &str) -> Vec<String> {
        let mut args = self.lab.client_options();
        // Silence is noticed within seconds.
        for option in ["ServerAliveInterval=1", "ServerAliveCountMax=3"].iter().chain(options) {
            args.extend(["-o".to_owned(), (*option).to_owned()]);
        }
        args.extend(["-p".to_owned(), self.cuts.port.to_string(), format!("{}@127.0.0.1", me())]);
        args.push(command.to_owned());
        args
    }

    fn run(&self, options: &[&str], command: &str, stdin: Stdio) -> Ran {
        self.lab.run_with(&our("lhssh"), &self.args(options, command), stdin)
    }

    /// Starts a client with pipes.
    fn start(&self, options: &[&str], command: &str) -> Child {
        Command::new(our("lhssh"))
            .args(self.args(options, command))
            .env("HOME", self.lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn resumptions(&self) -> usize {
        self.server.resumptions()
    }
}

const PLAN: [(u64, Break); 5] = [
    (MB, Break::Reset),
    (2 * MB + 17, Break::Silence),
    (3 * MB, Break::End),
    (20_000, Break::Reset),
    (MB + 1, Break::Reset),
];

/// Covers: ssh_config Resume; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn a_download_survives_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
    make_blob(&setup.lab.path("blob"), 24 << 20);
    let command = format!("cat {}; exit 7", setup.lab.arg("blob"));
    let ran = setup.run(&["Resume=yes"], &command, Stdio::null());
    assert_eq!((ran.code, ran.err.as_str()), (7, ""));
    std::fs::write(setup.lab.path("copy"), &ran.out).unwrap();
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
    assert_eq!(setup.cuts.broken(), PLAN.len());
    setup.server.await_resumptions(PLAN.len());
}

/// Covers: ssh_config Resume; sshd_config ResumeGrace; wire resume@longhaul
#[test]
fn an_upload_survives_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
    make_blob(&setup.lab.path("blob"), 24 << 20);
    let command = format!("cat > {}; echo $?; exit 3", setup.lab.arg("copy"));
    let input = File::open(setup.lab.path("blob")).unwrap();
    let ran = setup.run(&["Resume=yes"], &command, input.into());
    assert_eq!((ran.code, ran.err.as_str(), ran.out.as_slice()), (3, "", &b"0\n"[..]));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
    assert_eq!(setup.cuts.broken(), PLAN.len());
}

impl Broken {
    /// Options of a copy through the relay.
    fn copy_options(&self, options: &[&str]) -> Vec<String> {
        let mut args = self.lab.client_options();
        for option in ["ServerAliveInterval=1", "ServerAliveCountMax=3"].iter().chain(options) {
            args.extend(["-o".to_owned(), (*option).to_owned()]);
        }
        args.extend(["-P".to_owned(), self.cuts.port.to_string()]);
        args
    }

    fn logins(&self) -> usize {
        self.server.log().matches("Accepted publickey for ").count()
    }

    fn remote(&self, name: &str) -> String {
        format!("{}@127.0.0.1:{}", me(), self.lab.arg(name))
    }
}

/// One login, nothing on standard error, and no byte of the files wrong, up and down.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn copies_survive_broken_connections() {
    for upload in [true, false] {
        let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
        let tree = setup.lab.path("tree");
        make_tree(&tree, 40);
        make_blob(&tree.join("blob"), 24 << 20);
        let (from, to) = if upload {
            (setup.lab.arg("tree"), setup.remote("copy"))
        } else {
            (setup.remote("tree"), setup.lab.arg("copy"))
        };
        let mut args = setup.copy_options(&["Resume=yes"]);
        args.extend(["-q", "-r", "-j1", "--verify", "--retries", "0"].map(str::to_owned));
        args.extend([from, to]);
        let ran = setup.lab.run(&our("lhscp"), &args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "upload: {upload}");
        assert_same_tree(&tree, &setup.lab.path("copy"));
        assert_eq!(setup.cuts.broken(), PLAN.len(), "upload: {upload}");
        assert_eq!(setup.logins(), 1, "upload: {upload}");
        setup.server.await_resumptions(PLAN.len());
    }
}

/// Both connections of a copy between two hosts break, and each goes on.
///
/// Covers: ssh_config Resume; lhscp -3
#[test]
fn a_copy_between_hosts_survives_broken_connections() {
    let plan = [(MB, Break::Reset), (MB, Break::End), (3 * MB, Break::Reset), (2 * MB, Break::Reset)];
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    make_blob(&setup.lab.path("blob"), 12 << 20);
    let mut args = setup.copy_options(&["Resume=yes"]);
    args.extend(["-3", "-q", "-j1"].map(str::to_owned));
    args.extend([setup.remote("blob"), setup.remote("copy")]);
    let ran = setup.lab.run(&our("lhscp"), &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
    assert_eq!((setup.cuts.broken(), setup.logins()), (plan.len(), 2));
}

/// A connection that has joined a copy's session is lost with its break; its work goes over the one that goes
/// on.
///
/// Covers: ssh_config Resume; lhscp -j
#[test]
fn copies_over_several_connections_survive_breaks() {
    let plan = [(3 * MB, Break::Reset), (2 * MB, Break::Reset), (MB, Break::Reset)];
    let setup = Broken::new("ResumeGrace 2m\nLonghaulTickets yes\n", &plan);
    make_blob(&setup.lab.path("blob"), 32 << 20);
    for (from, to) in
        [(setup.lab.arg("blob"), setup.remote("up")), (setup.remote("blob"), setup.lab.arg("down"))]
    {
        let mut args = setup.copy_options(&["Resume=yes"]);
        args.extend(["-q", "-j3", "--verify", "--retries", "0"].map(str::to_owned));
        args.extend([from, to]);
        let ran = setup.lab.run(&our("lhscp"), &args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("up"));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("down"));
    assert_eq!((setup.cuts.broken(), setup.logins()), (plan.len(), 2));
}

/// lhsftp: both commands, and what is asked between them, in one session.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn sftp_commands_survive_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
    make_blob(&setup.lab.path("blob"), 16 << 20);
    let batch = format!(
        "cd {dir}\nput blob up\n!true\npwd\nls -l up\nget up down\n",
        dir = setup.lab.dir().display()
    );
    std::fs::write(setup.lab.path("batch"), batch).unwrap();
    let mut args = setup.copy_options(&["Resume=yes"]);
    args.extend(["-q", "-j1", "-b", "batch"].map(str::to_owned));
    args.push(format!("{}@127.0.0.1", me()));
    let ran = setup.lab.run(&our("lhsftp"), &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("down"));
    assert_eq!((setup.cuts.broken(), setup.logins()), (PLAN.len(), 1));
}

/// A copy whose host stays away ends by a signal, and the same command goes on where it was.
///
/// Covers: ssh_config Resume
#[test]
fn a_copy_that_is_away_ends_by_a_signal() {
    let plan: Vec<_> = [(4 * MB, Break::Reset)].into_iter().chain([(0, Break::End); 1000]).collect();
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    make_blob(&setup.lab.path("blob"), 16 << 20);
    let mut args = setup.copy_options(&["Resume=yes"]);
    args.extend([setup.lab.arg("blob"), setup.remote("copy")]);
    let mut command = Command::new(our("lhscp"));
    command.args(&args).env("HOME", setup.lab.path("home")).env_remove("SSH_AUTH_SOCK");
    command.env_remove("XDG_STATE_HOME").stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    eventually("attempts to reach the host", || setup.cuts.connections() > 3);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("the same command again goes on from here"), "{said}");
    assert!(!setup.lab.path("copy").exists());
}

/// The server does not keep the session of a copy that was interrupted: it is told.
///
/// Covers: ssh_config Resume; sshd_config ResumeGrace
#[test]
fn an_interrupted_copy_leaves_no_session() {
    use rustix::process::{Signal, kill_process};
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        for (program, down) in [("lhscp", false), ("lhscp", true), ("lhsftp", false)] {
            let setup = Broken::new("ResumeGrace 10m\n", &[]);
            make_blob(&setup.lab.path("blob"), 8 << 20);
            let mut args = setup.copy_options(&["Resume=yes"]);
            args.extend(["-l".to_owned(), "4000".to_owned()]);
            let (blob, copy) = (setup.lab.arg("blob"), setup.lab.arg("copy"));
            match (program, down) {
                ("lhsftp", _) => {
                    setup.lab.write("batch", &format!("put {blob} {copy}\n"));
                    args.extend(["-b".to_owned(), setup.lab.arg("batch"), format!("{}@127.0.0.1", me())]);
                }
                (_, false) => args.extend([blob, setup.remote("copy")]),
                (_, true) => args.extend([setup.remote("blob"), copy]),
            }
            let mut command = with_default_signals(&our(program));
            command.args(&args).env("HOME", setup.lab.path("home")).env_remove("SSH_AUTH_SOCK");
            command.env_remove("XDG_STATE_HOME").stdin(Stdio::null()).stdout(Stdio::null());
            let child = command.stderr(Stdio::null()).spawn().unwrap();
            eventually("a part has come", || {
                let mut names = std::fs::read_dir(setup.lab.dir()).unwrap();
                names.any(|name| {
                    let name = name.unwrap();
                    name.file_name().to_string_lossy().ends_with(".lhpart")
                        && name.metadata().is_ok_and(|data| data.len() > 0)
                })
            });
            kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
            let status = if program == "lhsftp" { 128 + signal.as_raw() } else { 130 };
            assert_eq!(child.wait_with_output().unwrap().status.code(), Some(status), "{program}");
            eventually("the session has ended", || setup.server.log().contains("Disconnected from user "));
            assert!(!setup.server.log().contains("the session waits"), "{}", setup.server.log());
        }
    }
}

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

/// Key exchanges in the middle of breaks, compression, and a chained cipher.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn sessions_survive_breaks_with_any_cipher() {
    let plan = [(MB, Break::Reset), (MB, Break::End)];
    for options in [
        ["Resume=yes", "RekeyLimit=1M", "Ciphers=aes128-gcm@openssh.com"],
        ["Resume=yes", "Compression=yes", "Ciphers=chacha20-poly1305@openssh.com"],
        ["Resume=yes", "MACs=hmac-sha2-256", "Ciphers=aes256-ctr"],
    ] {
        let setup = Broken::new("ResumeGrace 2m\n", &plan);
        make_blob(&setup.lab.path("blob"), 6 << 20);
        let ran = setup.run(&options, &format!("cat {}", setup.lab.arg("blob")), Stdio::null()).ok("lhssh");
        std::fs::write(setup.lab.path("copy"), &ran.out).unwrap();
        assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
        assert_eq!(setup.cuts.broken(), plan.len(), "{options:?}");
    }
}

/// Covers: ssh_config Resume
#[test]
fn silence_is_noticed_without_keepalives() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Silence), (MB, Break::Silence)]);
    make_blob(&setup.lab.path("blob"), 4 << 20);
    let command = format!("cat {}; exit 3", setup.lab.arg("blob"));
    let mut args = setup.args(&["Resume=yes"], &command);
    for arg in args.iter_mut().filter(|arg| *arg == "ServerAliveInterval=1") {
        "ServerAliveInterval=1000".clone_into(arg);
    }
    let ran = setup.lab.run(&our("lhssh"), &args);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.out == std::fs::read(setup.lab.path("blob")).unwrap(), "{} bytes", ran.out.len());
    assert!(setup.cuts.broken() >= 1);
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

/// Both ends by default.
///
/// Covers: ssh_config Resume; sshd_config ResumeGrace
#[test]
fn sessions_go_on_by_default() {
    let setup = Broken::new("", &[(100_000, Break::Reset)]);
    let ran = setup.run(&[], "head -c 1000000 /dev/zero | tr '\\0' x", Stdio::null()).ok("lhssh");
    assert_eq!(ran.out.len(), 1_000_000);
    assert!(ran.out.iter().all(|&byte| byte == b'x'));
    assert_eq!(setup.cuts.connections(), 2);
    assert!(setup.server.log().contains("the session waits for 600 seconds"), "{}", setup.server.log());
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

/// Stock programs see nothing of the extension.
#[test]
fn stock_peers_work_with_resumption_on() {
    let Some([ssh, sshd]) = peers("stock_peers_work_with_resumption_on", ["ssh", "sshd"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 2m\n");
    let mut args = lab.client_options();
    args.extend(["-p".to_owned(), server.port_arg(), format!("{}@127.0.0.1", me()), "echo hello".to_owned()]);
    assert_eq!(lab.run(&ssh, &args).ok("ssh").text(), "hello\n");
    let theirs = Inetd::openssh(&lab, &sshd, "");
    let mut args = lab.client_options();
    args.extend(["-o".to_owned(), "Resume=yes".to_owned(), "-p".to_owned(), theirs.port.to_string()]);
    args.extend([format!("{}@127.0.0.1", me()), "head -c 3000000 /dev/zero | wc -c; cat | wc -c".to_owned()]);
    make_blob(&lab.path("blob"), 3 << 20);
    let ran = lab.run_with(&our("lhssh"), &args, File::open(lab.path("blob")).unwrap().into()).ok("lhssh");
    assert_eq!(ran.text(), format!("3000000\n{}\n", 3 << 20));
}

/// A shell on a terminal: what was typed and shown is all there.
///
/// Covers: ssh_config Resume; ssh -t
#[test]
fn a_shell_survives_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(30_000, Break::Reset), (60_000, Break::Reset)]);
    let mut args = vec!["-tt".to_owned()];
    args.extend(setup.args(&["Resume=yes"], "PS1=; stty -echo; exec sh"));
    let home = setup.lab.path("home");
    let mut shell = Terminal::start(&our("lhssh"), &args, setup.lab.dir(), &home);
    for number in 0..30 {
        shell.send(&format!("printf '%04000d' 0 | tail -c 3000; echo; echo number $(({number}+1000))\r"));
        shell.expect(&format!("number {}\r\n", number + 1000));
    }
    assert_eq!(setup.cuts.broken(), 2);
    shell.send("exit 5\r");
    assert_eq!(shell.wait(), 5);
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

/// Forwarded connections, both ways, and a client without a session.
///
/// Covers: ssh_config Resume; ssh -L; ssh -R; ssh -N
#[test]
fn forwards_survive_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Reset), (MB, Break::Silence)]);
    let target = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, back) = (free_port(), free_port());
    let port = target.local_addr().unwrap().port();
    let mut args = setup.args(&["Resume=yes", "ExitOnForwardFailure=yes"], "");
    args.pop();
    args.insert(0, "-N".to_owned());
    args.extend(["-L".to_owned(), format!("127.0.0.1:{near}:127.0.0.1:{port}")]);
    args.extend(["-R".to_owned(), format!("127.0.0.1:{back}:127.0.0.1:{port}")]);
    let mut client = Command::new(our("lhssh"))
        .args(args)
        .env("HOME", setup.lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for forwarded in [near, back] {
        let mut socket = None;
        eventually("the forward is there", || {
            socket = TcpStream::connect(("127.0.0.1", forwarded)).ok();
            socket.is_some()
        });
        let mut socket = socket.unwrap();
        let (mut far, _) = target.accept().unwrap();
        let sent: Vec<u8> = (0..3 * MB).map(|at| (at % 251) as u8).collect();
        let data = sent.clone();
        let sender = std::thread::spawn(move || far.write_all(&data).unwrap());
        let mut came = Vec::new();
        lh_interop::uninterrupted(|| socket.read_to_end(&mut came)).unwrap();
        sender.join().unwrap();
        assert!(came == sent, "{} of {} bytes", came.len(), sent.len());
    }
    assert_eq!(setup.cuts.broken(), 2);
    client.kill().unwrap();
    client.wait().unwrap();
}

/// The passengers of a shared connection survive with it.
///
/// Covers: ssh_config Resume; ssh_config ControlMaster
#[test]
fn a_shared_connection_survives_with_its_mux_clients() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(2 * MB, Break::Reset), (MB, Break::End)]);
    let path = format!("ControlPath={}", setup.lab.arg("master"));
    make_blob(&setup.lab.path("blob"), 3 << 20);
    let mut master = setup.start(&["Resume=yes", "ControlMaster=yes", &path], "echo up; cat");
    let mut line = [0; 3];
    master.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let command = format!("cat {}; exit 4", setup.lab.arg("blob"));
    let clients: Vec<_> =
        (0..3).map(|_| setup.start(&["Resume=yes", "ControlMaster=no", &path], &command)).collect();
    let blob = std::fs::read(setup.lab.path("blob")).unwrap();
    for client in clients {
        let done = client.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(4), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stdout == blob, "{} bytes", done.stdout.len());
    }
    assert_eq!(setup.cuts.broken(), 2);
    drop(master.stdin.take());
    assert!(master.wait().unwrap().success());
}

/// The server's listener is started again while a session waits.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn sessions_survive_a_restart_of_the_listener() {
    let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Silence), (MB, Break::Reset)]);
    make_blob(&setup.lab.path("blob"), 4 << 20);
    let command = format!("cat {}", setup.lab.arg("blob"));
    let client = setup.start(&["Resume=yes"], &command);
    eventually("the connection is broken", || setup.cuts.broken() == 1);
    let listener = rustix::process::Pid::from_raw(setup.server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(listener, rustix::process::Signal::HUP).unwrap();
    let done = client.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout == std::fs::read(setup.lab.path("blob")).unwrap(), "{} bytes", done.stdout.len());
    assert!(setup.server.log().contains("Received SIGHUP; restarting."));
}

/// The connection breaks in front of a jump host, or below a command that leads to the server.
///
/// Covers: ssh_config Resume; ssh_config ProxyJump; ssh_config ProxyCommand
#[test]
fn sessions_behind_jump_hosts_and_commands_survive() {
    let command = format!("ProxyCommand {} -F @config -W %h:%p near", our("lhssh").display());
    for way in ["ProxyJump near", &command] {
        let setup = Broken::new("ResumeGrace 2m\n", &[(MB, Break::Reset), (MB, Break::Silence)]);
        let lab = &setup.lab;
        let (near, far) = (setup.cuts.port, setup.server.port);
        let config = lab.arg("config");
        lab.write(
            "config",
            &format!(
                "Host near\n Port {near}\nHost far\n Port {far}\n Resume yes\n {}\nHost *\n HostName 127.0.0.1\n \
                 User {}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n \
                 IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n LogLevel ERROR\n WarnWeakCrypto no\n \
                 ServerAliveInterval 1\n ServerAliveCountMax 3\n",
                way.replace("@config", &config),
                me(),
                lab.arg("known_hosts"),
                lab.arg("user_ed25519")
            ),
        );
        make_blob(&lab.path("blob"), 4 << 20);
        let cat = format!("cat {}; exit 6", lab.arg("blob"));
        let ran = lab.run(&our("lhssh"), &["-F", &config, "far", &cat]);
        assert_eq!(ran.code, 6, "{way}: {}", ran.err);
        assert!(ran.out == std::fs::read(lab.path("blob")).unwrap(), "{way}: {} bytes", ran.out.len());
        assert_eq!(setup.cuts.broken(), 2, "{way}");
    }
}

/// The path to the jump host falls silent, the session goes on over another connection, and ends. What reads
/// the client's standard error need not wait for the silent connection.
///
/// Covers: ssh_config Resume; ssh_config ProxyJump
#[test]
fn a_silent_hop_ends_with_its_session() {
    let setup = Broken::new("", &[(MB, Break::Silence)]);
    let lab = &setup.lab;
    let (near, far) = (setup.cuts.port, setup.server.port);
    lab.write(
        "config",
        &format!(
            "Host near\n Port {near}\nHost far\n Port {far}\n ProxyJump near\nHost *\n HostName 127.0.0.1\n \
             User {}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n \
             IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n LogLevel ERROR\n WarnWeakCrypto no\n",
            me(),
            lab.arg("known_hosts"),
            lab.arg("user_ed25519")
        ),
    );
    let command = "head -c 3000000 /dev/zero; exit 6";
    let ran = lab.run(&our("lhssh"), &["-F", &lab.arg("config"), "far", command]);
    assert_eq!((ran.code, ran.out.len()), (6, 3_000_000), "{}", ran.err);
    assert_eq!((setup.cuts.broken(), setup.cuts.connections()), (1, 2));
    // Up, the silent connection takes nothing of what the session has left for it.
    let setup = Broken { cuts: Cuts::to(setup.server.port, vec![(MB, Break::Silence)]), ..setup };
    setup.lab.know(setup.cuts.port);
    let moved =
        setup.lab.read("config").replace(&format!(" Port {near}\n"), &format!(" Port {}\n", setup.cuts.port));
    setup.lab.write("config", &moved);
    let blob = setup.lab.path("blob");
    make_blob(&blob, 16 << 20);
    let input = File::open(&blob).unwrap().into();
    let ran =
        setup.lab.run_with(&our("lhssh"), &["-F", &setup.lab.arg("config"), "far", "wc -c; exit 6"], input);
    assert_eq!((ran.code, ran.text().trim()), (6, "16777216"), "{}", ran.err);
    assert_eq!((setup.cuts.broken(), setup.cuts.connections()), (1, 2));
}

/// Covers: ssh_config Resume
#[test]
fn rsync_and_git_survive_broken_connections() {
    let plan = [(2 * MB, Break::Reset), (MB, Break::End), (MB, Break::Silence)];
    let Some([rsync, git]) = peers("rsync_and_git_survive_broken_connections", ["rsync", "git"]) else {
        return;
    };
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    let lab = &setup.lab;
    let shell = format!(
        "{} -o Resume=yes -o ServerAliveInterval=1 -o ServerAliveCountMax=3",
        lab.shell_command(&our("lhssh"), setup.cuts.port)
    );
    std::fs::create_dir(lab.path("tree")).unwrap();
    for number in 0..8 {
        make_blob(&lab.path(&format!("tree/blob{number}")), (1 << 20) + number);
    }
    let to = format!("{}@127.0.0.1:{}", me(), lab.arg("copy"));
    lab.run(&rsync, &["-a", "-e", &shell, "tree/", &to]).ok("rsync");
    lh_interop::assert_same_tree(&lab.path("tree"), &lab.path("copy"));
    assert_eq!(setup.cuts.broken(), plan.len());
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    let there = &setup.lab;
    make_blob(&there.path("blob"), 8 << 20);
    let made = "git init -q repository && mv blob repository && cd repository && git add blob && \
         git -c user.name=a -c user.email=a@b commit -q -m blob";
    there.sh(made).ok("git commit");
    let shell = format!(
        "GIT_SSH_COMMAND={} -o Resume=yes -o ServerAliveInterval=1 -o ServerAliveCountMax=3",
        there.shell_command(&our("lhssh"), setup.cuts.port)
    );
    let from = format!("ssh://{}@127.0.0.1:{}{}", me(), setup.cuts.port, there.arg("repository"));
    there.run_env(&[shell], &git, &["clone", "-q", &from, "clone"]).ok("git clone");
    assert_same_file(&there.path("repository/blob"), &there.path("clone/blob"));
    assert_eq!(setup.cuts.broken(), plan.len());
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
