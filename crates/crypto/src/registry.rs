//! The registry: one row for each algorithm that can be negotiated.
//!
//! The lists that client and server offer, the names that configurations may contain, the answers of
//! `lhssh -Q`, docs/algorithms.md and the tests of all algorithms derive from these tables. Rows are in the
//! order of `ssh -Q`; a row's rank is its preference.
//!
//! A build with the feature `fips` contains only the rows that say `approved()`: what NIST approves and
//! AWS-LC's FIPS module computes (docs/fips.md names the sources). The others are unknown names there.

use crate::Hash;
use crate::cipher::{Cipher, CipherKind};
use crate::kex::{Curve, FixedGroup, Kem, KexAlgorithm, Method};
use crate::key::names;
use crate::listing::{Listing, Offered, built, by_rank};
use crate::mac::{Mac, MacKind};

/// Ciphers that encrypt, those of this build.
pub const CIPHERS: &[Cipher] = built!(Cipher, EVERY_CIPHER);

/// MACs of this build.
pub const MACS: &[Mac] = built!(Mac, EVERY_MAC);

/// Key exchange methods of this build.
pub const KEX: &[KexAlgorithm] = built!(KexAlgorithm, EVERY_KEX);

/// Signature algorithms of host keys, of users' keys and of certificate authorities, those of this build.
pub const KEYS: &[KeyAlgorithm] = built!(KeyAlgorithm, EVERY_KEY);

pub(crate) const EVERY_CIPHER: &[Cipher] = &[
    cipher("3des-cbc", 24, 8, 8, CipherKind::TripleDesCbc, legacy(110, "RFC 4253 section 6.3")),
    cipher("aes128-cbc", 16, 16, 16, CipherKind::AesCbc, legacy(100, "RFC 4253 section 6.3")),
    cipher("aes192-cbc", 24, 16, 16, CipherKind::AesCbc, legacy(90, "RFC 4253 section 6.3")),
    cipher("aes256-cbc", 32, 16, 16, CipherKind::AesCbc, legacy(80, "RFC 4253 section 6.3")),
    cipher("aes128-ctr", 16, 16, 16, CipherKind::AesCtr, both(40, "RFC 4344 section 4").approved()),
    cipher("aes192-ctr", 24, 16, 16, CipherKind::AesCtr, both(50, "RFC 4344 section 4").approved()),
    cipher("aes256-ctr", 32, 16, 16, CipherKind::AesCtr, both(60, "RFC 4344 section 4").approved()),
    cipher("aes128-gcm@openssh.com", 16, 12, 16, CipherKind::AesGcm, both(20, "RFC 5647").approved()),
    cipher("aes256-gcm@openssh.com", 32, 12, 16, CipherKind::AesGcm, both(30, "RFC 5647").approved()),
    cipher("chacha20-poly1305@openssh.com", 64, 0, 8, CipherKind::ChaCha20Poly1305, both(10, CHACHA)),
    // An alias of chacha20-poly1305@openssh.com. HPN-SSH lists this name first, and some HPN-SSH peers offer
    // no other. It ranks low, because no peer requires it to come first.
    cipher("chacha20-poly1305-mt@hpnssh.org", 64, 0, 8, CipherKind::ChaCha20Poly1305, both(70, "HPN-SSH")),
];

pub(crate) const EVERY_MAC: &[Mac] = &[
    hmac("hmac-sha1", 20, 20, false, MacKind::HmacSha1, both(100, "RFC 4253 section 6.4")),
    hmac("hmac-sha1-96", 20, 12, false, MacKind::HmacSha1, legacy(120, "RFC 4253 section 6.4")),
    hmac("hmac-sha2-256", 32, 32, false, MacKind::HmacSha256, both(80, "RFC 6668").approved()),
    hmac("hmac-sha2-512", 64, 64, false, MacKind::HmacSha512, both(90, "RFC 6668").approved()),
    hmac("hmac-md5", 16, 16, false, MacKind::HmacMd5, legacy(150, "RFC 4253 section 6.4")),
    hmac("hmac-md5-96", 16, 12, false, MacKind::HmacMd5, legacy(160, "RFC 4253 section 6.4")),
    umac("umac-64@openssh.com", 8, false, both(60, "RFC 4418")),
    umac("umac-128@openssh.com", 16, false, both(70, "RFC 4418")),
    hmac("hmac-sha1-etm@openssh.com", 20, 20, true, MacKind::HmacSha1, both(50, PROTOCOL)),
    hmac("hmac-sha1-96-etm@openssh.com", 20, 12, true, MacKind::HmacSha1, legacy(110, PROTOCOL)),
    hmac("hmac-sha2-256-etm@openssh.com", 32, 32, true, MacKind::HmacSha256, both(30, PROTOCOL).approved()),
    hmac("hmac-sha2-512-etm@openssh.com", 64, 64, true, MacKind::HmacSha512, both(40, PROTOCOL).approved()),
    hmac("hmac-md5-etm@openssh.com", 16, 16, true, MacKind::HmacMd5, legacy(130, PROTOCOL)),
    hmac("hmac-md5-96-etm@openssh.com", 16, 12, true, MacKind::HmacMd5, legacy(140, PROTOCOL)),
    umac("umac-64-etm@openssh.com", 8, true, both(10, "RFC 4418")),
    umac("umac-128-etm@openssh.com", 16, true, both(20, "RFC 4418")),
];

