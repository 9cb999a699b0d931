//! Private keys.

use super::algorithms;
use super::composite::{self, CompositePair};
use super::curve::{Curve, put_padded};
use super::der::DerError;
use super::openssh_format::Encryption;
use super::pem_write::{Numbers, PemFormat};
use super::public::{Data, PublicKey};
use super::rsa::{RsaKey, RsaNumbers};
use super::signature::{self, ED25519, MLDSA44_ED25519, SSH_RSA};
use super::{openssh_format, pem, pem_write};
use crate::{CryptoError, KeyFileError};
use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use lh_wire::{Reader, WireError, Writer};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Largest file that is parsed, bytes: OpenSSH's limit.
const MAX_FILE: usize = 1024 * 1024;

/// Key types that can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// `ssh-ed25519` (RFC 8709).
    Ed25519,
    /// `ssh-mldsa44-ed25519@openssh.com` (draft-miller-sshm-mldsa44-ed25519-composite-sigs).
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

const MISMATCH: KeyFileError = KeyFileError::InvalidKey { why: "private and public key do not match" };

impl PrivateKey {
    /// Generates a key. `bits` applies to RSA only (`None`: 3072; multiples of 128 from 1024 to 16384).
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for other sizes.
    pub fn generate(key_type: KeyType, bits: Option<u32>) -> Result<Self, CryptoError> {
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

    /// Parses a private key file: OpenSSH's format, PKCS#8, PKCS#1 or SEC1 in PEM, plain or encrypted. Also
    /// returns the comment (empty if the format has none).
    ///
    /// # Errors
    /// [`KeyFileError::PassphraseNeeded`] when a passphrase is needed and none was passed; an empty one
    /// counts as passed.
    pub fn parse(file: &[u8], passphrase: Option<&[u8]>) -> Result<(Self, String), KeyFileError> {
        let file = Self::text_of(file)?;
        let block = pem::Block::find(file)?;
        if block.label == openssh_format::LABEL {
            openssh_format::parse(&block.decode()?, passphrase)
        } else {
            Ok((pem::parse(&block, passphrase)?, String::new()))
        }
    }

    /// Returns the public key of a private key file that may be encrypted. Only OpenSSH's own format stores
    /// it unencrypted; for the others this fails when they are encrypted.
    ///
    /// # Errors
    /// Like [`parse`](Self::parse) without a passphrase.
    pub fn parse_public(file: &[u8]) -> Result<PublicKey, KeyFileError> {
        let file = Self::text_of(file)?;
        let block = pem::Block::find(file)?;
        if block.label == openssh_format::LABEL {
            openssh_format::parse_public(&block.decode()?)
        } else {
            pem::parse(&block, None).map(|key| key.public)
        }
    }

    /// Returns the decrypted private section of a file in OpenSSH's format: type and fields of the key, then
    /// `string` comment, then padding. For keys that [`parse`](Self::parse) cannot turn into a signing key:
    /// those of security keys.
    ///
    /// # Errors
    /// Like [`parse`](Self::parse), and [`KeyFileError::InvalidFormat`] for files in other formats.
    pub fn private_section(
        file: &[u8],
        passphrase: Option<&[u8]>,
    ) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
        let block = pem::Block::find(Self::text_of(file)?)?;
        if block.label != openssh_format::LABEL {
            return Err(KeyFileError::InvalidFormat);
        }
        openssh_format::private_section(&block.decode()?, passphrase).map(|(section, _)| section)
    }

    /// Returns the key in OpenSSH's file format, ending in a newline. With a passphrase it is encrypted with
    /// aes256-ctr and the given number of bcrypt rounds (ssh-keygen's default is 24).
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for an empty passphrase or zero rounds, [`CryptoError::Library`] when
    /// encryption fails.
    pub fn to_openssh(
        &self,
        comment: &str,
        encrypt: Option<(&[u8], u32)>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        let encrypt =
            encrypt.map(|(passphrase, rounds)| Encryption { passphrase, rounds, cipher: "aes256-ctr" });
        self.to_openssh_with(comment, encrypt.as_ref())
    }

    /// Like [`to_openssh`](Self::to_openssh), with a choice of cipher.
    ///
    /// # Errors
    /// Like [`to_openssh`](Self::to_openssh), and [`CryptoError::Unsupported`] for an unsupported cipher.
    pub fn to_openssh_with(
        &self,
        comment: &str,
        encrypt: Option<&Encryption<'_>>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        openssh_format::write(&self.public, &self.to_wire(), comment, encrypt)
    }

    /// Inverse of [`private_section`](Self::private_section): returns a file in OpenSSH's format with the
    /// type and fields of a key that cannot sign by itself.
    ///
    /// # Errors
    /// Like [`to_openssh_with`](Self::to_openssh_with).
    pub fn seal_section(
        public: &PublicKey,
        fields: &[u8],
        comment: &str,
        encrypt: Option<&Encryption<'_>>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        openssh_format::write(public, fields, comment, encrypt)
    }

    /// Returns the key in PEM for other programs, encrypted if there is a passphrase. These formats have no
    /// comment.
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for an empty passphrase, for an Ed25519 key in the traditional format,
    /// which does not support it, and for a composite key in either format.
    pub fn to_pem(
        &self,
        format: PemFormat,
        passphrase: Option<&[u8]>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        const NOT_HERE: CryptoError = CryptoError::Unsupported { what: "this key in PEM" };
        let numbers = match (&*self.secret, self.public.data()) {
            (Secret::Ed25519 { seed, .. }, _) => Numbers::Ed25519(seed),
            (Secret::Ecdsa { curve, scalar, .. }, Data::Ecdsa(_, point)) => {
                Numbers::Ecdsa(*curve, scalar, point)
            }
            (Secret::Rsa(key), _) => Numbers::Rsa(key.numbers.to_pkcs1().ok_or(NOT_HERE)?),
            // No specification defines composite keys in PEM. Other combinations are never constructed: the
            // public key is derived from the secret.
            _ => return Err(NOT_HERE),
        };
        pem_write::private(&numbers, format, passphrase)
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

    fn assemble(blob: &[u8], secret: Secret) -> Result<Self, KeyFileError> {
        let public = PublicKey::from_blob(blob).map_err(|_| KeyFileError::InvalidFormat)?;
        Ok(Self { public, secret: Arc::new(secret) })
    }

    fn text_of(file: &[u8]) -> Result<&str, KeyFileError> {
        if file.len() > MAX_FILE {
            return Err(KeyFileError::InvalidFormat);
        }
        core::str::from_utf8(file).map_err(|_| KeyFileError::InvalidFormat)
    }
}
