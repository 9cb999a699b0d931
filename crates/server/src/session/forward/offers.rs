//! Ports and sockets of a session that waits for its client: another session of the same user gets them.
//!
//! A tunnel that was killed and is started again asks for the port that its old session still has. While a
//! session waits, it listens at an abstract Unix address for each of its listeners. When another process of
//! its user connects there, a session that is nothing but a tunnel (`-N`) ends. One that has run a program
//! goes on without that listener, and gives it only after a pause: its client may be about to come back. Then
//! the process that asked sees the end of its connection. Nothing is offered while there is a connection.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{self, UnixListener, UnixStream};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_driver::{ControlCx, Interest, Interests, Ready, Source};
use lh_sys::unix_sockets::AbstractNames;

use super::tcp_table;
use crate::log::{debug, info};
use crate::session::shared::Shared;

/// Connections accepted in one turn of the loop. Other users' processes may connect as well.
const PER_TURN: usize = 16;

/// Time for which the client of a session with programs is waited for before its listeners are given.
const PAUSE: Duration = Duration::from_secs(2);

/// Largest number of sessions that are asked for a port at every address. Any user may bind names like ours.
const MAX_OFFERS: usize = 256;

/// The name under which a session of this process's user offers a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer(String);

impl Offer {
    /// The offer of a listener at this address.
    pub(super) fn of_address(address: SocketAddr) -> Self {
        Self::named(&format!("tcp-{address}"))
    }

    /// Offers that conflict with a listener at `address`: the same address and the unspecified one; for the
    /// unspecified address, every address of its family. None where another user's listener conflicts with
    /// the unspecified address as well: no session of this user can make way then.
    pub(super) fn in_the_way_of(address: SocketAddr) -> Vec<Self> {
        let everywhere: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let at_everywhere = Self::of_address(SocketAddr::new(everywhere, address.port()));
        if address.ip() != everywhere {
            return vec![Self::of_address(address), at_everywhere];
        }
        // Without the table, for instance in a chroot, the offers at single addresses are not found.
        let mut offers =
            AbstractNames::read().map_or_else(|_| Vec::new(), |names| Self::of_port(&names, address));
        if !offers.is_empty() && tcp_table::has_other_users_listener(address, own_uid()) {
            return Vec::new();
        }
        offers.retain(|offer| *offer != at_everywhere);
        offers.push(at_everywhere);
        offers
    }

