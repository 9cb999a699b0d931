//! Resumption (`ResumeGrace`, docs/protocol.md): the messages between the processes of a session and of the
//! connection that takes it over.
//!
//! Only the session's monitor has the secret, and it alone decides which client may resume. It listens for
//! other connections' monitors at an abstract socket address, which vanishes with the process. Both sides
//! check the peer's credentials and accept only the server's own user.

mod claimant;
mod messages;
mod notice;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use lh_resume::Handle;

use crate::key_options::KeyOptions;

pub(crate) use claimant::{Claimant, Claimed};
pub(crate) use messages::{FromClaimant, FromUser, Login, Moved, ToClaimant, ToUser};
pub(crate) use notice::{CONNECTED, END, GOES_ON, KEEPS, Notice, WAITS};

/// Longest wait of one process for the other.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// The terms on which a session may be resumed over another connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionTerms {
    /// The user name of the login, including a style after a colon if the client sent one.
    pub(crate) name: String,
    /// The account's name in the user database: all its sessions count together, whichever spelling the
    /// client used.
    pub(crate) account: String,
    /// Proofs of the user's identity, one line for each method that succeeded.
    pub(crate) proofs: String,
    /// Options of the key or certificate that was used.
    pub(crate) options: KeyOptions,
    /// The configuration's rules at the login, one line for each keyword.
    pub(crate) rules: Vec<String>,
    /// Fingerprints of the server's host keys.
    pub(crate) host_keys: Vec<String>,
    /// Time that the session waits for its client.
    pub(crate) grace: Duration,
}

fn address(handle: &Handle) -> io::Result<SocketAddr> {
    let mut name = "lhsshd-session-".to_owned();
    handle.0.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
    SocketAddr::from_abstract_name(name)
}

/// Listens for other connections' monitors.
pub(crate) fn listen(handle: &Handle) -> io::Result<UnixListener> {
    let listening = UnixListener::bind_addr(&address(handle)?)?;
    listening.set_nonblocking(true)?;
    Ok(listening)
}

/// Connects to the monitor of the session with this handle.
///
/// # Errors
/// `ConnectionRefused`: there is no such session. Its address may be another user's, since it has ended.
pub(crate) fn connect(handle: &Handle) -> io::Result<UnixStream> {
    let socket = UnixStream::connect_addr(&address(handle)?)?;
    match check(&socket) {
        Ok(()) => Ok(socket),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(io::ErrorKind::ConnectionRefused.into())
        }
        Err(error) => Err(error),
    }
}

/// Returns an error if the peer is another user's process.
pub(crate) fn check(socket: &UnixStream) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if lh_sys::pass::peer_uid(socket)? == own { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
