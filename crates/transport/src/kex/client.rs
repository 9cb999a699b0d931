//! Client states of the key exchange.

use lh_crypto::{EphemeralKey, KexFamily, PublicKey, SharedSecret};
use lh_wire::msg::{
    KexDhGexGroup, KexDhGexInit, KexDhGexReply, KexDhGexRequest, KexDhInit, KexDhReply, KexEcdhInit,
    KexEcdhReply,
};
use lh_wire::{Message, Mpint};

use super::hash::{Group, exchange_hash};
use super::step::{Exchange, Finished, Next, Progress, Step, kex_error, malformed};
use crate::{Event, TransportError};

/// Limits of the groups that a client accepts, bits: RFC 8270 section 3 sets the lower one, OpenSSH the upper
/// one.
const GROUP_MIN: u32 = 2048;
const GROUP_MAX: u32 = 8192;

/// State of a client between the two KEXINITs and its NEWKEYS.
pub(crate) enum State {
    Reply(ExpectReply),
    GexGroup(ExpectGexGroup),
    GexReply(ExpectGexReply),
    Verdict(ExpectVerdict),
}

impl State {
    pub(super) fn message(self, payload: &[u8]) -> Step<Self> {
        match self {
            Self::Reply(state) => state.message(payload),
            Self::GexGroup(state) => state.message(payload),
            Self::GexReply(state) => state.message(payload),
            // The transport delivers no messages while a state waits for an answer from our own side.
            Self::Verdict(_) => Err(TransportError::KeyExchange("message while an answer is awaited")),
        }
    }
}

/// Inputs of an exchange that do not depend on its messages.
struct Common {
    exchange: Exchange,
    /// The host key accepted in an earlier exchange of this connection.
    accepted: Option<Vec<u8>>,
}

pub(super) fn start(exchange: Exchange, accepted: Option<Vec<u8>>) -> Step<State> {
    let common = Common { exchange, accepted };
    if common.exchange.kex.family() == KexFamily::DhGex {
        let (min, max) = (GROUP_MIN, GROUP_MAX);
        let n = common.exchange.group_bits.clamp(min, max);
        let request = KexDhGexRequest::new(min, n, max).to_payload();
        let group = Group { min, n, max, p: Vec::new(), g: Vec::new() };
        return Ok(Progress::to(State::GexGroup(ExpectGexGroup { common, group })).with_message(request));
    }
    let ephemeral = EphemeralKey::generate(common.exchange.kex).map_err(kex_error)?;
    let init = match common.exchange.kex.family() {
        KexFamily::DhGroup => KexDhInit::new(Mpint::from_magnitude(ephemeral.public())).to_payload(),
        _ => KexEcdhInit::new(ephemeral.public()).to_payload(),
    };
    Ok(Progress::to(State::Reply(ExpectReply { common, ephemeral })).with_message(init))
}

/// Our public value is sent.
pub(crate) struct ExpectReply {
    common: Common,
    ephemeral: EphemeralKey,
}

impl ExpectReply {
    fn message(self, payload: &[u8]) -> Step<State> {
        let (host_key, server_public, signature) = match self.common.exchange.kex.family() {
            KexFamily::DhGroup => {
                let reply = KexDhReply::decode(payload).map_err(malformed("KEXDH_REPLY"))?;
                (reply.host_key, reply.f.magnitude(), reply.signature)
            }
            _ => {
                let reply = KexEcdhReply::decode(payload).map_err(malformed("KEX_ECDH_REPLY"))?;
                (reply.host_key, reply.server_public, reply.signature)
            }
        };
        self.common.replied(self.ephemeral, None, host_key, server_public, signature)
    }
}

/// The group request is sent.
pub(crate) struct ExpectGexGroup {
    common: Common,
    group: Group,
}

impl ExpectGexGroup {
    fn message(mut self, payload: &[u8]) -> Step<State> {
        let message = KexDhGexGroup::decode(payload).map_err(malformed("KEX_DH_GEX_GROUP"))?;
        let bits = u32::try_from(message.p.bits()).unwrap_or(u32::MAX);
        if bits < self.group.min || bits > self.group.max {
            return Err(TransportError::KeyExchange("group is not of the requested size"));
        }
        self.group.p = message.p.magnitude().to_vec();
        self.group.g = message.g.magnitude().to_vec();
        let ephemeral = EphemeralKey::generate_dh(&self.group.p, &self.group.g).map_err(kex_error)?;
        let init = KexDhGexInit::new(Mpint::from_magnitude(ephemeral.public())).to_payload();
        let public_ones = ephemeral.public().iter().map(|byte| byte.count_ones()).sum();
        let asked = (self.group.min, self.group.n, self.group.max);
        let chosen = Event::GroupChosen { asked, bits, public_ones };
        let next = ExpectGexReply { common: self.common, group: self.group, ephemeral };
        Ok(Progress::to(State::GexReply(next)).with_message(init).with_event(chosen))
    }
}

/// Our public value in the server's group is sent.
pub(crate) struct ExpectGexReply {
    common: Common,
    group: Group,
    ephemeral: EphemeralKey,
}

impl ExpectGexReply {
    fn message(self, payload: &[u8]) -> Step<State> {
        let reply = KexDhGexReply::decode(payload).map_err(malformed("KEX_DH_GEX_REPLY"))?;
        self.common.replied(
            self.ephemeral,
            Some(&self.group),
            reply.host_key,
            reply.f.magnitude(),
            reply.signature,
        )
    }
}

impl Common {
    /// Handles the server's reply of any family: computes the secret and verifies the signature.
    fn replied(
        self,
        ephemeral: EphemeralKey,
        group: Option<&Group>,
        host_key: &[u8],
        server_public: &[u8],
        signature: &[u8],
    ) -> Step<State> {
        let key = PublicKey::from_blob(host_key).map_err(|_| TransportError::HostKey("malformed"))?;
        let algorithm = &self.exchange.host_key;
        if !key.signature_algorithms().contains(&algorithm.as_str()) {
            return Err(TransportError::HostKey("not of the negotiated type"));
        }
        let client_public = ephemeral.public().to_vec();
        let secret = ephemeral.agree(server_public).map_err(kex_error)?;
        let hash = exchange_hash(&self.exchange, host_key, group, &client_public, server_public, &secret);
        key.verify(algorithm, &hash, signature).map_err(|_| TransportError::HostKeySignature)?;

        let known = self.accepted.is_some_and(|accepted| accepted == host_key);
        let event = Event::HostKey {
            algorithm: self.exchange.host_key,
            blob: host_key.to_vec(),
            first: self.exchange.first,
        };
        let verdict = ExpectVerdict {
            secret,
            exchange_hash: hash,
            host_key: host_key.to_vec(),
            signature: signature.to_vec(),
        };
        if known {
            return Ok(verdict.accepted());
        }
        Ok(Progress::to(State::Verdict(verdict)).with_event(event))
    }
}

/// The server proved that it owns the key; the caller must decide whether to trust it.
pub(crate) struct ExpectVerdict {
    secret: SharedSecret,
    exchange_hash: Vec<u8>,
    host_key: Vec<u8>,
    signature: Vec<u8>,
}

impl ExpectVerdict {
    pub(super) fn is_about(&self, blob: &[u8]) -> bool {
        self.host_key == blob
    }

    pub(super) fn accepted(self) -> Progress<State> {
        let Self { secret, exchange_hash, host_key, signature } = self;
        Progress {
            next: Next::Finished(Finished { secret, exchange_hash, host_key, signature }),
            send: None,
            event: None,
        }
    }
}
