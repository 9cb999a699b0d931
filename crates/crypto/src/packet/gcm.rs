//! AES-GCM in RFC 5647's framing: the length field is additional data and not encrypted. Also GMAC, where the
//! whole packet is additional data.

use super::index::{LENGTH_LEN, PacketIndex};
use crate::cipher::CipherKind;
use crate::{CryptoError, OpenError};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

pub(super) const TAG_LEN: usize = 16;

/// The derived IV is a fixed field and the first value of an invocation counter (RFC 5647 section 7.1).
pub(super) struct GcmKey {
    key: LessSafeKey,
    fixed: [u8; 4],
    first_invocation: u64,
    /// GMAC: the whole packet is additional data.
    all_clear: bool,
}

impl GcmKey {
    pub(super) fn new(kind: CipherKind, key: &[u8], iv: &[u8]) -> Result<Self, CryptoError> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            _ => &AES_256_GCM,
        };
        let iv: [u8; NONCE_LEN] = iv.try_into().map_err(|_| CryptoError::WrongLength { what: "IV" })?;
        let [a, b, c, d, counter @ ..] = iv;
        let key = UnboundKey::new(algorithm, key)
            .map_err(|_| CryptoError::Library { what: "set up an AES-GCM key" })?;
        Ok(Self {
            key: LessSafeKey::new(key),
            fixed: [a, b, c, d],
            first_invocation: u64::from_be_bytes(counter),
            all_clear: matches!(kind, CipherKind::AesGmac),
        })
    }

    pub(super) fn seal(
        &self,
        index: &PacketIndex,
        body: &mut [u8],
        tag_out: &mut [u8],
    ) -> Result<(), CryptoError> {
        const FAILED: CryptoError = CryptoError::Library { what: "encrypt a packet" };
        let (clear, text) = self.split(body).ok_or(FAILED)?;
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(index), Aad::from(&*clear), text)
            .map_err(|_| FAILED)?;
        if tag_out.len() != tag.as_ref().len() {
            return Err(FAILED);
        }
        tag_out.copy_from_slice(tag.as_ref());
        Ok(())
    }

    pub(super) fn open(&self, index: &PacketIndex, body: &mut [u8], tag: &[u8]) -> Result<(), OpenError> {
        let (clear, text) = self.split(body).ok_or(OpenError)?;
        self.key
            .open_in_place_separate_tag(self.nonce(index), Aad::from(&*clear), tag, text)
            .map(|_| ())
            .map_err(|_| OpenError)
    }

    /// Returns the part that is only authenticated, and the part that is also encrypted.
    fn split<'a>(&self, body: &'a mut [u8]) -> Option<(&'a mut [u8], &'a mut [u8])> {
        let clear = if self.all_clear { body.len() } else { LENGTH_LEN };
        body.split_at_mut_checked(clear)
    }

    fn nonce(&self, index: &PacketIndex) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        let (fixed, counter) = nonce.split_at_mut(self.fixed.len());
        fixed.copy_from_slice(&self.fixed);
        // The counter wraps within its 64 bits, without carrying into the fixed field.
        counter.copy_from_slice(&self.first_invocation.wrapping_add(index.invocation).to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}
