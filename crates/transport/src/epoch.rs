//! Keys of one direction between two NEWKEYS, and their usage counters.

use lh_crypto::{Cipher, CryptoError, Direction, Hash, Mac, PacketIndex, PacketKey, derive_key};
use zeroize::Zeroizing;

/// Hard limit of packets under one key: GCM's invocation counter and the MACs' sequence number must not
/// repeat (RFC 4344 section 3.1 requires a rekey after 2^32 packets at the latest).
pub(crate) const HARD_PACKETS: u64 = (1 << 32) - 1;

/// Packets after which a rekey starts (RFC 4344 section 3.1: "no more than 2^31").
pub(crate) const SOFT_PACKETS: u64 = 1 << 31;

/// The derived keys, stored beside the ready [`PacketKey`] for freezing and for opening what it has sealed.
#[derive(Clone)]
pub(crate) struct RawKeys {
    pub(crate) cipher: &'static Cipher,
    /// `None` with a cipher that authenticates.
    pub(crate) mac: Option<&'static Mac>,
    pub(crate) key: Zeroizing<Vec<u8>>,
    pub(crate) iv: Zeroizing<Vec<u8>>,
    pub(crate) mac_key: Zeroizing<Vec<u8>>,
}

/// Direction of the data; selects the letters of key derivation (RFC 4253 section 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataDirection {
    ClientToServer,
    ServerToClient,
}

impl RawKeys {
    /// Derives the keys of one direction from a finished exchange.
    pub(crate) fn derive(
        way: DataDirection,
        cipher: &'static Cipher,
        mac: Option<&'static Mac>,
        hash: Hash,
        secret: &[u8],
        exchange_hash: &[u8],
        session_id: &[u8],
    ) -> Self {
        let [iv, key, mac_key] = match way {
            DataDirection::ClientToServer => *b"ACE",
            DataDirection::ServerToClient => *b"BDF",
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

    /// Builds the key that seals or opens packets.
    pub(crate) fn packet_key(&self, direction: Direction) -> Result<PacketKey, CryptoError> {
        PacketKey::new(direction, self.cipher, self.mac, &self.key, &self.iv, &self.mac_key)
    }
}

/// Position in the packet stream, and key usage since NEWKEYS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Index of the next packet.
    pub(crate) index: PacketIndex,
    /// Bytes since NEWKEYS, including tags.
    pub(crate) bytes: u64,
    /// The sequence number has wrapped since the connection started.
    pub(crate) wrapped: bool,
}

impl Position {
    /// Returns the index for a packet of `total` bytes (without tag) and advances.
    pub(crate) fn take(&mut self, key: &PacketKey, total: usize) -> PacketIndex {
        let index = self.index;
        self.index.seq = index.seq.wrapping_add(1);
        self.wrapped |= self.index.seq == 0;
        self.index.invocation += 1;
        self.index.offset += key.encrypted_len(total);
        self.bytes += (total + key.tag_len()) as u64;
        index
    }

    /// Resets the counters for new keys. The sequence number continues unless strict key exchange is on.
    pub(crate) fn new_keys(&mut self, strict: bool) {
        let seq = if strict { 0 } else { self.index.seq };
        *self = Self {
            index: PacketIndex { seq, invocation: 0, offset: 0 },
            bytes: 0,
            wrapped: self.wrapped && !strict,
        };
    }

    /// Returns true when a rekey is due. `limit` is `RekeyLimit`'s number of bytes.
    pub(crate) fn wants_rekey(&self, key: &PacketKey, limit: Option<u64>) -> bool {
        let own = key.limits();
        self.index.invocation >= own.packets.min(SOFT_PACKETS)
            || self.bytes >= own.bytes.min(limit.unwrap_or(u64::MAX))
    }

    /// Returns true when the key must not be used again. Before authentication the limits are lower, because
    /// no honest peer comes near them.
    pub(crate) fn exhausted(&self, key: &PacketKey, authenticated: bool) -> bool {
        let own = key.limits();
        if authenticated {
            // Up to a whole window may be in flight when a rekey starts: far below twice the limit.
            self.index.invocation >= HARD_PACKETS || self.bytes >= own.bytes.saturating_mul(2)
        } else {
            self.index.invocation >= own.packets.min(SOFT_PACKETS) || self.bytes >= own.bytes || self.wrapped
        }
    }
}
