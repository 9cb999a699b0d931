//! A client's messages of the connection protocol before its user is in.
//!
//! RFC 4252 section 5.3 passes on what follows the request that succeeds, so they may stand behind it without waiting for the
//! answer. If it does not succeed they are as good as never sent, and stand behind the next one.

use lh_wire::PacketSink;

use crate::{Role, Transport};

/// What is to be said on channels when the user is in.
#[derive(Debug, Default)]
pub(crate) struct Early {
    payloads: Vec<Vec<u8>>,
    /// So many of them stand behind the last request.
    sent: usize,
}

impl Transport {
    /// Client: from now on messages of the connection protocol are kept until [`release_early`](Self::release_early), or
    /// sent before that by [`send_early`](Self::send_early). They must be few.
    pub fn keep_early(&mut self) {
        if self.config.role == Role::Client && !self.authenticated && !self.relayed {
            self.early.get_or_insert_default();
        }
    }

    /// Queues what is kept behind a request that may log the user in. Only for servers that have said that they bear it.
    /// Nothing happens with delayed compression: nobody could tell where it begins.
    pub fn send_early(&mut self) {
        let delayed = |names: &crate::Negotiated| names.compression_c2s.contains('@');
        if self.names.as_ref().is_none_or(delayed) {
            return;
        }
        let Some(mut early) = self.early.take() else { return };
        self.say(&early);
        early.sent = early.payloads.len();
        self.early = Some(early);
    }

    /// The request in front of what was [sent early](Self::send_early) has failed: the server has dropped it.
    pub fn early_dropped(&mut self) {
        if let Some(early) = &mut self.early {
            early.sent = 0;
        }
    }

    /// Takes a message if it has to be kept.
    pub(crate) fn kept_early(&mut self, number: u8, payload: &[u8]) -> bool {
        let Some(early) = self.early.as_mut().filter(|_| crate::transport::CONNECTION.contains(&number))
        else {
            return false;
        };
        early.payloads.push(payload.to_vec());
        true
    }

    /// The user is in, and all that was to happen before channels has happened: what is kept and not sent goes now.
    pub fn release_early(&mut self) {
        if let Some(early) = self.early.take() {
            self.say(&early);
        }
    }

    /// Queues what has not been sent. Nothing is kept meanwhile.
    fn say(&mut self, early: &Early) {
        early.payloads.iter().skip(early.sent).for_each(|payload| self.payload(payload));
    }
}
