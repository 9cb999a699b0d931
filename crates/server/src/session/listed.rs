//! The monitor's part in `longhaul sessions`: it says what its session is, and has it ended, for the session's user, the
//! server's user and root. A listener that was started after this session's own has ended takes its place.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use lh_crypto::{Random as _, SystemRandom};
use lh_session_list::{ENDS, Id, Programs, Request, Session, Wait};
use lh_sys::users::User;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::resuming::END;

/// Connections that have not said what they want. The oldest goes first.
const MOST_PENDING: usize = 8;

/// Connections that are looked at before anything else is done.
const MOST_AT_ONCE: usize = 16;

/// A byte and the SHA-256 of a host key.
const LONGEST_REQUEST: usize = 1 + 32;

/// How long a connection may take to say what it wants, and the listener to take a notice.
const PATIENCE: Duration = Duration::from_secs(3);

/// Random names that are tried.
const TRIES: usize = 8;

/// See the module documentation.
pub(super) struct Listed {
    listening: UnixListener,
    user: String,
    uid: u32,
    since: u64,
    programs: Programs,
    /// What listeners of the same server are known by.
    marks: Vec<Vec<u8>>,
    pending: Vec<Pending>,
    /// The listener that has adopted this session.
    listener: Option<UnixStream>,
    /// Closed when the session has ended: that is what those who want its end wait for.
    ending: Vec<UnixStream>,
}

/// A connection that has not said what it wants.
struct Pending {
    socket: UnixStream,
    uid: u32,
    until: Instant,
}

/// What the session is besides what [`Listed`] knows.
pub(super) struct Now {
    pub(super) peer: Option<SocketAddr>,
    pub(super) is_resumable: bool,
    pub(super) wait: Option<Wait>,
}

/// What is to be done about the session.
pub(super) enum Order {
    /// A listener has adopted it, and is to hear whether it waits.
    Adopted,
    /// Too many sessions wait.
    Dismissed,
    /// The user with this id wants it to end.
    End(u32),
}

impl Listed {
    /// Begins to listen. `marks`: what listeners of the same server are known by.
    pub(super) fn new(user: &User, marks: Vec<Vec<u8>>) -> io::Result<Self> {
        let since = u64::try_from(lh_sys::time::now_unix()).unwrap_or(0);
        let listening = listen()?;
        Ok(Self {
            listening,
            user: user.name.clone(),
            uid: user.uid,
            since,
            programs: Programs::default(),
            marks,
            pending: Vec::new(),
            listener: None,
            ending: Vec::new(),
        })
    }

    /// Records what runs in the session.
    pub(super) const fn set_programs(&mut self, programs: Programs) {
        self.programs = programs;
    }

