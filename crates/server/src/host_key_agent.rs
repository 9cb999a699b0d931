//! `HostKeyAgent`: host keys whose private halves are held by an agent behind a Unix socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lh_agent::{Frames, Reply, Request, flags_for, frame};
use lh_crypto::{CryptoError, PublicKey};

/// Longest wait for an agent's answer. A key that needs a touch cannot serve as a host key.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The keyword's value that refers to the environment variable of this name.
pub(crate) const VARIABLE: &str = "SSH_AUTH_SOCK";

fn ask(socket: &Path, request: &Request<'_>) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&frame(&request.encode()))?;
    let mut frames = Frames::default();
    let mut buffer = [0; 4096];
    loop {
        if let Some(body) = frames.next_body().map_err(io::Error::other)? {
            return Reply::parse(&body).map_err(io::Error::other);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => frames.push(buffer.get(..n).unwrap_or_default()),
            // A socket with a timeout reports EINTR when this process was stopped and continued (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the public halves of the agent's keys.
///
/// # Errors
/// There is no agent, or its answer is malformed.
pub(crate) fn keys(socket: &Path) -> io::Result<Vec<PublicKey>> {
    match ask(socket, &Request::Identities)? {
        Reply::Identities(entries) => {
            Ok(entries.iter().filter_map(|entry| PublicKey::from_blob(&entry.blob).ok()).collect())
        }
        _ => Err(io::Error::other("the agent does not list its keys")),
    }
}

/// Has the agent sign `data`.
///
/// # Errors
/// The agent refuses, lacks the key, or returns a wrong signature.
pub(crate) fn sign(
    socket: &Path,
    key: &PublicKey,
    algorithm: &str,
    data: &[u8],
) -> Result<Vec<u8>, CryptoError> {
    const FAILED: CryptoError = CryptoError::Unsupported { what: "signing by the host key agent" };
    let request = Request::Sign { key: key.plain().blob(), data, flags: flags_for(algorithm) };
    match ask(socket, &request) {
        Ok(Reply::Signature(signature)) => {
            // Clients see this signature as the server's own, so it is verified first.
            key.verify(algorithm, data, &signature).map_err(|_| FAILED)?;
            Ok(signature.to_vec())
        }
        _ => Err(FAILED),
    }
}
