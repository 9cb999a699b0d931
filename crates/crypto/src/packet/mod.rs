//! Sealing and opening of single packets (RFC 4253 section 6), independent of each other.
//!
//! A packet needs no state of the packet before it: a suite's nonce or counter is an argument
//! ([`PacketIndex`]). GCM uses the number of packets since NEWKEYS, ChaCha20-Poly1305 and the MACs the
//! sequence number, CTR the number of bytes since NEWKEYS. So a [`PacketKey`] is immutable, and many workers
//! share one. CBC is the exception ([`PacketKey::is_serial`]).
//!
//! | suite | length field | tag over |
//! |---|---|---|
//! | plain | clear | – |
//! | AES-128-GMAC | clear, as the whole packet | all of the packet (as AAD) |
//! | `none` with a MAC of either kind | clear, as the whole packet | sequence number, all of the packet |
//! | AES-GCM (RFC 5647) | clear | length (as AAD), ciphertext |
//! | ChaCha20-Poly1305 | encrypted with its own key | all the bytes sent |
//! | AES-CTR with a MAC | encrypted | sequence number, plaintext |
//! | AES-CTR with an `-etm` MAC | clear | sequence number, length, ciphertext |
//! | CBC with a MAC of either kind | as CTR | as CTR |
//!
//! UMAC takes the sequence number as its nonce.

mod cbc;
mod chacha;
mod clear;
mod ctr;
mod gcm;
mod index;
mod mac;
#[cfg(test)]
mod tests;

pub use index::{Direction, PacketIndex};

use crate::cipher::CipherKind;
use crate::{Cipher, CryptoError, Mac, OpenError};
use cbc::CbcKey;
use chacha::ChaChaKey;
use clear::ClearKey;
use ctr::CtrKey;
use gcm::GcmKey;
use index::LENGTH_LEN;

/// Packets after which a rekey is due with every cipher. The sequence number must not repeat under one key
/// (RFC 4344 section 3.1), and OpenSSH's peers stop at the same count.
const MAX_PACKETS: u64 = 1 << 31;

/// Bytes after which a rekey is due: 2^32 blocks of 16 bytes (RFC 4344 section 3.2 for 128-bit blocks). TLS's
/// analysis of GCM (RFC 8446 section 5.5) yields the same order of magnitude. ChaCha20-Poly1305 would
/// tolerate more. OpenSSH's limit for 64-bit blocks (1 GiB) is meaningless for a stream cipher and would stop
/// a 100 Gb/s path ten times a second.
const MAX_BYTES: u64 = (1 << 32) * 16;

/// Bytes after which a rekey is due with blocks of 8 bytes (Triple DES): 1 GiB (RFC 4344 section 3.2).
const MAX_BYTES_SMALL_BLOCKS: u64 = 1 << 30;

/// Limits of what one key may protect before a rekey is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLimits {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The keys of one direction between two NEWKEYS. `Send + Sync`: workers may share it, unless it is
/// [serial](Self::is_serial).
pub struct PacketKey(Suite);

enum Suite {
    Plain,
    Gcm(GcmKey),
    ChaCha(Box<ChaChaKey>),
    Ctr(Box<CtrKey>),
    Cbc(Box<CbcKey>),
    Clear(ClearKey),
}

impl PacketKey {
    /// Returns the key before the first NEWKEYS: no encryption, no MAC.
    pub const fn plain() -> Self {
        Self(Suite::Plain)
    }

