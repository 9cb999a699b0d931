//! Keys of one direction between two NEWKEYS, and how much they have been used.

use lh_crypto::{Cipher, CryptoError, Direction, Hash, Mac, PacketIndex, PacketKey, derive_key};
use zeroize::Zeroizing;

/// Hard limit of packets under one key: GCM's invocation counter and the MACs' sequence number must not
/// repeat (RFC 4344 section 3.1 asks for a rekey after 2^32 packets at the latest).
pub(crate) const HARD_PACKETS: u64 = (1 << 32) - 1;

/// Packets after which a rekey starts (RFC 4344 section 3.1: "no more than 2^31").
pub(crate) const SOFT_PACKETS: u64 = 1 << 31;

/// The derived keys themselves, kept beside the ready-made [`PacketKey`] only to be frozen.
pub(crate) struct RawKeys {
    pub(crate) cipher: &'static Cipher,
    /// `None` with an authenticating cipher.
    pub(crate) mac: Option<&'static Mac>,
    pub(crate) key: Zeroizing<Vec<u8>>,
    pub(crate) iv: Zeroizing<Vec<u8>>,
    pub(crate) mac_key: Zeroizing<Vec<u8>>,
}

/// Which way the bytes go; decides the letters of key derivation (RFC 4253 section 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ClientToServer,
    ServerToClient,
}

impl RawKeys {
    /// Derives the keys of one direction from a finished exchange.
    pub(crate) fn derive(
        way: Way,
        cipher: &'static Cipher,
        mac: Option<&'static Mac>,
        hash: Hash,
        secret: &[u8],
        exchange_hash: &[u8],
        session_id: &[u8],
    ) -> Self {
        let [iv, key, mac_key] = match way {
            Way::ClientToServer => *b"ACE",
            Way::ServerToClient => *b"BDF",
        };
        let derive = |letter, len| derive_key(hash, secret, exchange_hash, letter, session_id, len);
        let mac = mac.filter(|_| !cipher.is_aead());
        Self {
            cipher,
            mac,
            key: derive(key, cipher.key_len),
            iv: derive(iv, cipher.iv_len),
            mac_key: derive(mac_key, mac.map_or(0, |mac| mac.key_len)),
        }
    }

    /// The keys ready for use.
    pub(crate) fn packet_key(&self, direction: Direction) -> Result<PacketKey, CryptoError> {
        PacketKey::new(direction, self.cipher, self.mac, &self.key, &self.iv, &self.mac_key)
    }
}

/// Position in the stream of packets, and usage since NEWKEYS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Where the next packet stands.
    pub(crate) index: PacketIndex,
    /// Bytes since NEWKEYS, tags included.
    pub(crate) bytes: u64,
    /// The sequence number has wrapped since the connection started.
    pub(crate) wrapped: bool,
}

impl Position {
    /// Takes the index for a packet of `total` bytes (tag excluded) and moves on.
    pub(crate) fn take(&mut self, key: &PacketKey, total: usize) -> PacketIndex {
        let index = self.index;
        self.index.seq = index.seq.wrapping_add(1);
        self.wrapped |= self.index.seq == 0;
        self.index.invocation += 1;
        self.index.offset += key.encrypted_len(total);
        self.bytes += (total + key.tag_len()) as u64;
        index
    }

    /// New keys: counters start again. The sequence number goes on unless the exchange is a strict one.
    pub(crate) fn new_keys(&mut self, strict: bool) {
        let seq = if strict { 0 } else { self.index.seq };
        *self = Self {
            index: PacketIndex { seq, invocation: 0, offset: 0 },
            bytes: 0,
            wrapped: self.wrapped && !strict,
        };
    }

    /// The key is used up as far as it should be: time for a rekey. `limit` is RekeyLimit's.
    pub(crate) fn wants_rekey(&self, key: &PacketKey, limit: Option<u64>) -> bool {
        let own = key.limits();
        self.index.invocation >= own.packets.min(SOFT_PACKETS)
            || self.bytes >= own.bytes.min(limit.unwrap_or(u64::MAX))
    }

    /// The key must not be used once more. Before authentication nobody has a reason to come even near.
    pub(crate) fn exhausted(&self, key: &PacketKey, authenticated: bool) -> bool {
        let own = key.limits();
        if authenticated {
            // What is in flight when a rekey is asked for may be a whole window: far below twice the limit.
            self.index.invocation >= HARD_PACKETS || self.bytes >= own.bytes.saturating_mul(2)
        } else {
            self.index.invocation >= own.packets.min(SOFT_PACKETS) || self.bytes >= own.bytes || self.wrapped
        }
    }
}
