//! Late messages: messages for a channel whose CLOSE the peer has already sent.
//!
//! RFC 4254 section 5.3 ends a channel for a party once it has sent and received CLOSE. Peers that handle a
//! channel in several threads still send a credit, an answer, a request, an EOF or a second CLOSE behind
//! their CLOSE. Such a message changes nothing, so it is dropped: the other channels of the connection are
//! worth more than the rule. Three limits hold:
//! * Data is an error. Bytes for a closed channel are lost bytes, which must not stay unnoticed.
//! * The number must have been in use. A number that no channel has had is an error.
//! * Every closed channel permits [`PER_CHANNEL`] late messages, and at most [`LIMIT`] are permitted at a
//!   time.

use lh_wire::{Message as _, msg};

use crate::ConnectionError;

/// Late messages that one closed channel permits.
const PER_CHANNEL: u32 = 64;
/// Limit of late messages that are permitted at a time.
const LIMIT: u32 = 1024;

/// Budget of late messages that the peer may still send.
#[derive(Debug, Default)]
pub(crate) struct Late {
    left: u32,
}

impl Late {
    /// Records that a channel is closed on both sides.
    pub(crate) const fn on_closed(&mut self) {
        let left = self.left + PER_CHANNEL;
        self.left = if left < LIMIT { left } else { LIMIT };
    }

    /// Returns true if the message with this `number`, which caused `error`, is a late message that the peer
    /// may send. `numbers`: all channel numbers below this one have been in use. A new channel may have taken
    /// the number of the closed one, so messages for a channel that is being opened count too.
    pub(crate) fn permits(&mut self, number: u8, error: &ConnectionError, numbers: usize) -> bool {
        let channel = match error {
            ConnectionError::NoChannel { channel, .. } | ConnectionError::NotYetOpen { channel, .. } => {
                *channel
            }
            _ => return false,
        };
        let can_be_late = match number {
            msg::ChannelWindowAdjust::NUMBER => true,
            number => (msg::ChannelEof::NUMBER..=msg::ChannelFailure::NUMBER).contains(&number),
        };
        let permitted = can_be_late && (channel as usize) < numbers && self.left > 0;
        self.left -= u32::from(permitted);
        permitted
    }
}
