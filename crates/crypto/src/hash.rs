//! The hash functions SSH names.

use aws_lc_rs::digest;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1, for what old peers and file formats still use it for.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Length of the result in bytes.
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

    const fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// The result of [`Hash::digest`]: `as_ref()` gives the bytes.
#[derive(Clone, Copy)]
pub struct Digest(digest::Digest);

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}
