//! Private keys.

use super::algorithms;
use super::composite::{self, CompositePair};
use super::curve::{Curve, put_padded};
use super::data::Data;
use super::der::DerError;
use super::names::{ED25519, MLDSA44_ED25519, SSH_RSA};
use super::public::PublicKey;
use super::rsa::{RsaKey, RsaNumbers};
use super::signature;
use crate::{CryptoError, KeyFileError};
use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use lh_wire::{Reader, WireError, Writer};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Key types that can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// `ssh-ed25519` (RFC 8709).
    Ed25519,
    /// `ssh-mldsa44-ed25519` (draft-miller-sshm-mldsa44-ed25519-composite-sigs).
    MlDsa44Ed25519,
    /// `ecdsa-sha2-nistp256` (RFC 5656).
    EcdsaP256,
    /// `ecdsa-sha2-nistp384`.
    EcdsaP384,
    /// `ecdsa-sha2-nistp521`.
    EcdsaP521,
    /// `ssh-rsa`.
    Rsa,
}

/// A private key. Cloning is cheap; the secret is wiped when the last clone is dropped. `Send + Sync`.
#[derive(Clone)]
pub struct PrivateKey {
    public: PublicKey,
    secret: Arc<Secret>,
}

enum Secret {
    Ed25519 { seed: Zeroizing<[u8; 32]>, pair: Ed25519KeyPair },
    MlDsaEd25519(CompositePair),
    Ecdsa { curve: Curve, scalar: Zeroizing<Vec<u8>>, pair: EcdsaKeyPair },
    Rsa(RsaKey),
}

/// Secret numbers of a key.
pub(super) enum Numbers<'a> {
    /// The seed.
    Ed25519(&'a [u8; 32]),
    /// Scalar and public point.
    Ecdsa(Curve, &'a [u8], &'a [u8]),
    /// `RSAPrivateKey`, encoded.
    Rsa(Zeroizing<Vec<u8>>),
}

const MISMATCH: KeyFileError = KeyFileError::InvalidKey { why: "private and public key do not match" };

impl PrivateKey {
    /// Generates a key. `bits` applies to RSA only (`None`: 3072; multiples of 128 from 1024 to 16384).
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for other sizes.
    pub fn generate(key_type: KeyType, bits: Option<u32>) -> Result<Self, CryptoError> {
        if crate::FIPS && (key_type == KeyType::MlDsa44Ed25519 || bits.is_some_and(|bits| bits < 2048)) {
            return Err(CryptoError::Unsupported { what: "this type or size of keys in a FIPS build" });
        }
        const FAILED: CryptoError = CryptoError::Library { what: "generate a key" };
        let curve = match key_type {
            KeyType::Ed25519 => {
                let mut seed = Zeroizing::new([0; 32]);
                aws_lc_rs::rand::fill(&mut seed[..]).map_err(|_| FAILED)?;
                return Self::from_ed25519_seed(&seed).map_err(|_| FAILED);
            }
            KeyType::MlDsa44Ed25519 => {
                let mut seed = Zeroizing::new([0; composite::SEED_LEN]);
                aws_lc_rs::rand::fill(&mut seed[..]).map_err(|_| FAILED)?;
                return Self::from_composite_seed(&seed).map_err(|_| FAILED);
            }
            KeyType::Rsa => {
                return Self::from_rsa(RsaKey::generate(bits.unwrap_or(3072))?).map_err(|_| FAILED);
            }
            KeyType::EcdsaP256 => Curve::P256,
            KeyType::EcdsaP384 => Curve::P384,
            KeyType::EcdsaP521 => Curve::P521,
        };
        Self::from_ecdsa(curve, EcdsaKeyPair::generate(curve.signing()).map_err(|_| FAILED)?)
            .map_err(|_| FAILED)
    }

