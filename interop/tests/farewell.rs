//! Clients that end tell a server that keeps sessions (`ResumeGrace`), also over a long path whose queues are
//! full, so that no session waits for a client that does not come back.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lh_interop::cuts::{Break, Cuts};
use lh_interop::path::{Path, Traits};
use lh_interop::tunnel::free_port;
use lh_interop::{Lab, Lhsshd, Terminal, eventually, make_blob, me, our, peers, with_default_signals};
use rustix::process::{Pid, Signal, kill_process};

/// A server that keeps sessions, behind a path of 80 ms with a narrow place.
struct Far {
    lab: Lab,
    server: Lhsshd,
    path: Path,
}

impl Far {
    fn new() -> Self {
        Self::with(Traits { delay: Duration::from_millis(40), rate: Some(2 << 20), shared: false })
    }

    fn with(traits: Traits) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, "ResumeGrace 10m\n");
        let path = Path::to(server.port, traits);
        lab.know(path.port);
        lab.know(server.port);
        Self { lab, server, path }
    }

    /// Starts a program with the lab's options, without input other than zeros.
    fn start(&self, program: &str, words: &[String]) -> Child {
        let mut command = with_default_signals(&our(program));
        command.args(self.lab.client_options()).args(words);
        command.env("HOME", self.lab.path("home")).env("DISPLAY", ":9").env_remove("SSH_AUTH_SOCK");
        command.stdin(std::fs::File::open("/dev/zero").unwrap());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn lhssh(&self, options: &[String], command: &str) -> Child {
        let mut words = options.to_vec();
        words.extend([
            "-p".into(),
            self.path.port.to_string(),
            format!("{}@127.0.0.1", me()),
            command.into(),
        ]);
        self.start("lhssh", &words)
    }

    fn remote(&self, name: &str) -> String {
        format!("scp://{}@127.0.0.1:{}/{}", me(), self.path.port, self.lab.arg(name))
    }

    /// Ends the client by `signal` when much has moved. Returns its status and what it has said.
    fn end(&self, child: Child, signal: Signal) -> (std::process::ExitStatus, String) {
        eventually("much has moved", || self.path.forth() + self.path.back() > 3 << 20);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        (ended.status, String::from_utf8_lossy(&ended.stderr).into_owned())
    }

    /// Checks that at least this number of sessions has ended, and that none waits or goes on.
    fn none_waits(&self, sessions: usize, what: &str) {
        eventually("the sessions have ended", || {
            let log = self.server.log();
            assert!(!log.contains("the session waits"), "{what}: {log}");
            // On a busy machine the client may have taken leave over another connection, and a proxy have
            // logged in once more for it.
            let ended = log.matches("Disconnected from user ").count();
            let closed = log.matches("Connection closed by user ").count();
            ended >= sessions && ended + closed >= log.matches("Accepted publickey for ").count()
        });
    }
}

/// Up, down and through a terminal.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn an_interrupted_session_does_not_wait() {
    for (options, command, signal) in [
        (&[][..], "cat > /dev/null", Signal::INT),
        (&[], "cat /dev/zero", Signal::INT),
        (&["-tt"], "cat /dev/zero", Signal::HUP),
        (&[], "cat", Signal::QUIT),
        // rsync, after an error.
        (&[], "cat /dev/zero; cat", Signal::USR1),
    ] {
        let far = Far::new();
        let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        let child = far.lhssh(&options, command);
        let (status, said) = far.end(child, signal);
        // OpenSSH does not handle this one.
        let killed = (signal == Signal::USR1).then_some(signal.as_raw());
        let code = killed.is_none().then_some(255);
        assert_eq!((status.code(), status.signal(), said.as_str()), (code, killed, ""), "{command}");
        far.none_waits(1, command);
    }
}

