//! Queries to the monitors of sessions. A monitor that does not answer delays no other one.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_socket, socket_with,
};

use crate::id::{Id, find};
use crate::session::{LARGEST, Session};
use crate::{ENDS, Request};

/// Largest number of monitors queried at a time: each takes a descriptor, and a process may have 1,024 by
/// default.
pub const MONITOR_LIMIT: usize = 256;

/// Longest wait for the answers of monitors.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Longest wait for a session's end. Its monitor kills the remaining processes after six seconds.
const ENDING: Duration = Duration::from_secs(15);

/// Connects to a monitor without blocking. Returns the socket and the user id of the listening process.
///
/// # Errors
/// No process listens; or `WouldBlock`: too many connections wait there.
pub fn connect(id: Id) -> io::Result<(UnixStream, u32)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect_socket(&socket, &SocketAddrUnix::new_abstract_name(id.address_name().as_bytes())?)?;
    let uid = lh_sys::pass::peer_uid(&socket)?;
    Ok((socket.into(), uid))
}

/// A session and the server that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Identifier of the session.
    pub id: Id,
    /// User id of its monitor process.
    pub server_uid: u32,
    /// The monitor's description of the session.
    pub session: Session,
}

/// All sessions that this process's user may see.
#[derive(Debug, Default)]
pub struct Sessions {
    /// The found sessions, in order of their login times.
    pub found: Vec<Found>,
    /// Monitors that have not answered, so that sessions may be missing.
    pub silent: Vec<Id>,
}

/// Returns whether a monitor process of user `server_uid` may describe this session.
const fn believed(server_uid: u32, session: &Session) -> bool {
    // A server runs as root for all users, or as a user for that user only.
    server_uid == 0 || server_uid == session.uid
}

/// A monitor that has been queried.
struct Asked {
    id: Id,
    socket: UnixStream,
    server_uid: u32,
    answer: Vec<u8>,
}

enum Reply {
    /// The answer is incomplete.
    Partial,
    Session(Session),
    /// This user may not see the session, or its monitor has just ended.
    Nothing,
}

impl Asked {
    fn read(&mut self) -> Reply {
        let mut buffer = [0; LARGEST];
        match self.socket.read(&mut buffer) {
            Ok(0) => Reply::Nothing,
            Ok(n) => {
                self.answer.extend_from_slice(buffer.get(..n).unwrap_or_default());
                match Session::decode(&self.answer) {
                    Ok(None) => Reply::Partial,
                    Ok(Some(session)) => Reply::Session(session),
                    Err(_) => Reply::Nothing,
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Reply::Partial
            }
            Err(_) => Reply::Nothing,
        }
    }
}

impl Sessions {
    /// Queries all monitors on this host.
    ///
    /// # Errors
    /// The kernel's list of sockets cannot be read.
    pub fn ask() -> io::Result<Self> {
        let own = rustix::process::geteuid().as_raw();
        let mut sessions = Self::default();
        for ids in find()?.chunks(MONITOR_LIMIT) {
            sessions.ask_some(ids, own);
        }
        Ok(sessions)
    }

    fn ask_some(&mut self, ids: &[Id], own: u32) {
        let mut asked = Vec::new();
        for &id in ids {
            match connect(id) {
                // An ordinary user's monitor can only have sessions of that user, which only that user and
                // root may see.
                Ok((_, server_uid)) if own != 0 && server_uid != 0 && server_uid != own => {}
                Ok((mut socket, server_uid)) => {
                    if socket.write_all(&[Request::Describe.byte()]).is_ok() {
                        asked.push(Asked { id, socket, server_uid, answer: Vec::new() });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.silent.push(id),
                // The monitor has just ended.
                Err(_) => {}
            }
        }
        let until = Instant::now() + TIMEOUT;
        while !asked.is_empty() && wait(&asked, until) {
            let mut rest = Vec::new();
            for mut one in asked {
                match one.read() {
                    Reply::Partial => rest.push(one),
                    Reply::Session(session) if believed(one.server_uid, &session) => {
                        let Asked { id, server_uid, .. } = one;
                        self.found.push(Found { id, server_uid, session });
                    }
                    Reply::Session(_) | Reply::Nothing => {}
                }
            }
            asked = rest;
        }
        self.silent.extend(asked.iter().map(|one| one.id));
        self.found.sort_by_key(|found| (found.session.since, found.id));
    }
}

/// Waits for answers. Returns false when the time is over.
fn wait(asked: &[Asked], until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return false;
    }
    let timeout =
        Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(1), tv_nsec: left.subsec_nanos().into() };
    let mut fds: Vec<_> =
        asked.iter().map(|one| PollFd::from_borrowed_fd(one.socket.as_fd(), PollFlags::IN)).collect();
    matches!(poll(&mut fds, Some(&timeout)), Ok(1..) | Err(Errno::INTR))
}

/// Why a session was not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no such session, or it is another user's.
    NoSession,
    /// The session's monitor does not answer.
    Silent,
    /// The session was told to end, but has not ended after 15 seconds.
    Lasts,
}

/// Ends a session, and waits until it has ended.
///
/// # Errors
/// The reason why the session has not ended.
pub fn end(id: Id) -> Result<(), Refused> {
    let (mut socket, server_uid) = connect(id).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Refused::Silent,
        _ => Refused::NoSession,
    })?;
    let own = rustix::process::geteuid().as_raw();
    if own != 0 && server_uid != 0 && server_uid != own {
        return Err(Refused::NoSession);
    }
    socket.write_all(&[Request::End.byte()]).map_err(|_| Refused::NoSession)?;
    let blocking = socket.set_nonblocking(false);
    blocking.map_err(|_| Refused::Silent)?;
    match read_byte(&mut socket, TIMEOUT) {
        Ok(Some(ENDS)) => {}
        Ok(_) => return Err(Refused::NoSession),
        Err(_) => return Err(Refused::Silent),
    }
    match read_byte(&mut socket, ENDING) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(Refused::Lasts)
        }
        _ => Ok(()),
    }
}

/// Returns the next byte; `None` at the end.
fn read_byte(socket: &mut UnixStream, within: Duration) -> io::Result<Option<u8>> {
    socket.set_read_timeout(Some(within))?;
    let mut byte = [0];
    loop {
        match socket.read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return Ok((done? == 1).then_some(byte[0])),
        }
    }
}
