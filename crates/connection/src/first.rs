//! The first channel that a client opens, where its server has promised what will become of it (`first-flight@longhaul`).
//!
//! With the promise a client need not wait for the confirmation to speak: it knows the number and a window to begin with. The server
//! keeps number 0 for this channel, and where it refuses it nobody else gets the number, because messages to it may be under way.

use bytes::Bytes;
use lh_wire::peer::STOCK_CHANNEL_PACKET;
use lh_wire::{Message as _, msg};

use crate::channel::{Channel, Phase, SendWindow};
use crate::{ChannelId, Connection, ConnectionError};

/// Whether the first channel is something special.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// No.
    Ordinary,
    /// At the server: number 0 waits for it, and so much window.
    Kept(u32),
    /// At the server: it has its number.
    Given(u32),
    /// At the client: it can be spoken on at once, with so many bytes of data.
    Promised(u32),
}

impl Connection {
    /// Server: keeps number 0 for the first channel the peer opens, and if that is refused, for nobody. Whatever windows are configured, it
    /// gets at least `window` bytes. Call before anything is opened.
    pub fn keep_first(&mut self, window: u32) {
        if self.channels.is_empty() {
            self.channels.push(None);
            self.first = First::Kept(window);
        }
    }

    /// Client: the peer has promised to give number 0 to the first channel that is opened, and to take `window` bytes on it.
    /// If that is a session, [`Event::Opened`](crate::Event::Opened) comes as soon as it is asked for;
    /// [`Event::OpenFailed`](crate::Event::OpenFailed) may still follow. Call before anything is opened.
    pub fn promise_first(&mut self, window: u32) {
        if self.channels.is_empty() {
            self.first = First::Promised(window);
        }
    }

    /// True while the channel is spoken on and not confirmed.
    pub fn is_promised(&self, id: ChannelId) -> bool {
        self.channels.get(id.0 as usize).and_then(Option::as_ref).is_some_and(|channel| channel.unconfirmed)
    }

    /// Server: the number that was kept, once.
    pub(crate) fn take_first(&mut self) -> Option<ChannelId> {
        let First::Kept(window) = self.first else { return None };
        self.first = First::Given(window);
        Some(ChannelId(0))
    }

    /// Server: the least window of this channel.
    pub(crate) fn least_window(&self, id: ChannelId) -> u32 {
        match self.first {
            First::Given(window) if id.0 == 0 => window,
            _ => 0,
        }
    }

    /// Client: somebody else opens channels too, so that nobody knows which will be the first.
    pub(crate) const fn forget_promise(&mut self) {
        if matches!(self.first, First::Promised(_)) {
            self.first = First::Ordinary;
        }
    }

    /// Client: what a channel of this `kind` may send before it is confirmed.
    pub(crate) fn take_promise(&mut self, kind: &str) -> Option<SendWindow> {
        let First::Promised(window) = self.first else { return None };
        self.first = First::Ordinary;
        let max_packet = STOCK_CHANNEL_PACKET as usize;
        (kind == "session").then_some(SendWindow { left: window.into(), max_packet, sent: 0, blocked: false })
    }

    /// Server: the number stays taken, and what still comes for it is dropped. True where that is so.
    pub(crate) fn retire_first(&mut self, id: ChannelId) -> bool {
        let kept = matches!(self.first, First::Given(_)) && id.0 == 0;
        if kept && let Some(channel) = self.get_mut(id) {
            channel.phase = Phase::Refused;
        }
        kept
    }

    /// Drops what was sent to the first channel before its refusal was known.
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

/// What the confirmation says of a channel that was spoken on before.
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