/// When the server has let the user in, and the client does not know it yet: over a path of 600 ms.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn an_interrupted_login_does_not_wait() {
    let far = Far::with(Traits { delay: Duration::from_millis(300), rate: None, shared: false });
    let lab = &far.lab;
    make_blob(&lab.path("blob"), 1000);
    let (manifest, copied) = (lab.arg("manifest"), lab.arg("copied"));
    let local = [lab.client_options(), vec!["--manifest-out".into(), manifest.clone(), lab.arg("blob")]];
    let to = format!("scp://{}@127.0.0.1:{}/{copied}", me(), far.server.port);
    lab.run(&our("lhscp"), &[local.concat(), vec![to]].concat()).ok("lhscp");
    lab.write("batch", &format!("put {} {}\n", lab.arg("blob"), lab.arg("copy")));
    let port = far.path.port.to_string();
    let at = format!("{}@127.0.0.1", me());
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    let mut sessions = 1;
    for (program, words, signal) in [
        ("lhssh", words(&["-p", &port, &at, "cat"]), Signal::INT),
        ("lhssh", words(&["-p", &port, "-N", &at]), Signal::TERM),
        ("lhssh", words(&["-p", &port, "-W", "127.0.0.1:9", &at]), Signal::HUP),
        ("lhscp", words(&[&lab.arg("blob"), &far.remote("copy")]), Signal::INT),
        ("lhscp", words(&["-O", &lab.arg("blob"), &far.remote("copy")]), Signal::TERM),
        ("lhsftp", words(&["-P", &port, "-b", &lab.arg("batch"), &at]), Signal::INT),
        ("longhaul", words(&["verify", &manifest, &far.remote("copied")]), Signal::INT),
    ] {
        let logins = || far.server.log().matches("Accepted publickey").count();
        let before = logins();
        let child = far.start(program, &words);
        eventually("the server has let the user in", || logins() > before);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{program} {words:?}: {said}");
        sessions += 1;
        far.none_waits(sessions, program);
    }
}

/// The server gives the connection up while the client is stopped. The end of the session lies in what the
/// client receives afterwards, and behind it the end of the connection.
///
/// Covers: sshd_config ResumeGrace; sshd_config ClientAliveInterval
#[test]
fn a_session_that_ends_behind_a_lost_client_does_not_wait() {
    let lab = Lab::new();
    let rules = "ResumeGrace 10m\nClientAliveInterval 1\nClientAliveCountMax 2\n";
    let server = Lhsshd::start(&lab, rules);
    lab.know(server.port);
    let mut command = with_default_signals(&our("lhssh"));
    command.args(lab.client_options()).args(["-p", &server.port.to_string()]);
    let ends = format!("until [ -e {} ]; do sleep 0.1; done; echo whole; exit 6", lab.arg("go"));
    command.arg(format!("{}@127.0.0.1", me())).arg(ends).env_remove("SSH_AUTH_SOCK");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the session has begun", || server.log().contains("Starting session"));
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    lab.write("go", "");
    eventually("the session waits", || server.log().contains("the session waits"));
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(6), &b"whole\n"[..]));
    eventually("the session has ended", || server.log().contains("Disconnected from user "));
}

/// While a command of this host runs between the login and the session: `LocalCommand`, `xauth`.
///
/// Covers: ssh_config LocalCommand; ssh_config XAuthLocation; sshd_config ResumeGrace
#[test]
fn an_interrupted_local_command_leaves_no_session() {
    use std::os::unix::process::ExitStatusExt as _;
    let far = Far::new();
    let lab = &far.lab;
    let begun = lab.path("begun");
    let sleeps = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", begun.display());
    lh_interop::script(&lab.path("xauth"), &sleeps);
    let local_command = format!("LocalCommand={sleeps}");
    let local_command = ["-o", "PermitLocalCommand=yes", "-o", &local_command].map(str::to_owned);
    let xauth = ["-X".to_owned(), "-o".to_owned(), format!("XAuthLocation={}", lab.arg("xauth"))];
    let mut sessions = 0;
    for options in [&local_command[..], &xauth[..]] {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let _ = std::fs::remove_file(&begun);
            let mut child = far.lhssh(options, "cat");
            eventually("the command runs", || begun.exists());
            kill_process(Pid::from_child(&child), signal).unwrap();
            // It does not wait for the command, which has its standard error.
            let status = child.wait();
            let command: i32 = std::fs::read_to_string(&begun).unwrap().trim().parse().unwrap();
            let command = Pid::from_raw(command).unwrap();
            // The command was started with no signal blocked.
            kill_process(command, signal).unwrap();
            eventually("the command has ended", || {
                let stat = std::fs::read_to_string(format!("/proc/{}/stat", command.as_raw_nonzero()));
                stat.map_or(true, |stat| stat.contains(") Z "))
            });
            assert_eq!(status.unwrap().signal(), Some(signal.as_raw()), "{options:?}");
            sessions += 1;
            far.none_waits(sessions, &options.join(" "));
        }
    }
}

