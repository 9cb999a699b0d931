//! Sealing and opening single packets (RFC 4253 section 6), each on its own.

use crate::{Cipher, CryptoError, Mac, OpenError};

/// Which way a [`PacketKey`] works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// For packets we send.
    Seal,
    /// For packets we receive.
    Open,
}

/// Where a packet stands in its direction; everything a suite may need as nonce or counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketIndex {
    /// The sequence number (RFC 4253 section 6.4); wraps.
    pub seq: u32,
    /// Packets sealed before this one under the same key, that is since NEWKEYS.
    pub invocation: u64,
    /// Sum of [`PacketKey::encrypted_len`] of the packets before this one under the same key.
    pub offset: u64,
}

/// How much one key may protect before a rekey is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLimits {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The keys of one direction between two NEWKEYS. `Send + Sync`: share it freely among workers.
pub struct PacketKey(());

impl PacketKey {
    /// Before the first NEWKEYS: no encryption, no MAC.
    pub const fn plain() -> Self {
        Self(())
    }

    /// Keys from a finished key exchange. `mac` is ignored where the cipher is an AEAD.
    ///
    /// # Errors
    /// [`CryptoError::WrongLength`] when a key or IV is not as long as the algorithm says, and
    /// [`CryptoError::Unsupported`] when a cipher that needs a MAC comes without one.
    pub fn new(
        _direction: Direction,
        _cipher: &Cipher,
        _mac: Option<&Mac>,
        _key: &[u8],
        _iv: &[u8],
        _mac_key: &[u8],
    ) -> Result<Self, CryptoError> {
        Err(CryptoError::Unsupported { what: "this cipher" })
    }

    /// What padding makes a packet a multiple of, in bytes; at least 8.
    pub const fn block_len(&self) -> usize {
        8
    }

    /// Bytes of tag behind a packet.
    pub const fn tag_len(&self) -> usize {
        0
    }

    /// Bytes [`packet_length`](Self::packet_length) needs to see.
    pub const fn head_len(&self) -> usize {
        4
    }

    /// Whether the 4-byte length field counts towards the multiple of [`block_len`](Self::block_len).
    /// False for AEADs and encrypt-then-MAC, where it is not part of what the cipher's blocks cover.
    pub const fn length_is_padded(&self) -> bool {
        true
    }

    /// The length field of the packet that starts with `head`, not authenticated yet. Decrypts a copy where needed.
    /// Returns 0, which no packet may have, when `head` is shorter than [`head_len`](Self::head_len).
    pub fn packet_length(&self, _index: &PacketIndex, head: &[u8]) -> u32 {
        head.first_chunk().map_or(0, |head| u32::from_be_bytes(*head))
    }

    /// How far a packet moves [`PacketIndex::offset`] on. `total_without_tag` includes the length field.
    pub const fn encrypted_len(&self, total_without_tag: usize) -> u64 {
        total_without_tag as u64
    }

    /// Seals in place. `packet` is length field, padding length, payload, padding and room for the tag.
    ///
    /// # Errors
    /// Only by a mistake of the caller (a buffer too short for what it must hold); nothing may be sent then.
    pub fn seal(&self, _index: &PacketIndex, _packet: &mut [u8]) -> Result<(), CryptoError> {
        Ok(())
    }

    /// Opens in place; same shape as for [`seal`](Self::seal). Afterwards the length field is in clear too.
    ///
    /// # Errors
    /// The packet is not authentic; its bytes must not be used.
    pub fn open(&self, _index: &PacketIndex, _packet: &mut [u8]) -> Result<(), OpenError> {
        Ok(())
    }

    /// How much this key may protect before a rekey is due.
    pub const fn limits(&self) -> KeyLimits {
        KeyLimits { packets: u64::MAX, bytes: u64::MAX }
    }
}
