//! Ports and sockets of a session that waits for its client: another session of the same user gets them.
//!
//! A tunnel that was killed and is started again asks for the port that its old session still has. While a
//! session waits, it listens at an abstract Unix address for each of its listeners. When another process of
//! its user connects there, a session that is nothing but a tunnel (`-N`) ends. One that has run a program
//! goes on without that listener, and offers it only after a pause: its client may be about to come back.
//! Nothing is offered while there is a connection.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{self, UnixListener, UnixStream};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_driver::{ControlCx, Interest, Interests, Ready, Source};

use crate::log::{debug, info};
use crate::session::shared::Shared;

/// Connections accepted in one turn of the loop. Other users' processes may connect as well.
const PER_TURN: usize = 16;

/// Time for which the client of a session with programs is waited for before its listeners are offered.
const PAUSE: Duration = Duration::from_secs(2);

/// The name under which a session of this process's user offers a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer(String);

impl Offer {
    /// The offer of a listener at this address.
    pub(super) fn of_address(address: SocketAddr) -> Self {
        Self::named(&format!("tcp-{address}"))
    }

    /// The offer of the listener whose socket is at this path; `None` where there is no file.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        // By the file, because the path may be relative or lead over links.
        let file = std::fs::symlink_metadata(path).ok()?;
        Some(Self::named(&format!("unix-{:x}-{:x}", file.dev(), file.ino())))
    }

    fn named(what: &str) -> Self {
        Self(format!("lhsshd-forward-{}-{what}", own_uid()))
    }

    fn address(&self) -> io::Result<net::SocketAddr> {
        net::SocketAddr::from_abstract_name(&self.0)
    }

    fn listen(&self) -> io::Result<UnixListener> {
        let listening = UnixListener::bind_addr(&self.address()?)?;
        listening.set_nonblocking(true)?;
        Ok(listening)
    }

    /// Asks the session that offers the listener to end; `None` if no session does. It has ended when the
    /// listener can be made.
    pub(super) fn ask(&self) -> Option<UnixStream> {
        // The kernel answers at once, also where the queue is full.
        let socket = connect(&self.0).ok()?;
        is_own(&socket).then_some(socket)
    }
}

/// Connects to an abstract address without waiting.
fn connect(name: &str) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(socket.into())
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns whether the process at the other end belongs to this process's user.
fn is_own(socket: &UnixStream) -> bool {
    lh_sys::pass::peer_uid(socket).is_ok_and(|uid| uid == own_uid())
}

/// The offers of a waiting session. See the module documentation.
pub(super) struct Offers {
    shared: Rc<Shared>,
    offers: Vec<Offer>,
    /// The time from which they are offered, while that is in the future.
    from: Option<Instant>,
    listening: Vec<(Offer, UnixListener)>,
    /// Connections of the session that gets the listeners. They are closed with this process's end.
    taken_by: Vec<UnixStream>,
    /// Offers that other sessions have asked for.
    taken: Taken,
}

/// Offers whose listeners the session gives up.
pub(super) type Taken = Rc<RefCell<Vec<Offer>>>;

impl Offers {
    /// Begins to offer these listeners, at once or after a pause.
    pub(super) fn new(offers: Vec<Offer>, shared: Rc<Shared>, taken: Taken, now: Instant) -> Self {
        let from = shared.has_begun.get().then(|| now + PAUSE);
        let mut this = Self { shared, offers, from, listening: Vec::new(), taken_by: Vec::new(), taken };
        if this.from.is_none() {
            this.listen();
        }
        this
    }

    fn listen(&mut self) {
        for offer in std::mem::take(&mut self.offers) {
            match offer.listen() {
                Ok(listening) => self.listening.push((offer, listening)),
                Err(problem) => {
                    debug!(self.shared.log, "{} is not offered to other sessions: {problem}", offer.0);
                }
            }
        }
    }

    /// Another session of the user asks for the listener of `offer`.
    fn on_asked(&mut self, offer: Offer, socket: UnixStream, cx: &mut ControlCx<'_>) {
        if self.shared.has_begun.get() {
            self.taken.borrow_mut().push(offer);
            return;
        }
        if self.taken_by.is_empty() {
            let user = &self.shared.user.name;
            info!(
                self.shared.log,
                "session of user {user} ends: it waits for its client, and another session of the user asks \
                 for a port or socket that it listens on"
            );
            cx.give_up();
        }
        self.taken_by.push(socket);
    }
}

impl Source for Offers {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        for (token, (_, listening)) in self.listening.iter().enumerate() {
            out.add(token, listening.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        for _ in 0..PER_TURN {
            let Some((offer, listening)) = self.listening.get(token) else { return };
            let Ok((socket, _)) = listening.accept() else { return };
            if is_own(&socket) && cx.is_away() {
                self.on_asked(offer.clone(), socket, cx);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.from
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        if self.from.is_some_and(|from| from <= cx.now()) {
            self.from = None;
            self.listen();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_found_by_address_and_by_file() {
        let one: SocketAddr = ([127, 0, 0, 1], 8080).into();
        assert_eq!(Offer::of_address(one), Offer::of_address(one));
        assert_ne!(Offer::of_address(one), Offer::of_address(([127, 0, 0, 2], 8080).into()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert_eq!(Offer::of_path(&path), None);
        let _file = UnixListener::bind(&path).unwrap();
        let relative = dir.path().join(".").join("socket");
        let offer = Offer::of_path(&path).unwrap();
        assert_eq!(Some(&offer), Offer::of_path(&relative).as_ref());
        assert!(offer.ask().is_none());
        let listening = offer.listen().unwrap();
        let asked = offer.ask().unwrap();
        assert!(is_own(&listening.accept().unwrap().0));
        drop((asked, listening));
        assert!(offer.ask().is_none());
    }
}
