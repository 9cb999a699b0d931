//! RSA operations that `aws-lc-rs` leaves out: signatures over SHA-1 (`ssh-rsa`), the best that old equipment
//! supports, and keys shorter than 2048 or longer than 8192 bits.
//!
//! AWS-LC underneath does both, with blinding and with a check of the result, which is safer than our own
//! assembly of primitives would be. `lh_crypto` calls this only where its own library does not suffice.
#![expect(unsafe_code, reason = "calls of AWS-LC")]

use std::ptr::NonNull;

use crate::aws_lc::{
    BIGNUM, BN_free, BN_new, BN_set_word, NID_sha1, NID_sha256, NID_sha512, OPENSSL_free, RSA, RSA_F4,
    RSA_free, RSA_generate_key_ex, RSA_new, RSA_private_key_from_bytes, RSA_private_key_to_bytes,
    RSA_public_key_from_bytes, RSA_sign, RSA_size, RSA_verify,
};
use zeroize::{Zeroize, Zeroizing};

/// Failure of the library: the key is not valid, or too small for the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("RSA operation failed")]
pub struct RsaError;

/// The signed digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest<'a> {
    /// SHA-1.
    Sha1(&'a [u8; 20]),
    /// SHA-256.
    Sha256(&'a [u8; 32]),
    /// SHA-512.
    Sha512(&'a [u8; 64]),
}

impl Digest<'_> {
    /// Returns the library's number of the digest, and the digest's bytes.
    const fn parts(&self) -> (i32, &[u8]) {
        match self {
            Self::Sha1(bytes) => (NID_sha1, *bytes),
            Self::Sha256(bytes) => (NID_sha256, *bytes),
            Self::Sha512(bytes) => (NID_sha512, *bytes),
        }
    }
}

/// An RSA key; owns the library's allocation.
struct Key(NonNull<RSA>);

impl Key {
    fn private(pkcs1: &[u8]) -> Result<Self, RsaError> {
        // SAFETY: pointer and length belong to one slice, which is only read and not kept. The result is null
        // or a new key.
        let key = unsafe { RSA_private_key_from_bytes(pkcs1.as_ptr(), pkcs1.len()) };
        NonNull::new(key).map(Self).ok_or(RsaError)
    }

    fn public(pkcs1: &[u8]) -> Result<Self, RsaError> {
        // SAFETY: as in `private`.
        let key = unsafe { RSA_public_key_from_bytes(pkcs1.as_ptr(), pkcs1.len()) };
        NonNull::new(key).map(Self).ok_or(RsaError)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the library with its only reference, and is not used after this.
        // RSA_free wipes the numbers.
        unsafe { RSA_free(self.0.as_ptr()) };
    }
}

/// A big number; owns the library's allocation.
struct Number(NonNull<BIGNUM>);

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: as with `Key`.
        unsafe { BN_free(self.0.as_ptr()) };
    }
}

/// Generates a key as DER `RSAPrivateKey` (RFC 8017 appendix A.1.2) with the exponent 65537. `bits` must be a
/// multiple of 128, because the library rounds others down.
///
/// # Errors
/// [`RsaError`] for sizes that the library does not support.
pub fn generate(bits: u32) -> Result<Zeroizing<Vec<u8>>, RsaError> {
    if !bits.is_multiple_of(128) {
        return Err(RsaError);
    }
    let bits = i32::try_from(bits).map_err(|_| RsaError)?;
    // SAFETY: no arguments; the result is null or new.
    let key = Key(NonNull::new(unsafe { RSA_new() }).ok_or(RsaError)?);
    // SAFETY: no arguments; the result is null or new.
    let exponent = Number(NonNull::new(unsafe { BN_new() }).ok_or(RsaError)?);
    // SAFETY: both are alive and have no other user; the null callback means none.
    let made = unsafe {
        BN_set_word(exponent.0.as_ptr(), RSA_F4 as _) == 1
            && RSA_generate_key_ex(key.0.as_ptr(), bits, exponent.0.as_ptr(), std::ptr::null_mut()) == 1
    };
    if !made {
        return Err(RsaError);
    }
    let (mut bytes, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the key is alive; the library sets both results when it returns 1.
    if unsafe { RSA_private_key_to_bytes(&raw mut bytes, &raw mut length, key.0.as_ptr()) } != 1 {
        return Err(RsaError);
    }
    // SAFETY: the library allocated `length` bytes there, and they have no other user.
    let slice = unsafe { std::slice::from_raw_parts_mut(bytes, length) };
    let der = Zeroizing::new(slice.to_vec());
    slice.zeroize();
    // SAFETY: the library allocated it, and no reference to it is left.
    unsafe { OPENSSL_free(bytes.cast()) };
    Ok(der)
}

/// Returns true when `pkcs1` is a consistent DER `RSAPrivateKey` without trailing bytes.
pub fn is_sound(pkcs1: &[u8]) -> bool {
    // The library checks the key that it parses.
    Key::private(pkcs1).is_ok()
}

/// Returns a PKCS#1 v1.5 signature, as long as the modulus. `pkcs1` is a DER `RSAPrivateKey` (RFC 8017
/// appendix A.1.2) without trailing bytes.
///
/// # Errors
/// [`RsaError`].
pub fn sign(pkcs1: &[u8], digest: Digest<'_>) -> Result<Vec<u8>, RsaError> {
    let key = Key::private(pkcs1)?;
    // SAFETY: `key` is alive; RSA_size only reads it.
    let size = unsafe { RSA_size(key.0.as_ptr()) };
    let mut signature = vec![0; usize::try_from(size).map_err(|_| RsaError)?];
    let mut written = 0;
    let (kind, bytes) = digest.parts();
    // SAFETY: `bytes` has the given length; `signature` has RSA_size bytes, which is the limit of RSA_sign;
    // `written` is a valid pointer; `key` is alive and no other thread has it.
    let signed = unsafe {
        RSA_sign(kind, bytes.as_ptr(), bytes.len(), signature.as_mut_ptr(), &raw mut written, key.0.as_ptr())
    };
    if signed != 1 || usize::try_from(written) != Ok(signature.len()) {
        return Err(RsaError);
    }
    Ok(signature)
}

/// Returns true when a PKCS#1 v1.5 signature is valid. `pkcs1` is a DER `RSAPublicKey` (RFC 8017 appendix
/// A.1.1).
pub fn verify(pkcs1: &[u8], digest: Digest<'_>, signature: &[u8]) -> bool {
    let Ok(key) = Key::public(pkcs1) else { return false };
    let (kind, bytes) = digest.parts();
    // SAFETY: both slices have the given lengths and are only read; `key` is alive and no other thread has
    // it.
    unsafe {
        RSA_verify(kind, bytes.as_ptr(), bytes.len(), signature.as_ptr(), signature.len(), key.0.as_ptr())
            == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_keys_are_refused() {
        for bytes in [&b""[..], b"\x30\x00", b"\x30\x82\xff\xff", &[0x30; 300]] {
            assert_eq!(sign(bytes, Digest::Sha1(&[0; 20])), Err(RsaError));
            assert!(!is_sound(bytes) && !verify(bytes, Digest::Sha1(&[0; 20]), &[0; 128]));
        }
        assert_eq!(generate(1032).err(), Some(RsaError));
    }
}
