//! The block cipher of UMAC: key derivation, and the pad that conceals the hash (RFC 4418 section 3).

use super::sizes::KEY_LEN;
use crate::CryptoError;
use aws_lc_rs::cipher::{AES_128, EncryptingKey, EncryptionContext, UnboundCipherKey};
use zeroize::Zeroizing;

const BLOCK_LEN: usize = 16;

/// AES-128 on independent whole blocks.
struct Blocks(EncryptingKey);

impl Blocks {
    fn new(key: &[u8]) -> Result<Self, CryptoError> {
        UnboundCipherKey::new(&AES_128, key)
            .and_then(EncryptingKey::ecb)
            .map(Self)
            .map_err(|_| CryptoError::Library { what: "set up an AES key" })
    }

    fn encrypt(&self, blocks: &mut [u8]) -> Result<(), CryptoError> {
        self.0
            .less_safe_encrypt(blocks, EncryptionContext::None)
            .map(|_| ())
            .map_err(|_| CryptoError::Library { what: "encrypt a block" })
    }
}

/// `KDF` (section 3.2.1).
pub(super) struct Kdf(Blocks);

impl Kdf {
    pub(super) fn new(key: &[u8]) -> Result<Self, CryptoError> {
        Blocks::new(key).map(Self)
    }

    /// Derives `N` bytes, a multiple of the block size, for the purpose `index`.
    pub(super) fn derive<const N: usize>(&self, index: u8) -> Result<Zeroizing<[u8; N]>, CryptoError> {
        let mut out = Zeroizing::new([0; N]);
        for (block, number) in out.as_chunks_mut::<BLOCK_LEN>().0.iter_mut().zip(1u128..) {
            *block = (u128::from(index) << 64 | number).to_be_bytes();
        }
        self.0.encrypt(out.as_mut_slice())?;
        Ok(out)
    }
}

/// `PDF` (section 3.3.1): one block per nonce.
pub(super) struct Pad(Blocks);

impl Pad {
    pub(super) fn new(kdf: &Kdf) -> Result<Self, CryptoError> {
        let key: Zeroizing<[u8; KEY_LEN]> = kdf.derive(0)?;
        Blocks::new(key.as_slice()).map(Self)
    }

    /// Returns the pad of a 128-bit tag. It cannot fail; if it did, the packet would be refused.
    pub(super) fn whole(&self, nonce: u64) -> Option<[u8; BLOCK_LEN]> {
        let mut block = (u128::from(nonce) << 64).to_be_bytes();
        self.0.encrypt(&mut block).ok()?;
        Some(block)
    }

    /// Returns the pad of a 64-bit tag. Two nonces share a block; the last bit of the nonce selects the half.
    pub(super) fn half(&self, nonce: u64) -> Option<[u8; BLOCK_LEN / 2]> {
        let block = self.whole(nonce & !1)?;
        if nonce & 1 == 0 { block.first_chunk().copied() } else { block.last_chunk().copied() }
    }
}