    /// Creates the key from the results of a key exchange. `mac` is ignored with an AEAD cipher.
    ///
    /// # Errors
    /// [`CryptoError::WrongLength`] when a key or IV does not have the algorithm's length;
    /// [`CryptoError::Unsupported`] when a cipher that needs a MAC gets none.
    pub fn new(
        direction: Direction,
        cipher: &Cipher,
        mac: Option<&Mac>,
        key: &[u8],
        iv: &[u8],
        mac_key: &[u8],
    ) -> Result<Self, CryptoError> {
        if key.len() != cipher.key_len {
            return Err(CryptoError::WrongLength { what: "cipher key" });
        }
        if !cipher.is_built() {
            return Err(CryptoError::Unsupported { what: "this cipher in a FIPS build" });
        }
        let suite = match cipher.kind {
            CipherKind::AesGcm | CipherKind::AesGmac => Suite::Gcm(GcmKey::new(cipher.kind, key, iv)?),
            CipherKind::Nothing => Suite::Clear(ClearKey::new(mac, mac_key)?),
            CipherKind::ChaCha20Poly1305 => Suite::ChaCha(Box::new(ChaChaKey::new(direction, key)?)),
            CipherKind::AesCtr => {
                let mac = mac.ok_or(CryptoError::Unsupported { what: "a counter mode without a MAC" })?;
                Suite::Ctr(Box::new(CtrKey::new(key, iv, mac, mac_key)?))
            }
            CipherKind::AesCbc | CipherKind::TripleDesCbc => {
                let mac = mac.ok_or(CryptoError::Unsupported { what: "CBC without a MAC" })?;
                Suite::Cbc(Box::new(CbcKey::new(direction, cipher.kind, key, iv, mac, mac_key)?))
            }
        };
        Ok(Self(suite))
    }

    /// Returns the block length, bytes: packets are padded to a multiple of it. At least 8.
    pub const fn block_len(&self) -> usize {
        match &self.0 {
            Suite::Plain | Suite::ChaCha(_) | Suite::Clear(_) => 8,
            Suite::Gcm(_) | Suite::Ctr(_) => 16,
            Suite::Cbc(cbc) => cbc.block_len(),
        }
    }

    /// Returns the length of the tag behind a packet, bytes.
    pub const fn tag_len(&self) -> usize {
        match &self.0 {
            Suite::Plain => 0,
            Suite::Gcm(_) => gcm::TAG_LEN,
            Suite::ChaCha(_) => chacha::TAG_LEN,
            Suite::Ctr(ctr) => ctr.tag_len(),
            Suite::Cbc(cbc) => cbc.tag_len(),
            Suite::Clear(clear) => clear.tag_len(),
        }
    }

    /// Returns the number of bytes that [`packet_length`](Self::packet_length) needs: four, because counter
    /// mode decrypts the length field without the rest of its block, but a whole block with CBC.
    pub const fn head_len(&self) -> usize {
        match &self.0 {
            Suite::Cbc(cbc) if !cbc.is_etm() => cbc.block_len(),
            _ => LENGTH_LEN,
        }
    }

    /// Returns true when packets must be sealed and opened in order, each once, because a packet's nonce is
    /// in the packet before it (CBC). Workers cannot be used then.
    pub const fn is_serial(&self) -> bool {
        matches!(self.0, Suite::Cbc(_))
    }

    /// Returns the current IV of a serial suite: [`new`](Self::new) makes a key with it that continues from
    /// here. `None` for other suites, whose packets carry their position in the index.
    pub fn chain(&self) -> Option<Vec<u8>> {
        match &self.0 {
            Suite::Cbc(cbc) => Some(cbc.chain()),
            _ => None,
        }
    }

    /// Returns true when a refusal must reveal neither the moment at which a packet was found to be invalid
    /// nor whether its length or its tag was wrong. With CBC and a MAC over the plaintext, a changed packet
    /// would otherwise
    /// reveal bits of another one (CVE-2008-5161). The receiver then discards as many bytes as the largest
    /// packet has, and spends the time of their MAC ([`waste_time`](Self::waste_time)), before it ends the
    /// connection.
    pub const fn conceals_errors(&self) -> bool {
        match &self.0 {
            Suite::Cbc(cbc) => !cbc.is_etm(),
            _ => false,
        }
    }

    /// Takes as long as verifying the tag of `len` bytes, if [`conceals_errors`](Self::conceals_errors).
    pub fn waste_time(&self, len: usize) {
        if let Suite::Cbc(cbc) = &self.0 {
            cbc.waste_time(len);
        }
    }

    /// Returns true when the 4-byte length field counts as a part of the padded data, which fills whole
    /// blocks of [`block_len`](Self::block_len). False for AEADs and encrypt-then-MAC, where the cipher's
    /// blocks do not cover the length field.
    pub const fn length_is_padded(&self) -> bool {
        match &self.0 {
            Suite::Plain => true,
            Suite::Gcm(_) | Suite::ChaCha(_) => false,
            Suite::Ctr(ctr) => !ctr.is_etm(),
            Suite::Cbc(cbc) => !cbc.is_etm(),
            Suite::Clear(clear) => !clear.is_etm(),
        }
    }

