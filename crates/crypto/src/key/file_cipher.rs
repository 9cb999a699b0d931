//! Encryption of key files: AES in the formats' modes, over whole buffers.

use crate::KeyFileError;
use crate::cipher::CipherKind;
use crate::registry::EVERY_CIPHER;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

pub(super) const BLOCK_LEN: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Cbc,
    Ctr,
    Gcm,
}

/// A cipher of OpenSSH's key format, by its SSH name.
#[derive(Clone, Copy)]
pub(super) struct FileCipher {
    pub(super) key_len: usize,
    pub(super) mode: Mode,
}

impl FileCipher {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        // FIPS builds have no CBC for packets, and read key files that are encrypted with it.
        let cipher = EVERY_CIPHER.iter().find(|cipher| cipher.name == name)?;
        let mode = match cipher.kind {
            CipherKind::AesCtr => Mode::Ctr,
            CipherKind::AesCbc => Mode::Cbc,
            CipherKind::AesGcm => Mode::Gcm,
            _ => return None,
        };
        Some(Self { key_len: cipher.key_len, mode })
    }

    pub(super) const fn iv_len(self) -> usize {
        match self.mode {
            Mode::Cbc | Mode::Ctr => BLOCK_LEN,
            Mode::Gcm => 12,
        }
    }

    /// Returns the length of the tag behind the ciphertext, bytes.
    pub(super) const fn tag_len(self) -> usize {
        match self.mode {
            Mode::Cbc | Mode::Ctr => 0,
            Mode::Gcm => 16,
        }
    }

    /// Decrypts in place. Only GCM detects a wrong passphrase; with the other modes the plaintext must be
    /// checked.
    pub(super) fn decrypt(
        self,
        key: &[u8],
        iv: &[u8],
        data: &mut [u8],
        tag: &[u8],
    ) -> Result<(), KeyFileError> {
        match self.mode {
            Mode::Cbc => cbc_decrypt(key, iv, data),
            Mode::Ctr => ctr_apply(key, iv, data),
            Mode::Gcm => {
                let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
                let key = UnboundKey::new(algorithm, key).map_err(|_| FAILED)?;
                let nonce = Nonce::try_assume_unique_for_key(iv).map_err(|_| FAILED)?;
                LessSafeKey::new(key)
                    .open_in_place_separate_tag(nonce, Aad::empty(), tag, data)
                    .map(|_| ())
                    .map_err(|_| KeyFileError::WrongPassphrase)
            }
        }
    }
}

impl FileCipher {
    /// Encrypts in place and returns the tag behind the ciphertext. `data` is whole blocks; key and IV must
    /// be used once only.
    pub(super) fn encrypt(self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<Vec<u8>, KeyFileError> {
        match self.mode {
            Mode::Cbc => cbc_encrypt(key, iv, data).map(|()| Vec::new()),
            Mode::Ctr => ctr_apply(key, iv, data).map(|()| Vec::new()),
            Mode::Gcm => {
                let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
                let key = UnboundKey::new(algorithm, key).map_err(|_| FAILED)?;
                let nonce = Nonce::try_assume_unique_for_key(iv).map_err(|_| FAILED)?;
                LessSafeKey::new(key)
                    .seal_in_place_separate_tag(nonce, Aad::empty(), data)
                    .map(|tag| tag.as_ref().to_vec())
                    .map_err(|_| FAILED)
            }
        }
    }
}

const FAILED: KeyFileError = KeyFileError::InvalidKey { why: "the crypto library refused it" };

/// Decrypts AES-CBC in place, leaving the padding; `data` must be whole blocks.
pub(super) fn cbc_decrypt(key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), KeyFileError> {
    if data.is_empty() || !data.len().is_multiple_of(BLOCK_LEN) {
        return Err(KeyFileError::InvalidFormat);
    }
    let iv = iv.try_into().map_err(|_| KeyFileError::InvalidFormat)?;
    let key = DecryptingKey::cbc(aes(key)?).map_err(|_| FAILED)?;
    key.decrypt(data, DecryptionContext::Iv128(iv)).map(|_| ()).map_err(|_| FAILED)
}

/// Encrypts AES-CBC in place; `data` must be whole blocks, including padding.
pub(super) fn cbc_encrypt(key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), KeyFileError> {
    let iv: FixedLength<BLOCK_LEN> = iv.try_into().map_err(|_| KeyFileError::InvalidFormat)?;
    let key = EncryptingKey::cbc(aes(key)?).map_err(|_| FAILED)?;
    key.less_safe_encrypt(data, EncryptionContext::Iv128(iv)).map(|_| ()).map_err(|_| FAILED)
}

/// Applies AES-CTR in place, to encrypt or to decrypt.
pub(super) fn ctr_apply(key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), KeyFileError> {
    let iv: FixedLength<BLOCK_LEN> = iv.try_into().map_err(|_| KeyFileError::InvalidFormat)?;
    let key = EncryptingKey::ctr(aes(key)?).map_err(|_| FAILED)?;
    key.less_safe_encrypt(data, EncryptionContext::Iv128(iv)).map(|_| ()).map_err(|_| FAILED)
}

/// Removes PKCS#7 padding. Invalid padding indicates a wrong passphrase.
pub(super) fn unpad(data: &[u8]) -> Result<&[u8], KeyFileError> {
    let padding = data.last().copied().map_or(0, usize::from);
    let text_len = data.len().checked_sub(padding).ok_or(KeyFileError::WrongPassphrase)?;
    match data.split_at_checked(text_len) {
        Some((text, tail))
            if (1..=BLOCK_LEN).contains(&padding)
                && tail.iter().all(|byte| usize::from(*byte) == padding) =>
        {
            Ok(text)
        }
        _ => Err(KeyFileError::WrongPassphrase),
    }
}

fn aes(key: &[u8]) -> Result<UnboundCipherKey, KeyFileError> {
    let algorithm = match key.len() {
        16 => &AES_128,
        24 => &AES_192,
        _ => &AES_256,
    };
    UnboundCipherKey::new(algorithm, key).map_err(|_| FAILED)
}
