//! UMAC (RFC 4418) with 64-bit and 128-bit tags, the MACs that OpenSSH prefers. No library offers them.
//!
//! It is a universal hash under secret keys, concealed by an encrypted nonce. A tag costs one multiplication
//! of 32-bit words for every 8 bytes of message and 32 bits of tag ([`nh`]). The levels above ([`poly`],
//! [`inner_product`]) process one 64-bit word per KiB, and AES one block per packet. AES is AWS-LC's;
//! everything else here is arithmetic.
//!
//! Design decisions:
//!
//! - **One slice, one call.** A packet is complete in memory when its tag is computed, so there is no
//!   streaming. The key is immutable and the nonce is an argument, so any number of workers share a key, as
//!   with every other suite.
//! - **At most 16 MiB per message.** RFC 4418 section 5.2 hashes longer messages with a second polynomial
//!   over a prime of 128 bits. SSH packets are far smaller, so it is omitted, and longer messages are
//!   refused.
//! - **Vectors without intrinsics.** [`nh`] is laid out so that the compiler uses the 32-bit multiplication
//!   instructions of the x86-64 and AArch64 baselines.

mod block;
mod inner_product;
mod nh;
mod poly;
#[cfg(test)]
mod reference;
mod sizes;
#[cfg(test)]
mod tests;

pub(crate) use sizes::KEY_LEN;

use crate::CryptoError;
use block::{Kdf, Pad};
use inner_product::InnerProduct;
use nh::NhKey;
use poly::Poly;
use sizes::CHUNK_LEN;
use zeroize::Zeroizing;

/// Longest tag, bytes.
const MAX_TAG_LEN: usize = 16;

/// Longest message that one polynomial hashes (RFC 4418 section 5.2.1: 2^17 bytes of words), bytes.
const MAX_MESSAGE_LEN: usize = (1 << 17) / 8 * CHUNK_LEN;

/// A UMAC key.
pub(crate) struct Umac {
    hash: UniversalHash,
    pad: Pad,
}

/// The hash in as many independent columns as the tag has 32-bit words, computed two at a time.
enum UniversalHash {
    Two(Columns<1>),
    Four(Columns<2>),
}

/// A tag; `as_ref()` returns the bytes.
pub(crate) struct UmacTag {
    bytes: [u8; MAX_TAG_LEN],
    len: usize,
}

impl AsRef<[u8]> for UmacTag {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Umac {
    /// Creates a key for tags of `tag_len` bytes.
    ///
    /// # Errors
    /// `key` does not have [`KEY_LEN`] bytes, or `tag_len` is neither 8 nor 16.
    pub(crate) fn new(key: &[u8], tag_len: usize) -> Result<Self, CryptoError> {
        if key.len() != KEY_LEN {
            return Err(CryptoError::WrongLength { what: "MAC key" });
        }
        let kdf = Kdf::new(key)?;
        let hash = match tag_len {
            8 => UniversalHash::Two(Columns::new(&kdf)?),
            16 => UniversalHash::Four(Columns::new(&kdf)?),
            _ => return Err(CryptoError::Unsupported { what: "a UMAC tag of this length" }),
        };
        Ok(Self { hash, pad: Pad::new(&kdf)? })
    }

    /// Computes the tag of `message`. A nonce must not be used for two different messages.
    ///
    /// Returns `None` when the message is longer than 16 MiB.
    pub(crate) fn tag(&self, nonce: u64, message: &[u8]) -> Option<UmacTag> {
        if message.len() > MAX_MESSAGE_LEN {
            return None;
        }
        Some(match &self.hash {
            UniversalHash::Two(columns) => {
                let [hash] = columns.hash(message);
                let tag = u64::from_be_bytes(hash) ^ u64::from_be_bytes(self.pad.half(nonce)?);
                let mut bytes = [0; MAX_TAG_LEN];
                *bytes.first_chunk_mut()? = tag.to_be_bytes();
                UmacTag { bytes, len: 8 }
            }
            UniversalHash::Four(columns) => {
                let hash = columns.hash(message);
                let hash = u128::from_be_bytes(*hash.as_flattened().first_chunk()?);
                let tag = hash ^ u128::from_be_bytes(self.pad.whole(nonce)?);
                UmacTag { bytes: tag.to_be_bytes(), len: 16 }
            }
        })
    }
}

/// `UHASH` (RFC 4418 section 5) in 2 × `PAIRS` columns.
struct Columns<const PAIRS: usize> {
    nh: NhKey,
    poly: [[Poly; 2]; PAIRS],
    inner_product: [[InnerProduct; 2]; PAIRS],
}

impl<const PAIRS: usize> Columns<PAIRS> {
    /// Derives the keys for four columns; those for two columns are a prefix.
    fn new(kdf: &Kdf) -> Result<Self, CryptoError> {
        let level1: Zeroizing<[u8; nh::KEY_LEN]> = kdf.derive(1)?;
        let level2: Zeroizing<[u8; 4 * poly::KEY_LEN]> = kdf.derive(2)?;
        let level3: Zeroizing<[u8; 4 * inner_product::KEY_LEN]> = kdf.derive(3)?;
        let masks: Zeroizing<[u8; 4 * 4]> = kdf.derive(4)?;
        let mut poly = level2.as_chunks().0.iter().map(Poly::new);
        let mut inner_product = level3
            .as_chunks()
            .0
            .iter()
            .zip(masks.as_chunks().0)
            .map(|(key, mask)| InnerProduct::new(key, u32::from_be_bytes(*mask)));
        // The iterators never run out: there are keys for four columns.
        Ok(Self {
            nh: NhKey::new(&level1),
            poly: std::array::from_fn(|_| std::array::from_fn(|_| poly.next().unwrap_or_default())),
            inner_product: std::array::from_fn(|_| {
                std::array::from_fn(|_| inner_product.next().unwrap_or_default())
            }),
        })
    }

    /// Returns the columns' values, two big-endian 32-bit words per pair.
    fn hash(&self, message: &[u8]) -> [[u8; 8]; PAIRS] {
        let level2 =
            if message.len() <= CHUNK_LEN { self.level1(message) } else { self.polynomials(message) };
        let mut out = [[0; 8]; PAIRS];
        for ((out, values), keys) in out.iter_mut().zip(level2).zip(&self.inner_product) {
            let [first, second] = [keys[0].hash(values[0]), keys[1].hash(values[1])];
            *out = (u64::from(first) << 32 | u64::from(second)).to_be_bytes();
        }
        out
    }

    /// Computes `L1-HASH` of one chunk: the NH sum plus the chunk's length in bits.
    #[inline]
    fn level1(&self, chunk: &[u8]) -> [[u64; 2]; PAIRS] {
        let bits = 8 * chunk.len() as u64;
        std::array::from_fn(|pair| self.nh.pair(pair, chunk).map(|sum| sum.wrapping_add(bits)))
    }

    /// Computes `L2-HASH` of the chunks' words.
    fn polynomials(&self, message: &[u8]) -> [[u64; 2]; PAIRS] {
        let mut values = [[poly::START; 2]; PAIRS];
        for chunk in message.chunks(CHUNK_LEN) {
            let words = self.level1(chunk);
            for ((values, words), keys) in values.iter_mut().zip(words).zip(&self.poly) {
                *values = [keys[0].absorb(values[0], words[0]), keys[1].absorb(values[1], words[1])];
            }
        }
        values.map(|pair| pair.map(poly::finish))
    }
}
