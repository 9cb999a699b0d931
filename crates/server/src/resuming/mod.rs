//! Sessions that go on over another connection (`ResumeGrace`, docs/protocol.md): what the processes of the two
//! connections say to each other.
//!
//! The monitor of a session has the secret, and it alone decides who goes on with it. It listens for monitors of
//! other connections at an address of the kernel's own name space, which is gone when the process is. Both
//! look at who is at the other end: only the server's own user is answered.

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

/// Silence after which the server counts a session's path as broken, where nothing else is configured.
#[cfg(test)]
pub(crate) const SILENCE_NOTICED: Duration = Duration::from_secs(80);

/// How long one process may keep the other waiting.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What a session is that may go on over another connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionTerms {
    /// The name that the client has logged in with, with a style behind a colon where it has typed one.
    pub(crate) name: String,
    /// The account's name in the user database: its sessions count together, whatever was typed.
    pub(crate) account: String,
    /// Proofs of the user's identity, a line for each method that succeeded.
    pub(crate) proofs: String,
    /// What its key or certificate allows and forces.
    pub(crate) options: KeyOptions,
    /// What the configuration allowed and forced at the login, a line for each keyword.
    pub(crate) rules: Vec<String>,
    /// Fingerprints of the host keys of its server.
    pub(crate) host_keys: Vec<String>,
    /// How long it waits.
    pub(crate) grace: Duration,
}

fn address(handle: &Handle) -> io::Result<SocketAddr> {
    let mut name = "lhsshd-session-".to_owned();
    handle.0.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
    SocketAddr::from_abstract_name(name)
}

/// Listens for monitors of other connections.
pub(crate) fn listen(handle: &Handle) -> io::Result<UnixListener> {
    let listening = UnixListener::bind_addr(&address(handle)?)?;
    listening.set_nonblocking(true)?;
    Ok(listening)
}

/// The monitor that has the session of this name.
pub(crate) fn connect(handle: &Handle) -> io::Result<UnixStream> {
    let socket = UnixStream::connect_addr(&address(handle)?)?;
    check(&socket)?;
    Ok(socket)
}

/// Refuses other users' processes.
pub(crate) fn check(socket: &UnixStream) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if lh_sys::pass::peer_uid(socket)? == own { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
