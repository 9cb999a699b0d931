//! Key exchange methods: the arithmetic without the messages.

mod dh;
mod ecdh;
mod groups;
mod hybrid;
mod secret;
#[cfg(test)]
mod tests;

pub use groups::DhGroup;
pub use secret::SharedSecret;

use crate::{Hash, KexError};
use lh_wire::Mpint;
use zeroize::Zeroizing;

/// Message set of a key exchange method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KexFamily {
    /// RFC 5656 and RFC 8731: public values are strings, the secret is an mpint.
    Ecdh,
    /// RFC 4253 section 8: public values and secret are mpints.
    DhGroup,
    /// RFC 4419: the server chooses the group.
    DhGex,
    /// A post-quantum KEM with X25519: messages as in [`Ecdh`](Self::Ecdh), the secret is a string.
    Hybrid,
}

/// A key exchange method. Aliases are separate variants, so that names are preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it, see `name`")]
pub enum KexAlgorithm {
    Mlkem768X25519Sha256,
    Sntrup761X25519Sha512,
    Sntrup761X25519Sha512OpenSsh,
    Curve25519Sha256,
    Curve25519Sha256LibSsh,
    EcdhNistp256,
    EcdhNistp384,
    EcdhNistp521,
    DhGexSha256,
    DhGroup16Sha512,
    DhGroup18Sha512,
    DhGroup14Sha256,
    DhGexSha1,
    DhGroup14Sha1,
    DhGroup1Sha1,
}

impl KexAlgorithm {
    /// All methods, in the order of preference of OpenSSH's client; last those for old equipment
    /// ([`is_legacy`](Self::is_legacy)).
    pub const ALL: &'static [Self] = &[
        Self::Mlkem768X25519Sha256,
        Self::Sntrup761X25519Sha512,
        Self::Sntrup761X25519Sha512OpenSsh,
        Self::Curve25519Sha256,
        Self::Curve25519Sha256LibSsh,
        Self::EcdhNistp256,
        Self::EcdhNistp384,
        Self::EcdhNistp521,
        Self::DhGexSha256,
        Self::DhGroup16Sha512,
        Self::DhGroup18Sha512,
        Self::DhGroup14Sha256,
        Self::DhGexSha1,
        Self::DhGroup14Sha1,
        Self::DhGroup1Sha1,
    ];

    /// Finds a method by its name in a KEXINIT.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|each| each.name() == name)
    }

    /// Returns the name in a KEXINIT.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mlkem768X25519Sha256 => "mlkem768x25519-sha256",
            Self::Sntrup761X25519Sha512 => "sntrup761x25519-sha512",
            Self::Sntrup761X25519Sha512OpenSsh => "sntrup761x25519-sha512@openssh.com",
            Self::Curve25519Sha256 => "curve25519-sha256",
            Self::Curve25519Sha256LibSsh => "curve25519-sha256@libssh.org",
            Self::EcdhNistp256 => "ecdh-sha2-nistp256",
            Self::EcdhNistp384 => "ecdh-sha2-nistp384",
            Self::EcdhNistp521 => "ecdh-sha2-nistp521",
            Self::DhGexSha256 => "diffie-hellman-group-exchange-sha256",
            Self::DhGroup16Sha512 => "diffie-hellman-group16-sha512",
            Self::DhGroup18Sha512 => "diffie-hellman-group18-sha512",
            Self::DhGroup14Sha256 => "diffie-hellman-group14-sha256",
            Self::DhGexSha1 => "diffie-hellman-group-exchange-sha1",
            Self::DhGroup14Sha1 => "diffie-hellman-group14-sha1",
            Self::DhGroup1Sha1 => "diffie-hellman-group1-sha1",
        }
    }

    /// Returns true for methods that only old equipment needs (SHA-1, and a group of 1024 bits); no default
    /// list contains them.
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::DhGexSha1 | Self::DhGroup14Sha1 | Self::DhGroup1Sha1)
    }

    /// Returns the hash for the exchange hash and for deriving keys.
    pub const fn hash(self) -> Hash {
        match self {
            Self::Mlkem768X25519Sha256
            | Self::Curve25519Sha256
            | Self::Curve25519Sha256LibSsh
            | Self::EcdhNistp256
            | Self::DhGexSha256
            | Self::DhGroup14Sha256 => Hash::Sha256,
            Self::EcdhNistp384 => Hash::Sha384,
            Self::Sntrup761X25519Sha512
            | Self::Sntrup761X25519Sha512OpenSsh
            | Self::EcdhNistp521
            | Self::DhGroup16Sha512
            | Self::DhGroup18Sha512 => Hash::Sha512,
            Self::DhGexSha1 | Self::DhGroup14Sha1 | Self::DhGroup1Sha1 => Hash::Sha1,
        }
    }

    /// Returns the message set of the method.
    pub const fn family(self) -> KexFamily {
        match self {
            Self::Mlkem768X25519Sha256 | Self::Sntrup761X25519Sha512 | Self::Sntrup761X25519Sha512OpenSsh => {
                KexFamily::Hybrid
            }
            Self::Curve25519Sha256
            | Self::Curve25519Sha256LibSsh
            | Self::EcdhNistp256
            | Self::EcdhNistp384
            | Self::EcdhNistp521 => KexFamily::Ecdh,
            Self::DhGexSha256 | Self::DhGexSha1 => KexFamily::DhGex,
            Self::DhGroup16Sha512
            | Self::DhGroup18Sha512
            | Self::DhGroup14Sha256
            | Self::DhGroup14Sha1
            | Self::DhGroup1Sha1 => KexFamily::DhGroup,
        }
    }
}

