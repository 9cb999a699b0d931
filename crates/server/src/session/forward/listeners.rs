//! Listeners on the server for a client (`tcpip-forward`, `streamlocal-forward@openssh.com`).

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::rc::Rc;

use lh_driver::{Accepted, Bound, ControlCx, Listening, UnixListener, listen_tcp};
use lh_sys::errno_text;
use lh_wire::Writer as _;

use super::offers::{Offer, Offers};
use super::permits;
use super::replies::{Replies, Slot};
use super::requests::Listen;
use super::state::{Forwards, Listener};
use super::taking::Taking;
use super::towards_client::forwarded;
use crate::hosts::shown_endpoint;
use crate::log::{error, info, shown_name, verbose};

/// Largest number of listeners per connection. Each may be several sockets.
const MAX_LISTENERS: usize = 256;

impl Forwards {
    /// Handles a global request. Returns false when it is not about forwarding. The answer goes to `replies`,
    /// now or later.
    pub(crate) fn request(
        this: &Rc<RefCell<Self>>,
        name: &str,
        want_reply: bool,
        fields: &[u8],
        replies: &Replies,
        cx: &mut ControlCx<'_>,
    ) -> bool {
        let Some(parsed) = Listen::request(name, fields) else { return false };
        let slot = replies.expect(want_reply);
        let Ok((what, cancel)) = parsed else {
            replies.answer(slot, None, cx);
            return true;
        };
        if cancel {
            let answer = this.borrow_mut().cancel(&what, cx).then(Vec::new);
            replies.answer(slot, answer, cx);
            return true;
        }
        if let Err(text) = this.borrow().check(&what, want_reply) {
            cx.debug_message(false, text);
            replies.answer(slot, None, cx);
            return true;
        }
        match what {
            Listen::Unix(path) => Self::begin_unix(this, path, slot, replies, cx),
            Listen::Tcp { host, port } => {
                let forwards = this.borrow();
                let on = permits::listen_on(&host, forwards.shared.settings.gateway_ports.value);
                let (family, resolver) = (forwards.family, forwards.resolver.clone());
                drop(forwards);
                match on.addresses(port, family) {
                    Ok(mut addresses) => {
                        // The client may name an address of a family that `AddressFamily` excludes.
                        addresses.retain(|address| family.allows(address));
                        Self::begin_tcp(this, host, port, addresses, slot, replies, cx);
                    }
                    Err(name) => {
                        this.borrow_mut().pending += 1;
                        let (this, replies) = (Rc::clone(this), replies.clone());
                        resolver.resolve(name, port, family, cx, move |answer, cx| {
                            this.borrow_mut().pending -= 1;
                            let addresses = answer.unwrap_or_default();
                            Self::begin_tcp(&this, host, port, addresses, slot, &replies, cx);
                        });
                    }
                }
            }
        }
        true
    }

