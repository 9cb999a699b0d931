//! Sequences against servers on loopback: lhsshd and OpenSSH's sshd.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use lh_crypto::PrivateKey;

use super::sequence::{Login, Reaction, Sequence, run};
use crate::client::{Client, Received, Wire};

/// Time of silence after which a server counts as waiting for the client.
const SILENCE: Duration = Duration::from_secs(4);

/// A TCP connection.
pub struct Socket(TcpStream);

impl Socket {
    /// Connects to a port of loopback.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn connect(port: u16) -> std::io::Result<Self> {
        Self::of(TcpStream::connect(("127.0.0.1", port))?)
    }

    /// Uses a stream that is connected.
    ///
    /// # Errors
    /// It has been closed.
    pub fn of(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        Ok(Self(stream))
    }

    /// Returns the stream, for clients that neither wait nor read.
    ///
    /// # Errors
    /// Descriptors are used up.
    pub fn stream(&self) -> std::io::Result<TcpStream> {
        self.0.try_clone()
    }

    /// Sets the time for which a read waits for bytes.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn timeout(&self, timeout: Duration) -> std::io::Result<()> {
        self.0.set_read_timeout(Some(timeout))
    }
}

impl Wire for Socket {
    fn send(&mut self, bytes: &[u8]) {
        // An error is ignored here: the end of the connection is noticed after the server's last packets have
        // been read.
        let _ = self.0.write_all(bytes);
    }

    fn receive(&mut self, out: &mut Vec<u8>) -> Received {
        let mut buffer = [0; 16 << 10];
        let result = loop {
            match self.0.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        match result {
            Ok(0) => Received::Closed,
            Ok(n) => {
                out.extend_from_slice(&buffer[..n]);
                Received::Bytes
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                Received::Silent
            }
            Err(_) => Received::Closed,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Runs a sequence against the server on a port.
///
/// # Errors
/// Nothing listens there.
pub fn react(port: u16, user: &str, key: &PrivateKey, sequence: &Sequence) -> std::io::Result<Reaction> {
    let mut client = Client::new(Socket::connect(port)?, sequence.strict);
    Ok(run(&mut client, sequence, &Login { user, key }))
}
