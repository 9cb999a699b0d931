//! The effect of messages on a [`Transport`]: the dispatcher, and the course of key exchanges.

use std::time::Instant;

use bytes::Bytes;
use lh_crypto::Direction;
use lh_wire::Message;
use lh_wire::msg::{self, Debug, Disconnect, NewKeys, Ping, Pong, Unimplemented};

use crate::compress::{Deflater, Inflater};
use crate::epoch::{DataDirection, RawKeys};
use crate::export::Exporter;
use crate::kex::{self, Answered, Exchange, Finished, Next, Progress};
use crate::negotiate::{self, Agreement, Strict};
use crate::recv::Packet;
use crate::state::{CONNECTION, KexState, Phase};
use crate::{Event, Role, Transport, TransportError, ext_info};

/// Limit of received bytes that may accumulate while our own side owes an answer, bytes. An honest peer then
/// sends only its NEWKEYS and EXT_INFO.
const MAX_UNREAD: usize = 1024 * 1024;

/// Largest number of messages of SSH_MSG_DEBUG that a connection displays. OpenSSH's server sends a few.
const MOST_DISPLAYED: u32 = 100;

impl Transport {
    /// Handles one packet; returns false when no packet can be handled now.
    pub(crate) fn packet(&mut self, now: Instant) -> Result<bool, TransportError> {
        if matches!(&self.exchange.state, KexState::Running { state, .. } if state.waits_for_answer()) {
            if self.recv.unread().len() + self.recv.ahead() > MAX_UNREAD {
                return Err(TransportError::TooMany("bytes during key exchange"));
            }
            return Ok(false);
        }
        if !self.relayed && self.recv.position().exhausted(self.recv.key(), self.authenticated) {
            return Err(TransportError::KeyExhausted);
        }
        // From the peer's KEXINIT to its NEWKEYS, packets are handled one at a time.
        if self.authenticated && matches!(self.exchange.state, KexState::Idle | KexState::InitSent { .. }) {
            self.recv.cut(self.authenticated, &mut self.jobs.created);
        }
        let Some(packet) = self.recv.next()? else { return Ok(false) };
        self.dispatch(packet, now)?;
        self.rekey_if_due();
        Ok(true)
    }

    fn dispatch(&mut self, packet: Packet, now: Instant) -> Result<(), TransportError> {
        self.totals.last_seq = packet.seq;
        self.totals.packets_in += 1;
        let payload = if self.compression.inflater.when.applies(self.compression.receiving) {
            let limit = self.config.max_packet as usize;
            Bytes::from(self.compression.inflater.decompress(&packet.payload, limit)?)
        } else {
            packet.payload
        };
        let number = *payload.first().ok_or(TransportError::EmptyPacket)?;
        if self.relayed {
            if CONNECTION.contains(&number) {
                self.events.push_back(Event::Packet(payload));
            }
            return Ok(());
        }
        self.check_strict(number)?;
        match number {
            Disconnect::NUMBER => self.on_disconnect(&payload),
            // IGNORE. Its content is not decoded, because peers send malformed strings here.
            2 => Ok(()),
            Unimplemented::NUMBER => self.on_unimplemented(&payload),
            Debug::NUMBER => self.on_debug(&payload),
            msg::KexInit::NUMBER => self.on_kexinit(&payload, packet.seq),
            NewKeys::NUMBER => self.on_newkeys(&payload, now),
            30..=49 => self.on_kex(number, &payload),
            _ => {
                self.check_data(number)?;
                match number {
                    msg::ExtInfo::NUMBER => self.on_ext_info(&payload),
                    Ping::NUMBER => self.on_ping(&payload),
                    Pong::NUMBER => {
                        self.events.push_back(Event::Pong(payload.slice(payload.len().min(5)..)));
                        Ok(())
                    }
                    5 | 6 | 50.. => {
                        self.events.push_back(Event::Packet(payload));
                        Ok(())
                    }
                    _ => {
                        self.reply_unimplemented();
                        self.check_replies()
                    }
                }
            }
        }
    }

