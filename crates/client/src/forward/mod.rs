//! Forwards of a client: local listeners (`-L`, `-D`), listeners at the server (`-R`), and standard input and
//! output as one end (`-W`).
//!
//! [`Forwards`] is a handle. The control of a connection passes events through it; the configuration, `~C`
//! and mux clients add and cancel forwards with it. A forwarded connection is an
//! [`FdPump`](lh_driver::FdPump), like session data: nothing is read from its socket before the other end has
//! connected, and never more than the budget allows.

mod channels;
mod local;
mod remote;
mod remote_socks;
pub mod socks;
mod socks_listener;
#[cfg(test)]
mod tests;
mod tunnel;
mod words;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;

use lh_config::client::ClientConfig;
use lh_config::forward::{Endpoint, Forward};
use lh_config::special::{ChannelTimeouts, PermitForward};
use lh_driver::{ControlCx, Family, HandlerId, ListenOn, Resolver, Target};

pub use tunnel::TunnelEnd;
pub use words::allocated;

use crate::log::Logger;
use crate::ui::LogLevel;

/// Called with the result of a forward: the port that it listens on (0 for a socket path), or the error.
pub type Done = Box<dyn FnOnce(Result<u16, String>, &mut ControlCx<'_>)>;

/// The configuration's general rules for forwards.
struct Rules {
    gateway_ports: bool,
    bind_mask: u32,
    bind_unlink: bool,
    exit_on_failure: bool,
    permit_remote_open: PermitForward,
    timeouts: ChannelTimeouts,
    family: Family,
}

/// All forwards of one connection. Clones share them.
#[derive(Clone)]
pub struct Forwards(Rc<Shared>);

struct Shared {
    rules: Rules,
    logger: Logger,
    resolver: Resolver,
    /// The configuration's forwards, with `%` and `${}` expanded: local listeners, and listeners at the
    /// server.
    configured: (Vec<Forward>, Vec<Forward>),
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    local: Vec<local::Listener>,
    remote: Vec<remote::Listener>,
    /// Requests to the server that await their replies, oldest first: id of the remote listener, and its
    /// callback.
    asked: VecDeque<(u64, Done)>,
    next: u64,
    /// Descriptions of the open channels, for `~#`.
    names: HashMap<HandlerId, channels::Name>,
    /// Number of configured forwards whose result is still open.
    pending: usize,
    /// Remote forwards are not waited for.
    relayed: bool,
    /// Number of local forwards that failed, and that work.
    local_failed: usize,
    local_works: usize,
    fatal: Option<String>,
}

impl Forwards {
    /// Takes the forwards from the configuration; [`start`](Self::start) sets them up.
    pub fn new(config: &ClientConfig, logger: Logger) -> Self {
        use lh_config::enums::AddressFamily;
        let configured = configured(config);
        let rules = Rules {
            gateway_ports: *config.gateway_ports,
            bind_mask: config.stream_local_bind_mask.0,
            bind_unlink: *config.stream_local_bind_unlink,
            exit_on_failure: *config.exit_on_forward_failure,
            permit_remote_open: config.permit_remote_open.value.clone(),
            timeouts: config.channel_timeout.value.clone(),
            family: match *config.address_family {
                AddressFamily::Any => Family::Any,
                AddressFamily::Inet => Family::Inet,
                AddressFamily::Inet6 => Family::Inet6,
            },
        };
        let shared =
            Shared { rules, logger, resolver: Resolver::new(), configured, state: RefCell::default() };
        Self(Rc::new(shared))
    }

    /// Sets up the configured forwards and logs each failure. With `ExitOnForwardFailure`, a failure stops
    /// the loop and [`fatal`](Self::fatal) returns the reason.
    ///
    /// `relayed`: the connection belongs to a mux master. Not every master passes the server's replies about
    /// listeners on (OpenSSH's does not), so they are not waited for.
    pub fn start(&self, relayed: bool, cx: &mut ControlCx<'_>) {
        let (local, remote) = &self.0.configured;
        let waited_for = local.len() + if relayed { 0 } else { remote.len() };
        {
            let mut state = self.0.state.borrow_mut();
            (state.pending, state.relayed) = (waited_for, relayed);
        }
        for forward in local {
            self.0.logger.debug(|| words::local(forward, self.0.rules.gateway_ports));
            let this = self.clone();
            let done: Done = Box::new(move |result, cx| this.local_started(result.is_ok(), cx));
            self.add_local(forward, cx, done);
        }
        for forward in remote {
            self.0.logger.debug(|| words::remote(forward));
            let (this, what) = (self.clone(), forward.clone());
            self.add_remote(forward, cx, Box::new(move |result, cx| this.remote_started(&what, result, cx)));
        }
    }

    fn local_started(&self, ok: bool, cx: &mut ControlCx<'_>) {
        const TEXT: &str = "Could not request local forwarding.";
        let mut state = self.0.state.borrow_mut();
        state.pending -= 1;
        *if ok { &mut state.local_works } else { &mut state.local_failed } += 1;
        if state.local_works + state.local_failed < self.0.configured.0.len() || state.local_failed == 0 {
            return;
        }
        if self.0.rules.exit_on_failure {
            state.fatal.get_or_insert_with(|| TEXT.to_owned());
            cx.stop(255);
        } else if state.local_works == 0 {
            self.0.logger.say(LogLevel::Error, TEXT);
        }
    }

    fn remote_started(&self, forward: &Forward, result: Result<u16, String>, cx: &mut ControlCx<'_>) {
        let mut state = self.0.state.borrow_mut();
        if !state.relayed {
            state.pending -= 1;
        }
        match result {
            Ok(port) => {
                if let Some(text) = allocated(forward, port) {
                    self.0.logger.say(LogLevel::Info, &text);
                }
            }
            Err(text) if self.0.rules.exit_on_failure => {
                state.fatal.get_or_insert_with(|| format!("Error: {text}"));
                cx.stop(255);
            }
            Err(text) => self.0.logger.say(LogLevel::Info, &format!("Warning: {text}")),
        }
    }

    /// True while the result of a configured forward is still open.
    pub fn pending(&self) -> bool {
        self.0.state.borrow().pending > 0
    }

    /// Why the program must end (`ExitOnForwardFailure`).
    pub fn fatal(&self) -> Option<String> {
        self.0.state.borrow().fatal.clone()
    }

    /// Addresses for a local listener (`-L`, `-D`; `GatewayPorts`).
    fn listen_on(&self, host: Option<&str>) -> ListenOn {
        match host {
            None if self.0.rules.gateway_ports => ListenOn::Everywhere,
            None | Some("localhost") => ListenOn::Loopback,
            Some("" | "*") => ListenOn::Everywhere,
            Some(host) => ListenOn::Host(host.to_owned()),
        }
    }
}

/// The forwards of a configuration: local ones, and those at the server. The configuration loader has
/// expanded their socket paths.
pub fn configured(config: &ClientConfig) -> (Vec<Forward>, Vec<Forward>) {
    if *config.clear_all_forwardings {
        return (Vec::new(), Vec::new());
    }
    let here = config.local_forward.0.iter().chain(&config.dynamic_forward.0);
    (here.cloned().collect(), config.remote_forward.0.clone())
}

/// The connect target of an endpoint.
pub fn target(endpoint: &Endpoint) -> Target {
    match endpoint {
        Endpoint::Tcp { host, port } => {
            Target::Tcp { host: host.clone().unwrap_or_else(|| "localhost".to_owned()), port: *port }
        }
        Endpoint::Unix(path) => Target::Unix(PathBuf::from(path)),
    }
}
