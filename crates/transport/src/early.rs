//! Early data: messages of the connection protocol that a client queues before its user is authenticated.
//!
//! After a successful authentication request, the server processes the messages that follow it (RFC 4252
//! section 5.3). A client may therefore send them directly behind the request, without waiting for the
//! answer. If the request fails, the server drops them, and the client sends them again behind the next
//! request.

use lh_wire::PacketSink;

use crate::state::Early;
use crate::{Role, Transport};

impl Transport {
    /// Client: keeps messages of the connection protocol from now on, until
    /// [`release_early`](Self::release_early) or [`send_early`](Self::send_early) sends them. They must be
    /// few.
    pub fn keep_early(&mut self) {
        if self.config.role == Role::Client && !self.authenticated && !self.relayed {
            self.waiting.early.get_or_insert_default();
        }
    }

    /// Sends the kept messages behind a request that may authenticate the user. Call it only for servers that
    /// have announced support. With delayed compression it does nothing: the server could not tell where
    /// compression begins.
    pub fn send_early(&mut self) {
        let delayed = |names: &crate::Negotiated| names.compression_c2s.contains('@');
        if self.exchange.names.as_ref().is_none_or(delayed) {
            return;
        }
        let Some(mut early) = self.waiting.early.take() else { return };
        self.queue_unsent(&early);
        early.sent = early.payloads.len();
        self.waiting.early = Some(early);
    }

    /// Marks the [early data](Self::send_early) as unsent: the request before it failed, so the server
    /// dropped it.
    pub fn early_dropped(&mut self) {
        let Some(early) = &mut self.waiting.early else { return };
        if std::mem::take(&mut early.sent) > 0 {
            self.restart_retention();
        }
    }

    /// Sends the kept messages that were not sent before. Call it after authentication, when everything that
    /// must precede channels has happened.
    pub fn release_early(&mut self) {
        if let Some(early) = self.waiting.early.take() {
            self.queue_unsent(&early);
        }
    }

    /// Queues the unsent messages. `self.waiting.early` is empty meanwhile, so that they are not kept again.
    fn queue_unsent(&mut self, early: &Early) {
        early.payloads.iter().skip(early.sent).for_each(|payload| self.payload(payload));
    }
}
