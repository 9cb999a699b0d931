//! Channels that somebody else speaks for: a client of a shared connection who makes and reads their messages himself
//! (OpenSSH's PROTOCOL.mux, proxy mode).
//!
//! Here they only have a number, so that it is nobody else's, and the peer's messages to it are handed on unread. What they may
//! say, and when they are over, is the business of whoever relays.

use bytes::Bytes;
use lh_wire::{Message as _, msg};

use crate::channel::{Channel, Phase};
use crate::window::ReceiveWindow;
use crate::{ChannelId, Connection, Event, WindowPolicy};

/// What the peer said in the open of a channel that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOver {
    /// The peer's number.
    pub remote_id: u32,
    /// Bytes its window allows.
    pub window: u32,
    /// Largest data in one packet.
    pub max_packet: u32,
}

impl Connection {
    /// Takes a number for a channel that somebody else will open. Messages of the peer's to it become [`Event::Relayed`].
    /// `None` when all are in use.
    pub fn relay(&mut self) -> Option<ChannelId> {
        self.forget_promise();
        self.allocate(Channel::new(Phase::Relayed, ReceiveWindow::new(WindowPolicy::fixed(1), 1)))
    }

    /// Lets somebody else answer the peer's open. `None` when nothing was asked.
    pub fn hand_over(&mut self, id: ChannelId) -> Option<HandedOver> {
        let channel = self.get_mut(id).filter(|channel| channel.phase == Phase::Asked)?;
        channel.phase = Phase::Relayed;
        Some(HandedOver {
            remote_id: channel.remote_id,
            window: u32::try_from(channel.send.left).unwrap_or(u32::MAX),
            max_packet: u32::try_from(channel.send.max_packet).unwrap_or(u32::MAX),
        })
    }

    /// The number is free again. Nothing happens to channels that are not relayed.
    pub fn end_relay(&mut self, id: ChannelId) {
        if self.get_mut(id).is_some_and(|channel| channel.phase == Phase::Relayed) {
            self.free(id);
        }
    }

    /// Hands the message on if it is about a relayed channel.
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
