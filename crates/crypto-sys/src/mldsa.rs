//! ML-DSA-44 (FIPS 204) with a context string, which `aws-lc-rs` does not offer.
//!
//! Composite keys sign with a context of their own, so that neither half of a signature is valid for any
//! other purpose. AWS-LC underneath supports that; `lh_crypto` uses this module for nothing else.
#![expect(unsafe_code, reason = "calls of AWS-LC")]

use std::ptr::{NonNull, null, null_mut};

use crate::aws_lc::{
    EVP_DigestSign, EVP_DigestSignInit, EVP_DigestVerify, EVP_DigestVerifyInit, EVP_MD_CTX, EVP_MD_CTX_free,
    EVP_MD_CTX_new, EVP_PKEY, EVP_PKEY_CTX_set1_signature_context_string, EVP_PKEY_free,
    EVP_PKEY_get_raw_public_key, EVP_PKEY_pqdsa_new_raw_private_key, EVP_PKEY_pqdsa_new_raw_public_key,
    NID_MLDSA44,
};

/// Length of the seed of a private key (FIPS 204's ξ), bytes.
pub const SEED_LEN: usize = 32;
/// Length of a public key, bytes.
pub const PUBLIC_LEN: usize = 1312;
/// Length of a signature, bytes.
pub const SIGNATURE_LEN: usize = 2420;

/// Failure of the library: no memory, or no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ML-DSA operation failed")]
pub struct MlDsaError;

/// A private or public key; owns the library's allocation.
pub struct Key(NonNull<EVP_PKEY>);

// SAFETY: several threads may use the library's keys at once as long as none changes them, and no code here
// does; their reference counts are atomic.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    /// Returns the private key of a seed.
    ///
    /// # Errors
    /// [`MlDsaError`].
    pub fn from_seed(seed: &[u8; SEED_LEN]) -> Result<Self, MlDsaError> {
        // SAFETY: pointer and length belong to one array, which is only read and not kept. The result is null
        // or a new key.
        let key = unsafe { EVP_PKEY_pqdsa_new_raw_private_key(NID_MLDSA44, seed.as_ptr(), seed.len()) };
        NonNull::new(key).map(Self).ok_or(MlDsaError)
    }

    /// Returns a public key, which can only verify.
    ///
    /// # Errors
    /// [`MlDsaError`].
    pub fn from_public(public: &[u8; PUBLIC_LEN]) -> Result<Self, MlDsaError> {
        // SAFETY: as in `from_seed`.
        let key = unsafe { EVP_PKEY_pqdsa_new_raw_public_key(NID_MLDSA44, public.as_ptr(), public.len()) };
        NonNull::new(key).map(Self).ok_or(MlDsaError)
    }

    /// Returns the public half.
    ///
    /// # Errors
    /// [`MlDsaError`].
    pub fn public(&self) -> Result<[u8; PUBLIC_LEN], MlDsaError> {
        let mut public = [0; PUBLIC_LEN];
        let mut length = public.len();
        // SAFETY: the key is alive and only read; `length` is the size of the buffer, and the library writes
        // no more.
        let got =
            unsafe { EVP_PKEY_get_raw_public_key(self.0.as_ptr(), public.as_mut_ptr(), &raw mut length) };
        if got == 1 && length == PUBLIC_LEN { Ok(public) } else { Err(MlDsaError) }
    }

    /// Signs `message` with `context` (at most 255 bytes) and fresh random numbers.
    ///
    /// # Errors
    /// [`MlDsaError`], also for a public key and for a longer context.
    pub fn sign(&self, context: &[u8], message: &[u8]) -> Result<[u8; SIGNATURE_LEN], MlDsaError> {
        let operation = Operation::new(self, context, true)?;
        let mut signature = [0; SIGNATURE_LEN];
        let mut length = signature.len();
        // SAFETY: the context was created for signing and is ours alone; both lengths are those of their
        // buffers, and `length` is a valid pointer.
        let signed = unsafe {
            EVP_DigestSign(
                operation.0.as_ptr(),
                signature.as_mut_ptr(),
                &raw mut length,
                message.as_ptr(),
                message.len(),
            )
        };
        if signed == 1 && length == SIGNATURE_LEN { Ok(signature) } else { Err(MlDsaError) }
    }

    /// Returns true when `signature` is this key's signature over `message` with `context`.
    pub fn verify(&self, context: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let Ok(operation) = Operation::new(self, context, false) else { return false };
        // SAFETY: the context was created for verifying and is ours alone; both lengths are those of their
        // buffers, which are only read.
        let right = unsafe {
            EVP_DigestVerify(
                operation.0.as_ptr(),
                signature.as_ptr(),
                signature.len(),
                message.as_ptr(),
                message.len(),
            )
        };
        right == 1
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the library with its only reference, and is not used after this.
        // EVP_PKEY_free wipes the key.
        unsafe { EVP_PKEY_free(self.0.as_ptr()) };
    }
}

/// One signature operation.
struct Operation(NonNull<EVP_MD_CTX>);

impl Operation {
    fn new(key: &Key, context: &[u8], signs: bool) -> Result<Self, MlDsaError> {
        // SAFETY: no arguments; the result is null or new.
        let operation = Self(NonNull::new(unsafe { EVP_MD_CTX_new() }).ok_or(MlDsaError)?);
        let init = if signs { EVP_DigestSignInit } else { EVP_DigestVerifyInit };
        let mut parameters = null_mut();
        // SAFETY: the operation is fresh and ours, the key is alive (the operation takes its own reference),
        // and neither digest nor engine is given. `parameters` then points into the operation, which owns the
        // target and outlives its use here. The context string has the given length, and is copied.
        let ready = unsafe {
            init(operation.0.as_ptr(), &raw mut parameters, null(), null_mut(), key.0.as_ptr()) == 1
                && EVP_PKEY_CTX_set1_signature_context_string(parameters, context.as_ptr(), context.len())
                    == 1
        };
        if ready { Ok(operation) } else { Err(MlDsaError) }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the library and is not used after this.
        unsafe { EVP_MD_CTX_free(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_bound_to_key_context_and_message() {
        let key = Key::from_seed(&[7; SEED_LEN]).expect("a key");
        let public = Key::from_public(&key.public().expect("its public half")).expect("a key");
        let signature = key.sign(b"context", b"message").expect("a signature");
        assert!(public.verify(b"context", b"message", &signature));
        assert!(!public.verify(b"", b"message", &signature));
        assert!(!public.verify(b"context", b"massage", &signature));
        assert!(!public.verify(b"context", b"message", &signature[1..]));
        let other = Key::from_seed(&[8; SEED_LEN]).expect("a key");
        assert!(!other.verify(b"context", b"message", &signature));
        assert_eq!(public.sign(b"context", b"message").err(), Some(MlDsaError));
        assert_eq!(key.sign(&[0; 256], b"message").err(), Some(MlDsaError));
    }
}