    /// Checks that only expected messages arrive in a strict first exchange (OpenSSH PROTOCOL 1.10).
    fn check_strict(&self, number: u8) -> Result<(), TransportError> {
        let strict = match &self.exchange.state {
            KexState::Running { agreement, .. } | KexState::ExpectNewKeys { agreement, .. } => {
                agreement.names.strict
            }
            KexState::Idle | KexState::InitSent { .. } => false,
        };
        if self.exchange.names.is_none() && strict && !matches!(number, 1 | 20 | 21 | 30..=49) {
            return Err(TransportError::Unexpected { number, when: "during strict key exchange" });
        }
        Ok(())
    }

    /// Checks that messages outside the key exchange arrive neither before the first exchange nor between the
    /// peer's KEXINIT and its NEWKEYS.
    ///
    /// One exception: during a *rekey*, messages of the connection protocol are accepted, although RFC 4253
    /// section 7.1 forbids the peer to send them. asyncssh (2.10 in Debian 12) continues with channel data
    /// after its KEXINIT. The messages are authentic under the old keys, and OpenSSH accepted them up to
    /// 10.3.
    fn check_data(&self, number: u8) -> Result<(), TransportError> {
        match self.exchange.state {
            KexState::Running { .. } | KexState::ExpectNewKeys { .. }
                if self.exchange.names.is_some() && matches!(number, 80..=127) =>
            {
                Ok(())
            }
            KexState::Running { .. } | KexState::ExpectNewKeys { .. } => {
                Err(TransportError::Unexpected { number, when: "during key exchange" })
            }
            _ if self.exchange.names.is_none() => {
                Err(TransportError::Unexpected { number, when: "before key exchange" })
            }
            KexState::Idle | KexState::InitSent { .. } => Ok(()),
        }
    }

    fn check_replies(&self) -> Result<(), TransportError> {
        if self.too_many_replies() {
            Err(TransportError::TooMany("messages that need an answer"))
        } else {
            Ok(())
        }
    }

    fn on_disconnect(&mut self, payload: &[u8]) -> Result<(), TransportError> {
        let (reason, description) = match Disconnect::decode(payload) {
            Ok(message) => (message.reason, message.description),
            // Some peers omit the language. The connection is over either way.
            Err(_) => {
                let mut reader = lh_wire::Reader::new(payload.get(1..).unwrap_or_default());
                (reader.u32().unwrap_or_default(), reader.string().unwrap_or_default())
            }
        };
        let description = String::from_utf8_lossy(description).into_owned();
        self.events.push_back(Event::Disconnected { reason, description });
        self.phase = Phase::Ended;
        Ok(())
    }

    fn on_unimplemented(&self, payload: &[u8]) -> Result<(), TransportError> {
        let malformed = |source| TransportError::Malformed { message: "UNIMPLEMENTED", source };
        let sequence = Unimplemented::decode(payload).map_err(malformed)?.sequence;
        // The peer rejects our KEXINIT or a message after it, so the exchange cannot continue. OpenSSH
        // answers a rekey before authentication this way.
        let about_kex = sequence.wrapping_sub(self.exchange.kexinit_seq) < 1 << 31;
        if about_kex && self.holding() {
            return Err(TransportError::KeyExchange("peer does not implement it"));
        }
        Ok(())
    }

    fn on_debug(&mut self, payload: &[u8]) -> Result<(), TransportError> {
        let malformed = |source| TransportError::Malformed { message: "DEBUG", source };
        let message = Debug::decode(payload).map_err(malformed)?;
        self.totals.displayed = self.totals.displayed.saturating_add(message.always_display.into());
        let always_display = message.always_display && self.totals.displayed <= MOST_DISPLAYED;
        let text = message.text.to_vec();
        self.events.push_back(Event::Debug { always_display, text });
        Ok(())
    }

    fn on_ext_info(&mut self, payload: &[u8]) -> Result<(), TransportError> {
        self.extensions.messages += 1;
        if self.extensions.messages > ext_info::most(self.config.role) {
            return Err(TransportError::TooMany("EXT_INFO"));
        }
        let entries = ext_info::parse(payload)?;
        self.extensions.entries.extend(entries.iter().cloned());
        self.events.push_back(Event::ExtInfo(entries));
        Ok(())
    }

    fn on_ping(&mut self, payload: &[u8]) -> Result<(), TransportError> {
        let malformed = |source| TransportError::Malformed { message: "PING", source };
        let message = Ping::decode(payload).map_err(malformed)?;
        self.reply(&Pong::new(message.data).to_payload());
        self.check_replies()
    }

