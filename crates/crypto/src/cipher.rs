//! Properties of a packet cipher. The [registry](crate::registry) has the ciphers themselves.

use crate::listing::Listing;

/// A packet cipher that can be negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cipher {
    /// The name in a KEXINIT.
    pub name: &'static str,
    /// Length of the derived key, bytes.
    pub key_len: usize,
    /// Length of the derived IV, bytes; 0 if the cipher needs none.
    pub iv_len: usize,
    /// Block length, bytes. Packets are padded to a multiple of it.
    pub block_len: usize,
    /// Place in the lists of names.
    pub listing: Listing,
    pub(crate) kind: CipherKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CipherKind {
    AesGcm,
    ChaCha20Poly1305,
    AesCtr,
    AesCbc,
    TripleDesCbc,
    AesGmac,
    Nothing,
}

impl Cipher {
    /// Returns false for [`INTEGRITY_ONLY`](Self::INTEGRITY_ONLY) and [`NONE`](Self::NONE). Neither is in
    /// [`ALL`](Self::ALL): callers must name them explicitly, after authentication and with consent on both
    /// sides.
    pub const fn encrypts(&self) -> bool {
        !matches!(self.kind, CipherKind::AesGmac | CipherKind::Nothing)
    }

    /// Returns the key's strength in bytes: 112 bits for Triple DES (NIST SP 800-57 part 1), never more than
    /// 256 bits.
    pub const fn strength_len(&self) -> usize {
        match self.kind {
            CipherKind::TripleDesCbc => 14,
            _ if self.key_len > 32 => 32,
            _ => self.key_len,
        }
    }

    /// Returns true when the cipher authenticates, so that no MAC is negotiated (RFC 5647 section 5.1 as
    /// OpenSSH applies it: the MAC lists are ignored altogether).
    pub const fn is_aead(&self) -> bool {
        matches!(self.kind, CipherKind::AesGcm | CipherKind::ChaCha20Poly1305 | CipherKind::AesGmac)
    }

    /// Returns true for ciphers that only old equipment needs; no default list contains them.
    pub const fn is_legacy(&self) -> bool {
        self.listing.is_legacy()
    }

    /// Returns true when this build contains the cipher.
    pub const fn is_built(&self) -> bool {
        self.listing.is_built()
    }

    /// Returns true for ciphers that are several times cheaper than ChaCha20-Poly1305 on a CPU with
    /// instructions for AES and carry-less multiplication.
    pub const fn is_aes_gcm(&self) -> bool {
        matches!(self.kind, CipherKind::AesGcm)
    }
}
