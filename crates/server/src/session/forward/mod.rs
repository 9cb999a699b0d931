//! Forwarding for a client: connections from the server (`direct-tcpip`, `direct-streamlocal@openssh.com`)
//! and listeners on it (`tcpip-forward`, `streamlocal-forward@openssh.com`); RFC 4254 section 7 and OpenSSH's
//! PROTOCOL.
//!
//! The user session process does everything with the user's rights. The kernel reserves ports below 1024 for
//! root, and the file system decides about socket paths. Name lookups and connects run outside the event
//! loop.

mod permits;
mod replies;
mod requests;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use lh_config::enums::TcpKeepAlive;
use lh_driver::{
    Accepted, Bound, ChannelId, ChannelOptions, ControlCx, Family, FdPump, Listening, LocalFd, Resolver,
    SourceId, Target, UnixListener, dial, listen_tcp,
};
use lh_sys::errno_text;
use lh_wire::Writer;
use lh_wire::msg::open_failure;

pub(super) use replies::Replies;

use super::shared::Shared;
use crate::log::{error, info, verbose};
use requests::{Listen, direct_streamlocal, direct_tcpip};

/// Largest number of listeners per connection. Each may be several sockets.
const MAX_LISTENERS: usize = 256;

/// A listener that the client has requested.
struct Listener {
    what: Listen,
    /// The listener's port, where the client requested any free one.
    port: u16,
    sources: Vec<SourceId>,
}

/// The forwards of one connection.
pub(super) struct Forwards {
    shared: Rc<Shared>,
    resolver: Resolver,
    family: Family,
    listeners: Vec<Listener>,
    /// Number of requested listeners whose names are being looked up.
    looked_up: usize,
}

impl Forwards {
    pub(super) fn new(shared: Rc<Shared>) -> Self {
        use lh_config::enums::AddressFamily;
        let family = match shared.settings.address_family.value {
            AddressFamily::Any => Family::Any,
            AddressFamily::Inet => Family::Inet,
            AddressFamily::Inet6 => Family::Inet6,
        };
        Self { shared, resolver: Resolver::new(), family, listeners: Vec::new(), looked_up: 0 }
    }

    // ---- connections from here

    /// Opens a channel to a destination. Returns false when the channel type is not about forwarding.
    pub(super) fn open(&self, id: ChannelId, kind: &str, fields: &[u8], cx: &mut ControlCx<'_>) -> bool {
        match kind {
            "direct-tcpip" => match direct_tcpip(fields) {
                Ok((host, port)) => self.open_tcp(id, host, port, cx),
                Err(_) => cx.refuse(id, open_failure::CONNECT_FAILED, "malformed request"),
            },
            "direct-streamlocal@openssh.com" => match direct_streamlocal(fields) {
                Ok(path) => self.open_unix(id, path, cx),
                Err(_) => cx.refuse(id, open_failure::CONNECT_FAILED, "malformed request"),
            },
            _ => return false,
        }
        true
    }

