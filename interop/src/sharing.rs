//! Masters of shared connections, and their mux clients.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::process::held;
use crate::{Lab, Lhsshd, Ran, eventually, me, our, peers};

/// A lab with a server, a master and a mux client.
pub struct SharingSetup {
    /// Keys and files.
    pub lab: Lab,
    /// Server that the master logs in to.
    pub server: Lhsshd,
    /// Program that is the master.
    pub master: PathBuf,
    /// Program that is the mux client.
    pub client: PathBuf,
}

/// A master in the foreground; killed when dropped.
pub struct Running(pub Child);

impl Running {
    /// Open descriptors.
    pub fn descriptors(&self) -> usize {
        held(self.0.id()).descriptors
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl SharingSetup {
    /// Starts a server with this configuration.
    pub fn new(master: PathBuf, client: PathBuf, config: &str) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        Self { lab, server, master, client }
    }

    /// Returns the path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.lab.path("ctl")
    }

    /// Returns the clients' arguments; `@` stands for the host.
    pub fn args(&self, given: &[&str]) -> Vec<String> {
        let mut args = self.lab.client_options();
        args.extend(["-S".to_owned(), self.lab.arg("ctl"), "-p".to_owned(), self.server.port_arg()]);
        let host = format!("{}@127.0.0.1", me());
        args.extend(given.iter().map(|&word| if word == "@" { host.clone() } else { word.to_owned() }));
        args
    }

    /// Starts a master without a session.
    pub fn start_master(&self, flags: &[&str]) -> Running {
        let mut words = vec!["-M", "-N"];
        words.extend(flags);
        words.push("@");
        let log = std::fs::File::create(self.lab.path("master.log")).unwrap();
        let child = Command::new(&self.master)
            .args(self.args(&words))
            .env("HOME", self.lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let running = Running(child);
        eventually("the control socket is there", || UnixStream::connect(self.socket()).is_ok());
        running
    }

    /// Runs a mux client that has no key for a login of its own.
    pub fn run_mux_client(&self, given: &[&str]) -> Ran {
        self.run_mux_client_with(given, Stdio::null())
    }

    /// Like [`run_mux_client`](Self::run_mux_client), with this standard input.
    pub fn run_mux_client_with(&self, given: &[&str], stdin: Stdio) -> Ran {
        let mut words = vec!["-o", "IdentityFile=/nonexistent", "-o", "IdentityAgent=none"];
        words.extend(given);
        self.lab.run_with(&self.client, &self.args(&words), stdin)
    }

    /// Returns the number of logins in the server's log.
    pub fn logins(&self) -> usize {
        self.server.log().matches("Accepted publickey").count()
    }
}

/// Connects to a master and exchanges HELLO messages.
pub fn greet(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"\0\0\0\x08\0\0\0\x01\0\0\0\x04").unwrap();
    heard(&mut stream);
    stream
}

/// Reads the master's next message.
pub fn heard(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut message).unwrap();
    message
}

/// Runs a command over a master without a client program, so that a test can run thousands. Returns the
/// command's output and exit status.
pub fn run_by_hand(socket: &Path, command: &str) -> (String, u32) {
    let mut stream = greet(socket);
    // MUX_C_NEW_SESSION, request 0: every flag off (reserved, terminal, X11, agent, subsystem), no escape
    // character, no TERM.
    let mut message = b"\x10\0\0\x02".to_vec();
    message.extend([0; 24]);
    message.extend(u32::MAX.to_be_bytes());
    message.extend([0; 4]);
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    message.extend(length(command.len()));
    message.extend(command.as_bytes());
    stream.write_all(&[&length(message.len())[..], &message].concat()).unwrap();
    let (mut output, theirs) = lh_sys::fd::pipe().map(|(ours, theirs)| (File::from(ours), theirs)).unwrap();
    let nothing = lh_sys::fd::null().unwrap();
    for each in [nothing.as_fd(), theirs.as_fd(), nothing.as_fd()] {
        lh_sys::pass::send_fd(&stream, each).unwrap();
    }
    drop(theirs);
    let opened = heard(&mut stream);
    assert_eq!(opened[..4], [0x80, 0, 0, 6], "{opened:?}");
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let exit = heard(&mut stream);
    assert_eq!(exit[..4], [0x80, 0, 0, 4], "{exit:?}");
    (text, exit[8..].iter().fold(0, |status, byte| status << 8 | u32::from(*byte)))
}

/// Calls `check` with each combination of master and client in which one is ours.
pub fn each_mix(test: &str, config: &str, check: impl Fn(&SharingSetup)) {
    println!("{test}: lhssh and lhssh");
    check(&SharingSetup::new(our("lhssh"), our("lhssh"), config));
    if let Some([ssh]) = peers(test, ["ssh"]) {
        println!("{test}: ssh as mux client of lhssh");
        check(&SharingSetup::new(our("lhssh"), ssh.clone(), config));
        println!("{test}: lhssh as mux client of ssh");
        check(&SharingSetup::new(ssh, our("lhssh"), config));
    }
}
