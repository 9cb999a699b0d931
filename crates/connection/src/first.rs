//! The client's first channel, if the server has promised how it will be opened (`first-flight@longhaul`).
//!
//! With the promise, a client can use the channel before its confirmation: it knows the channel number and
//! the initial window. The server reserves number 0 for this channel. If it refuses the channel, the number
//! stays reserved, because messages to it may be in flight.

use bytes::Bytes;
use lh_wire::peer::STOCK_CHANNEL_PACKET;
use lh_wire::{Message as _, msg};

use crate::channel::{Channel, First, Phase, SendWindow};
use crate::{ChannelId, Connection, ConnectionError};

impl Connection {
    /// Server: reserves number 0 for the first channel that the peer opens; if that is refused, the number
    /// stays unused. The channel gets a window of at least `window` bytes, regardless of the configuration.
    /// Call it before any channel is opened.
    pub fn keep_first(&mut self, window: u32) {
        if self.channels.is_empty() {
            self.channels.push(None);
            self.first = First::Kept(window);
        }
    }

    /// Client: records that the peer promised number 0 to the first channel that is opened, and a window of
    /// `window` bytes. If that channel is a session, [`Event::Opened`](crate::Event::Opened) follows at once;
    /// [`Event::OpenFailed`](crate::Event::OpenFailed) may still follow later. Call it before any channel is
    /// opened.
    pub fn promise_first(&mut self, window: u32) {
        if self.channels.is_empty() {
            self.first = First::Promised(window);
        }
    }

    /// Returns true while the channel is used but not confirmed.
    pub fn is_promised(&self, id: ChannelId) -> bool {
        self.channels.get(id.0 as usize).and_then(Option::as_ref).is_some_and(|channel| channel.unconfirmed)
    }

    /// Allocates the number that is reserved for the peer's first channel, else like
    /// [`allocate`](Self::allocate).
    pub(crate) fn allocate_for_peer(&mut self, channel: Channel) -> Option<ChannelId> {
        let Some(id) = self.take_first() else { return self.allocate(channel) };
        self.count += 1;
        *self.channels.get_mut(id.0 as usize)? = Some(channel);
        Some(id)
    }

    /// Server: returns the reserved number, once.
    fn take_first(&mut self) -> Option<ChannelId> {
        let First::Kept(window) = self.first else { return None };
        self.first = First::Given(window);
        Some(ChannelId(0))
    }

    /// Server: returns the minimum window of this channel, bytes.
    pub(crate) fn least_window(&self, id: ChannelId) -> u32 {
        match self.first {
            First::Given(window) if id.0 == 0 => window,
            _ => 0,
        }
    }

    /// Client: drops the promise, because a mux client opens channels too, and the order of opens is unknown.
    pub(crate) const fn forget_promise(&mut self) {
        if matches!(self.first, First::Promised(_)) {
            self.first = First::Ordinary;
        }
    }

    /// Client: returns the send window of a channel of this `kind` before it is confirmed.
    pub(crate) fn take_promise(&mut self, kind: &str) -> Option<SendWindow> {
        let First::Promised(window) = self.first else { return None };
        self.first = First::Ordinary;
        let max_packet = STOCK_CHANNEL_PACKET as usize;
        (kind == "session").then_some(SendWindow { left: window.into(), max_packet, sent: 0, blocked: false })
    }

    /// Server: keeps the number of the refused first channel in use, so that messages to it are dropped.
    /// Returns true if it applies.
    pub(crate) fn retire_first(&mut self, id: ChannelId) -> bool {
        let kept = matches!(self.first, First::Given(_)) && id.0 == 0;
        if kept && let Some(channel) = self.get_mut(id) {
            channel.phase = Phase::Refused;
        }
        kept
    }

    /// Returns true for messages that were sent to the first channel before its refusal was known; they are
    /// dropped.
    pub(crate) fn refused(&mut self, payload: &Bytes) -> bool {
        if !matches!(self.first, First::Given(_)) {
            return false;
        }
        let Some((number, rest)) = payload.split_first() else { return false };
        (msg::ChannelWindowAdjust::NUMBER..=msg::ChannelFailure::NUMBER).contains(number)
            && rest.first_chunk() == Some(&[0; 4])
            && self.get_mut(ChannelId(0)).is_some_and(|channel| channel.phase == Phase::Refused)
    }
}

/// Applies the confirmation to a channel that was used before it arrived.
pub(crate) fn confirm(
    channel: &mut Channel,
    id: ChannelId,
    sender: u32,
    granted: SendWindow,
) -> Result<(), ConnectionError> {
    let sent = channel.send.sent;
    let Some(left) = granted.left.checked_sub(sent).filter(|_| sender == 0) else {
        let (message, when) = ("open confirmation", "that breaks the promise of the first channel");
        return Err(ConnectionError::Unexpected { channel: id.0, message, when });
    };
    channel.unconfirmed = false;
    let blocked = channel.send.blocked;
    channel.send = SendWindow { left, sent, blocked, ..granted };
    Ok(())
}