    /// Returns the offers among `names` that are for the port of `address`, in its family. At most
    /// [`MAX_OFFERS`].
    fn of_port(names: &AbstractNames, address: SocketAddr) -> Vec<Self> {
        let prefix = Self::named("tcp-").0;
        let of_name = |name: &str| {
            let offered: SocketAddr = name.strip_prefix(&prefix)?.parse().ok()?;
            let matches = offered.port() == address.port() && offered.is_ipv4() == address.is_ipv4();
            matches.then(|| Self::of_address(offered))
        };
        let mut offers: Vec<Self> = Vec::new();
        for offer in names.iter().filter_map(of_name) {
            // Connections that were accepted have the address of their listener.
            if !offers.contains(&offer) {
                offers.push(offer);
            }
            if offers.len() == MAX_OFFERS {
                break;
            }
        }
        offers
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

    /// Asks the session that offers the listener for it; `None` if no session does. The socket is closed when
    /// that session has given the listener, or will not.
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

/// Returns whether the process at the other end keeps its connection open. Neither end ever sends anything.
pub(super) fn is_open(mut socket: &UnixStream) -> bool {
    socket.set_nonblocking(true).is_ok()
        && socket.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// The offers of one listener of a waiting session, one for each of its addresses. See the module
/// documentation.
pub(super) struct Offers {
    shared: Rc<Shared>,
    /// The time from which the listener is given, while that is in the future.
    from: Option<Instant>,
    listening: Vec<(Offer, UnixListener)>,
    asked: Rc<RefCell<Asked>>,
}

/// What other sessions have asked a waiting session for.
#[derive(Default)]
pub(super) struct Asked {
    /// Offers whose listeners the session gives up, and the connections of those that asked: to be closed
    /// after the listeners.
    pub(super) given: Vec<(Offer, UnixStream)>,
    /// The session ends for these connections. They are closed with this process's end.
    ends_for: Vec<UnixStream>,
}

impl Offers {
    /// Begins to offer a listener. Sessions that ask at once may have to wait ([`PAUSE`]).
    pub(super) fn new(
        offers: Vec<Offer>,
        shared: Rc<Shared>,
        asked: Rc<RefCell<Asked>>,
        now: Instant,
    ) -> Self {
        let from = shared.programs.has_begun.get().then(|| now + PAUSE);
        let mut listening = Vec::new();
        for offer in offers {
            match offer.listen() {
                Ok(socket) => listening.push((offer, socket)),
                Err(problem) => {
                    debug!(shared.log, "{} is not offered to other sessions: {problem}", offer.0);
                }
            }
        }
        Self { shared, from, listening, asked }
    }

    /// Another session of the user asks for the listener of `offer`.
    fn on_asked(&self, offer: Offer, socket: UnixStream, cx: &mut ControlCx<'_>) {
        let mut asked = self.asked.borrow_mut();
        if self.shared.programs.has_begun.get() {
            asked.given.push((offer, socket));
            return;
        }
        if asked.ends_for.is_empty() {
            let user = &self.shared.user.name;
            info!(
                self.shared.log,
                "session of user {user} ends: it waits for its client, and another session of the user asks \
                 for a port or socket that it listens on"
            );
            cx.give_up();
        }
        asked.ends_for.push(socket);
    }
}

impl Source for Offers {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if self.from.is_some() {
            return;
        }
        for (token, (_, listening)) in self.listening.iter().enumerate() {
            out.add(token, listening.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        for _ in 0..PER_TURN {
            let Some((offer, listening)) = self.listening.get(token) else { return };
            let Ok((socket, _)) = listening.accept() else { return };
            // The session that asked may have ended before the pause did.
            if is_own(&socket) && cx.is_away() && is_open(&socket) {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_at_other_addresses_are_in_the_way() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let offers = |texts: &[&str]| -> Vec<_> {
            texts.iter().map(|text| Offer::of_address(address(text))).collect()
        };
        assert_eq!(
            Offer::in_the_way_of(address("127.0.0.1:8080")),
            offers(&["127.0.0.1:8080", "0.0.0.0:8080"])
        );
        assert_eq!(Offer::in_the_way_of(address("[::1]:8080")), offers(&["[::1]:8080", "[::]:8080"]));
        let uid = own_uid();
        let line = |name: &str| format!("0000000000000000: 00000002 00000000 00010000 0001 01 11 {name}\n");
        let table: String = [
            format!("@lhsshd-forward-{uid}-tcp-127.0.0.1:8080"),
            format!("@lhsshd-forward-{uid}-tcp-127.0.0.1:8080"),
            format!("@lhsshd-forward-{uid}-tcp-192.0.2.7:8080"),
            format!("@lhsshd-forward-{uid}-tcp-127.0.0.1:8081"),
            format!("@lhsshd-forward-{uid}-tcp-[::1]:8080"),
            format!("@lhsshd-forward-{}-tcp-127.0.0.9:8080", uid + 1),
            format!("lhsshd-forward-{uid}-tcp-127.0.0.2:8080"),
            format!("@lhsshd-forward-{uid}-tcp-nonsense"),
        ]
        .iter()
        .map(|name| line(name))
        .collect();
        let found = |at: &str| Offer::of_port(&AbstractNames::of_table(table.as_bytes()), address(at));
        assert_eq!(found("0.0.0.0:8080"), offers(&["127.0.0.1:8080", "192.0.2.7:8080"]));
        assert_eq!(found("[::]:8080"), offers(&["[::1]:8080"]));
        let names = (0..2000).map(|n| format!("@lhsshd-forward-{uid}-tcp-10.1.{}.{}:8080", n / 250, n % 250));
        let table: String = names.map(|name| line(&name)).collect();
        let found = Offer::of_port(&AbstractNames::of_table(table.as_bytes()), address("0.0.0.0:8080"));
        assert_eq!(found.len(), MAX_OFFERS);
    }

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
        let accepted = listening.accept().unwrap().0;
        assert!(is_own(&accepted) && is_open(&accepted) && is_open(&asked));
        crate::testing::close(&asked);
        assert!(is_own(&accepted) && !is_open(&accepted));
        drop(listening);
        crate::testing::wait_until(|| offer.ask().is_none());
    }
}
