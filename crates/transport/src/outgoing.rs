//! The last step of every message that is sent: it becomes a packet, or is held back by a key exchange.
//! Ending a connection from this side is here too, because it sends DISCONNECT.

use lh_wire::Message as _;
use lh_wire::msg::Disconnect;

use crate::state::{Held, KexState, Phase};
use crate::{Role, Transport, TransportError};

impl Transport {
    /// Returns true unless the connection has ended or failed.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Identification | Phase::Packets)
    }

    /// Returns true between our KEXINIT and our NEWKEYS.
    pub(crate) const fn holding(&self) -> bool {
        matches!(self.exchange.state, KexState::InitSent { .. } | KexState::Running { .. })
    }

    /// Returns true when a message can be queued as a packet at once.
    pub(crate) const fn can_send_now(&self) -> bool {
        self.is_open() && !self.holding()
    }

    /// Returns true when a message must wait until our NEWKEYS. Between our KEXINIT and our NEWKEYS only
    /// messages 1 to 4 and those of the exchange may be sent. In the first exchange, which may be strict,
    /// only DISCONNECT may.
    pub(crate) const fn must_hold(&self, number: u8) -> bool {
        let always = match number {
            1 => true,
            2..=4 => self.exchange.names.is_some(),
            _ => false,
        };
        self.holding() && !always
    }

    pub(crate) fn hold(&mut self, payload: Vec<u8>) {
        self.waiting.held_bytes += payload.len();
        self.waiting.held.push_back(Held { payload, authenticated: self.authenticated });
    }

    /// Queues a packet at once, compressed if negotiated. `compressing`: delayed compression has started for
    /// this packet.
    pub(crate) fn transmit(&mut self, payload: &[u8], compressing: bool) {
        if !self.compression.deflater.when.applies(compressing) {
            self.push(payload);
            return;
        }
        match self.compression.deflater.compress(payload) {
            Ok(compressed) => {
                // A compressed packet cannot be decompressed by itself, so its payload is copied.
                if let Some(retention) = self.send.retention_mut() {
                    retention.copy(payload);
                    retention.set_copied(true);
                }
                self.push(&compressed);
                if let Some(retention) = self.send.retention_mut() {
                    retention.set_copied(false);
                }
            }
            Err(error) => self.phase = Phase::Failed(error),
        }
    }

    /// Queues a payload as a packet, without further compression. If the peer is known to corrupt packets of
    /// that length, the connection fails instead.
    fn push(&mut self, payload: &[u8]) {
        match self.identifications.peer.limits().sent_packet.map(|limit| limit as usize) {
            Some(limit) if self.send.packet_length(payload.len()) > limit => {
                let length = payload.len();
                self.fail(&TransportError::TooLongForPeer { length, limit });
            }
            _ => self.send.push(payload),
        }
    }

    /// Queues SSH_MSG_DISCONNECT. Afterwards nothing can be sent, and [`poll`](Self::poll) returns no more
    /// events.
    pub fn disconnect(&mut self, reason: u32, description: &str) {
        if !self.is_open() {
            return;
        }
        if !self.relayed {
            self.transmit(
                &Disconnect::new(reason, description.as_bytes(), b"").to_payload(),
                self.compression.sending,
            );
        }
        self.phase = Phase::Ended;
        self.waiting.held.clear();
        self.waiting.held_bytes = 0;
    }

    /// Ends the connection with a local error and, if possible, tells the peer.
    pub(crate) fn fail(&mut self, error: &TransportError) {
        if self.send.retention().is_some() && self.is_repairable(error) {
            // The session may continue over another connection, so the peer must not be told that it has
            // ended.
        } else if let (Some(reason), false) = (error.disconnect_reason(), matches!(self.phase, Phase::Ended))
        {
            let text = match error {
                // The value was decrypted with a key that the peer may not have, so it must not be disclosed.
                TransportError::PacketLength { .. } => "packet corrupt".to_owned(),
                error => error.to_string(),
            };
            self.disconnect(reason, &text);
        } else if let (TransportError::NotSsh(_) | TransportError::BadIdentification(_), Role::Server) =
            (error, self.config.role)
        {
            // Plain text that clients of other protocols can display, in OpenSSH's words.
            self.send.push_raw(b"Invalid SSH identification string.\r\n");
        }
        self.phase = Phase::Failed(error.clone());
    }

    /// Returns true when the session may continue on another connection after this error. With CBC, a
    /// falsified packet is final: an attacker who may repeat the attempt with equal data under ever new keys
    /// would learn something each time (CVE-2008-5161).
    pub(crate) fn is_repairable(&self, error: &TransportError) -> bool {
        let closed = matches!(error, TransportError::Closed { .. });
        error.is_break() && (closed || !self.recv.key().conceals_errors())
    }
}
