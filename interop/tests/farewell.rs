//! Clients that end tell a server that keeps sessions (`ResumeGrace`), also over a long path whose queues are
//! full, so that no session waits for a client that does not come back.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lh_interop::path::{Path, Traits};
use lh_interop::{Lab, Lhsshd, eventually, make_blob, me, our, with_default_signals};
use rustix::process::{Pid, Signal, kill_process};

/// A server that keeps sessions, behind a path of 80 ms with a narrow place.
struct Far {
    lab: Lab,
    server: Lhsshd,
    path: Path,
}

impl Far {
    fn new() -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, "ResumeGrace 10m\n");
        let traits = Traits { delay: Duration::from_millis(40), rate: Some(2 << 20), shared: false };
        let path = Path::to(server.port, traits);
        lab.know(path.port);
        lab.know(server.port);
        Self { lab, server, path }
    }

    /// Starts a program with the lab's options, without input other than zeros.
    fn start(&self, program: &str, words: &[String]) -> Child {
        let mut command = with_default_signals(&our(program));
        command.args(self.lab.client_options()).args(words);
        command.env("HOME", self.lab.path("home")).env_remove("SSH_AUTH_SOCK");
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

    /// Checks that this number of sessions has ended, and that none waits.
    fn none_waits(&self, sessions: usize, what: &str) {
        eventually("the sessions have ended", || {
            let log = self.server.log();
            assert!(!log.contains("the session waits"), "{what}: {log}");
            log.matches("Disconnected from user ").count() == sessions
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
    ] {
        let far = Far::new();
        let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        let child = far.lhssh(&options, command);
        let (status, said) = far.end(child, signal);
        assert_eq!((status.code(), said.as_str()), (Some(255), ""), "{command}");
        far.none_waits(1, command);
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
