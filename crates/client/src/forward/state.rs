//! State that the forwards of one connection share: their rules, listeners and open channels.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use lh_config::client::ClientConfig;
use lh_config::forward::{Endpoint, Forward};
use lh_config::special::{ChannelTimeouts, PermitForward};
use lh_driver::{ChannelId, ControlCx, Family, HandlerId, LocalFd, Resolver, SourceId, Target};

use super::error::ForwardError;
use crate::log::Logger;

/// Called with the result of a forward: the port that it listens on (0 for a socket path), or the error.
pub type Done = Box<dyn FnOnce(Result<u16, ForwardError>, &mut ControlCx<'_>)>;

/// The configuration's general rules for forwards.
pub(super) struct Rules {
    pub(super) gateway_ports: bool,
    pub(super) bind_mask: u32,
    pub(super) bind_unlink: bool,
    pub(super) exit_on_failure: bool,
    pub(super) permit_remote_open: PermitForward,
    pub(super) timeouts: ChannelTimeouts,
    pub(super) family: Family,
    /// Whether the kernel probes forwarded connections too (`TCPKeepAlive all`).
    pub(super) probes: bool,
}

/// All forwards of one connection. Clones share them.
#[derive(Clone)]
pub struct Forwards(pub(super) Rc<Shared>);

pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) logger: Logger,
    pub(super) resolver: Resolver,
    /// The configuration's forwards, with `%` and `${}` expanded: local listeners, and listeners at the
    /// server.
    pub(super) configured: (Vec<Forward>, Vec<Forward>),
    pub(super) state: RefCell<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) local: Vec<LocalListener>,
    pub(super) remote: Vec<RemoteListener>,
    /// Requests to the server that await their replies, oldest first: id of the remote listener, and its
    /// callback.
    pub(super) asked: VecDeque<(u64, Done)>,
    pub(super) next: u64,
    /// Descriptions of the open channels, for `~#`.
    pub(super) names: HashMap<HandlerId, Name>,
    /// Number of configured forwards whose result is still open.
    pub(super) pending: usize,
    /// Replies about remote forwards are not awaited, because the connection belongs to a mux master.
    pub(super) relayed: bool,
    /// Number of local forwards that failed; `local_works` counts those that work.
    pub(super) local_failed: usize,
    pub(super) local_works: usize,
    pub(super) fatal: Option<String>,
}

/// A forward that listens on this host.
pub(super) struct LocalListener {
    pub(super) forward: Forward,
    pub(super) sources: Vec<SourceId>,
}

/// A forward that listens at the server.
pub(super) struct RemoteListener {
    pub(super) id: u64,
    pub(super) forward: Forward,
    /// The port that the server listens on, once it has replied.
    pub(super) port: u16,
    /// Handles its connections instead of this process.
    pub(super) taker: Option<ChannelAcceptor>,
}

/// Handles a channel that the server opens for a connection: its type and fields.
pub(crate) type ChannelAcceptor = Rc<dyn Fn(ChannelId, &str, &[u8], &mut ControlCx<'_>)>;

/// Type and description of an open channel.
pub(super) struct Name {
    pub(super) channel: ChannelId,
    pub(super) text: String,
}

impl Forwards {
    /// Takes the forwards from the configuration; [`start`](Self::start) sets them up.
    pub fn new(config: &ClientConfig, logger: Logger) -> Self {
        use lh_config::enums::TcpKeepAlive;
        let configured = configured(config);
        let rules = Rules {
            gateway_ports: *config.gateway_ports,
            bind_mask: config.stream_local_bind_mask.0,
            bind_unlink: *config.stream_local_bind_unlink,
            exit_on_failure: *config.exit_on_forward_failure,
            permit_remote_open: config.permit_remote_open.value.clone(),
            timeouts: config.channel_timeout.value.clone(),
            family: crate::resolve::family(*config.address_family),
            probes: *config.tcp_keep_alive == TcpKeepAlive::All,
        };
        let shared =
            Shared { rules, logger, resolver: Resolver::new(), configured, state: RefCell::default() };
        Self(Rc::new(shared))
    }

    /// Returns a forwarded connection's socket, ready for a channel. Enables keepalive probes where
    /// `TCPKeepAlive` asks for them.
    pub(super) fn forwarded(&self, socket: OwnedFd) -> io::Result<LocalFd> {
        if self.0.rules.probes {
            let _ = lh_sys::socket::set_keepalive(&socket, true);
        }
        LocalFd::owned(socket)
    }
}

/// Returns the forwards of a configuration: local ones, and those at the server. The configuration loader has
/// expanded their socket paths.
pub fn configured(config: &ClientConfig) -> (Vec<Forward>, Vec<Forward>) {
    if *config.clear_all_forwardings {
        return (Vec::new(), Vec::new());
    }
    let here = config.local_forward.0.iter().chain(&config.dynamic_forward.0);
    (here.cloned().collect(), config.remote_forward.0.clone())
}

/// Returns the connect target of an endpoint.
pub fn target(endpoint: &Endpoint) -> Target {
    match endpoint {
        Endpoint::Tcp { host, port } => {
            Target::Tcp { host: host.clone().unwrap_or_else(|| "localhost".to_owned()), port: *port }
        }
        Endpoint::Unix(path) => Target::Unix(PathBuf::from(path)),
    }
}
