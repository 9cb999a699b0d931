//! `HostKeyAgent`: host keys whose private halves are an agent's, behind a Unix socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lh_agent::{Frames, Reply, Request, flags_for, frame};
use lh_crypto::{CryptoError, PublicKey};

/// How long an agent may take for an answer. A key that must be touched is no host key.
const PATIENCE: Duration = Duration::from_secs(10);

/// The value of the keyword that stands for the variable of that name.
pub(crate) const VARIABLE: &str = "SSH_AUTH_SOCK";

fn ask(socket: &Path, request: &Request<'_>) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
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
            // This process was stopped and continued: a socket with a timeout reports it (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The public halves of the keys an agent has.
///
/// # Errors
/// There is no agent, or it talks nonsense.
pub(crate) fn keys(socket: &Path) -> io::Result<Vec<PublicKey>> {
    match ask(socket, &Request::Identities)? {
        Reply::Identities(entries) => {
            Ok(entries.iter().filter_map(|entry| PublicKey::from_blob(&entry.blob).ok()).collect())
        }
        _ => Err(io::Error::other("the agent does not list its keys")),
    }
}

/// Has the agent sign.
///
/// # Errors
/// It does not, or not with this key.
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
            // What the agent returns is shown to clients as ours: it must be right.
            key.verify(algorithm, data, &signature).map_err(|_| FAILED)?;
            Ok(signature.to_vec())
        }
        _ => Err(FAILED),
    }
}