/// Copies of all kinds; one that handles no signals itself ends by them as before.
///
/// Covers: sshd_config ResumeGrace
#[test]
fn an_interrupted_copy_over_a_long_path_does_not_wait() {
    use std::os::unix::process::ExitStatusExt as _;
    for (program, flags, up, signal, code) in [
        ("lhscp", &[][..], Some(true), Signal::INT, Some(130)),
        ("lhscp", &[], Some(false), Signal::TERM, Some(130)),
        ("lhscp", &[], Some(true), Signal::QUIT, None),
        ("lhscp", &["-O"], Some(true), Signal::INT, None),
        ("lhscp", &["-O"], Some(false), Signal::HUP, None),
        ("lhscp", &[], None, Signal::INT, None),
        ("lhscp", &["-O"], None, Signal::TERM, None),
        ("lhsftp", &[], Some(true), Signal::INT, Some(130)),
        ("lhsftp", &[], Some(false), Signal::QUIT, None),
    ] {
        let far = Far::new();
        let what = format!("{program} {flags:?} {up:?}");
        make_blob(&far.lab.path("blob"), 24 << 20);
        let mut words: Vec<String> = flags.iter().map(|&word| word.to_owned()).collect();
        let (blob, copy) = (far.lab.arg("blob"), far.lab.arg("copy"));
        match (program, up) {
            ("lhsftp", up) => {
                let verb = if up == Some(true) { "put" } else { "get" };
                far.lab.write("batch", &format!("{verb} {blob} {copy}\n"));
                words.extend(["-P".to_owned(), far.path.port.to_string()]);
                words.extend(["-b".to_owned(), far.lab.arg("batch"), format!("{}@127.0.0.1", me())]);
            }
            (_, Some(true)) => words.extend([blob, far.remote("copy")]),
            (_, Some(false)) => words.extend([far.remote("blob"), copy]),
            (_, None) => words.extend([far.remote("blob"), far.remote("copy")]),
        }
        let (status, said) = far.end(far.start(program, &words), signal);
        assert_eq!(status.code(), code, "{what}: {said}");
        if code.is_none() {
            assert_eq!(status.signal(), Some(signal.as_raw()), "{what}: {said}");
            assert!(said.is_empty() || program == "lhsftp", "{what}: {said}");
        }
        far.none_waits(if up.is_none() { 2 } else { 1 }, &what);
    }
}

/// Through a command and through a jump host, whose own session ends as well.
///
/// Covers: ssh_config ProxyCommand; ssh_config ProxyJump; sshd_config ResumeGrace
#[test]
fn an_interrupted_session_behind_a_proxy_does_not_wait() {
    for jumps in [false, true] {
        for command in ["cat > /dev/null", "cat /dev/zero", "cat"] {
            let far = Far::new();
            let own: Vec<String> = far.lab.client_options();
            let near = format!("{}@127.0.0.1:{}", me(), far.path.port);
            let way = if jumps {
                let config = far.lab.arg("config");
                // The jump host gets its options from the file.
                let lines = format!(
                    "UserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n\
                     IdentitiesOnly yes\nIdentityFile {}\nBatchMode yes\nLogLevel ERROR\n",
                    far.lab.arg("known_hosts"),
                    far.lab.arg("user_ed25519")
                );
                far.lab.write("config", &lines);
                vec!["-F".to_owned(), config, "-J".to_owned(), near]
            } else {
                let inner = format!(
                    "{} {} -p {} -W %h:%p {}@127.0.0.1",
                    our("lhssh").display(),
                    own.join(" "),
                    far.path.port,
                    me()
                );
                vec!["-o".to_owned(), format!("ProxyCommand={inner}")]
            };
            let mut words = way;
            words.extend(["-p".into(), far.server.port.to_string(), format!("{}@127.0.0.1", me())]);
            words.push(command.to_owned());
            let mut program = with_default_signals(&our("lhssh"));
            if !jumps {
                program.args(&own);
            }
            program.args(&words).env("HOME", far.lab.path("home")).env_remove("SSH_AUTH_SOCK");
            program.stdin(std::fs::File::open("/dev/zero").unwrap()).stdout(Stdio::null());
            let child = program.stderr(Stdio::piped()).spawn().unwrap();
            let (status, said) = far.end(child, Signal::INT);
            assert_eq!(status.code(), Some(255), "{jumps} {command}: {said}");
            far.none_waits(2, command);
        }
    }
}