    fn open_tcp(&self, id: ChannelId, host: String, port: u16, cx: &mut ControlCx<'_>) {
        if !permits::may_connect(&self.shared, &host, port) {
            let (ip, from) = (self.shared.client.peer.get().ip(), self.shared.client.peer.get().port());
            info!(
                self.shared.requests_log,
                "Received request from {ip} port {from} to connect to host {host} port {port}, but the request was denied."
            );
            return cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "open failed");
        }
        let target = Target::Tcp { host: host.clone(), port };
        self.connect(id, "direct-tcpip", format!("{host} port {port}"), &target, cx);
    }

    fn open_unix(&self, id: ChannelId, path: PathBuf, cx: &mut ControlCx<'_>) {
        if !permits::may_connect_unix(&self.shared) {
            info!(self.shared.requests_log, "refused streamlocal port forward: target {}", path.display());
            return cx.refuse(id, open_failure::ADMINISTRATIVELY_PROHIBITED, "open failed");
        }
        let name = path.display().to_string();
        self.connect(id, "direct-streamlocal@openssh.com", name, &Target::Unix(path), cx);
    }

    fn connect(
        &self,
        id: ChannelId,
        kind: &'static str,
        name: String,
        target: &Target,
        cx: &mut ControlCx<'_>,
    ) {
        let shared = Rc::clone(&self.shared);
        let limit = idle_limit(&shared, kind);
        dial(target, self.family, &self.resolver, cx, move |result, cx| {
            if let Ok(socket) = &result {
                keep_alive(&shared, socket);
            }
            match result.and_then(LocalFd::owned) {
                Ok(fd) => {
                    let pump = Box::new(FdPump::socket(fd).idle_limit(limit));
                    cx.accept(id, &ChannelOptions::default(), b"", pump);
                }
                Err(problem) => {
                    let words = errno_text(&problem);
                    error!(shared.requests_log, "connect_to {name}: failed: {words}");
                    cx.refuse(id, open_failure::CONNECT_FAILED, &words);
                }
            }
        });
    }

    // ---- listeners here

    /// Handles a global request. Returns false when it is not about forwarding. The answer goes to `replies`,
    /// now or later.
    pub(super) fn request(
        this: &Rc<std::cell::RefCell<Self>>,
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
            Listen::Unix(path) => {
                let answer = this.borrow_mut().listen_unix(path, cx).then(Vec::new);
                replies.answer(slot, answer, cx);
            }
            Listen::Tcp { host, port } => {
                let forwards = this.borrow();
                let on = permits::listen_on(&host, forwards.shared.settings.gateway_ports.value);
                let (family, resolver) = (forwards.family, forwards.resolver.clone());
                drop(forwards);
                let (this, count, replies) = (Rc::clone(this), Rc::clone(this), replies.clone());
                let finish = move |addresses: &[SocketAddr], cx: &mut ControlCx<'_>| {
                    let allocated = this.borrow_mut().listen_tcp(host, port, addresses, cx);
                    let answer = allocated.map(|allocated| {
                        let mut fields = Vec::new();
                        if port == 0 {
                            fields.put_u32(allocated.into());
                        }
                        fields
                    });
                    replies.answer(slot, answer, cx);
                };
                match on.addresses(port, family) {
                    Ok(mut addresses) => {
                        // The client may name an address of a family that `AddressFamily` excludes.
                        addresses.retain(|address| family.allows(address));
                        finish(&addresses, cx);
                    }
                    Err(name) => {
                        count.borrow_mut().looked_up += 1;
                        resolver.resolve(name, port, family, cx, move |answer, cx| {
                            count.borrow_mut().looked_up -= 1;
                            finish(&answer.unwrap_or_default(), cx);
                        });
                    }
                }
            }
        }
        true
    }

    /// Checks whether the client may listen there. `Err` is the text of the refusal.
    fn check(&self, what: &Listen, want_reply: bool) -> Result<(), &'static str> {
        let shared = &self.shared;
        if self.listeners.len() + self.looked_up >= MAX_LISTENERS {
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
                    let (ip, from) = (shared.client.peer.get().ip(), shared.client.peer.get().port());
                    info!(
                        shared.requests_log,
                        "Received request from {ip} port {from} to remote forward to host {host} port {port}, \
                         but the request was denied."
                    );
                    return Err("port forwarding refused");
                }
                Ok(())
            }
        }
    }

    /// Opens the listening sockets and returns the port.
    fn listen_tcp(
        &mut self,
        host: String,
        port: u16,
        addresses: &[SocketAddr],
        cx: &mut ControlCx<'_>,
    ) -> Option<u16> {
        let Bound { bound, failed } = listen_tcp(addresses);
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
        let mut sources = Vec::new();
        for (socket, at) in bound {
            info!(self.shared.requests_log, "Local forwarding listening on {} port {}.", at.ip(), at.port());
            let (shared, host) = (Rc::clone(&self.shared), host.clone());
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
        self.listeners.push(Listener { what: Listen::Tcp { host, port }, port: allocated, sources });
        Some(allocated)
    }

    fn listen_unix(&mut self, path: PathBuf, cx: &mut ControlCx<'_>) -> bool {
        let settings = &self.shared.settings;
        let mask = settings.stream_local_bind_mask.value.0;
        let unlink = settings.stream_local_bind_unlink.value;
        let listener = match UnixListener::bind(&path, mask, unlink) {
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
            use std::os::unix::ffi::OsStrExt;
            let mut fields = Vec::new();
            fields.put_string(name.as_os_str().as_bytes());
            fields.put_string(b"");
            forwarded(&shared, "forwarded-streamlocal@openssh.com", &fields, accepted, cx);
        };
        let sources = vec![cx.add_source(Box::new(Listening::unix(listener, accepted)))];
        self.listeners.push(Listener { what: Listen::Unix(path), port: 0, sources });
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
        for source in self.listeners.swap_remove(index).sources {
            cx.remove_source(source);
        }
        true
    }
}

/// Opens a channel to the client for a connection that a listener has accepted.
pub(super) fn forwarded(
    shared: &Rc<Shared>,
    kind: &'static str,
    fields: &[u8],
    accepted: Accepted,
    cx: &mut ControlCx<'_>,
) {
    let opened = accepted.and_then(|(socket, _)| open_towards_client(shared, kind, fields, socket, cx));
    if let Err(problem) = opened {
        error!(shared.requests_log, "accept: {}", errno_text(&problem));
    }
}

fn open_towards_client(
    shared: &Rc<Shared>,
    kind: &'static str,
    fields: &[u8],
    socket: OwnedFd,
    cx: &mut ControlCx<'_>,
) -> std::io::Result<()> {
    keep_alive(shared, &socket);
    let log = shared.requests_log.clone();
    let pump = FdPump::socket(LocalFd::owned(socket)?).idle_limit(idle_limit(shared, kind)).on_outcome(
        move |outcome, cx| {
            if let Err((_, text)) = outcome {
                info!(log, "channel {}: open failed: {text}", cx.id());
            }
        },
    );
    cx.open(kind, fields, &ChannelOptions::default(), Box::new(pump)).map_err(std::io::Error::other)?;
    Ok(())
}

/// `TCPKeepAlive all`: enables the kernel's keepalive on a forwarded connection too.
fn keep_alive(shared: &Shared, socket: &OwnedFd) {
    if shared.settings.tcp_keep_alive.value == TcpKeepAlive::All {
        let _ = lh_sys::socket::set_keepalive(socket, true);
    }
}

/// Returns the `ChannelTimeout` of a channel type.
pub(super) fn idle_limit(shared: &Shared, kind: &str) -> Option<Duration> {
    // Channel types with other names in `ChannelTimeout`.
    let kind = match kind {
        "x11" => "x11-connection",
        "tun@openssh.com" => "tun-connection",
        kind => kind,
    };
    shared.settings.channel_timeout.value.of(kind)
}
