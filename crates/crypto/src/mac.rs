//! Properties of a message authentication code. The [registry](crate::registry) has the MACs themselves.

use crate::listing::Listing;

/// A MAC that can be negotiated (RFC 6668; UMAC and the `-etm` forms are OpenSSH's).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac {
    /// The name in a KEXINIT.
    pub name: &'static str,
    /// Length of the derived key, bytes.
    pub key_len: usize,
    /// Length of the tag behind a packet, bytes.
    pub tag_len: usize,
    /// Encrypt-then-MAC: the length field is not encrypted, and the tag covers the ciphertext.
    pub etm: bool,
    /// Place in the lists of names.
    pub listing: Listing,
    pub(crate) kind: MacKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MacKind {
    HmacMd5,
    HmacSha1,
    HmacSha256,
    HmacSha512,
    Umac,
    Nothing,
}

impl Mac {
    /// Returns true for MACs that only old equipment needs (RFC 4253's `hmac-md5` and tags of 96 bits); no
    /// default list contains them.
    pub const fn is_legacy(&self) -> bool {
        self.listing.is_legacy()
    }
}