/// ^C at a terminal ends the `ProxyCommand` as well, with what has not been passed on: that of the host, or
/// of its jump host. The server is told through another one, without the terminal.
///
/// Covers: ssh_config ProxyCommand; ssh_config ProxyJump; sshd_config ResumeGrace
#[test]
fn an_interrupt_that_ends_the_proxy_leaves_no_session() {
    let Some([nc]) = peers("an_interrupt_that_ends_the_proxy_leaves_no_session", ["nc"]) else {
        return;
    };
    let far = Far::with(Traits { delay: Duration::from_millis(20), rate: None, shared: false });
    let lab = &far.lab;
    make_blob(&lab.path("blob"), 24 << 20);
    // The command that takes leave must not ask for a password at the terminal.
    lab.write(
        "proxy",
        &format!(
            "if (: < /dev/tty) 2> /dev/null; then echo terminal; else echo none; fi >> {}\n\
             exec {} \"$@\"\n",
            lab.arg("starts"),
            nc.display()
        ),
    );
    let (proxy, port) = (lab.arg("proxy"), far.path.port);
    let config = format!(
        "Host near behind\n HostName 127.0.0.1\nHost near\n Port {port}\n ProxyCommand /bin/sh {proxy} %h %p\n\
         Host behind\n Port {behind}\n ProxyJump near\nHost *\n User {me}\n UserKnownHostsFile {known}\n \
         GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n IdentitiesOnly yes\n \
         IdentityFile {key}\n BatchMode yes\n LogLevel ERROR\n",
        behind = far.server.port,
        me = me(),
        known = lab.arg("known_hosts"),
        key = lab.arg("user_ed25519"),
    );
    lab.write("proxied", &config);
    let (blob, proxied) = (lab.arg("blob"), lab.arg("proxied"));
    let mut sessions = 0;
    for host in ["near", "behind"] {
        let copy = format!("{host}:{}", lab.arg("copy"));
        for (program, words) in [
            ("lhssh", &["-T", host, "echo there; cat > /dev/null"][..]),
            ("lhssh", &["-T", host, "echo there; tr '\\0' '\\n' < /dev/zero"]),
            ("lhssh", &["-T", host, "echo there; sleep 1000"]),
            ("lhscp", &["-l", "8000", &blob, &copy]),
            ("lhscp", &["-O", "-l", "8000", &blob, &copy]),
        ] {
            let words = [&["-F", &proxied], words].concat();
            let before = far.path.forth();
            let mut terminal = Terminal::start(&our(program), &words, lab.dir(), &lab.path("home"));
            if program == "lhscp" {
                eventually("much has moved", || far.path.forth() > before + (1 << 20));
            } else {
                terminal.expect("there");
            }
            terminal.send("\u{3}");
            terminal.wait();
            sessions += 1;
            eventually(&format!("the session of {words:?} has ended"), || {
                far.server.log().matches("Disconnected from user ").count() >= sessions
                    && lh_interop::process::below(far.server.pid()).is_empty()
            });
            // With a jump host it may say good-bye to that as well.
            sessions = far.server.log().matches("Disconnected from user ").count();
            let starts = std::fs::read_to_string(lab.path("starts")).unwrap();
            std::fs::remove_file(lab.path("starts")).unwrap();
            let mut starts = starts.lines();
            assert_eq!(starts.next(), Some("terminal"), "{words:?}");
            let others: Vec<&str> = starts.collect();
            assert!(
                !others.is_empty() && others.iter().all(|start| *start == "none"),
                "{words:?}: {others:?}"
            );
        }
    }
}

/// OpenSSH as the command closes its pipes before it ends with an error.
///
/// Covers: ssh_config ProxyCommand; sshd_config ResumeGrace
#[test]
fn an_interrupt_that_ends_openssh_s_forward_leaves_no_session() {
    let name = "an_interrupt_that_ends_openssh_s_forward_leaves_no_session";
    let Some([ssh]) = peers(name, ["ssh"]) else { return };
    let far = Far::with(Traits { delay: Duration::from_millis(20), rate: None, shared: false });
    let lab = &far.lab;
    let (config, me) = (lab.arg("config"), me());
    let lines = format!(
        "Host near behind\n HostName 127.0.0.1\nHost near\n Port {}\n\
         Host behind\n Port {}\n ProxyCommand {} -F {config} -W %h:%p near\n\
         Host *\n User {me}\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n \
         StrictHostKeyChecking yes\n IdentitiesOnly yes\n IdentityFile {}\n BatchMode yes\n LogLevel ERROR\n",
        far.path.port,
        far.server.port,
        ssh.display(),
        lab.arg("known_hosts"),
        lab.arg("user_ed25519"),
    );
    lab.write("config", &lines);
    for _ in 0..8 {
        let words = ["-F", &config, "-T", "behind", "echo there; sleep 1000"];
        let mut terminal = Terminal::start(&our("lhssh"), &words, lab.dir(), &lab.path("home"));
        terminal.expect("there");
        terminal.send("\u{3}");
        terminal.wait();
        eventually("both sessions have ended", || lh_interop::process::below(far.server.pid()).is_empty());
    }
}

