//! Messages of the server for the channels of a client in proxy mode.

use std::rc::Rc;

use bytes::Bytes;
use lh_driver::{ChannelId, ControlCx};
use lh_wire::Message as _;
use lh_wire::msg::{self, Rest, open_failure};

use super::state::{Channel, MAX_CHANNELS, Relay, State, packet_size_for_peer};
use crate::mux::state::ProxyClient;

impl Relay {
    /// Offers a connection to its listener at the server to the client.
    pub(super) fn offer(&self, id: ChannelId, kind: &str, fields: &[u8], cx: &mut ControlCx<'_>) {
        if self.0.over.get() || self.0.state.borrow().channels.len() >= MAX_CHANNELS {
            return cx.refuse(id, open_failure::CONNECT_FAILED, "open failed");
        }
        let Some(asked) = cx.hand_over(id) else { return };
        let mut channel = Channel::new(None, Some(asked.remote_id));
        (channel.window, channel.max_packet) = (asked.window.into(), packet_size_for_peer(asked.max_packet));
        {
            let mut state = self.0.state.borrow_mut();
            state.channels.insert(id, channel);
            state.theirs.insert(asked.remote_id, id);
        }
        self.0.master.state.borrow_mut().relayed.insert(id, Rc::new(self.clone()));
        // The client's replies name the server's own channel number.
        let (server, window, max_packet) =
            (asked.remote_id, asked.window, packet_size_for_peer(asked.max_packet));
        let open = msg::ChannelOpen::new(kind.as_bytes(), server, window, max_packet, Rest(fields));
        self.to_client(open.to_payload().into());
    }
}

impl ProxyClient for Relay {
    fn on_server(&self, id: ChannelId, message: &Bytes, cx: &mut ControlCx<'_>) {
        let mut state = self.0.state.borrow_mut();
        let State { channels, theirs, .. } = &mut *state;
        let Some(channel) = channels.get_mut(&id) else { return };
        let (mut over, mut changed) = (false, None);
        match message.first().copied().unwrap_or(0) {
            msg::ChannelOpenConfirmation::NUMBER if channel.server.is_none() => {
                let Ok(accepted) = msg::ChannelOpenConfirmation::decode(message) else { return };
                channel.server = Some(accepted.sender);
                channel.window = accepted.window.into();
                channel.max_packet = packet_size_for_peer(accepted.max_packet);
                theirs.insert(accepted.sender, id);
                if channel.max_packet != accepted.max_packet {
                    let (max_packet, fields) = (channel.max_packet, accepted.fields);
                    let (sender, window) = (accepted.sender, accepted.window);
                    let passed =
                        msg::ChannelOpenConfirmation::new(id.number(), sender, window, max_packet, fields);
                    changed = Some(Bytes::from(passed.to_payload()));
                }
                if self.0.over.get() {
                    channel.close(cx);
                }
            }
            msg::ChannelOpenFailure::NUMBER => over = true,
            msg::ChannelWindowAdjust::NUMBER => {
                let adjust = msg::ChannelWindowAdjust::decode(message);
                channel.window += adjust.map_or(0, |adjust| u64::from(adjust.bytes));
            }
            msg::ChannelClose::NUMBER => {
                channel.closed_there = true;
                if self.0.over.get() {
                    channel.close(cx);
                }
                over = channel.closed_here;
            }
            _ => {}
        }
        let client = channel.client;
        drop(state);
        if let Some(client) = client {
            self.to_client_as(client, changed.as_ref().unwrap_or(message));
        }
        if over {
            self.free(id, cx);
        }
    }

    fn flush(&self) {
        match self.0.state.borrow_mut().out.flush(self.0.line.socket()) {
            Ok(stuck) => self.0.stuck.set(stuck),
            // The read side detects the client's end.
            Err(_) => {
                self.0.stuck.set(false);
                self.0.line.hang_up();
            }
        }
    }
}
