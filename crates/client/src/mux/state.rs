//! State that a mux master's clients share: the connection's settings, and the sessions that run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use lh_driver::{ChannelId, ControlCx, HandlerId, SocketFile, SourceId};

use super::mux_session::MuxSession;
use crate::information::connection_information;
use crate::log::Logger;
use crate::ui::Permission;
use crate::{Forwards, X11Forward};

/// A client in proxy mode, as seen by the master.
pub(super) trait ProxyClient {
    /// Handles a server message about one of the client's channels.
    fn on_server(&self, id: ChannelId, message: &Bytes, cx: &mut ControlCx<'_>);
    /// Sends queued messages, as far as they fit.
    fn flush(&self);
}

pub(super) struct Shared {
    pub(super) forwards: Forwards,
    pub(super) logger: Logger,
    /// The host's name, for questions.
    pub(super) host: String,
    /// Asks the user before each request (`ControlMaster ask`).
    pub(super) permission: Option<Permission>,
    /// The channel request for agent forwarding, if the connection forwards the agent.
    pub(super) agent: Option<&'static str>,
    /// The forwarded display, if any.
    pub(super) x11: Option<X11Forward>,
    pub(super) state: RefCell<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// The listening socket's source, and its file while it is ours.
    pub(super) listener: Option<(SourceId, SocketFile)>,
    pub(super) sessions: HashMap<HandlerId, MuxSession>,
    pub(super) terminate: bool,
    /// A client has sent `-O stop`.
    pub(super) stopped: bool,
    /// Clients in proxy mode by their channels, and those with queued messages.
    pub(super) relayed: HashMap<ChannelId, Rc<dyn ProxyClient>>,
    pub(super) dirty: Vec<Rc<dyn ProxyClient>>,
    /// Number of clients in proxy mode.
    pub(super) proxies: usize,
}

impl Shared {
    /// Stops accepting clients. Removes the socket's file first, so that no client connects meanwhile.
    pub(super) fn stop_listening(&self, cx: &mut ControlCx<'_>) {
        let mut state = self.state.borrow_mut();
        state.stopped = true;
        if let Some((source, file)) = state.listener.take() {
            file.remove();
            cx.remove_source(source);
        }
    }

    /// Returns the lines about the connection or its channels.
    pub(super) fn information(&self, what: &str, cx: &mut ControlCx<'_>) -> Option<String> {
        let mut lines = match what {
            "connection" => connection_information(cx),
            "channels" => {
                let state = self.state.borrow();
                let mut all = self.forwards.describe();
                all.extend(state.sessions.values().map(|each| (each.channel(), "mux-session".to_owned())));
                all.extend(state.relayed.keys().map(|id| (*id, "mux-proxy".to_owned())));
                all.sort();
                let lines = all.into_iter().map(|(id, name)| format!("  #{id} {name}"));
                std::iter::once("The following connections are open:".to_owned()).chain(lines).collect()
            }
            _ => return None,
        };
        lines.push(String::new());
        Some(lines.join("\n"))
    }
}