/// Our half of a key exchange: the client's with every method, and either side's with group exchange.
pub struct EphemeralKey {
    public: Vec<u8>,
    half: Half,
}

enum Half {
    Ecdh(ecdh::Key),
    Hybrid(Box<hybrid::ClientKey>),
    Dh(Box<dh::Key>),
}

impl EphemeralKey {
    /// Generates a key for any method but group exchange, whose group is not known yet.
    ///
    /// # Errors
    /// [`KexError::WrongFamily`] for group exchange; [`KexError::Library`] when the library fails.
    pub fn generate(algorithm: KexAlgorithm) -> Result<Self, KexError> {
        Ok(match Method::of(algorithm)? {
            Method::Ecdh(curve) => {
                let (key, public) = ecdh::Key::generate(curve)?;
                Self { public, half: Half::Ecdh(key) }
            }
            Method::Hybrid(kem) => {
                let (key, public) = hybrid::ClientKey::generate(kem)?;
                Self { public, half: Half::Hybrid(Box::new(key)) }
            }
            Method::Dh(group) => Self::from_dh(dh::Key::generate_in_fixed(&group)?),
        })
    }

    /// Generates a key in a negotiated group (RFC 4419); `p` and `g` are big-endian magnitudes.
    ///
    /// # Errors
    /// [`KexError::BadGroup`] when `p` is even, smaller than 2048 or larger than 8192 bits, or `g` is not in
    /// `2..=p-2`.
    pub fn generate_dh(p: &[u8], g: &[u8]) -> Result<Self, KexError> {
        let group = DhGroup {
            p: Mpint::from_magnitude(p).magnitude().to_vec(),
            g: Mpint::from_magnitude(g).magnitude().to_vec(),
        };
        Ok(Self::from_dh(dh::Key::generate(&group)?))
    }

