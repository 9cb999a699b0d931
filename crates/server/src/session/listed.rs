//! The monitor's part in `longhaul sessions`: describes its session and ends it, for the session's user, the
//! server's user and root. It also accepts a new listener after the session's own listener has ended.

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

/// Largest number of connections without a request yet. The oldest is closed first, and that of another user
/// than the server's before all others.
const MOST_PENDING: usize = 8;

/// Largest number of connections accepted in one turn: more than wait in the kernel's queue, so that a
/// user who connects without end does not keep it full.
const MOST_AT_ONCE: usize = 256;

/// Longest request, bytes: a kind and the SHA-256 of a host key.
const LONGEST_REQUEST: usize = 1 + 32;

/// Longest wait for a connection's request, and for the listener to take a notice.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Number of random names that are tried.
const TRIES: usize = 8;

/// The session's entry in `longhaul sessions`. See the module documentation.
pub(super) struct Listed {
    listening: UnixListener,
    user: String,
    uid: u32,
    since: u64,
    programs: Programs,
    /// The marks by which listeners of this server are recognised.
    marks: Vec<Vec<u8>>,
    pending: Vec<Pending>,
    /// The listener that has adopted this session.
    listener: Option<UnixStream>,
    /// Connections that wait for the session's end, which is signalled by closing them.
    ending: Vec<UnixStream>,
}

/// A connection whose request has not been received.
struct Pending {
    socket: UnixStream,
    uid: u32,
    until: Instant,
}

/// The current state of the session, besides what [`Listed`] stores.
pub(super) struct Now {
    pub(super) peer: Option<SocketAddr>,
    pub(super) is_resumable: bool,
    pub(super) wait: Option<Wait>,
}

/// What a request demands of the session.
pub(super) enum Order {
    /// A listener has adopted the session and must be told whether it waits.
    Adopted,
    /// Too many sessions wait: end this one.
    Dismissed,
    /// End the session, for the user with this id.
    End(u32),
}

impl Listed {
    /// Begins to listen. `marks` are those by which listeners of this server are recognised.
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

    /// Returns the address at which requests are accepted.
    #[cfg(test)]
    pub(super) fn address(&self) -> std::os::unix::net::SocketAddr {
        self.listening.local_addr().unwrap()
    }

    /// Stores the numbers of programs that run in the session.
    pub(super) const fn set_programs(&mut self, programs: Programs) {
        self.programs = programs;
    }

