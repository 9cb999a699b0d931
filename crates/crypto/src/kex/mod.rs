//! Key exchange methods: the arithmetic without the messages.

mod algorithm;
mod dh;
mod ecdh;
mod groups;
mod hybrid;
mod secret;
#[cfg(test)]
mod tests;

pub(crate) use algorithm::Method;
pub use algorithm::{KexAlgorithm, KexFamily};
pub(crate) use ecdh::Curve;
pub use groups::DhGroup;
pub(crate) use groups::FixedGroup;
pub(crate) use hybrid::Kem;
pub use secret::SharedSecret;

use crate::{Hash, KexError};
use lh_wire::Mpint;
use zeroize::Zeroizing;

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
    /// [`KexError::WrongFamily`] for group exchange; [`KexError::NotBuilt`] for a method that this build
    /// lacks; [`KexError::Library`] when the library fails.
    pub fn generate(algorithm: KexAlgorithm) -> Result<Self, KexError> {
        if !algorithm.listing.is_built() {
            return Err(KexError::NotBuilt);
        }
        Ok(match algorithm.method {
            Method::Ecdh(curve) => {
                let (key, public) = ecdh::Key::generate(curve)?;
                Self { public, half: Half::Ecdh(key) }
            }
            Method::Hybrid(kem) => {
                let (key, public) = hybrid::ClientKey::generate(kem)?;
                Self { public, half: Half::Hybrid(Box::new(key)) }
            }
            Method::Group(group) => Self::from_dh(dh::Key::generate_in_fixed(&group.group())?),
            Method::GroupExchange => {
                return Err(KexError::WrongFamily { what: "a key without the negotiated group" });
            }
        })
    }

    /// Generates a key in a negotiated group (RFC 4419); `p` and `g` are big-endian magnitudes.
    ///
    /// # Errors
    /// [`KexError::BadGroup`] when `p` is even, smaller than 2048 or larger than 8192 bits, or `g` is not in
    /// `2..=p-2`; [`KexError::NotBuilt`] in a FIPS build, whose module computes no exchange of this kind.
    pub fn generate_dh(p: &[u8], g: &[u8]) -> Result<Self, KexError> {
        if crate::FIPS {
            return Err(KexError::NotBuilt);
        }
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
    if !algorithm.listing.is_built() {
        return Err(KexError::NotBuilt);
    }
    if let Method::Hybrid(kem) = algorithm.method {
        return hybrid::respond(kem, client_public);
    }
    let mut key = EphemeralKey::generate(algorithm)?;
    let public = core::mem::take(&mut key.public);
    Ok((public, key.agree(client_public)?))
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