    /// Returns the public value for the peer: the content of the string, or the magnitude of the mpint for
    /// Diffie-Hellman.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Computes the shared secret with the peer's public value (same form as [`public`](Self::public)).
    ///
    /// # Errors
    /// [`KexError::BadPublicValue`] when the value has the wrong size, is not on the curve, is not in
    /// `2..=p-2`, or leads to the all-zero X25519 secret (RFC 8731 section 3).
    pub fn agree(self, peer_public: &[u8]) -> Result<SharedSecret, KexError> {
        match self.half {
            Half::Ecdh(key) => Ok(SharedSecret::from_magnitude(&key.agree(peer_public)?)),
            Half::Hybrid(key) => key.agree(peer_public),
            Half::Dh(key) => Ok(SharedSecret::from_magnitude(&key.agree(peer_public)?)),
        }
    }

    fn from_dh(key: dh::Key) -> Self {
        Self { public: key.public().to_vec(), half: Half::Dh(Box::new(key)) }
    }
}

/// Performs the server's half in one step, for every method but group exchange: returns its public value and
/// the secret.
///
/// # Errors
/// Like [`EphemeralKey::agree`]; [`KexError::WrongFamily`] for group exchange.
pub fn kex_respond(
    algorithm: KexAlgorithm,
    client_public: &[u8],
) -> Result<(Vec<u8>, SharedSecret), KexError> {
    if let Method::Hybrid(kem) = Method::of(algorithm)? {
        return hybrid::respond(kem, client_public);
    }
    let mut key = EphemeralKey::generate(algorithm)?;
    let public = core::mem::take(&mut key.public);
    Ok((public, key.agree(client_public)?))
}

/// Components of an algorithm.
enum Method {
    Ecdh(ecdh::Curve),
    Hybrid(hybrid::Kem),
    Dh(DhGroup),
}

impl Method {
    fn of(algorithm: KexAlgorithm) -> Result<Self, KexError> {
        Ok(match algorithm {
            KexAlgorithm::Mlkem768X25519Sha256 => Self::Hybrid(hybrid::Kem::Mlkem768),
            KexAlgorithm::Sntrup761X25519Sha512 | KexAlgorithm::Sntrup761X25519Sha512OpenSsh => {
                Self::Hybrid(hybrid::Kem::Sntrup761)
            }
            KexAlgorithm::Curve25519Sha256 | KexAlgorithm::Curve25519Sha256LibSsh => {
                Self::Ecdh(ecdh::Curve::X25519)
            }
            KexAlgorithm::EcdhNistp256 => Self::Ecdh(ecdh::Curve::P256),
            KexAlgorithm::EcdhNistp384 => Self::Ecdh(ecdh::Curve::P384),
            KexAlgorithm::EcdhNistp521 => Self::Ecdh(ecdh::Curve::P521),
            KexAlgorithm::DhGroup14Sha256 | KexAlgorithm::DhGroup14Sha1 => Self::Dh(DhGroup::group14()),
            KexAlgorithm::DhGroup1Sha1 => Self::Dh(DhGroup::group1()),
            KexAlgorithm::DhGroup16Sha512 => Self::Dh(DhGroup::group16()),
            KexAlgorithm::DhGroup18Sha512 => Self::Dh(DhGroup::group18()),
            KexAlgorithm::DhGexSha256 | KexAlgorithm::DhGexSha1 => {
                return Err(KexError::WrongFamily { what: "a key without the negotiated group" });
            }
        })
    }
}

/// Derives one key (RFC 4253 section 7.2): `HASH(K || H || letter || session_id)`, extended to `len` bytes.
pub fn derive_key(
    hash: Hash,
    k_encoded: &[u8],
    h: &[u8],
    letter: u8,
    session_id: &[u8],
    len: usize,
) -> Zeroizing<Vec<u8>> {
    // Includes space for the last hash: a growing buffer would leave copies of the key behind.
    let mut key = Zeroizing::new(Vec::with_capacity(len + hash.output_len()));
    let first = hash.digest(&[k_encoded, h, &[letter], session_id]);
    key.extend_from_slice(first.as_ref());
    while key.len() < len {
        let next = hash.digest(&[k_encoded, h, &key]);
        key.extend_from_slice(next.as_ref());
    }
    key.truncate(len);
    key
}
