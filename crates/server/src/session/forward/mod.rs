//! Forwarding for a client: connections from the server (`direct-tcpip`, `direct-streamlocal@openssh.com`)
//! and listeners on it (`tcpip-forward`, `streamlocal-forward@openssh.com`); RFC 4254 section 7 and OpenSSH's
//! PROTOCOL.
//!
//! The user session process does everything with the user's rights. The kernel reserves ports below 1024 for
//! root, and the file system decides about socket paths. Name lookups and connects run outside the event
//! loop.

mod listeners;
mod offers;
mod permits;
mod replies;
mod requests;
mod taking;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use lh_config::enums::TcpKeepAlive;
use lh_driver::{
    Accepted, ChannelId, ChannelOptions, ControlCx, Family, FdPump, LocalFd, Resolver, SourceId, Target, dial,
};
use lh_sys::errno_text;
use lh_wire::msg::open_failure;

pub(super) use replies::Replies;

use super::shared::Shared;
use crate::log::{error, info};
use listeners::Listener;
use requests::{direct_streamlocal, direct_tcpip};

/// The forwards of one connection.
pub(super) struct Forwards {
    shared: Rc<Shared>,
    resolver: Resolver,
    family: Family,
    listeners: Vec<Listener>,
    /// Number of requested listeners whose names are being looked up, or whose ports another session has.
    pending: usize,
    /// While the session waits: its listeners are offered to other sessions of the user.
    offers: Option<SourceId>,
    /// The session waits: it has no connection.
    is_away: bool,
}

impl Forwards {
    pub(super) fn new(shared: Rc<Shared>) -> Self {
        use lh_config::enums::AddressFamily;
        let family = match shared.settings.address_family.value {
            AddressFamily::Any => Family::Any,
            AddressFamily::Inet => Family::Inet,
            AddressFamily::Inet6 => Family::Inet6,
        };
        Self {
            shared,
            resolver: Resolver::new(),
            family,
            listeners: Vec::new(),
            pending: 0,
            offers: None,
            is_away: false,
        }
    }

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
