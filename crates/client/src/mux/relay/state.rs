//! State of a client in proxy mode: its channels, its listeners at the server, and the messages queued for
//! its socket.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use lh_config::forward::Forward;
use lh_driver::{ChannelId, ControlCx};
use lh_wire::Message as _;
use lh_wire::msg::{self, open_failure};
use lh_wire::peer::STOCK_CHANNEL_PACKET;

use crate::mux::frames::Queue;
use crate::mux::line::Line;
use crate::mux::state::Shared;

/// Largest number of channels of one client.
pub(super) const MAX_CHANNELS: usize = 4096;

/// State of a channel.
pub(super) struct Channel {
    /// The client's channel number, once known.
    pub(super) client: Option<u32>,
    /// The server's channel number, once known.
    pub(super) server: Option<u32>,
    /// Number of bytes that the server still accepts (in one packet: `max_packet`).
    pub(super) window: u64,
    pub(super) max_packet: u32,
    /// The client has sent EOF, or CLOSE.
    pub(super) eof: bool,
    pub(super) closed_here: bool,
    pub(super) closed_there: bool,
}

/// A client in proxy mode. Clones share it.
#[derive(Clone)]
pub(in crate::mux) struct Relay(pub(super) Rc<Client>);

pub(super) struct Client {
    pub(super) master: Rc<Shared>,
    pub(super) line: Line,
    pub(super) state: RefCell<State>,
    /// The client's socket buffer is full.
    pub(super) stuck: Cell<bool>,
    pub(super) over: Cell<bool>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) channels: HashMap<ChannelId, Channel>,
    /// Channels by the server's number.
    pub(super) theirs: HashMap<u32, ChannelId>,
    /// The client's remote forwards.
    pub(super) listening: Vec<Forward>,
    pub(super) out: Queue,
    /// Replies to global requests, in the order of the requests; `None` for those still awaited.
    pub(super) answers: VecDeque<Option<Vec<u8>>>,
    pub(super) answered: u64,
}

/// A client's violation of the protocol, which ends its connection.
pub(super) type Violation = &'static str;

/// Returns the packet size to announce to one end for the other.
pub(super) fn packet_size_for_peer(announced: u32) -> u32 {
    announced.min(STOCK_CHANNEL_PACKET)
}

impl Relay {
    /// Returns the client's channel with this number at the server.
    pub(super) fn by_server(
        &self,
        server: u32,
        is_it: impl Fn(&Channel) -> bool,
    ) -> Result<ChannelId, Violation> {
        let state = self.0.state.borrow();
        let id = state.theirs.get(&server).copied().ok_or("a message for a channel that it has not")?;
        state.channels.get(&id).filter(|channel| is_it(channel)).ok_or("a message out of turn")?;
        Ok(id)
    }

    pub(super) fn free(&self, id: ChannelId, cx: &mut ControlCx<'_>) {
        let mut state = self.0.state.borrow_mut();
        if let Some(server) = state.channels.remove(&id).and_then(|channel| channel.server) {
            state.theirs.remove(&server);
        }
        self.0.master.state.borrow_mut().relayed.remove(&id);
        cx.end_relay(id);
    }

    pub(super) fn to_client(&self, message: Bytes) {
        self.queue(|out| out.push(message));
    }

    /// Queues a message with the client's number for the channel.
    pub(super) fn to_client_as(&self, client: u32, message: &Bytes) {
        self.queue(|out| out.push_for(client, message));
    }

    fn queue(&self, push: impl FnOnce(&mut Queue)) {
        if self.0.over.get() {
            return;
        }
        let mut state = self.0.state.borrow_mut();
        if state.out.is_empty() {
            // Sent at the end of the turn, many in one call.
            self.0.master.state.borrow_mut().dirty.push(Rc::new(self.clone()));
        }
        push(&mut state.out);
    }

    /// Cleans up after a client that has gone.
    pub(super) fn end(&self, cx: &mut ControlCx<'_>) {
        if self.0.over.replace(true) {
            return;
        }
        self.0.master.state.borrow_mut().proxies -= 1;
        self.0.stuck.set(false);
        let listening = std::mem::take(&mut self.0.state.borrow_mut().listening);
        for forward in listening {
            self.0.master.forwards.cancel_remote(&forward, cx);
        }
        let mut free = Vec::new();
        {
            let mut state = self.0.state.borrow_mut();
            state.out = Queue::default();
            for (id, channel) in &mut state.channels {
                match (channel.client, channel.server) {
                    (None, Some(server)) => {
                        let reason = open_failure::CONNECT_FAILED;
                        let refused = msg::ChannelOpenFailure::new(server, reason, b"open failed", b"");
                        cx.send_message(&refused.to_payload());
                        free.push(*id);
                    }
                    (_, Some(_)) => {
                        channel.close(cx);
                        if channel.closed_there {
                            free.push(*id);
                        }
                    }
                    // Closed as soon as it opens.
                    (_, None) => {}
                }
            }
        }
        free.into_iter().for_each(|id| self.free(id, cx));
    }
}

impl Channel {
    pub(super) const fn new(client: Option<u32>, server: Option<u32>) -> Self {
        Self { client, server, window: 0, max_packet: 0, eof: false, closed_here: false, closed_there: false }
    }

    /// Sends CLOSE on the client's behalf, unless it was sent.
    pub(super) fn close(&mut self, cx: &mut ControlCx<'_>) {
        if let (Some(server), false) = (self.server, self.closed_here) {
            self.closed_here = true;
            cx.send_message(&msg::ChannelClose::new(server).to_payload());
        }
    }
}