    /// Adds the descriptors to poll.
    pub(super) fn interests<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        fds.push(PollFd::new(&self.listening, PollFlags::IN));
        fds.extend(self.pending.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)));
        fds.extend(self.listener.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
    }

    /// Returns the time at which to call [`serve`](Self::serve) even if no descriptor is ready.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.iter().map(|one| one.until).min()
    }

    /// Returns the socket for notices: to the listener that has adopted the session, or else to its own.
    pub(super) const fn notices<'a>(&'a self, control: &'a File) -> Notices<'a> {
        Notices { control, adopted: self.listener.as_ref() }
    }

    /// Handles pending requests, up to the first one that demands something of the session. Does not block.
    pub(super) fn serve(&mut self, now: &Now, control: &File) -> Option<Order> {
        if let Some(order) = self.hear_listener() {
            return Some(order);
        }
        self.accept();
        let time = Instant::now();
        let mut asking = std::mem::take(&mut self.pending).into_iter();
        let mut order = None;
        while order.is_none()
            && let Some(mut one) = asking.next()
        {
            let mut bytes = [0; LONGEST_REQUEST];
            match one.socket.read(&mut bytes) {
                Ok(length @ 1..) => match Request::of_byte(bytes[0]) {
                    Some(Request::Describe) => {
                        // A client that has closed its end needs no answer, and an answer fits the socket's
                        // buffer.
                        let _ = one.socket.write_all(&self.describe(now));
                    }
                    Some(Request::End) => {
                        if one.socket.write_all(&[ENDS]).is_ok() {
                            self.ending.push(one.socket);
                        }
                        order = Some(Order::End(one.uid));
                    }
                    Some(Request::Adopt)
                        if is_own(one.uid)
                            && self.marks.iter().any(|mark| bytes.get(1..length) == Some(&mark[..]))
                            && self.is_orphan(control) =>
                    {
                        // The listener keeps this connection, and writes to it may block for a while.
                        let set = one.socket.set_nonblocking(false);
                        if set.and_then(|()| one.socket.set_write_timeout(Some(TIMEOUT))).is_ok() {
                            self.listener = Some(one.socket);
                            order = Some(Order::Adopted);
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
        self.pending.extend(asking);
        order
    }

    /// Reads the message of the listener that has adopted the session.
    fn hear_listener(&mut self) -> Option<Order> {
        let listener = self.listener.as_mut().filter(|listener| is_ready(listener))?;
        let mut byte = [0];
        match listener.read(&mut byte) {
            Ok(1) if byte[0] == END => return Some(Order::Dismissed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // That listener has ended too.
            Ok(_) | Err(_) => self.listener = None,
        }
        None
    }

    fn accept(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Ok((socket, _)) = self.listening.accept() else { return };
            let Ok(uid) = lh_sys::pass::peer_uid(&socket) else { continue };
            let allowed = uid == 0 || uid == self.uid || is_own(uid);
            let Some(until) = Instant::now().checked_add(TIMEOUT) else { continue };
            if allowed && socket.set_nonblocking(true).is_ok() && self.make_place_for(uid) {
                self.pending.push(Pending { socket, uid, until });
            }
        }
    }

    /// Closes a connection if there are too many for another one of the user with this id. Connections of the
    /// session's user never displace those of the server's user: else a user who connects without end would
    /// keep a new listener from adopting the session, and the session would not be counted. Returns false if
    /// none may be closed.
    fn make_place_for(&mut self, uid: u32) -> bool {
        if self.pending.len() < MOST_PENDING {
            return true;
        }
        let other = self.pending.iter().position(|one| !is_own(one.uid));
        let Some(at) = other.or(is_own(uid).then_some(0)) else { return false };
        self.pending.remove(at);
        true
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

    /// Returns whether the listener that started this session has ended.
    fn is_orphan(&self, control: &File) -> bool {
        self.listener.is_none() && has_closed(control)
    }
}

/// Listens at an abstract socket address that no other session uses.
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

/// Returns whether this is the user that this process runs as.
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

/// The socket for notices to the listener that counts this session.
pub(super) struct Notices<'a> {
    control: &'a File,
    adopted: Option<&'a UnixStream>,
}

impl<'a> Notices<'a> {
    /// Returns the socket to the listener that has started this session.
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

    /// A connection that sends this request.
    fn asks(listed: &Listed, bytes: &[u8]) -> UnixStream {
        let mut socket = UnixStream::connect_addr(&listed.address()).unwrap();
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

    /// A control socket, with a listener at its other end or without.
    fn control(has_listener: bool) -> (File, Option<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        if !has_listener {
            crate::testing::close(&theirs);
        }
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
        silent.iter().for_each(crate::testing::close);
        assert!(listed.serve(&now(None), &control).is_none());
        assert!(listed.pending.is_empty() && listed.deadline().is_none());
    }

    #[test]
    fn users_do_not_displace_a_listener() {
        let mut listed = listed();
        let own = rustix::process::geteuid().as_raw();
        let mut arrive = |uid| {
            let has_place = listed.make_place_for(uid);
            if has_place {
                let (socket, _) = UnixStream::pair().unwrap();
                listed.pending.push(Pending { socket, uid, until: Instant::now() });
            }
            let owns = listed.pending.iter().filter(|one| one.uid == own).count();
            (has_place, owns, listed.pending.len())
        };
        let user = own + 1;
        assert_eq!(arrive(own), (true, 1, 1));
        (2..=MOST_PENDING).for_each(|count| assert_eq!(arrive(user), (true, 1, count)));
        (0..100).for_each(|_| assert_eq!(arrive(user), (true, 1, MOST_PENDING)));
        (2..=MOST_PENDING).for_each(|owns| assert_eq!(arrive(own), (true, owns, MOST_PENDING)));
        assert_eq!(arrive(own), (true, MOST_PENDING, MOST_PENDING));
        assert_eq!(arrive(user), (false, MOST_PENDING, MOST_PENDING));
    }

    #[test]
    fn requests_behind_an_order_are_answered_in_the_next_turn() {
        let mut listed = listed();
        let (control, _) = control(false);
        let _adopts = asks(&listed, &[&b"A"[..], &[7; 32]].concat());
        let describes = asks(&listed, b"D");
        assert!(matches!(listed.serve(&now(None), &control), Some(Order::Adopted)));
        assert!(listed.serve(&now(None), &control).is_none());
        assert!(Session::decode(&rest(describes)).unwrap().is_some());
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
        // Blocking again: a child of another test may have a copy of the other end until its exec.
        socket.set_nonblocking(false).unwrap();
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
        // The session has a listener now, which may end it; after that one has ended, the next one may adopt
        // it.
        let refused = asks(&listed, &adopt);
        assert!(listed.serve(&now(None), &without).is_none());
        assert_eq!(rest(refused), b"");
        listener.write_all(&[END]).unwrap();
        assert!(matches!(listed.serve(&now(None), &without), Some(Order::Dismissed)));
        crate::testing::close(&listener);
        let _next = asks(&listed, &adopt);
        assert!(matches!(listed.serve(&now(None), &without), Some(Order::Adopted)));
    }
}