    fn on_kexinit(&mut self, payload: &[u8], seq: u32) -> Result<(), TransportError> {
        if matches!(self.exchange.state, KexState::Idle) {
            self.start_kex();
        }
        let KexState::InitSent { ours, unencrypted } =
            std::mem::replace(&mut self.exchange.state, KexState::Idle)
        else {
            let number = msg::KexInit::NUMBER;
            return Err(TransportError::Unexpected { number, when: "during key exchange" });
        };
        let strict = match &self.exchange.names {
            None => Strict::AsAnnounced,
            Some(names) if names.strict => Strict::On,
            Some(_) => Strict::Off,
        };
        let first = self.exchange.names.is_none();
        let agreement = negotiate::agree(&self.config, payload, strict, unencrypted)?;
        self.identifications.peer = negotiate::peer_that_offers(self.identifications.peer, payload)?;
        if first && agreement.names.strict && seq != 0 {
            let number = msg::KexInit::NUMBER;
            return Err(TransportError::Unexpected {
                number,
                when: "after other packets in a strict key exchange",
            });
        }
        let theirs = payload.to_vec();
        let (our_ident, peer_ident) = (self.identifications.ours.clone(), self.identifications.peers.clone());
        let ((client_ident, client_init), (server_ident, server_init)) = match self.config.role {
            Role::Client => ((our_ident, ours), (peer_ident, theirs)),
            Role::Server => ((peer_ident, theirs), (our_ident, ours)),
        };
        let exchange = Exchange {
            kex: agreement.kex,
            host_key: agreement.names.host_key.clone(),
            client_ident,
            server_ident,
            client_init,
            server_init,
            first,
            group_bits: group_bits(&agreement),
        };
        let accepted = self.exchange.host_key.clone();
        let progress = kex::start(exchange, &self.config, accepted)?;
        let skip_guess = agreement.skip_guess;
        self.progress(progress, Box::new(agreement), skip_guess)
    }

    fn on_kex(&mut self, number: u8, payload: &[u8]) -> Result<(), TransportError> {
        match std::mem::replace(&mut self.exchange.state, KexState::Idle) {
            KexState::Running { state, agreement, skip_guess: true } => {
                self.exchange.state = KexState::Running { state, agreement, skip_guess: false };
                Ok(())
            }
            KexState::Running { state, agreement, skip_guess: false } => {
                let progress = state.message(payload, &self.config, self.send.random())?;
                self.progress(progress, agreement, false)
            }
            _ => Err(TransportError::Unexpected { number, when: "outside key exchange" }),
        }
    }

    /// Passes an answer from our own side to a waiting state.
    pub(crate) fn answer(
        &mut self,
        answer: impl FnOnce(Box<kex::State>) -> Answered,
    ) -> Result<(), TransportError> {
        if !self.is_open() {
            return Err(TransportError::Caller("the connection has ended"));
        }
        match std::mem::replace(&mut self.exchange.state, KexState::Idle) {
            KexState::Running { state, agreement, skip_guess } => match answer(state) {
                Ok(progress) => self.progress(progress, agreement, skip_guess),
                Err((state, error)) => {
                    self.exchange.state = KexState::Running { state, agreement, skip_guess };
                    Err(error)
                }
            },
            other => {
                self.exchange.state = other;
                Err(TransportError::Caller("no key exchange is waiting for an answer"))
            }
        }
    }

    fn progress(
        &mut self,
        progress: Progress<kex::State>,
        agreement: Box<Agreement>,
        skip_guess: bool,
    ) -> Result<(), TransportError> {
        if let Some(message) = progress.send {
            self.transmit(&message, self.compression.sending);
        }
        self.events.extend(progress.event);
        match progress.next {
            Next::State(state) => {
                self.exchange.state = KexState::Running { state, agreement, skip_guess };
                Ok(())
            }
            Next::Finished(finished) => self.finish(finished, agreement),
        }
    }

