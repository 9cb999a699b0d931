//! Channels to the client for connections that were accepted here, and what connections of both directions
//! share.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use lh_config::enums::TcpKeepAlive;
use lh_driver::{Accepted, ChannelOptions, ControlCx, FdPump, LocalFd};
use lh_sys::errno_text;

use crate::log::{error, info};
use crate::session::shared::Shared;

/// Opens a channel to the client for a connection that a listener has accepted.
pub(crate) fn forwarded(
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
pub(super) fn keep_alive(shared: &Shared, socket: &OwnedFd) {
    if shared.settings.tcp_keep_alive.value == TcpKeepAlive::All {
        let _ = lh_sys::socket::set_keepalive(socket, true);
    }
}

/// Returns the `ChannelTimeout` of a channel type.
pub(crate) fn idle_limit(shared: &Shared, kind: &str) -> Option<Duration> {
    // Channel types with other names in `ChannelTimeout`.
    let kind = match kind {
        "x11" => "x11-connection",
        "tun@openssh.com" => "tun-connection",
        kind => kind,
    };
    shared.settings.channel_timeout.value.of(kind)
}
