//! Message authentication codes by name.

use aws_lc_rs::hmac;

/// A MAC that can be negotiated (RFC 6668; the `-etm` forms are OpenSSH's).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac {
    /// The name in a KEXINIT.
    pub name: &'static str,
    /// Bytes of key to derive.
    pub key_len: usize,
    /// Bytes the tag takes behind a packet.
    pub tag_len: usize,
    /// Encrypt-then-MAC: the length field stays in clear and the tag is over the ciphertext.
    pub etm: bool,
    pub(crate) kind: MacKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MacKind {
    HmacSha1,
    HmacSha256,
    HmacSha512,
}

impl MacKind {
    pub(crate) const fn algorithm(self) -> hmac::Algorithm {
        match self {
            Self::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::HmacSha256 => hmac::HMAC_SHA256,
            Self::HmacSha512 => hmac::HMAC_SHA512,
        }
    }
}

impl Mac {
    /// All of them, in OpenSSH's order of preference.
    pub const ALL: &'static [Self] = &[
        Self::hmac("hmac-sha2-256-etm@openssh.com", 32, true, MacKind::HmacSha256),
        Self::hmac("hmac-sha2-512-etm@openssh.com", 64, true, MacKind::HmacSha512),
        Self::hmac("hmac-sha1-etm@openssh.com", 20, true, MacKind::HmacSha1),
        Self::hmac("hmac-sha2-256", 32, false, MacKind::HmacSha256),
        Self::hmac("hmac-sha2-512", 64, false, MacKind::HmacSha512),
        Self::hmac("hmac-sha1", 20, false, MacKind::HmacSha1),
    ];

    /// Finds a MAC by the name in a KEXINIT.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|mac| mac.name == name)
    }

    /// The key is as long as the hash's output, and so is the tag.
    const fn hmac(name: &'static str, len: usize, etm: bool, kind: MacKind) -> Self {
        Self { name, key_len: len, tag_len: len, etm, kind }
    }
}
