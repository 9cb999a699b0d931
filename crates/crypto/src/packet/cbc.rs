//! AES and Triple DES in cipher block chaining mode (RFC 4253 section 6.3) with a MAC, in both orders: for
//! old equipment, and only where a configuration names it.
//!
//! The chain runs through all packets under one key: the IV of a packet is the last ciphertext block of the
//! packet before. So the packets of this suite, unlike all others, must be sealed and opened one after the
//! other ([`PacketKey::is_serial`](crate::PacketKey::is_serial)). The last block is stored here behind a lock
//! that is never contended. It was sent over the network, so it is not secret.

use std::sync::{Mutex, PoisonError};

use super::index::{Direction, LENGTH_LEN, PacketIndex};
use super::mac::MacKey;
use crate::cipher::CipherKind;
use crate::{CryptoError, Mac, OpenError};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use des::TdesEde3;
use des::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use subtle::ConstantTimeEq;

const AES_BLOCK: usize = 16;
const DES_BLOCK: usize = 8;

pub(super) struct CbcKey {
    cipher: BlockCipher,
    mac: MacKey,
    tag_len: usize,
    etm: bool,
}

/// A block cipher for one direction, with the ciphertext block to which the next packet is chained.
enum BlockCipher {
    AesSeal { key: EncryptingKey, chain: Mutex<[u8; AES_BLOCK]> },
    AesOpen { key: DecryptingKey, chain: Mutex<[u8; AES_BLOCK]> },
    Des { key: Box<TdesEde3>, seal: bool, chain: Mutex<[u8; DES_BLOCK]> },
}

impl CbcKey {
    pub(super) fn new(
        direction: Direction,
        kind: CipherKind,
        key: &[u8],
        iv: &[u8],
        mac: &Mac,
        mac_key: &[u8],
    ) -> Result<Self, CryptoError> {
        const BAD_IV: CryptoError = CryptoError::WrongLength { what: "IV" };
        let cipher = if kind == CipherKind::TripleDesCbc {
            let key =
                TdesEde3::new_from_slice(key).map_err(|_| CryptoError::WrongLength { what: "cipher key" })?;
            let chain = Mutex::new(iv.try_into().map_err(|_| BAD_IV)?);
            BlockCipher::Des { key: Box::new(key), seal: direction == Direction::Seal, chain }
        } else {
            const FAILED: CryptoError = CryptoError::Library { what: "set up an AES-CBC key" };
            let algorithm = match key.len() {
                16 => &AES_128,
                24 => &AES_192,
                _ => &AES_256,
            };
            let chain = Mutex::new(iv.try_into().map_err(|_| BAD_IV)?);
            let key = UnboundCipherKey::new(algorithm, key).map_err(|_| FAILED)?;
            match direction {
                Direction::Seal => {
                    BlockCipher::AesSeal { key: EncryptingKey::cbc(key).map_err(|_| FAILED)?, chain }
                }
                Direction::Open => {
                    BlockCipher::AesOpen { key: DecryptingKey::cbc(key).map_err(|_| FAILED)?, chain }
                }
            }
        };
        Ok(Self { cipher, mac: MacKey::new(mac, mac_key)?, tag_len: mac.tag_len, etm: mac.etm })
    }

    pub(super) const fn block_len(&self) -> usize {
        match &self.cipher {
            BlockCipher::AesSeal { .. } | BlockCipher::AesOpen { .. } => AES_BLOCK,
            BlockCipher::Des { .. } => DES_BLOCK,
        }
    }

    pub(super) const fn tag_len(&self) -> usize {
        self.tag_len
    }

    pub(super) const fn is_etm(&self) -> bool {
        self.etm
    }

    /// Returns the block to which the next packet is chained.
    pub(super) fn chain(&self) -> Vec<u8> {
        match &self.cipher {
            BlockCipher::AesSeal { chain, .. } | BlockCipher::AesOpen { chain, .. } => lock(chain).to_vec(),
            BlockCipher::Des { chain, .. } => lock(chain).to_vec(),
        }
    }

    /// Decrypts the length field from the packet's first block, without advancing the chain.
    pub(super) fn decrypt_head(&self, head: &[u8]) -> Option<[u8; LENGTH_LEN]> {
        let mut block = [0; AES_BLOCK];
        let block = block.get_mut(..self.block_len())?;
        block.copy_from_slice(head.get(..self.block_len())?);
        match &self.cipher {
            BlockCipher::AesSeal { .. } => return None,
            BlockCipher::AesOpen { key, chain } => aes_decrypt(key, *lock(chain), block)?,
            BlockCipher::Des { key, chain, .. } => des_decrypt(key, *lock(chain), block),
        }
        block.first_chunk().copied()
    }