    /// Lists what to wait for.
    pub(super) fn interests<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.listening, PollFlags::IN));
        fds.extend(self.pending.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)));
        fds.extend(self.listener.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
    }

    /// Time at which to call [`serve`](Self::serve) though nothing has come.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.iter().map(|one| one.until).min()
    }

    /// Where notices go: to the listener that has adopted the session, else to its own.
    pub(super) const fn notices<'a>(&'a self, control: &'a File) -> Notices<'a> {
        Notices { control, adopted: self.listener.as_ref() }
    }

    /// Does what is there to be done, without waiting.
    pub(super) fn serve(&mut self, now: &Now, control: &File) -> Option<Order> {
        if let Some(order) = self.hear_listener() {
            return Some(order);
        }
        self.accept();
        let time = Instant::now();
        for mut one in std::mem::take(&mut self.pending) {
            let mut bytes = [0; LONGEST_REQUEST];
            match one.socket.read(&mut bytes) {
                Ok(length @ 1..) => match Request::of_byte(bytes[0]) {
                    Some(Request::Describe) => {
                        // A client that is gone needs no answer, and the socket's buffer is larger than any.
                        let _ = one.socket.write_all(&self.describe(now));
                    }
                    Some(Request::End) => {
                        if one.socket.write_all(&[ENDS]).is_ok() {
                            self.ending.push(one.socket);
                        }
                        return Some(Order::End(one.uid));
                    }
                    Some(Request::Adopt)
                        if is_own(one.uid)
                            && self.marks.iter().any(|mark| bytes.get(1..length) == Some(&mark[..]))
                            && self.is_orphan(control) =>
                    {
                        // The connection is the listener's for good: what is written to it may wait.
                        let set = one.socket.set_nonblocking(false);
                        if set.and_then(|()| one.socket.set_write_timeout(Some(PATIENCE))).is_ok() {
                            self.listener = Some(one.socket);
                            return Some(Order::Adopted);
                        }
                    }
                    Some(Request::Adopt) | None => {}
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && one.until > time => {
                    self.pending.push(one);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.pending.push(one),
                Ok(_) | Err(_) => {}
            }
        }
        None
    }

    /// What the listener says that has adopted the session.
    fn hear_listener(&mut self) -> Option<Order> {
        let listener = self.listener.as_mut().filter(|listener| is_ready(listener))?;
        let mut byte = [0];
        match listener.read(&mut byte) {
            Ok(1) if byte[0] == END => return Some(Order::Dismissed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It has ended, too.
            Ok(_) | Err(_) => self.listener = None,
        }
        None
    }

    fn accept(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Ok((socket, _)) = self.listening.accept() else { return };
            let Ok(uid) = lh_sys::pass::peer_uid(&socket) else { continue };
            let allowed = uid == 0 || uid == self.uid || is_own(uid);
            let Some(until) = Instant::now().checked_add(PATIENCE) else { continue };
            if allowed && socket.set_nonblocking(true).is_ok() {
                if self.pending.len() >= MOST_PENDING {
                    self.pending.remove(0);
                }
                self.pending.push(Pending { socket, uid, until });
            }
        }
    }

    fn describe(&self, now: &Now) -> Vec<u8> {
        let session = Session {
            user: self.user.clone(),
            uid: self.uid,
            pid: std::process::id(),
            peer: now.peer,
            since: self.since,
            programs: self.programs,
            is_resumable: now.is_resumable,
            wait: now.wait,
        };
        session.encode()
    }

    /// True when the listener that counted this session is gone.
    fn is_orphan(&self, control: &File) -> bool {
        self.listener.is_none() && has_closed(control)
    }
}

/// Listens under a name that no other session has.
fn listen() -> io::Result<UnixListener> {
    let mut problem = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let mut number = [0; 4];
        SystemRandom.fill(&mut number);
        match Id::new(u32::from_be_bytes(number)).listen() {
            Ok(listening) => return Ok(listening),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => problem = error,
            Err(error) => return Err(error),
        }
    }
    Err(problem)
}

/// True for the user that this process runs as.
fn is_own(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn is_ready(fd: impl AsFd) -> bool {
    let fd = fd.as_fd();
    matches!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&NO_TIME)), Ok(1))
}

fn has_closed(control: &File) -> bool {
    let mut fds = [PollFd::new(control, PollFlags::empty())];
    poll(&mut fds, Some(&NO_TIME)).is_ok()
        && fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// The way to the listener that counts this session.
pub(super) struct Notices<'a> {
    control: &'a File,
    adopted: Option<&'a UnixStream>,
}

impl<'a> Notices<'a> {
    /// To the listener that has started this session.
    pub(super) const fn to_own(control: &'a File) -> Self {
        Self { control, adopted: None }
    }
}

impl Write for Notices<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.adopted {
            Some(mut listener) => listener.write(bytes),
            None => { self.control }.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    fn listed() -> Listed {
        let mut user = lh_sys::users::current().unwrap().unwrap();
        user.name = "ada".to_owned();
        Listed::new(&user, vec![vec![6; 32], vec![7; 32]]).unwrap()
    }

    /// A connection that asks for this.
    fn asks(listed: &Listed, bytes: &[u8]) -> UnixStream {
        let address = listed.listening.local_addr().unwrap();
        let mut socket = UnixStream::connect_addr(&address).unwrap();
        socket.write_all(bytes).unwrap();
        socket
    }

