//! The system's `ssh` and `sshd`, host keys for them, and our end of a connection with them.

use std::fs;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_crypto::{KeyType, PrivateKey, SystemRandom};
use lh_transport::{AcceptedHostKey, Config, Event, Negotiated, Transport, TransportError};

pub(crate) const SSHD: &str = "/usr/sbin/sshd";
pub(crate) const SSH: &str = "/usr/bin/ssh";

/// Returns true, and reports it, when `program` is missing.
pub(crate) fn missing(program: &str) -> bool {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    lh_testkit::peers(&test, [program]).is_none()
}

/// Destination of the peers' stderr: none, or ours with `LH_PEER_LOG=1`.
pub(crate) fn peer_log() -> Stdio {
    if std::env::var_os("LH_PEER_LOG").is_some() { Stdio::inherit() } else { Stdio::null() }
}

/// Returns a pair of connected sockets.
pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let theirs = listener.accept().unwrap().0;
    ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (ours, theirs)
}

/// Host keys in a temporary directory.
pub(crate) struct Keys {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) keys: Vec<PrivateKey>,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let kinds = [
            (KeyType::Ed25519, None),
            (KeyType::EcdsaP256, None),
            (KeyType::EcdsaP384, None),
            (KeyType::EcdsaP521, None),
            (KeyType::Rsa, Some(3072)),
        ];
        let keys: Vec<PrivateKey> =
            kinds.into_iter().map(|(kind, bits)| PrivateKey::generate(kind, bits).unwrap()).collect();
        for (number, key) in keys.iter().enumerate() {
            let path = directory.path().join(number.to_string());
            fs::write(&path, key.to_openssh("host", None).unwrap()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        Self { directory, keys }
    }

    pub(crate) fn path(&self, number: usize) -> PathBuf {
        self.directory.path().join(number.to_string())
    }
}

/// A child process, killed by its process id when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn sshd(keys: &Keys, options: &[String], stdin: TcpStream) -> Running {
    // As root, sshd fails without this directory.
    let _ = fs::create_dir_all("/run/sshd");
    let mut command = Command::new(SSHD);
    command.args(["-i", "-e", "-f", "/dev/null", "-o", "LogLevel=DEBUG3"]);
    for number in 0..keys.keys.len() {
        command.arg("-h").arg(keys.path(number));
    }
    for option in options {
        command.args(["-o", option]);
    }
    let stdout = stdin.try_clone().unwrap();
    command.stdin(Stdio::from(OwnedFd::from(stdin))).stdout(Stdio::from(OwnedFd::from(stdout)));
    Running(command.stderr(peer_log()).spawn().unwrap())
}

pub(crate) fn available(program: &str, what: &str) -> Vec<String> {
    let out = Command::new(program).args(["-Q", what]).output().unwrap();
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A transport on a blocking socket.
pub(crate) struct Link {
    pub(crate) transport: Transport,
    socket: TcpStream,
    pub(crate) keys: Vec<PrivateKey>,
}

impl Link {
    pub(crate) fn new(config: Config, socket: TcpStream, keys: &[PrivateKey]) -> Self {
        let transport = Transport::new(config, Box::new(SystemRandom), Instant::now());
        Self { transport, socket, keys: keys.to_vec() }
    }

    pub(crate) fn flush(&mut self) {
        self.transport.output(Instant::now());
        loop {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            self.transport.output_slices(&mut slices);
            if slices.is_empty() {
                return;
            }
            match self.socket.write_vectored(&slices) {
                Ok(n) => self.transport.written(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the next event, except those that it answers itself.
    pub(crate) fn next(&mut self) -> Result<Event, TransportError> {
        loop {
            match self.transport.poll(Instant::now()) {
                Err(error) => {
                    self.flush();
                    return Err(error);
                }
                Ok(Some(Event::HostKey { blob, .. })) => {
                    assert!(self.keys.iter().any(|key| key.public().blob() == blob));
                    self.transport.host_key_accepted(&AcceptedHostKey::dangerous_vouch_for(&blob))?;
                }
                Ok(Some(Event::SignExchangeHash { algorithm, key_index, data })) => {
                    let signature = self.keys[key_index].sign(&algorithm, &data).unwrap();
                    self.transport.exchange_hash_signed(&signature)?;
                }
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {
                    self.flush();
                    match self.socket.read(self.transport.recv_space()) {
                        Ok(n) if n > 0 => self.transport.received(n),
                        // This process was stopped and continued: a socket with a timeout reports it
                        // (signal(7)).
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Ok(_) | Err(_) => self.transport.received_eof(),
                    }
                }
            }
        }
    }

    pub(crate) fn until_kex_done(&mut self) -> Result<Negotiated, TransportError> {
        loop {
            if let Event::KexDone { names, .. } = self.next()? {
                return Ok(names);
            }
        }
    }

    pub(crate) fn until_packet(&mut self) -> Result<Vec<u8>, TransportError> {
        loop {
            if let Event::Packet(payload) = self.next()? {
                return Ok(payload.to_vec());
            }
        }
    }
}