    pub(super) fn seal(
        &self,
        index: &PacketIndex,
        body: &mut [u8],
        tag_out: &mut [u8],
    ) -> Result<(), CryptoError> {
        const PADDING: CryptoError = CryptoError::WrongLength { what: "padding" };
        const TOO_LONG: CryptoError = CryptoError::WrongLength { what: "packet" };
        let mut put_tag = |body: &[u8]| {
            let tag = self.mac.tag(index.seq, body).ok_or(TOO_LONG)?;
            if tag_out.len() != tag.as_ref().len() {
                return Err(CryptoError::WrongLength { what: "tag" });
            }
            tag_out.copy_from_slice(tag.as_ref());
            Ok(())
        };
        if self.etm {
            self.encrypt(self.whole_blocks(body).ok_or(PADDING)?)?;
            put_tag(body)
        } else {
            self.whole_blocks(body).ok_or(PADDING)?;
            put_tag(body)?;
            self.encrypt(body)
        }
    }

    pub(super) fn open(&self, index: &PacketIndex, body: &mut [u8], tag: &[u8]) -> Result<(), OpenError> {
        if self.etm {
            self.check(index, body, tag)?;
            self.decrypt(self.whole_blocks(body).ok_or(OpenError)?)
        } else {
            self.decrypt(self.whole_blocks(body).ok_or(OpenError)?)?;
            self.check(index, body, tag)
        }
    }

    /// Computes and discards a tag over `len` meaningless bytes, so that a refusal takes as long as a
    /// verification.
    pub(super) fn waste_time(&self, len: usize) {
        let _ = std::hint::black_box(self.mac.tag(0, &vec![0; len]));
    }

    /// Returns the part of a packet that the cipher covers: whole blocks, at least one.
    fn whole_blocks<'a>(&self, body: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let covered = body.get_mut(if self.etm { LENGTH_LEN } else { 0 }..)?;
        (covered.len().is_multiple_of(self.block_len()) && !covered.is_empty()).then_some(covered)
    }

    fn check(&self, index: &PacketIndex, body: &[u8], tag: &[u8]) -> Result<(), OpenError> {
        let expected = self.mac.tag(index.seq, body).ok_or(OpenError)?;
        if bool::from(expected.as_ref().ct_eq(tag)) { Ok(()) } else { Err(OpenError) }
    }

    fn encrypt(&self, data: &mut [u8]) -> Result<(), CryptoError> {
        const WRONG_WAY: CryptoError = CryptoError::Unsupported { what: "sealing with an opening key" };
        match &self.cipher {
            BlockCipher::AesSeal { key, chain } => {
                let mut chain = lock(chain);
                key.less_safe_encrypt(data, EncryptionContext::Iv128(FixedLength::from(&*chain)))
                    .map_err(|_| CryptoError::Library { what: "encrypt a packet" })?;
                if let Some(last) = data.last_chunk() {
                    *chain = *last;
                }
            }
            BlockCipher::Des { key, seal: true, chain } => {
                let mut chain = lock(chain);
                for block in data.as_chunks_mut::<DES_BLOCK>().0 {
                    xor(block, &chain);
                    let mut array = Array(*block);
                    key.encrypt_block(&mut array);
                    *block = array.0;
                    *chain = *block;
                }
            }
            BlockCipher::AesOpen { .. } | BlockCipher::Des { seal: false, .. } => return Err(WRONG_WAY),
        }
        Ok(())
    }

    fn decrypt(&self, data: &mut [u8]) -> Result<(), OpenError> {
        match &self.cipher {
            BlockCipher::AesOpen { key, chain } => {
                let mut chain = lock(chain);
                let last = *data.last_chunk().ok_or(OpenError)?;
                aes_decrypt(key, *chain, data).ok_or(OpenError)?;
                *chain = last;
                Ok(())
            }
            BlockCipher::Des { key, seal: false, chain } => {
                let mut chain = lock(chain);
                let last = *data.last_chunk().ok_or(OpenError)?;
                des_decrypt(key, *chain, data);
                *chain = last;
                Ok(())
            }
            BlockCipher::AesSeal { .. } | BlockCipher::Des { seal: true, .. } => Err(OpenError),
        }
    }
}

/// Locks a chain. No code panics while the lock is held, and a block is always complete.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn aes_decrypt(key: &DecryptingKey, iv: [u8; AES_BLOCK], data: &mut [u8]) -> Option<()> {
    key.decrypt(data, DecryptionContext::Iv128(FixedLength::from(&iv))).ok().map(|_| ())
}

fn des_decrypt(key: &TdesEde3, mut previous: [u8; DES_BLOCK], data: &mut [u8]) {
    for block in data.as_chunks_mut::<DES_BLOCK>().0 {
        let ciphertext = *block;
        let mut array = Array(ciphertext);
        key.decrypt_block(&mut array);
        *block = array.0;
        xor(block, &previous);
        previous = ciphertext;
    }
}

fn xor(block: &mut [u8; DES_BLOCK], other: &[u8; DES_BLOCK]) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}