// OpenSSH's server does not offer the finite-field groups by default: they cost the server much CPU time and
// the client none.
pub(crate) const EVERY_KEX: &[KexAlgorithm] = &[
    kex("diffie-hellman-group1-sha1", Method::Group(FixedGroup::Group1), Hash::Sha1, legacy(150, KEX_RFC)),
    kex("diffie-hellman-group14-sha1", Method::Group(FixedGroup::Group14), Hash::Sha1, legacy(140, KEX_RFC)),
    kex("diffie-hellman-group14-sha256", Method::Group(FixedGroup::Group14), Hash::Sha256, client(120, DH)),
    kex("diffie-hellman-group16-sha512", Method::Group(FixedGroup::Group16), Hash::Sha512, client(100, DH)),
    kex("diffie-hellman-group18-sha512", Method::Group(FixedGroup::Group18), Hash::Sha512, client(110, DH)),
    kex("diffie-hellman-group-exchange-sha1", Method::GroupExchange, Hash::Sha1, legacy(130, GEX)),
    kex("diffie-hellman-group-exchange-sha256", Method::GroupExchange, Hash::Sha256, client(90, GEX)),
    kex("ecdh-sha2-nistp256", Method::Ecdh(Curve::P256), Hash::Sha256, both(60, "RFC 5656").approved()),
    kex("ecdh-sha2-nistp384", Method::Ecdh(Curve::P384), Hash::Sha384, both(70, "RFC 5656").approved()),
    kex("ecdh-sha2-nistp521", Method::Ecdh(Curve::P521), Hash::Sha512, both(80, "RFC 5656").approved()),
    kex("curve25519-sha256", Method::Ecdh(Curve::X25519), Hash::Sha256, both(40, "RFC 8731")),
    kex("curve25519-sha256@libssh.org", Method::Ecdh(Curve::X25519), Hash::Sha256, both(50, "RFC 8731")),
    kex("sntrup761x25519-sha512", Method::Hybrid(Kem::Sntrup761), Hash::Sha512, both(20, SNTRUP)),
    kex("sntrup761x25519-sha512@openssh.com", Method::Hybrid(Kem::Sntrup761), Hash::Sha512, both(30, SNTRUP)),
    kex("mlkem768x25519-sha256", Method::Hybrid(Kem::Mlkem768), Hash::Sha256, both(10, MLKEM)),
];

pub(crate) const EVERY_KEY: &[KeyAlgorithm] = &[
    key(names::ED25519, names::ED25519_CERT, names::ED25519, both(10, "RFC 8709").approved()),
    key(names::SK_ED25519, names::SK_ED25519_CERT, names::SK_ED25519, client(50, U2F).approved()),
    key(names::MLDSA44_ED25519, names::MLDSA44_ED25519_CERT, names::MLDSA44_ED25519, both(90, MLDSA))
        .certifies_on_request(),
    key(names::ECDSA_P256, names::ECDSA_P256_CERT, names::ECDSA_P256, both(20, "RFC 5656").approved()),
    key(names::ECDSA_P384, names::ECDSA_P384_CERT, names::ECDSA_P384, both(30, "RFC 5656").approved()),
    key(names::ECDSA_P521, names::ECDSA_P521_CERT, names::ECDSA_P521, both(40, "RFC 5656").approved()),
    key(names::SK_ECDSA, names::SK_ECDSA_CERT, names::SK_ECDSA, client(60, U2F).approved()),
    key(names::SSH_RSA, names::SSH_RSA_CERT, names::SSH_RSA, legacy(100, "RFC 4253 section 6.6")),
    key(names::RSA_SHA2_256, names::RSA_SHA2_256_CERT, names::SSH_RSA, both(80, "RFC 8332").approved()),
    key(names::RSA_SHA2_512, names::RSA_SHA2_512_CERT, names::SSH_RSA, both(70, "RFC 8332").approved()),
];

/// Payload compression, which `lh-transport` implements.
pub const COMPRESSIONS: &[Compression] = &[
    Compression { name: "none", starts: Starts::Never, listing: both(10, "RFC 4253 section 6.2") },
    Compression { name: "zlib@openssh.com", starts: Starts::AfterLogin, listing: both(20, DELAYED) },
    Compression { name: "zlib", starts: Starts::AtOnce, listing: on_request(30, "RFC 4253 section 6.2") },
];

