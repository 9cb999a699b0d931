//! Start of key exchanges: the first one, and rekeys by limit, interval or request.

use std::time::Instant;

use crate::state::KexState;
use crate::{Transport, Unencrypted, negotiate};

impl Transport {
    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.authenticated
            || self.relayed
            || !self.is_open()
            || !matches!(self.exchange.state, KexState::Idle)
        {
            return None;
        }
        self.exchange.last.checked_add(self.config.rekey.interval?)
    }

    /// Starts a rekey if its interval has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.request_rekey();
        }
    }

    /// Starts a key exchange now, unless one is in progress. Do not call it before authentication: OpenSSH
    /// refuses such an exchange, and the transport itself never starts one then.
    pub fn request_rekey(&mut self) {
        if self.is_open() && matches!(self.exchange.state, KexState::Idle) && !self.relayed {
            self.start_kex();
        }
    }

    /// Starts a key exchange when a key has reached its limit.
    pub(crate) fn rekey_if_due(&mut self) {
        // Before authentication no honest peer sends enough to need a rekey, and some peers do not support
        // one.
        if !self.authenticated
            || self.exchange.names.is_none()
            || !matches!(self.exchange.state, KexState::Idle)
            || !self.is_open()
        {
            return;
        }
        let limit = self.config.rekey.bytes;
        if self.send.position().wants_rekey(self.send.key(), limit)
            || self.recv.position().wants_rekey(self.recv.key(), limit)
        {
            self.start_kex();
        }
    }

    /// Sends our KEXINIT.
    pub(crate) fn start_kex(&mut self) {
        if let Some(algorithms) = self.exchange.next_algorithms.take() {
            self.config.algorithms = algorithms;
        }
        let mut cookie = [0; 16];
        self.send.random().fill(&mut cookie);
        // Security invariant: unencrypted ciphers are never offered before authentication.
        let unencrypted = if self.authenticated { self.exchange.unencrypted } else { Unencrypted::Refused };
        let ours = negotiate::offer(&self.config, cookie, self.exchange.names.is_none(), unencrypted);
        self.exchange.kexinit_seq = self.send.position().index.seq;
        self.transmit(&ours, self.compression.sending);
        self.exchange.state = KexState::InitSent { ours, unencrypted };
    }
}
