//! Sequences of a server against clients on loopback: lhssh and OpenSSH's ssh, each a process of its own.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_crypto::PrivateKey;
use lh_interop::Lab;

use super::play::Play;
use super::sequence::{Reaction, Sequence};
use super::sockets::Socket;

/// Time limit for a client to connect, and to exit after the last message.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A listener on loopback with the files that a client needs to trust it.
pub struct Bait<'a> {
    lab: &'a Lab,
    key: &'a PrivateKey,
    listener: TcpListener,
    port: u16,
}

impl<'a> Bait<'a> {
    /// Listens on a port that the kernel chooses. `key` is the lab's Ed25519 host key.
    ///
    /// # Errors
    /// The kernel has no port.
    pub fn new(lab: &'a Lab, key: &'a PrivateKey) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok(Self { lab, key, listener, port })
    }

    /// Returns the port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Starts a client and plays the sequence to it. The class includes the client's exit status if the
    /// client believes that the command has run.
    ///
    /// # Errors
    /// The client cannot be started, or does not connect.
    pub fn react(&self, client: &Path, sequence: &Sequence) -> std::io::Result<String> {
        let mut child = Reaped(self.start(client)?);
        let stream = self.accept(&mut child.0)?;
        let mut play = Play::new(Socket::of(stream)?, self.key, sequence);
        let end = play.play().and_then(|_| play.rest());
        let (reached, answers) = (play.reached, play.answers());
        drop(play);
        let status = child.status()?;
        let reaction = Reaction { reached, end, answers };
        Ok(match (&reaction.end, status) {
            // The client ended by a signal, by a panic (101), or had to be killed. No reviewed difference has
            // this class.
            (_, None | Some(101)) => format!("crashed-{}", reaction.class()),
            (Ok(()), Some(0)) => reaction.class(),
            (Ok(()), Some(status)) => format!("{}-status-{status}", reaction.class()),
            // The client reports success for a command whose status never arrived.
            (Err(_), Some(0)) => format!("{}-status-0", reaction.class()),
            (Err(_), _) => reaction.class(),
        })
    }

    fn start(&self, client: &Path) -> std::io::Result<Child> {
        Command::new(client)
            .args(self.lab.client_options())
            // One key, no prompts, and no shared connection.
            .args(["-o", "ControlPath=none", "-o", "PreferredAuthentications=publickey"])
            .args(["-T", "-p", &self.port.to_string(), "root@127.0.0.1", "true"])
            .current_dir(self.lab.dir())
            .env("HOME", self.lab.path("home"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    fn accept(&self, child: &mut Child) -> std::io::Result<std::net::TcpStream> {
        let end = Instant::now() + TIMEOUT;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
            if let Some(status) = child.try_wait()? {
                return Err(std::io::Error::other(format!("the client did not connect: {status}")));
            }
            if Instant::now() > end {
                return Err(std::io::Error::other("the client did not connect"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A client that does not outlive its sequence.
struct Reaped(Child);

impl Reaped {
    /// Returns the exit status; `None` if a signal ended the client or it had to be killed.
    fn status(&mut self) -> std::io::Result<Option<i32>> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.code());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(None)
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the clients: ours, and OpenSSH's if it is installed.
pub fn programs() -> (PathBuf, Option<PathBuf>) {
    (lh_interop::our("lhssh"), lh_interop::find("ssh"))
}
