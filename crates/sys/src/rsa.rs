//! What `aws-lc-rs` leaves out about RSA, on purpose or not: signatures over SHA-1 (`ssh-rsa`), which old equipment knows
//! nothing better than, and keys shorter than 2048 or longer than 8192 bits.
//!
//! AWS-LC underneath does both, with blinding and with a check of the result, which is more than could be put together from
//! parts. `lh_crypto` calls this only where its own library does not do.
#![expect(unsafe_code, reason = "calls of AWS-LC")]

use std::ptr::NonNull;

use aws_lc_sys::{
    BIGNUM, BN_free, BN_new, BN_set_word, NID_sha1, NID_sha256, NID_sha512, OPENSSL_free, RSA, RSA_F4,
    RSA_free, RSA_generate_key_ex, RSA_new, RSA_private_key_from_bytes, RSA_private_key_to_bytes,
    RSA_public_key_from_bytes, RSA_sign, RSA_size, RSA_verify,
};
use zeroize::{Zeroize, Zeroizing};

/// The library could not do it: the key is not one, or too small for the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("RSA operation failed")]
pub struct RsaError;

/// What is signed: a digest of one of these kinds.
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
    /// The library's number for the kind, and the bytes.
    const fn parts(&self) -> (i32, &[u8]) {
        match self {
            Self::Sha1(bytes) => (NID_sha1, *bytes),
            Self::Sha256(bytes) => (NID_sha256, *bytes),
            Self::Sha512(bytes) => (NID_sha512, *bytes),
        }
    }
}

/// Owns what the library allocated.
struct Key(NonNull<RSA>);

impl Key {
    fn private(pkcs1: &[u8]) -> Result<Self, RsaError> {
        // SAFETY: pointer and length describe one slice, which is only read and not kept. The result is null or a new key.
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
        // SAFETY: the pointer came from the library, which gave us its only reference, and nobody uses it after this.
        // RSA_free wipes the numbers.
        unsafe { RSA_free(self.0.as_ptr()) };
    }
}

/// Owns a number that the library allocated.
struct Number(NonNull<BIGNUM>);

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: as with `Key`.
        unsafe { BN_free(self.0.as_ptr()) };
    }
}

/// A new key as DER `RSAPrivateKey` (RFC 8017 appendix A.1.2) with the exponent 65537. `bits` is a multiple of 128, because the
/// library would round others down.
///
/// # Errors
/// [`RsaError`] for sizes that the library does not make.
pub fn generate(bits: u32) -> Result<Zeroizing<Vec<u8>>, RsaError> {
    if !bits.is_multiple_of(128) {
        return Err(RsaError);
    }
    let bits = i32::try_from(bits).map_err(|_| RsaError)?;
    // SAFETY: no arguments; the result is null or new.
    let key = Key(NonNull::new(unsafe { RSA_new() }).ok_or(RsaError)?);
    // SAFETY: no arguments; the result is null or new.
    let exponent = Number(NonNull::new(unsafe { BN_new() }).ok_or(RsaError)?);
    // SAFETY: both live, and nobody else has them; a null callback is none.
    let made = unsafe {
        BN_set_word(exponent.0.as_ptr(), RSA_F4 as _) == 1
            && RSA_generate_key_ex(key.0.as_ptr(), bits, exponent.0.as_ptr(), std::ptr::null_mut()) == 1
    };
    if !made {
        return Err(RsaError);
    }
    let (mut bytes, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the key lives; the library sets both places when it returns 1.
    if unsafe { RSA_private_key_to_bytes(&raw mut bytes, &raw mut length, key.0.as_ptr()) } != 1 {
        return Err(RsaError);
    }
    // SAFETY: the library says that it allocated `length` bytes there, and nobody else has them.
    let slice = unsafe { std::slice::from_raw_parts_mut(bytes, length) };
    let der = Zeroizing::new(slice.to_vec());
    slice.zeroize();
    // SAFETY: the library allocated it, and nothing refers to it any more.
    unsafe { OPENSSL_free(bytes.cast()) };
    Ok(der)
}

/// Whether a DER `RSAPrivateKey` and nothing behind it holds numbers that belong together.
pub fn is_sound(pkcs1: &[u8]) -> bool {
    // The library checks what it reads.
    Key::private(pkcs1).is_ok()
}

/// A PKCS#1 v1.5 signature, as long as the modulus. `pkcs1` is a DER `RSAPrivateKey` (RFC 8017 appendix A.1.2) and nothing
/// behind it.
///
/// # Errors
/// [`RsaError`].
pub fn sign(pkcs1: &[u8], digest: Digest<'_>) -> Result<Vec<u8>, RsaError> {
    let key = Key::private(pkcs1)?;
    // SAFETY: `key` lives; RSA_size only reads it.
    let size = unsafe { RSA_size(key.0.as_ptr()) };
    let mut signature = vec![0; usize::try_from(size).map_err(|_| RsaError)?];
    let mut written = 0;
    let (kind, bytes) = digest.parts();
    // SAFETY: `bytes` is as long as is said; `signature` has RSA_size bytes, which is what RSA_sign may write; `written`
    // is a valid place; `key` lives and no other thread has it.
    let signed = unsafe {
        RSA_sign(kind, bytes.as_ptr(), bytes.len(), signature.as_mut_ptr(), &raw mut written, key.0.as_ptr())
    };
    if signed != 1 || usize::try_from(written) != Ok(signature.len()) {
        return Err(RsaError);
    }
    Ok(signature)
}

/// Whether a PKCS#1 v1.5 signature is right. `pkcs1` is a DER `RSAPublicKey` (RFC 8017 appendix A.1.1).
pub fn verify(pkcs1: &[u8], digest: Digest<'_>, signature: &[u8]) -> bool {
    let Ok(key) = Key::public(pkcs1) else { return false };
    let (kind, bytes) = digest.parts();
    // SAFETY: both slices are as long as is said and only read; `key` lives and no other thread has it.
    unsafe {
        RSA_verify(kind, bytes.as_ptr(), bytes.len(), signature.as_ptr(), signature.len(), key.0.as_ptr())
            == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_refused() {
        for bytes in [&b""[..], b"\x30\x00", b"\x30\x82\xff\xff", &[0x30; 300]] {
            assert_eq!(sign(bytes, Digest::Sha1(&[0; 20])), Err(RsaError));
            assert!(!is_sound(bytes) && !verify(bytes, Digest::Sha1(&[0; 20]), &[0; 128]));
        }
        assert_eq!(generate(1032).err(), Some(RsaError));
    }
}