    /// Offers the listeners to other sessions of the user while the session has no connection ([`Offers`]).
    pub(crate) fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        self.give_up_taken(cx);
        if cx.is_away() {
            // A request that waited for another session may add a listener now.
            for listener in &mut self.listeners {
                if listener.offered.is_none() && !listener.offers.is_empty() {
                    let (shared, asked) = (Rc::clone(&self.shared), Rc::clone(&self.asked));
                    let offers = Offers::new(listener.offers.clone(), shared, asked, cx.now());
                    listener.offered = Some(cx.add_source(Box::new(offers)));
                }
            }
        } else {
            for source in self.listeners.iter_mut().filter_map(|listener| listener.offered.take()) {
                cx.remove_source(source);
            }
            for name in self.lost.drain(..) {
                cx.debug_message(true, &format!("another session listens on {name} now"));
            }
        }
    }

    /// Closes the listeners that other sessions have asked for.
    fn give_up_taken(&mut self, cx: &mut ControlCx<'_>) {
        let given = std::mem::take(&mut self.asked.borrow_mut().given);
        for (offer, _asked_by) in given {
            while let Some(index) =
                self.listeners.iter().position(|listener| listener.offers.contains(&offer))
            {
                let listener = self.listeners.swap_remove(index);
                let name = match &listener.what {
                    Listen::Tcp { .. } => format!("port {}", listener.port),
                    Listen::Unix(path) => path.display().to_string(),
                };
                let user = &self.shared.user.name;
                info!(
                    self.shared.log,
                    "session of user {user} waits for its client, and gives {name} to another session of the user"
                );
                self.lost.push(name);
                listener.close(cx);
            }
        }
    }

    /// Returns whether a session of the user may wait and have the port.
    fn may_be_offered(&self) -> bool {
        self.shared.settings.resume_grace.duration().is_some()
    }

    /// Checks whether the client may listen there. `Err` is the text of the refusal.
    fn check(&self, what: &Listen, want_reply: bool) -> Result<(), &'static str> {
        let shared = &self.shared;
        if self.listeners.len() + self.pending >= MAX_LISTENERS {
            return Err("too many listeners");
        }
        match what {
            Listen::Unix(_) => {
                if permits::may_listen_unix(shared) {
                    Ok(())
                } else {
                    Err("Server has disabled streamlocal forwarding.")
                }
            }
            Listen::Tcp { host, port } => {
                // Without a reply the client would not learn the chosen port.
                if !permits::may_forward_back(shared) || (*port == 0 && !want_reply) {
                    return Err("Server has disabled port forwarding.");
                }
                if !permits::may_listen(shared, host, *port) {
                    let peer = shared.client.peer.get();
                    let (from, host) = (shown_endpoint(peer), shown_name(host));
                    info!(
                        shared.requests_log,
                        "Received request from {from} to remote forward to host {host} port {port}, \
                         but the request was denied."
                    );
                    return Err("port forwarding refused");
                }
                Ok(())
            }
        }
    }

    fn begin_tcp(
        this: &Rc<RefCell<Self>>,
        host: String,
        port: u16,
        addresses: Vec<SocketAddr>,
        slot: Slot,
        replies: &Replies,
        cx: &mut ControlCx<'_>,
    ) {
        let answer = move |allocated: Option<u16>| {
            allocated.map(|allocated| {
                let mut fields = Vec::new();
                if port == 0 {
                    fields.put_u32(allocated.into());
                }
                fields
            })
        };
        let bound = listen_tcp(&addresses);
        let offers: Vec<_> = used(&bound).into_iter().flat_map(Offer::in_the_way_of).collect();
        let asked = if this.borrow().may_be_offered() { Taking::ask(&offers) } else { Vec::new() };
        if asked.is_empty() {
            let allocated = this.borrow_mut().listen_tcp(&host, port, bound, cx);
            return replies.answer(slot, answer(allocated), cx);
        }
        drop(bound);
        this.borrow_mut().pending += 1;
        let (this, replies) = (Rc::clone(this), replies.clone());
        Taking::begin(asked, cx, move |last, cx| {
            let bound = listen_tcp(&addresses);
            if !last && !used(&bound).is_empty() {
                return false;
            }
            this.borrow_mut().pending -= 1;
            let allocated = this.borrow_mut().listen_tcp(&host, port, bound, cx);
            replies.answer(slot, answer(allocated), cx);
            true
        });
    }

    /// Takes the listening sockets and returns the port.
    fn listen_tcp(&mut self, host: &str, port: u16, bound: Bound, cx: &mut ControlCx<'_>) -> Option<u16> {
        let Bound { bound, failed } = bound;
        for (address, problem) in &failed {
            let (ip, port, words) = (address.ip(), address.port(), errno_text(problem));
            if bound.is_empty() {
                error!(self.shared.requests_log, "bind [{ip}]:{port}: {words}");
            } else {
                verbose!(self.shared.requests_log, "bind [{ip}]:{port}: {words}");
            }
        }
        let Some(allocated) = bound.first().map(|(_, at)| at.port()) else {
            error!(self.shared.requests_log, "cannot listen to port: {port}");
            return None;
        };
        let offers = bound.iter().map(|(_, at)| Offer::of_address(*at)).collect();
        let mut sources = Vec::new();
        for (socket, at) in bound {
            info!(self.shared.requests_log, "Local forwarding listening on {} port {}.", at.ip(), at.port());
            let (shared, host) = (Rc::clone(&self.shared), host.to_owned());
            let accepted = move |accepted: Accepted, cx: &mut ControlCx<'_>| {
                let from = accepted.as_ref().ok().and_then(|(_, from)| *from);
                let mut fields = Vec::new();
                fields.put_string(host.as_bytes());
                fields.put_u32(allocated.into());
                fields.put_string(from.map_or_else(String::new, |from| from.ip().to_string()).as_bytes());
                fields.put_u32(from.map_or(0, |from| from.port().into()));
                forwarded(&shared, "forwarded-tcpip", &fields, accepted, cx);
            };
            sources.push(cx.add_source(Box::new(Listening::tcp(socket, accepted))));
        }
        let what = Listen::Tcp { host: host.to_owned(), port };
        self.listeners.push(Listener { what, port: allocated, sources, offers, offered: None });
        Some(allocated)
    }

    fn begin_unix(
        this: &Rc<RefCell<Self>>,
        path: PathBuf,
        slot: Slot,
        replies: &Replies,
        cx: &mut ControlCx<'_>,
    ) {
        let bound = this.borrow().bind_unix(&path);
        let offer = Offer::of_path(&path).filter(|_| is_used(&bound) && this.borrow().may_be_offered());
        let asked = Taking::ask(offer.as_slice());
        if asked.is_empty() {
            let answer = this.borrow_mut().listen_unix(path, bound, cx).then(Vec::new);
            return replies.answer(slot, answer, cx);
        }
        this.borrow_mut().pending += 1;
        let (this, replies) = (Rc::clone(this), replies.clone());
        Taking::begin(asked, cx, move |last, cx| {
            let bound = this.borrow().bind_unix(&path);
            if !last && is_used(&bound) {
                return false;
            }
            this.borrow_mut().pending -= 1;
            let answer = this.borrow_mut().listen_unix(path.clone(), bound, cx).then(Vec::new);
            replies.answer(slot, answer, cx);
            true
        });
    }

    fn bind_unix(&self, path: &std::path::Path) -> io::Result<UnixListener> {
        let settings = &self.shared.settings;
        let mask = settings.stream_local_bind_mask.value.0;
        UnixListener::bind(path, mask, settings.stream_local_bind_unlink.value)
    }

    fn listen_unix(
        &mut self,
        path: PathBuf,
        bound: io::Result<UnixListener>,
        cx: &mut ControlCx<'_>,
    ) -> bool {
        let listener = match bound {
            Ok(listener) => listener,
            Err(problem) => {
                let words = errno_text(&problem);
                error!(
                    self.shared.requests_log,
                    "unix_listener: cannot bind to path {}: {words}",
                    path.display()
                );
                return false;
            }
        };
        info!(self.shared.requests_log, "Local forwarding listening on path {}.", path.display());
        let (shared, name) = (Rc::clone(&self.shared), path.clone());
        let accepted = move |accepted: Accepted, cx: &mut ControlCx<'_>| {
            let mut fields = Vec::new();
            fields.put_string(name.as_os_str().as_bytes());
            fields.put_string(b"");
            forwarded(&shared, "forwarded-streamlocal@openssh.com", &fields, accepted, cx);
        };
        let offers = Offer::of_path(&path).into_iter().collect();
        let sources = vec![cx.add_source(Box::new(Listening::unix(listener, accepted)))];
        let what = Listen::Unix(path);
        self.listeners.push(Listener { what, port: 0, sources, offers, offered: None });
        true
    }

    fn cancel(&mut self, what: &Listen, cx: &mut ControlCx<'_>) -> bool {
        let is_it = |listener: &Listener| match (&listener.what, what) {
            (Listen::Unix(listening), Listen::Unix(asked)) => listening == asked,
            // Matches the requested port or the assigned one.
            (Listen::Tcp { host, .. }, Listen::Tcp { host: asked, port }) => {
                host == asked && listener.port == *port
            }
            _ => false,
        };
        let Some(index) = self.listeners.iter().position(is_it) else { return false };
        self.listeners.swap_remove(index).close(cx);
        true
    }
}

/// Returns the addresses that could not be bound because something listens there.
fn used(bound: &Bound) -> Vec<SocketAddr> {
    let is_used = |problem: &io::Error| problem.kind() == io::ErrorKind::AddrInUse;
    bound.failed.iter().filter(|(_, problem)| is_used(problem)).map(|(address, _)| *address).collect()
}

/// Returns whether the path could not be bound because a file is there.
fn is_used(bound: &io::Result<UnixListener>) -> bool {
    bound.as_ref().is_err_and(|problem| problem.kind() == io::ErrorKind::AddrInUse)
}