    /// Returns the length field of the packet that starts with `head`, not authenticated yet. Decrypts a copy
    /// if needed. Returns 0, which no packet may have, when `head` is shorter than
    /// [`head_len`](Self::head_len).
    pub fn packet_length(&self, index: &PacketIndex, head: &[u8]) -> u32 {
        let Some(clear) = head.first_chunk::<LENGTH_LEN>() else { return 0 };
        u32::from_be_bytes(match &self.0 {
            Suite::Cbc(cbc) if !cbc.is_etm() => cbc.decrypt_head(head).unwrap_or_default(),
            Suite::ChaCha(key) => key.packet_length(index.seq, *clear),
            Suite::Ctr(ctr) if !ctr.is_etm() => ctr.decrypt_head(index, *clear),
            Suite::Plain | Suite::Gcm(_) | Suite::Ctr(_) | Suite::Cbc(_) | Suite::Clear(_) => *clear,
        })
    }

    /// Returns the number by which a packet advances [`PacketIndex::offset`]. `total_without_tag` includes
    /// the length field.
    pub const fn encrypted_len(&self, total_without_tag: usize) -> u64 {
        let clear = match &self.0 {
            Suite::Gcm(_) => LENGTH_LEN,
            Suite::Ctr(ctr) if ctr.is_etm() => LENGTH_LEN,
            Suite::Cbc(cbc) if cbc.is_etm() => LENGTH_LEN,
            Suite::Plain | Suite::ChaCha(_) | Suite::Ctr(_) | Suite::Cbc(_) | Suite::Clear(_) => 0,
        };
        total_without_tag.saturating_sub(clear) as u64
    }

    /// Seals in place. `packet` consists of length field, padding length, payload, padding and space for the
    /// tag.
    ///
    /// # Errors
    /// A caller's mistake: a buffer too short for its content, padding that does not fill a block, or a key
    /// for the other direction. The packet must not be sent then.
    pub fn seal(&self, index: &PacketIndex, packet: &mut [u8]) -> Result<(), CryptoError> {
        let body_len = self.body_len(packet).ok_or(CryptoError::WrongLength { what: "packet" })?;
        let (body, tag) = packet.split_at_mut(body_len);
        match &self.0 {
            Suite::Plain => Ok(()),
            Suite::Gcm(key) => key.seal(index, body, tag),
            Suite::ChaCha(key) => key.seal(index.seq, body, tag),
            Suite::Ctr(key) => key.seal(index, body, tag),
            Suite::Cbc(key) => key.seal(index, body, tag),
            Suite::Clear(key) => key.seal(index, body, tag),
        }
    }

    /// Opens in place; same layout as for [`seal`](Self::seal). Afterwards the length field is decrypted too.
    ///
    /// # Errors
    /// The packet is not authentic; its bytes must not be used.
    pub fn open(&self, index: &PacketIndex, packet: &mut [u8]) -> Result<(), OpenError> {
        let body_len = self.body_len(packet).ok_or(OpenError)?;
        let (body, tag) = packet.split_at_mut(body_len);
        match &self.0 {
            Suite::Plain => Ok(()),
            Suite::Gcm(key) => key.open(index, body, tag),
            Suite::ChaCha(key) => key.open(index.seq, body, tag),
            Suite::Ctr(key) => key.open(index, body, tag),
            Suite::Cbc(key) => key.open(index, body, tag),
            Suite::Clear(key) => key.open(index, body, tag),
        }
    }

    /// Returns the limits of this key before a rekey is due.
    pub const fn limits(&self) -> KeyLimits {
        match &self.0 {
            Suite::Plain => KeyLimits { packets: u64::MAX, bytes: u64::MAX },
            Suite::Cbc(cbc) if cbc.block_len() < 16 => {
                KeyLimits { packets: MAX_PACKETS, bytes: MAX_BYTES_SMALL_BLOCKS }
            }
            _ => KeyLimits { packets: MAX_PACKETS, bytes: MAX_BYTES },
        }
    }

    /// Returns the offset of the tag; `None` when the packet is too short for a length field before it.
    const fn body_len(&self, packet: &[u8]) -> Option<usize> {
        match packet.len().checked_sub(self.tag_len()) {
            Some(len) if len >= LENGTH_LEN => Some(len),
            _ => None,
        }
    }
}
