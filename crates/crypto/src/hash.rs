//! Hash functions used by SSH.

use aws_lc_rs::{digest, hkdf, hmac};
use zeroize::Zeroizing;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1, where old peers and file formats still use it.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Returns the length of the digest, bytes.
    pub const fn output_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Hashes the concatenation of `parts`.
    pub fn digest(self, parts: &[&[u8]]) -> Digest {
        let mut context = digest::Context::new(self.algorithm());
        for part in parts {
            context.update(part);
        }
        Digest(context.finish())
    }

    /// Starts a digest of data that arrives in pieces.
    pub fn start(self) -> Hasher {
        Hasher(digest::Context::new(self.algorithm()))
    }

    /// Computes the HMAC (RFC 2104) of `data`. When verifying one, compare in constant time if the key is
    /// secret.
    pub fn hmac(self, key: &[u8], data: &[u8]) -> Tag {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        Tag(hmac::sign(&hmac::Key::new(algorithm, key), data))
    }

    /// HKDF-Extract (RFC 5869 section 2.2): concentrates the entropy of `material` in a pseudorandom key.
    pub fn hkdf_extract(self, salt: &[u8], material: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.hmac(salt, material).as_ref().to_vec())
    }

    /// HKDF-Expand (RFC 5869 section 2.3): derives `len` bytes for the purpose `info` from a pseudorandom
    /// key. `None` when `len` exceeds 255 digests, or the key is longer than a digest.
    pub fn hkdf_expand(self, key: &[u8], info: &[u8], len: usize) -> Option<Zeroizing<Vec<u8>>> {
        struct Length(usize);
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        if key.len() > self.output_len() {
            return None;
        }
        let algorithm = match self {
            Self::Sha1 => hkdf::HKDF_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hkdf::HKDF_SHA256,
            Self::Sha384 => hkdf::HKDF_SHA384,
            Self::Sha512 => hkdf::HKDF_SHA512,
        };
        let mut out = Zeroizing::new(vec![0; len]);
        let key = hkdf::Prk::new_less_safe(algorithm, key);
        key.expand(&[info], Length(len)).ok()?.fill(&mut out).ok()?;
        Some(out)
    }

    /// Like [`hkdf_expand`](Self::hkdf_expand), with a result of `N` bytes.
    pub fn hkdf_expand_array<const N: usize>(self, key: &[u8], info: &[u8]) -> Option<Zeroizing<[u8; N]>> {
        let mut out = Zeroizing::new([0; N]);
        out.copy_from_slice(&self.hkdf_expand(key, info, N)?);
        Some(out)
    }

    const fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// A digest in progress.
#[derive(Clone)]
pub struct Hasher(digest::Context);

impl Hasher {
    /// Adds more data.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// Returns the digest.
    pub fn finish(self) -> Digest {
        Digest(self.0.finish())
    }
}

/// An MD5 digest of data that arrives in pieces: for comparing files with tools that support nothing newer,
/// never for security.
#[derive(Clone, Default)]
pub struct Md5Hasher(md5::Md5);

impl Md5Hasher {
    /// Adds more data.
    pub fn update(&mut self, data: &[u8]) {
        md5::Digest::update(&mut self.0, data);
    }

    /// Returns the digest.
    pub fn finish(self) -> [u8; 16] {
        md5::Digest::finalize(self.0).into()
    }
}

/// The result of [`Hash::digest`]; `as_ref()` returns the bytes.
#[derive(Clone, Copy)]
pub struct Digest(digest::Digest);

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// The result of [`Hash::hmac`]; `as_ref()` returns the bytes.
#[derive(Clone, Copy)]
pub struct Tag(hmac::Tag);

impl AsRef<[u8]> for Tag {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_lengths_match_the_algorithms() {
        for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512] {
            assert_eq!(hash.digest(&[b"a", b"b"]).as_ref(), hash.digest(&[b"ab"]).as_ref());
            assert_eq!(hash.digest(&[]).as_ref().len(), hash.output_len());
            assert_eq!(hash.hmac(b"key", b"data").as_ref().len(), hash.output_len());
        }
    }

    /// RFC 5869 appendix A.1.
    #[test]
    fn hkdf_sha256_matches_rfc_5869() {
        let salt: Vec<u8> = (0x00..=0x0c).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let key = Hash::Sha256.hkdf_extract(&salt, &[0x0b; 22]);
        assert_eq!(key[..4], [0x07, 0x77, 0x09, 0x36]);
        let out = Hash::Sha256.hkdf_expand(&key, &info, 42).unwrap();
        assert_eq!(out[..8], [0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a]);
        assert_eq!(out[32..], [0x34, 0x00, 0x72, 0x08, 0xd5, 0xb8, 0x87, 0x18, 0x58, 0x65]);
        assert!(Hash::Sha256.hkdf_expand(&key, b"", 255 * 32).is_some());
        assert!(Hash::Sha256.hkdf_expand(&key, b"", 255 * 32 + 1).is_none());
    }

    /// RFC 2202 section 3, case 1.
    #[test]
    fn hmac_sha1_matches_rfc_2202() {
        let tag = Hash::Sha1.hmac(&[0x0b; 20], b"Hi There");
        assert_eq!(tag.as_ref()[..4], [0xb6, 0x17, 0x31, 0x86]);
    }
}
