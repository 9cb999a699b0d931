//! The transport as the destination of the packets of the layers above.

use lh_wire::msg::Unimplemented;
use lh_wire::{Message as _, PacketSink, Slices};

use crate::state::CONNECTION;
use crate::{Transport, TransportError};

/// Limit of messages that a key exchange may hold back, bytes. Producers of bulk data wait for its end. The
/// rest are answers to a peer that continues to send messages instead of exchanging keys; exceeding the limit
/// ends the connection.
const MAX_HELD: usize = 64 << 20;

/// Limit of held messages before authentication, when few are legitimate, bytes.
const MAX_HELD_UNAUTHENTICATED: usize = 1 << 20;

/// Limit of unwritten answers to a peer's PINGs (and of UNIMPLEMENTED), bytes. It stops a peer that makes us
/// answer and does not read the answers.
const MAX_REPLIES: usize = 1024 * 1024;

impl PacketSink for Transport {
    fn payload(&mut self, payload: &[u8]) {
        match payload.first() {
            None => {}
            Some(&number) if self.keeps_after_break(number) => self.hold_bounded(payload),
            Some(_) if !self.is_open() => {}
            Some(number) if self.relayed && !CONNECTION.contains(number) => {}
            Some(&number) if self.waiting.keep_early(number, payload) => {}
            Some(&number) if self.must_hold(number) => {
                self.hold_bounded(payload);
            }
            Some(_) => {
                self.transmit(payload, self.compression.sending);
                self.check_retained();
                self.rekey_if_due();
            }
        }
    }

    fn reserve(&mut self, sizes: &[usize]) {
        self.waiting.aside.clear();
        let direct = self.waiting.early.is_none()
            && self.can_send_now()
            && !self.compression.deflater.when.applies(self.compression.sending);
        if direct && sizes.iter().all(|&size| self.can_send_message(size)) {
            self.send.reserve(sizes);
        } else {
            // The payloads are compressed, kept, held back or dropped, so they need separate memory first.
            PacketSink::reserve(&mut self.waiting.aside, sizes);
        }
    }

    fn reserved(&mut self, packets: usize) -> Slices<'_> {
        if self.waiting.aside.is_empty() {
            self.send.reserved()
        } else {
            self.waiting.aside.reserved(packets)
        }
    }

    fn commit(&mut self, used: &[usize]) {
        if self.waiting.aside.is_empty() {
            self.send.commit(used);
            self.check_retained();
            self.rekey_if_due();
        } else {
            let mut aside = std::mem::take(&mut self.waiting.aside);
            aside.commit(used);
            for payload in aside {
                self.payload(&payload);
            }
        }
    }
}

impl Transport {
    /// Holds a message back; too many end the connection.
    fn hold_bounded(&mut self, payload: &[u8]) {
        let most = if self.authenticated { MAX_HELD } else { MAX_HELD_UNAUTHENTICATED };
        if self.waiting.held_bytes + payload.len() > most {
            return self.fail(&TransportError::TooMany("messages that need an answer"));
        }
        self.hold(payload.to_vec());
    }

    /// Answers the packet that [`poll`](Self::poll) returned last with SSH_MSG_UNIMPLEMENTED (RFC 4253
    /// section 11.4).
    pub fn reply_unimplemented(&mut self) {
        self.reply(&Unimplemented::new(self.totals.last_seq).to_payload());
    }

    /// Sends an answer that the peer can request any number of times.
    pub(crate) fn reply(&mut self, payload: &[u8]) {
        self.waiting.replies += payload.len() + 32;
        self.payload(payload);
    }

    /// Returns true when the peer makes us answer and does not read the answers.
    pub(crate) const fn too_many_replies(&self) -> bool {
        self.waiting.replies > MAX_REPLIES
    }
}
