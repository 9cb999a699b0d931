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
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with,
};

use crate::key_options::KeyOptions;

pub(crate) use claimant::{Claimant, Claimed};
pub(crate) use messages::{ClientHost, FromClaimant, FromUser, Login, Moved, ToClaimant, ToUser};
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
    /// The client's host, of a host-based login.
    pub(crate) host: Option<ClientHost>,
    /// Options of the key or certificate that was used.
    pub(crate) options: KeyOptions,
    /// The configuration's rules at the login, one line for each keyword.
    pub(crate) rules: Vec<String>,
    /// Fingerprints of the server's host keys.
    pub(crate) host_keys: Vec<String>,
    /// Time that the session waits for its client.
    pub(crate) grace: Duration,
}

/// Returns the abstract socket name at which the monitor of the session with this handle listens.
fn name(handle: &Handle) -> String {
    let mut name = "lhsshd-session-".to_owned();
    handle.0.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
    name
}

/// Listens for other connections' monitors.
pub(crate) fn listen(handle: &Handle) -> io::Result<UnixListener> {
    let listening = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name(handle))?)?;
    listening.set_nonblocking(true)?;
    Ok(listening)
}

/// Connects to the monitor of the session with this handle.
///
/// # Errors
/// `ConnectionRefused`: there is no such session. Its address may be another user's, since it has ended.
/// `WouldBlock`: no connection was accepted within [`TIMEOUT`].
pub(crate) fn connect(handle: &Handle) -> io::Result<UnixStream> {
    connect_within(handle, TIMEOUT)
}

fn connect_within(handle: &Handle, timeout: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Any local user may listen at the address of a session that has ended, with a full queue: without a
    // limit connect(2) would then wait for ever, and this monitor would not end at `LoginGraceTime`.
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    connect_socket(&socket, &SocketAddrUnix::new_abstract_name(name(handle).as_bytes())?)?;
    let socket = UnixStream::from(socket);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the limit this test hangs.
    #[test]
    fn a_full_queue_at_a_sessions_address_is_not_waited_for() {
        let mut number = [0; 16];
        lh_crypto::Random::fill(&mut lh_crypto::SystemRandom, &mut number);
        let handle = Handle(number);
        let unanswered = listen(&handle).unwrap();
        rustix::net::listen(&unanswered, 0).unwrap();
        let short = Duration::from_millis(10);
        // The kernel lets one connection more wait than the queue's length.
        let waiting: Vec<_> = std::iter::from_fn(|| connect_within(&handle, short).ok()).take(9).collect();
        assert!(waiting.len() < 9);
        assert_eq!(connect_within(&handle, short).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(unanswered);
        assert_eq!(connect_within(&handle, short).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