const CHACHA: &str = "OpenSSH's PROTOCOL.chacha20poly1305";
const PROTOCOL: &str = "OpenSSH's PROTOCOL section 1.5";
const U2F: &str = "OpenSSH's PROTOCOL.u2f";
const KEX_RFC: &str = "RFC 4253 section 8";
const DH: &str = "RFC 8268";
const GEX: &str = "RFC 4419";
const SNTRUP: &str = "draft-ietf-sshm-ntruprime-ssh";
const MLKEM: &str = "draft-ietf-sshm-mlkem-hybrid-kex";
const MLDSA: &str = "draft-miller-sshm-mldsa44-ed25519-composite-sigs";
const DELAYED: &str = "draft-miller-secsh-compression-delayed";

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyAlgorithm {
    /// Name with a plain key.
    pub name: &'static str,
    /// Name with a certificate of such a key.
    pub certificate: &'static str,
    /// Type of the plain keys.
    pub key_type: &'static str,
    /// `CASignatureAlgorithms` contains the algorithm by default, provided that the other default lists do.
    pub certifies: bool,
    /// Place in the lists of names.
    pub listing: Listing,
}

/// When a direction starts to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// Never.
    Never,
    /// After authentication.
    AfterLogin,
    /// With the first NEWKEYS.
    AtOnce,
}

/// A compression method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The name in a KEXINIT.
    pub name: &'static str,
    /// When it starts.
    pub starts: Starts,
    /// Place in the lists of names.
    pub listing: Listing,
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The end that connects.
    Client,
    /// The end that accepts.
    Server,
}

/// Kind of algorithms that one list of names contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Key exchange methods.
    Kex,
    /// Signature algorithms, with plain keys and with certificates.
    Key,
    /// Ciphers.
    Cipher,
    /// MACs.
    Mac,
    /// Compression methods.
    Compression,
}

impl Kind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Kex, Self::Key, Self::Cipher, Self::Mac, Self::Compression];

    /// Returns name and listing of each algorithm in the order of `ssh -Q`.
    fn rows(self) -> Vec<(&'static str, Listing)> {
        match self {
            Self::Kex => KEX.iter().map(|row| (row.name, row.listing)).collect(),
            Self::Key => {
                let pair = |row: &KeyAlgorithm| [(row.name, row.listing), (row.certificate, row.listing)];
                KEYS.iter().flat_map(pair).collect()
            }
            Self::Cipher => CIPHERS.iter().map(|row| (row.name, row.listing)).collect(),
            Self::Mac => MACS.iter().map(|row| (row.name, row.listing)).collect(),
            Self::Compression => COMPRESSIONS.iter().map(|row| (row.name, row.listing)).collect(),
        }
    }

    /// Returns all names in the order of `ssh -Q`.
    pub fn names(self) -> Vec<&'static str> {
        self.rows().into_iter().map(|(name, _)| name).collect()
    }

    /// Returns all names in the order in which a pattern of a configuration lists them: best first, but
    /// signature algorithms in the order of `ssh -Q`.
    pub fn usable(self) -> Vec<&'static str> {
        let mut rows = self.rows();
        if self != Self::Key {
            rows.sort_by_key(|(_, listing)| listing.rank);
        }
        rows.into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the names that one end offers by default, best first. Certificates precede plain keys.
    pub fn defaults(self, end: End) -> Vec<&'static str> {
        let mut rows = self.rows();
        rows.retain(|(_, listing)| match end {
            End::Client => listing.is_default(),
            End::Server => listing.offered == Offered::ByBoth,
        });
        let is_plain = |name: &str| !KEYS.iter().any(|row| row.certificate == name);
        rows.sort_by_key(|(name, listing)| (is_plain(name), listing.rank));
        rows.into_iter().map(|(name, _)| name).collect()
    }

    /// Returns names that OpenSSH accepts in a configuration and that this crate does not implement: DSA,
    /// which is removed, the keys of browsers, and a key exchange of other builds.
    pub const fn foreign(self) -> &'static [&'static str] {
        match self {
            Self::Kex => &["mlkem768nistp256-sha256"],
            Self::Key => &FOREIGN_KEYS,
            Self::Cipher | Self::Mac | Self::Compression => &[],
        }
    }
}

/// [`Kind::foreign`] of signature algorithms.
pub(crate) const FOREIGN_KEYS: [&str; 4] = [
    "ssh-dss",
    "ssh-dss-cert-v01@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
    "webauthn-sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
];

