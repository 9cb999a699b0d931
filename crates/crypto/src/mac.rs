//! Message authentication codes by name.

use crate::umac;

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
    /// All MACs, in OpenSSH's order of preference; last those for old equipment
    /// ([`is_legacy`](Self::is_legacy)).
    pub const ALL: &'static [Self] = &[
        Self::umac("umac-64-etm@openssh.com", 8, true),
        Self::umac("umac-128-etm@openssh.com", 16, true),
        Self::hmac("hmac-sha2-256-etm@openssh.com", 32, true, MacKind::HmacSha256),
        Self::hmac("hmac-sha2-512-etm@openssh.com", 64, true, MacKind::HmacSha512),
        Self::hmac("hmac-sha1-etm@openssh.com", 20, true, MacKind::HmacSha1),
        Self::umac("umac-64@openssh.com", 8, false),
        Self::umac("umac-128@openssh.com", 16, false),
        Self::hmac("hmac-sha2-256", 32, false, MacKind::HmacSha256),
        Self::hmac("hmac-sha2-512", 64, false, MacKind::HmacSha512),
        Self::hmac("hmac-sha1", 20, false, MacKind::HmacSha1),
        Self::short("hmac-sha1-96-etm@openssh.com", 20, 12, true, MacKind::HmacSha1),
        Self::short("hmac-sha1-96", 20, 12, false, MacKind::HmacSha1),
        Self::short("hmac-md5-etm@openssh.com", 16, 16, true, MacKind::HmacMd5),
        Self::short("hmac-md5-96-etm@openssh.com", 16, 12, true, MacKind::HmacMd5),
        Self::short("hmac-md5", 16, 16, false, MacKind::HmacMd5),
        Self::short("hmac-md5-96", 16, 12, false, MacKind::HmacMd5),
    ];

    /// The MAC `none` of RFC 4253 section 6.4: no tag. Only valid with [`Cipher::NONE`](crate::Cipher::NONE),
    /// and not in [`ALL`](Self::ALL).
    pub const NONE: &'static Self =
        &Self { name: "none", key_len: 0, tag_len: 0, etm: false, kind: MacKind::Nothing };

    /// Finds a MAC by its name in a KEXINIT; never [`NONE`](Self::NONE).
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|mac| mac.name == name)
    }

    /// Returns true for MACs that only old equipment needs (RFC 4253's `hmac-md5` and tags of 96 bits); no
    /// default list contains them.
    pub const fn is_legacy(&self) -> bool {
        matches!(self.kind, MacKind::HmacMd5) || self.tag_len == 12
    }

    /// An HMAC whose key and tag are as long as the hash's output.
    const fn hmac(name: &'static str, len: usize, etm: bool, kind: MacKind) -> Self {
        Self { name, key_len: len, tag_len: len, etm, kind }
    }

    /// Like [`hmac`](Self::hmac), with the tag truncated to `tag_len`.
    const fn short(name: &'static str, key_len: usize, tag_len: usize, etm: bool, kind: MacKind) -> Self {
        Self { name, key_len, tag_len, etm, kind }
    }

    /// A UMAC; its tag may be shorter than its key.
    const fn umac(name: &'static str, tag_len: usize, etm: bool) -> Self {
        Self { name, key_len: umac::KEY_LEN, tag_len, etm, kind: MacKind::Umac }
    }
}