    fn now(wait: Option<Wait>) -> Now {
        Now { peer: None, is_resumable: true, wait }
    }

    fn rest(mut socket: UnixStream) -> Vec<u8> {
        let mut all = Vec::new();
        socket.read_to_end(&mut all).unwrap();
        all
    }

    /// The control socket, with a listener or without.
    fn control(has_listener: bool) -> (File, Option<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (File::from(OwnedFd::from(ours)), has_listener.then_some(theirs))
    }

    #[test]
    fn a_session_is_described_with_its_programs_and_wait() {
        let mut listed = listed();
        let (control, _listener) = control(true);
        let programs = Programs { shells: 1, ..Programs::default() };
        listed.set_programs(programs);
        let wait = Some(Wait { waited: 7, left: 9 });
        let socket = asks(&listed, b"D");
        assert!(listed.serve(&now(wait), &control).is_none());
        let session = Session::decode(&rest(socket)).unwrap().unwrap();
        assert_eq!((session.user.as_str(), session.programs, session.wait), ("ada", programs, wait));
        assert_eq!(session.pid, std::process::id());
    }

    #[test]
    fn unknown_requests_are_closed_and_silent_ones_are_few() {
        let mut listed = listed();
        let (control, _listener) = control(true);
        let unknown = asks(&listed, b"?");
        assert!(listed.serve(&now(None), &control).is_none());
        assert_eq!(rest(unknown), b"");
        let silent: Vec<_> = (0..3 * MOST_PENDING).map(|_| asks(&listed, b"")).collect();
        for _ in 0..4 {
            assert!(listed.serve(&now(None), &control).is_none());
        }
        assert_eq!(listed.pending.len(), MOST_PENDING);
        assert!(listed.deadline().is_some());
        drop(silent);
        assert!(listed.serve(&now(None), &control).is_none());
        assert!(listed.pending.is_empty() && listed.deadline().is_none());
    }

    #[test]
    fn an_end_is_confirmed_and_then_waited_for() {
        let mut listed = listed();
        let (control, _listener) = control(true);
        let mut socket = asks(&listed, b"E");
        let uid = rustix::process::geteuid().as_raw();
        assert!(matches!(listed.serve(&now(None), &control), Some(Order::End(by)) if by == uid));
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [ENDS]);
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.read(&mut byte).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(listed);
        assert_eq!(socket.read(&mut byte).unwrap(), 0);
    }

    #[test]
    fn only_a_session_without_a_listener_is_adopted() {
        let mut listed = listed();
        let (with, _listener) = control(true);
        let adopt = [&b"A"[..], &[7; 32]].concat();
        let refused = asks(&listed, &adopt);
        assert!(listed.serve(&now(None), &with).is_none());
        assert_eq!(rest(refused), b"");
        let (without, _) = control(false);
        // The listener of another server on this host.
        for other in [&b"A"[..], &[b'A'; 33]] {
            let refused = asks(&listed, other);
            assert!(listed.serve(&now(None), &without).is_none());
            assert_eq!(rest(refused), b"");
        }
        let mut listener = asks(&listed, &adopt);
        assert!(matches!(listed.serve(&now(None), &without), Some(Order::Adopted)));
        listed.notices(&without).write_all(b"notice").unwrap();
        let mut got = [0; 6];
        listener.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"notice");
        // It has one now, which may end the session; when that one is gone, the next one comes.
        let refused = asks(&listed, &adopt);
        assert!(listed.serve(&now(None), &without).is_none());
        assert_eq!(rest(refused), b"");
        listener.write_all(&[END]).unwrap();
        assert!(matches!(listed.serve(&now(None), &without), Some(Order::Dismissed)));
        drop(listener);
        let _next = asks(&listed, &adopt);
        assert!(matches!(listed.serve(&now(None), &without), Some(Order::Adopted)));
    }
}