/// A `ProxyCommand` whose client hangs up while the jump host is away: that client has gone on over another
/// one, and waits for nothing.
///
/// Covers: ssh -W (signals); sshd_config ResumeGrace
#[test]
fn a_proxy_that_ends_while_away_leaves_no_session() {
    /// Bytes after which the first connection breaks: after the login.
    const CUT: u64 = 40_000;
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "ResumeGrace 10m\n");
    let (port, nowhere) = (server.port, free_port());
    let (is_open, attempts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (open, count) = (Arc::clone(&is_open), Arc::clone(&attempts));
    let later = std::iter::from_fn(move || {
        count.fetch_add(1, Ordering::AcqRel);
        Some(if open.load(Ordering::Acquire) { port } else { nowhere })
    });
    let cuts = Cuts::to_each(std::iter::once(port).chain(later), vec![(CUT, Break::Reset)]);
    lab.know(cuts.port);
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = with_default_signals(&our("lhssh"));
    command.args(lab.client_options()).args(["-v", "-W", &target.local_addr().unwrap().to_string()]);
    command.args(["-p", &cuts.port.to_string(), &format!("{}@127.0.0.1", me())]);
    command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(lab.path("said")).unwrap());
    let mut proxy = command.spawn().unwrap();
    let (mut stream, _) = target.accept().unwrap();
    stream.write_all(&[0; CUT as usize]).unwrap();
    let tried = |times: usize| {
        let wanted = attempts.load(Ordering::Acquire) + times;
        eventually("more attempts", || attempts.load(Ordering::Acquire) >= wanted);
    };
    // The fourth starts a second and a half after the break.
    tried(4);
    kill_process(Pid::from_child(&proxy), Signal::HUP).unwrap();
    let said = || std::fs::read_to_string(lab.path("said")).unwrap();
    eventually("it connects again", || said().contains("connecting again to end the session"));
    // It does not give up after the first ones.
    tried(2);
    is_open.store(true, Ordering::Release);
    assert_eq!(proxy.wait().unwrap().code(), Some(255), "{}", said());
    eventually("the session has ended", || lh_interop::process::below(server.pid()).is_empty());
    assert!(server.log().contains("Disconnected from user "), "{}", server.log());
}

/// As under `nohup`, and with OpenSSH.
///
/// Covers: ssh -N (signals)
#[test]
fn a_signal_that_is_ignored_ends_no_session() {
    use std::io::Write as _;
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let mut command = with_default_signals("/bin/sh".as_ref());
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(our("lhssh")).args(lab.client_options());
    command.args(["-p", &server.port.to_string(), &format!("{}@127.0.0.1", me()), "echo there >&2; cat"]);
    command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(lab.path("err")).unwrap());
    let mut child = command.spawn().unwrap();
    eventually("the session runs", || lab.path("err").metadata().is_ok_and(|meta| meta.len() > 0));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(b"all of it").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(0), &b"all of it"[..]));
}

/// As under `nohup`: a copy goes on.
///
/// Covers: lhscp -q (signals)
#[test]
fn a_signal_that_is_ignored_ends_no_copy() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 16 << 20);
    let to = format!("scp://{}@127.0.0.1:{}/{}", me(), server.port, lab.arg("copy"));
    let mut command = with_default_signals("/bin/sh".as_ref());
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(our("lhscp")).args(lab.client_options());
    command.args(["-q", "-l", "64000", &lab.arg("blob"), &to]).env("HOME", lab.path("home"));
    command.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME").stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    eventually("a part of the copy", || {
        let parts = lh_testkit::leftovers(lab.dir());
        parts.iter().any(|part| part.metadata().is_ok_and(|meta| meta.len() > 0))
    });
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    lh_interop::assert_same_file(&lab.path("blob"), &lab.path("copy"));
}

/// A master that is told to end, in the middle of its session's upload.
///
/// Covers: ssh_config ControlMaster; sshd_config ResumeGrace
#[test]
fn a_master_that_ends_leaves_no_session() {
    let far = Far::new();
    let socket = format!("ControlPath={}", far.lab.arg("master"));
    let options = ["-o", &socket, "-o", "ControlMaster=yes"].map(str::to_owned);
    let master = far.lhssh(&options, "cat > /dev/null");
    eventually("much has moved", || far.path.forth() > 3 << 20);
    let told = Command::new(our("lhssh"))
        .args(["-F", "none", "-o", &socket, "-O", "exit", "host"])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(told.success());
    assert!(!master.wait_with_output().unwrap().status.success());
    far.none_waits(1, "master");
}