    /// Sends our NEWKEYS: secret and exchange hash are known and the host key is accepted.
    fn finish(&mut self, finished: Finished, agreement: Box<Agreement>) -> Result<(), TransportError> {
        let Finished { secret, exchange_hash, host_key, signature } = finished;
        let first = self.exchange.first.session_id.is_none();
        if first {
            self.exchange.first.exporter = Some(Exporter::new(&secret, &exchange_hash));
        }
        let session_id = self.exchange.first.session_id.get_or_insert_with(|| exchange_hash.clone());
        let derive = |way| {
            let (cipher, mac) = match way {
                DataDirection::ClientToServer => (agreement.cipher_c2s, agreement.mac_c2s),
                DataDirection::ServerToClient => (agreement.cipher_s2c, agreement.mac_s2c),
            };
            let hash = agreement.kex.hash();
            RawKeys::derive(way, cipher, mac, hash, secret.encoded(), &exchange_hash, session_id)
        };
        let (c2s, s2c) = (derive(DataDirection::ClientToServer), derive(DataDirection::ServerToClient));
        let names = &agreement.names;
        let (out, keys, compression) = match self.config.role {
            Role::Client => (c2s, s2c, &names.compression_c2s),
            Role::Server => (s2c, c2s, &names.compression_s2c),
        };
        let key = out.packet_key(Direction::Seal).map_err(|_| unusable())?;
        self.transmit(&NewKeys::new().to_payload(), self.compression.sending);
        self.send.new_keys(key, names.strict);
        if let Some(retention) = self.send.retention_mut() {
            retention.new_keys(out.clone());
        }
        self.compression.deflater = Deflater::new(compression);
        self.exchange.sealing_keys = Some(out);
        if first {
            self.exchange.first.proof = Some((host_key.clone(), signature));
        }
        self.exchange.host_key = Some(host_key);
        let peer_ext_info = agreement.peer_ext_info;
        self.exchange.state = KexState::ExpectNewKeys { keys: Box::new(keys), agreement };
        if first && peer_ext_info {
            // EXT_INFO must be the first packet after NEWKEYS (RFC 8308 section 2.4).
            let ext_info = ext_info::ours(&self.config);
            self.transmit(&ext_info, false);
        }
        self.compression.sending = self.authenticated;
        self.waiting.held_bytes = 0;
        for held in std::mem::take(&mut self.waiting.held) {
            self.transmit(&held.payload, held.authenticated);
        }
        Ok(())
    }

    fn on_newkeys(&mut self, payload: &[u8], now: Instant) -> Result<(), TransportError> {
        let KexState::ExpectNewKeys { keys, agreement } =
            std::mem::replace(&mut self.exchange.state, KexState::Idle)
        else {
            let number = NewKeys::NUMBER;
            return Err(TransportError::Unexpected { number, when: "before key exchange is complete" });
        };
        NewKeys::decode(payload)
            .map_err(|source| TransportError::Malformed { message: "NEWKEYS", source })?;
        let key = keys.packet_key(Direction::Open).map_err(|_| unusable())?;
        let names = agreement.names;
        self.recv.new_keys(key, names.strict)?;
        self.compression.inflater = Inflater::new(match self.config.role {
            Role::Client => &names.compression_s2c,
            Role::Server => &names.compression_c2s,
        });
        self.exchange.opening_keys = Some(*keys);
        self.compression.receiving = self.authenticated;
        self.exchange.last = now;
        let first = self.exchange.names.is_none();
        self.exchange.names = Some(names.clone());
        self.events.push_back(Event::KexDone { first, names });
        Ok(())
    }
}

/// Error for keys that do not fit their algorithms. Unreachable, because the names were looked up in the
/// crypto crate's own tables.
const fn unusable() -> TransportError {
    TransportError::Caller("negotiated keys cannot be used")
}

/// Returns the group size, bits, that is as strong as the derived keys (NIST SP 800-57 part 1, as OpenSSH
/// applies it).
fn group_bits(agreement: &Agreement) -> u32 {
    let macs = [agreement.mac_c2s, agreement.mac_s2c].into_iter().flatten().map(|mac| mac.key_len);
    let longest = [agreement.cipher_c2s, agreement.cipher_s2c].map(|cipher| cipher.strength_len());
    match longest.into_iter().chain(macs).max().unwrap_or(32) {
        ..=14 => 2048,
        15..=16 => 3072,
        17..=24 => 7680,
        _ => 8192,
    }
}
