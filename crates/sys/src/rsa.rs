//! RSA signatures over SHA-1 (`ssh-rsa`), which old equipment knows nothing better than.
//!
//! `aws-lc-rs` makes none, on purpose. AWS-LC underneath does, with blinding and with a check of the result, which is
//! more than could be put together from parts. `lh_crypto` calls this only where a configuration names `ssh-rsa`.
#![expect(unsafe_code, reason = "calls of AWS-LC")]

use std::ptr::NonNull;

use aws_lc_sys::{NID_sha1, RSA, RSA_free, RSA_private_key_from_bytes, RSA_sign, RSA_size};

/// The library could not do it: the key is not one, or too small for the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("RSA signature failed")]
pub struct RsaError;

/// Owns what the library allocated.
struct Key(NonNull<RSA>);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the pointer came from RSA_private_key_from_bytes, which gave us its only reference, and nobody uses it
        // after this. RSA_free wipes the numbers.
        unsafe { RSA_free(self.0.as_ptr()) };
    }
}

/// A PKCS#1 v1.5 signature, as long as the modulus, over a SHA-1 digest. `pkcs1` is a DER `RSAPrivateKey` (RFC 8017
/// appendix A.1.2) and nothing behind it.
///
/// # Errors
/// [`RsaError`].
pub fn sign_sha1(pkcs1: &[u8], digest: &[u8; 20]) -> Result<Vec<u8>, RsaError> {
    // SAFETY: pointer and length describe one slice, which is only read and not kept. The result is null or a new key.
    let key = unsafe { RSA_private_key_from_bytes(pkcs1.as_ptr(), pkcs1.len()) };
    let key = Key(NonNull::new(key).ok_or(RsaError)?);
    // SAFETY: `key` lives; RSA_size only reads it.
    let size = unsafe { RSA_size(key.0.as_ptr()) };
    let mut signature = vec![0; usize::try_from(size).map_err(|_| RsaError)?];
    let mut written = 0;
    // SAFETY: `digest` is as long as is said; `signature` has RSA_size bytes, which is what RSA_sign may write; `written`
    // is a valid place; `key` lives and no other thread has it.
    let signed = unsafe {
        RSA_sign(
            NID_sha1,
            digest.as_ptr(),
            digest.len(),
            signature.as_mut_ptr(),
            &raw mut written,
            key.0.as_ptr(),
        )
    };
    if signed != 1 || usize::try_from(written) != Ok(signature.len()) {
        return Err(RsaError);
    }
    Ok(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_refused() {
        for bytes in [&b""[..], b"\x30\x00", b"\x30\x82\xff\xff", &[0x30; 300]] {
            assert_eq!(sign_sha1(bytes, &[0; 20]), Err(RsaError));
        }
    }
}