    /// Returns the public key.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs `data` and returns the signature blob (`string` algorithm, `string` signature). The name may be
    /// a certificate's; the blob contains the plain name.
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] when the key does not support `algorithm`. The caller decides whether
    /// `ssh-rsa` (SHA-1) is wanted: it is only requested where a configuration names it.
    pub fn sign(&self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        const FAILED: CryptoError = CryptoError::Library { what: "sign" };
        let algorithm = &*algorithms::plain(algorithm);
        if !self.public.signature_algorithms().contains(&algorithm) {
            return Err(CryptoError::Unsupported { what: "this signature algorithm with this key" });
        }
        Ok(match &*self.secret {
            Secret::Ed25519 { pair, .. } => {
                let signature = pair.try_sign(data).map_err(|_| FAILED)?;
                signature::blob(algorithm, signature.as_ref())
            }
            Secret::MlDsaEd25519(pair) => signature::blob(algorithm, &pair.sign(data)?),
            Secret::Ecdsa { pair, .. } => {
                let fixed = pair.sign(&SystemRandom::new(), data).map_err(|_| FAILED)?;
                signature::blob(algorithm, &signature::ecdsa_from_fixed(fixed.as_ref()))
            }
            Secret::Rsa(key) => signature::blob(algorithm, &key.sign(algorithm, data)?),
        })
    }

    /// Encodes type and numbers as in OpenSSH's key format and, followed by a comment, in the agent
    /// protocol's `SSH_AGENTC_ADD_IDENTITY`.
    pub fn to_wire(&self) -> Zeroizing<Vec<u8>> {
        // Reserved for the largest key (five numbers of 8192 bits plus an eighth): growing would leave copies
        // behind.
        let mut out = Zeroizing::new(Vec::with_capacity(6 * 1024));
        out.put_string(self.public.key_type().as_bytes());
        match (&*self.secret, self.public.data()) {
            (Secret::Ed25519 { seed, .. }, Data::Ed25519(point)) => {
                out.put_string(point);
                out.nested(|out| {
                    out.put_bytes(&seed[..]);
                    out.put_bytes(point);
                });
            }
            (Secret::MlDsaEd25519(pair), Data::MlDsaEd25519(key)) => {
                out.put_string(&key[..]);
                out.put_string(pair.seed());
            }
            (Secret::Ecdsa { curve, scalar, .. }, Data::Ecdsa(_, point)) => {
                out.put_string(curve.identifier().as_bytes());
                out.put_string(point);
                out.put_mpint(scalar);
            }
            (Secret::Rsa(key), _) => {
                let numbers = &key.numbers;
                out.put_mpint(&numbers.n);
                out.put_mpint(&numbers.e);
                out.put_mpint(&numbers.d);
                out.put_mpint(&numbers.q_inverse);
                out.put_mpint(&numbers.p);
                out.put_mpint(&numbers.q);
            }
            // Never constructed: the public key is derived from the secret.
            _ => {}
        }
        out
    }

    /// Decodes the output of [`to_wire`](Self::to_wire) and leaves the reader behind it. Checks that the
    /// private and public key belong together.
    ///
    /// # Errors
    /// [`KeyFileError::Unsupported`] for unknown types and for security keys, whose private key is not in the
    /// file.
    pub fn from_wire(reader: &mut Reader<'_>) -> Result<Self, KeyFileError> {
        const FORMAT: fn(WireError) -> KeyFileError = |_| KeyFileError::InvalidFormat;
        let key_type = reader.text().map_err(FORMAT)?;
        if let Some(curve) = Curve::by_key_type(key_type) {
            let identifier = reader.string().map_err(FORMAT)?;
            let point = reader.string().map_err(FORMAT)?;
            let scalar = reader.mpint().map_err(FORMAT)?;
            if identifier != curve.identifier().as_bytes() {
                return Err(KeyFileError::InvalidFormat);
            }
            let mut padded = Zeroizing::new(Vec::with_capacity(curve.scalar_len()));
            put_padded(&mut padded, scalar.magnitude(), curve.scalar_len()).ok_or(MISMATCH)?;
            let pair = EcdsaKeyPair::from_private_key_and_public_key(curve.signing(), &padded, point)
                .map_err(|_| MISMATCH)?;
            return Self::from_ecdsa(curve, pair);
        }
        match key_type {
            ED25519 => {
                let point = reader.string().map_err(FORMAT)?;
                let secret = reader.string().map_err(FORMAT)?;
                let (seed, again) = secret.split_first_chunk::<32>().ok_or(KeyFileError::InvalidFormat)?;
                let key = Self::from_ed25519_seed(seed)?;
                match key.public.data() {
                    Data::Ed25519(real) if real == point && real == again => Ok(key),
                    _ => Err(MISMATCH),
                }
            }
            MLDSA44_ED25519 => {
                let public = reader.string().map_err(FORMAT)?;
                let seed = reader.string().map_err(FORMAT)?;
                let key =
                    Self::from_composite_seed(seed.try_into().map_err(|_| KeyFileError::InvalidFormat)?)?;
                match key.public.data() {
                    Data::MlDsaEd25519(real) if real[..] == *public => Ok(key),
                    _ => Err(MISMATCH),
                }
            }
            SSH_RSA => {
                let mut number = || reader.mpint().map(|number| number.magnitude().to_vec());
                let (n, e) = (number().map_err(FORMAT)?, number().map_err(FORMAT)?);
                let mut secret = || number().map(Zeroizing::new).map_err(FORMAT);
                let (d, q_inverse, p, q) = (secret()?, secret()?, secret()?, secret()?);
                Self::from_rsa(RsaKey::from_numbers(RsaNumbers { n, e, d, p, q, q_inverse })?)
            }
            other => {
                // The name comes from a file: escape control characters.
                Err(KeyFileError::Unsupported { what: format!("key type {}", other.escape_default()) })
            }
        }
    }

    pub(super) fn from_ed25519_seed(seed: &[u8; 32]) -> Result<Self, KeyFileError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| MISMATCH)?;
        let mut blob = Vec::new();
        blob.put_string(ED25519.as_bytes());
        blob.put_string(pair.public_key().as_ref());
        Self::assemble(&blob, Secret::Ed25519 { seed: Zeroizing::new(*seed), pair })
    }

    fn from_composite_seed(seed: &[u8; composite::SEED_LEN]) -> Result<Self, KeyFileError> {
        let pair = CompositePair::from_seed(seed).ok_or(MISMATCH)?;
        let mut blob = Vec::new();
        blob.put_string(MLDSA44_ED25519.as_bytes());
        blob.put_string(&pair.public().ok_or(MISMATCH)?);
        Self::assemble(&blob, Secret::MlDsaEd25519(pair))
    }

    /// Parses an EC key in a DER structure: PKCS#8 or SEC1, on any supported curve.
    pub(super) fn from_ecdsa_der(der: &[u8]) -> Result<Self, KeyFileError> {
        let mut keys = Curve::ALL.into_iter().filter_map(|curve| {
            Some((curve, EcdsaKeyPair::from_private_key_der(curve.signing(), der).ok()?))
        });
        let (curve, pair) =
            keys.next().ok_or(KeyFileError::InvalidKey { why: "not a key on a known curve" })?;
        Self::from_ecdsa(curve, pair)
    }

    pub(super) fn from_rsa_der(der: &[u8]) -> Result<Self, KeyFileError> {
        let numbers = RsaNumbers::from_pkcs1(der).map_err(|DerError| KeyFileError::InvalidFormat)?;
        Self::from_rsa(RsaKey::from_numbers(numbers)?)
    }

    fn from_ecdsa(curve: Curve, pair: EcdsaKeyPair) -> Result<Self, KeyFileError> {
        let scalar: EcPrivateKeyBin<'_> = pair.private_key().as_be_bytes().map_err(|_| MISMATCH)?;
        let scalar = Zeroizing::new(scalar.as_ref().to_vec());
        let mut blob = Vec::new();
        blob.put_string(curve.key_type().as_bytes());
        blob.put_string(curve.identifier().as_bytes());
        blob.put_string(pair.public_key().as_ref());
        Self::assemble(&blob, Secret::Ecdsa { curve, scalar, pair })
    }

    pub(super) fn from_rsa(key: RsaKey) -> Result<Self, KeyFileError> {
        let mut blob = Vec::new();
        blob.put_string(SSH_RSA.as_bytes());
        blob.put_mpint(&key.numbers.e);
        blob.put_mpint(&key.numbers.n);
        Self::assemble(&blob, Secret::Rsa(key))
    }

    /// Returns the secret numbers for a PEM file. `None` for composite keys, whose PEM form no specification
    /// defines.
    pub(super) fn numbers(&self) -> Option<Numbers<'_>> {
        Some(match (&*self.secret, self.public.data()) {
            (Secret::Ed25519 { seed, .. }, _) => Numbers::Ed25519(seed),
            (Secret::Ecdsa { curve, scalar, .. }, Data::Ecdsa(_, point)) => {
                Numbers::Ecdsa(*curve, scalar, point)
            }
            (Secret::Rsa(key), _) => Numbers::Rsa(key.numbers.to_pkcs1()?),
            // Other combinations are never constructed: the public key is derived from the secret.
            _ => return None,
        })
    }

    fn assemble(blob: &[u8], secret: Secret) -> Result<Self, KeyFileError> {
        let public = PublicKey::from_blob(blob).map_err(|_| KeyFileError::InvalidFormat)?;
        if !public.data().is_built() {
            let (name, bits) = (public.display_type(), public.bits());
            return Err(KeyFileError::Unsupported {
                what: format!("{name} key of {bits} bits in a FIPS build"),
            });
        }
        Ok(Self { public, secret: Arc::new(secret) })
    }
}
