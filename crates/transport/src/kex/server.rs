//! Server states of the key exchange.

use lh_crypto::{DhGroup, EphemeralKey, KexFamily, Random, SharedSecret, kex_respond};
use lh_wire::msg::{
    KexDhGexGroup, KexDhGexInit, KexDhGexReply, KexDhGexRequest, KexDhInit, KexDhReply, KexEcdhInit,
    KexEcdhReply,
};
use lh_wire::{Message, Mpint};

use super::hash::{Group, exchange_hash};
use super::step::{Exchange, Finished, Next, Progress, Step, kex_error, malformed};
use crate::negotiate::host_key_index;
use crate::{Config, Event, TransportError};

/// Limits of the groups that a server offers, bits, whatever the client requests: OpenSSH's.
const GROUP_MIN: u32 = 2048;
const GROUP_MAX: u32 = 8192;

/// State of a server between the two KEXINITs and its NEWKEYS.
pub(crate) enum State {
    Init(ExpectInit),
    GexRequest(ExpectGexRequest),
    GexInit(ExpectGexInit),
    Signature(ExpectSignature),
}

impl State {
    pub(super) fn message(self, payload: &[u8], config: &Config, random: &mut dyn Random) -> Step<Self> {
        match self {
            Self::Init(state) => state.message(payload),
            Self::GexRequest(state) => state.message(payload, config, random),
            Self::GexInit(state) => state.message(payload),
            // The transport delivers no messages while a state waits for an answer from our own side.
            Self::Signature(_) => Err(TransportError::KeyExchange("message while an answer is awaited")),
        }
    }
}

/// Inputs of an exchange that do not depend on its messages.
struct Common {
    exchange: Exchange,
    key_index: usize,
    host_key: Vec<u8>,
}

pub(super) fn start(exchange: Exchange, config: &Config) -> Step<State> {
    let key_index = host_key_index(config, &exchange.host_key)
        .ok_or(TransportError::Caller("no host key for the negotiated algorithm"))?;
    let host_key = config.host_keys.get(key_index).map(|key| key.blob.clone()).unwrap_or_default();
    let gex = exchange.kex.family() == KexFamily::DhGex;
    let common = Common { exchange, key_index, host_key };
    Ok(Progress::to(if gex {
        State::GexRequest(ExpectGexRequest { common })
    } else {
        State::Init(ExpectInit { common })
    }))
}

/// The client's public value is expected.
pub(crate) struct ExpectInit {
    common: Common,
}

impl ExpectInit {
    fn message(self, payload: &[u8]) -> Step<State> {
        let kex = self.common.exchange.kex;
        let client_public = match kex.family() {
            KexFamily::DhGroup => KexDhInit::decode(payload).map_err(malformed("KEXDH_INIT"))?.e.magnitude(),
            _ => KexEcdhInit::decode(payload).map_err(malformed("KEX_ECDH_INIT"))?.client_public,
        };
        let (server_public, secret) = kex_respond(kex, client_public).map_err(kex_error)?;
        Ok(self.common.agreed(None, client_public, server_public, secret))
    }
}

/// The client's group request is expected.
pub(crate) struct ExpectGexRequest {
    common: Common,
}

impl ExpectGexRequest {
    fn message(self, payload: &[u8], config: &Config, random: &mut dyn Random) -> Step<State> {
        let request = KexDhGexRequest::decode(payload).map_err(malformed("KEX_DH_GEX_REQUEST"))?;
        let KexDhGexRequest { min, n, max, .. } = request;
        if max < min || n < min || max < n {
            return Err(TransportError::KeyExchange("contradictory group sizes"));
        }
        if max < GROUP_MIN || min > GROUP_MAX {
            return Err(TransportError::KeyExchange("no group of the requested size"));
        }
        let chosen = DhGroup::choose(
            min.max(GROUP_MIN),
            n.clamp(GROUP_MIN, GROUP_MAX),
            max.min(GROUP_MAX),
            config.moduli.as_deref(),
            random,
        )
        .ok_or(TransportError::KeyExchange("no group of the requested size"))?;
        let DhGroup { p, g } = chosen;
        let ephemeral = EphemeralKey::generate_dh(&p, &g).map_err(kex_error)?;
        let message = KexDhGexGroup::new(Mpint::from_magnitude(&p), Mpint::from_magnitude(&g)).to_payload();
        // The hash covers the client's request, not our clamped values.
        let group = Group { min, n, max, p, g };
        let next = ExpectGexInit { common: self.common, group, ephemeral };
        Ok(Progress::to(State::GexInit(next)).with_message(message))
    }
}

/// The group is sent.
pub(crate) struct ExpectGexInit {
    common: Common,
    group: Group,
    ephemeral: EphemeralKey,
}

impl ExpectGexInit {
    fn message(self, payload: &[u8]) -> Step<State> {
        let init = KexDhGexInit::decode(payload).map_err(malformed("KEX_DH_GEX_INIT"))?;
        let client_public = init.e.magnitude();
        let server_public = self.ephemeral.public().to_vec();
        let secret = self.ephemeral.agree(client_public).map_err(kex_error)?;
        Ok(self.common.agreed(Some(&self.group), client_public, server_public, secret))
    }
}

impl Common {
    /// Both public values are known; only the signature is missing.
    fn agreed(
        self,
        group: Option<&Group>,
        client_public: &[u8],
        server_public: Vec<u8>,
        secret: SharedSecret,
    ) -> Progress<State> {
        let exchange_hash =
            exchange_hash(&self.exchange, &self.host_key, group, client_public, &server_public, &secret);
        let event = Event::SignExchangeHash {
            algorithm: self.exchange.host_key,
            key_index: self.key_index,
            data: exchange_hash.clone(),
        };
        let next = ExpectSignature {
            family: self.exchange.kex.family(),
            host_key: self.host_key,
            server_public,
            secret,
            exchange_hash,
        };
        Progress::to(State::Signature(next)).with_event(event)
    }
}

/// The signature is being made by the owner of the private key.
pub(crate) struct ExpectSignature {
    family: KexFamily,
    host_key: Vec<u8>,
    server_public: Vec<u8>,
    secret: SharedSecret,
    exchange_hash: Vec<u8>,
}

impl ExpectSignature {
    pub(super) fn signed(self, signature: &[u8]) -> Progress<State> {
        let Self { family, host_key, server_public, secret, exchange_hash } = self;
        let f = Mpint::from_magnitude(&server_public);
        let reply = match family {
            KexFamily::DhGroup => KexDhReply::new(&host_key, f, signature).to_payload(),
            KexFamily::DhGex => KexDhGexReply::new(&host_key, f, signature).to_payload(),
            KexFamily::Ecdh | KexFamily::Hybrid => {
                KexEcdhReply::new(&host_key, &server_public, signature).to_payload()
            }
        };
        let signature = signature.to_vec();
        let next = Next::Finished(Finished { secret, exchange_hash, host_key, signature });
        Progress { next, send: Some(reply), event: None }
    }
}