impl Cipher {
    /// All ciphers that encrypt, in OpenSSH's order of preference. HPN-SSH's alias comes after them, then the
    /// ciphers for old equipment ([`is_legacy`](Self::is_legacy)).
    pub const ALL: &'static [Self] = by_rank!(Cipher, CIPHERS);

    /// Integrity without encryption. Packets are laid out as with AES-GCM, and the tag is AES-128-GCM's over
    /// a packet that consists only of additional data (GMAC, NIST SP 800-38D section 3). Longhaul's own
    /// cipher; see [`encrypts`](Self::encrypts).
    pub const INTEGRITY_ONLY: &'static Self = &cipher(
        "aes128-gmac@longhaul",
        16,
        12,
        16,
        CipherKind::AesGmac,
        after_login("docs/protocol.md").approved(),
    );

    /// The cipher `none` of RFC 4253 section 6.3: packets in plain text, with the negotiated MAC. See
    /// [`encrypts`](Self::encrypts).
    pub const NONE: &'static Self =
        &cipher("none", 0, 0, 8, CipherKind::Nothing, after_login("RFC 4253 section 6.3"));

    /// Finds a cipher by its name in a KEXINIT. Only ciphers that [encrypt](Self::encrypts) are found, so a
    /// peer's list cannot select another.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|cipher| cipher.name == name)
    }
}

impl Mac {
    /// All MACs, in OpenSSH's order of preference; last those for old equipment
    /// ([`is_legacy`](Self::is_legacy)).
    pub const ALL: &'static [Self] = by_rank!(Mac, MACS);

    /// The MAC `none` of RFC 4253 section 6.4: no tag. Only valid with [`Cipher::NONE`], and not in
    /// [`ALL`](Self::ALL).
    pub const NONE: &'static Self =
        &hmac("none", 0, 0, false, MacKind::Nothing, after_login("RFC 4253 section 6.4"));

    /// Finds a MAC by its name in a KEXINIT; never [`NONE`](Self::NONE).
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|mac| mac.name == name)
    }
}

impl KexAlgorithm {
    /// All methods, in the order of preference of OpenSSH's client; last those for old equipment
    /// ([`is_legacy`](Self::is_legacy)).
    pub const ALL: &'static [Self] = by_rank!(KexAlgorithm, KEX);

    /// Finds a method by its name in a KEXINIT.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|each| each.name == name)
    }
}

impl KeyAlgorithm {
    /// All signature algorithms, best first.
    pub(crate) const ALL: &'static [Self] = by_rank!(KeyAlgorithm, KEYS);

    /// Excludes the algorithm from the default of `CASignatureAlgorithms`.
    const fn certifies_on_request(self) -> Self {
        Self { certifies: false, ..self }
    }
}

impl Compression {
    /// Finds a compression method by its name in a KEXINIT.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        COMPRESSIONS.iter().find(|each| each.name == name)
    }
}

const fn cipher(
    name: &'static str,
    key_len: usize,
    iv_len: usize,
    block_len: usize,
    kind: CipherKind,
    listing: Listing,
) -> Cipher {
    Cipher { name, key_len, iv_len, block_len, kind, listing }
}

const fn hmac(
    name: &'static str,
    key_len: usize,
    tag_len: usize,
    etm: bool,
    kind: MacKind,
    listing: Listing,
) -> Mac {
    Mac { name, key_len, tag_len, etm, kind, listing }
}

/// A UMAC; its tag may be shorter than its key.
const fn umac(name: &'static str, tag_len: usize, etm: bool, listing: Listing) -> Mac {
    Mac { name, key_len: crate::umac::KEY_LEN, tag_len, etm, kind: MacKind::Umac, listing }
}

const fn kex(name: &'static str, method: Method, hash: Hash, listing: Listing) -> KexAlgorithm {
    KexAlgorithm { name, method, hash, listing }
}

const fn key(
    name: &'static str,
    certificate: &'static str,
    key_type: &'static str,
    listing: Listing,
) -> KeyAlgorithm {
    KeyAlgorithm { name, certificate, key_type, certifies: true, listing }
}

const fn both(rank: u16, source: &'static str) -> Listing {
    Listing { offered: Offered::ByBoth, rank, source, approved: false }
}

const fn client(rank: u16, source: &'static str) -> Listing {
    Listing { offered: Offered::ByClient, rank, source, approved: false }
}

const fn on_request(rank: u16, source: &'static str) -> Listing {
    Listing { offered: Offered::OnRequest, rank, source, approved: false }
}

const fn legacy(rank: u16, source: &'static str) -> Listing {
    Listing { offered: Offered::Legacy, rank, source, approved: false }
}

const fn after_login(source: &'static str) -> Listing {
    Listing { offered: Offered::AfterLogin, rank: u16::MAX, source, approved: false }
}

#[cfg(test)]
mod tests;
