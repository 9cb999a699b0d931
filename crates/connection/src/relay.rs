//! Relayed channels: a mux client exchanges their messages itself (OpenSSH's PROTOCOL.mux, proxy mode).
//!
//! The connection only reserves their numbers and passes the peer's messages on without decoding them. The
//! relaying code decides which messages are permitted and when the channel ends.

use bytes::Bytes;
use lh_wire::{Message as _, msg};

use crate::channel::{Channel, Phase};
use crate::window::ReceiveWindow;
use crate::{ChannelId, Connection, Event, WindowPolicy};

/// The peer's parameters from the open of a channel that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOver {
    /// The peer's number for the channel.
    pub remote_id: u32,
    /// Bytes that the peer's window permits.
    pub window: u32,
    /// Largest data in one packet, bytes.
    pub max_packet: u32,
}

impl Connection {
    /// Reserves a number for a channel that a mux client will open. Messages of the peer to it become
    /// [`Event::Relayed`]. Returns `None` when all numbers are in use.
    pub fn relay(&mut self) -> Option<ChannelId> {
        self.forget_promise();
        self.allocate(Channel::new(Phase::Relayed, ReceiveWindow::new(WindowPolicy::fixed(1), 1)))
    }

    /// Lets a mux client answer the peer's open. Returns `None` when no request is pending.
    pub fn hand_over(&mut self, id: ChannelId) -> Option<HandedOver> {
        let channel = self.get_mut(id).filter(|channel| channel.phase == Phase::Asked)?;
        channel.phase = Phase::Relayed;
        Some(HandedOver {
            remote_id: channel.remote_id,
            window: u32::try_from(channel.send.left).unwrap_or(u32::MAX),
            max_packet: u32::try_from(channel.send.max_packet).unwrap_or(u32::MAX),
        })
    }

    /// Frees the number. Channels that are not relayed are unaffected.
    pub fn end_relay(&mut self, id: ChannelId) {
        if self.get_mut(id).is_some_and(|channel| channel.phase == Phase::Relayed) {
            self.free(id);
            self.late.on_closed();
        }
    }

    /// Passes the message on, and returns true, if its channel is relayed.
    pub(crate) fn relayed(&mut self, payload: &Bytes) -> bool {
        let Some((number, rest)) = payload.split_first() else { return false };
        if !(msg::ChannelOpenConfirmation::NUMBER..=msg::ChannelFailure::NUMBER).contains(number) {
            return false;
        }
        let Some(recipient) = rest.first_chunk().map(|bytes| ChannelId(u32::from_be_bytes(*bytes))) else {
            return false;
        };
        if !self.get_mut(recipient).is_some_and(|channel| channel.phase == Phase::Relayed) {
            return false;
        }
        self.events.push_back(Event::Relayed { id: recipient, message: payload.clone() });
        true
    }
}
