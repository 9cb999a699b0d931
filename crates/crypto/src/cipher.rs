//! Packet ciphers by name, and the two names without encryption.

/// A packet cipher that can be negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cipher {
    /// The name in a KEXINIT.
    pub name: &'static str,
    /// Length of the derived key, bytes.
    pub key_len: usize,
    /// Length of the derived IV, bytes; 0 if the cipher needs none.
    pub iv_len: usize,
    /// Size to a multiple of which packets are padded, bytes.
    pub block_len: usize,
    pub(crate) kind: CipherKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CipherKind {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
    Aes128Ctr,
    Aes192Ctr,
    Aes256Ctr,
    Aes128Cbc,
    Aes192Cbc,
    Aes256Cbc,
    TripleDesCbc,
    Aes128Gmac,
    Nothing,
}

const CHACHA: Cipher = Cipher {
    name: "chacha20-poly1305@openssh.com",
    key_len: 64,
    iv_len: 0,
    block_len: 8,
    kind: CipherKind::ChaCha20Poly1305,
};

impl Cipher {
    /// All ciphers that encrypt, in OpenSSH's order of preference. HPN-SSH's alias comes after them, because
    /// no peer needs to prefer it, then the ciphers for old equipment ([`is_legacy`](Self::is_legacy)).
    pub const ALL: &'static [Self] = &[
        CHACHA,
        Self::aes("aes128-gcm@openssh.com", 16, 12, CipherKind::Aes128Gcm),
        Self::aes("aes256-gcm@openssh.com", 32, 12, CipherKind::Aes256Gcm),
        Self::aes("aes128-ctr", 16, 16, CipherKind::Aes128Ctr),
        Self::aes("aes192-ctr", 24, 16, CipherKind::Aes192Ctr),
        Self::aes("aes256-ctr", 32, 16, CipherKind::Aes256Ctr),
        // The same bytes on the wire. HPN-SSH lists this name first, and some of its peers list no other.
        Self { name: "chacha20-poly1305-mt@hpnssh.org", ..CHACHA },
        Self::aes("aes256-cbc", 32, 16, CipherKind::Aes256Cbc),
        Self::aes("aes192-cbc", 24, 16, CipherKind::Aes192Cbc),
        Self::aes("aes128-cbc", 16, 16, CipherKind::Aes128Cbc),
        Self { name: "3des-cbc", key_len: 24, iv_len: 8, block_len: 8, kind: CipherKind::TripleDesCbc },
    ];

    /// Integrity without encryption. Packets are laid out as with AES-GCM, and the tag is AES-128-GCM's over
    /// a packet that consists only of additional data (GMAC, NIST SP 800-38D section 3). Longhaul's own
    /// cipher; see [`encrypts`](Self::encrypts).
    pub const INTEGRITY_ONLY: &'static Self =
        &Self::aes("aes128-gmac@longhaul", 16, 12, CipherKind::Aes128Gmac);

    /// The cipher `none` of RFC 4253 section 6.3: packets in plain text, with the negotiated MAC. See
    /// [`encrypts`](Self::encrypts).
    pub const NONE: &'static Self =
        &Self { name: "none", key_len: 0, iv_len: 0, block_len: 8, kind: CipherKind::Nothing };

    /// Finds a cipher by its name in a KEXINIT. Only ciphers that [encrypt](Self::encrypts) are found, so a
    /// peer's list cannot select another.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|cipher| cipher.name == name)
    }

    /// Returns false for [`INTEGRITY_ONLY`](Self::INTEGRITY_ONLY) and [`NONE`](Self::NONE). Neither is in
    /// [`ALL`](Self::ALL): callers must name them explicitly, after authentication and with consent on both
    /// sides.
    pub const fn encrypts(&self) -> bool {
        !matches!(self.kind, CipherKind::Aes128Gmac | CipherKind::Nothing)
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
        matches!(
            self.kind,
            CipherKind::Aes128Gcm
                | CipherKind::Aes256Gcm
                | CipherKind::ChaCha20Poly1305
                | CipherKind::Aes128Gmac
        )
    }

    /// Returns true for ciphers that only old equipment needs; no default list contains them.
    pub const fn is_legacy(&self) -> bool {
        matches!(
            self.kind,
            CipherKind::Aes128Cbc | CipherKind::Aes192Cbc | CipherKind::Aes256Cbc | CipherKind::TripleDesCbc
        )
    }

    const fn aes(name: &'static str, key_len: usize, iv_len: usize, kind: CipherKind) -> Self {
        Self { name, key_len, iv_len, block_len: 16, kind }
    }
}
