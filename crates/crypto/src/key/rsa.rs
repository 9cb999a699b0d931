//! RSA private keys: the library's key, and the numbers that OpenSSH's format stores.

use super::der::{self, Der, DerError};
use super::names::{RSA_SHA2_256, RSA_SHA2_512, SSH_RSA};
use crate::{CryptoError, Hash, KeyFileError};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeyPairComponents, KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding};
use crypto_bigint::{BoxedUint, NonZero};
use lh_crypto_sys::rsa::Digest;
use lh_wire::Mpint;
use zeroize::{Zeroize, Zeroizing};

/// The numbers as big-endian magnitudes.
pub(super) struct RsaNumbers {
    pub(super) n: Vec<u8>,
    pub(super) e: Vec<u8>,
    pub(super) d: Zeroizing<Vec<u8>>,
    pub(super) p: Zeroizing<Vec<u8>>,
    pub(super) q: Zeroizing<Vec<u8>>,
    /// `q^-1 mod p`.
    pub(super) q_inverse: Zeroizing<Vec<u8>>,
}

pub(super) struct RsaKey {
    pub(super) numbers: RsaNumbers,
    /// `None` for sizes that the library does not support: `lh_crypto_sys` signs with those.
    pair: Option<KeyPair>,
}

/// Supported sizes, bits: OpenSSH's.
const SIZES: std::ops::RangeInclusive<usize> = 1024..=16384;

impl RsaKey {
    pub(super) fn generate(bits: u32) -> Result<Self, CryptoError> {
        const FAILED: CryptoError = CryptoError::Library { what: "generate an RSA key" };
        let size = match bits {
            2048 => KeySize::Rsa2048,
            3072 => KeySize::Rsa3072,
            4096 => KeySize::Rsa4096,
            8192 => KeySize::Rsa8192,
            bits if bits.is_multiple_of(128) && SIZES.contains(&(bits as usize)) => {
                let der = lh_crypto_sys::rsa::generate(bits).map_err(|_| FAILED)?;
                let numbers = RsaNumbers::from_pkcs1(&der).map_err(|_| FAILED)?;
                return Self::from_numbers(numbers).map_err(|_| FAILED);
            }
            _ => {
                return Err(CryptoError::Unsupported {
                    what: "an RSA key size that is not a multiple of 128 from 1024 to 16384 bits",
                });
            }
        };
        let pair = KeyPair::generate(size).map_err(|_| FAILED)?;
        let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| FAILED)?;
        let numbers = pkcs8_inner(der.as_ref()).and_then(RsaNumbers::from_pkcs1).map_err(|_| FAILED)?;
        Ok(Self { numbers, pair: Some(pair) })
    }

    /// Creates a key and checks that the numbers belong together.
    pub(super) fn from_numbers(numbers: RsaNumbers) -> Result<Self, KeyFileError> {
        const BAD: KeyFileError = KeyFileError::InvalidKey { why: "the numbers do not form an RSA key" };
        let bits = Mpint::from_magnitude(&numbers.n).bits();
        if !SIZES.contains(&bits) {
            return Err(KeyFileError::Unsupported { what: format!("RSA key of {bits} bits") });
        }
        if !(2048..=8192).contains(&bits) {
            let sound = numbers.to_pkcs1().is_some_and(|der| lh_crypto_sys::rsa::is_sound(&der));
            return if sound { Ok(Self { numbers, pair: None }) } else { Err(BAD) };
        }
        let pair = KeyPair::from_components(&KeyPairComponents {
            public_key: PublicKeyComponents { n: numbers.n.as_slice(), e: numbers.e.as_slice() },
            d: numbers.d.as_slice(),
            p: numbers.p.as_slice(),
            q: numbers.q.as_slice(),
            dP: reduce(&numbers.d, &numbers.p).ok_or(BAD)?.as_slice(),
            dQ: reduce(&numbers.d, &numbers.q).ok_or(BAD)?.as_slice(),
            qInv: numbers.q_inverse.as_slice(),
        })
        .map_err(|_| BAD)?;
        Ok(Self { numbers, pair: Some(pair) })
    }

    pub(super) fn sign(&self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let encoding: &'static dyn RsaEncoding = match algorithm {
            RSA_SHA2_512 => &RSA_PKCS1_SHA512,
            RSA_SHA2_256 => &RSA_PKCS1_SHA256,
            SSH_RSA => return self.sign_below(algorithm, data),
            _ => return Err(CryptoError::Unsupported { what: "this signature algorithm with an RSA key" }),
        };
        let Some(pair) = &self.pair else { return self.sign_below(algorithm, data) };
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(encoding, &SystemRandom::new(), data, &mut signature)
            .map_err(|_| CryptoError::Library { what: "sign" })?;
        Ok(signature)
    }
}

impl RsaKey {
    /// Signs with `lh_crypto_sys`. The library's safe interface makes no signatures with SHA-1 (`ssh-rsa` of
    /// RFC 4253 section 6.6) and accepts no keys of unusual sizes.
    fn sign_below(&self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        const FAILED: CryptoError = CryptoError::Library { what: "sign" };
        let pkcs1 = self.numbers.to_pkcs1().ok_or(FAILED)?;
        with_digest(algorithm, data, |digest| lh_crypto_sys::rsa::sign(&pkcs1, digest))
            .ok_or(FAILED)?
            .map_err(|_| FAILED)
    }
}

/// Calls `work` with the digest that an RSA signature algorithm signs; returns `None` for other algorithms.
fn with_digest<T>(algorithm: &str, data: &[u8], work: impl FnOnce(Digest<'_>) -> T) -> Option<T> {
    let digest = |hash: Hash| hash.digest(&[data]);
    Some(match algorithm {
        SSH_RSA => work(Digest::Sha1(digest(Hash::Sha1).as_ref().try_into().ok()?)),
        RSA_SHA2_256 => work(Digest::Sha256(digest(Hash::Sha256).as_ref().try_into().ok()?)),
        RSA_SHA2_512 => work(Digest::Sha512(digest(Hash::Sha512).as_ref().try_into().ok()?)),
        _ => return None,
    })
}

/// Verifies with a key that is longer than the library supports.
pub(super) fn verify_long(algorithm: &str, e: &[u8], n: &[u8], data: &[u8], signature: &[u8]) -> bool {
    if !SIZES.contains(&(n.len() * 8)) {
        return false;
    }
    let parts = [der::unsigned(n), der::unsigned(e)];
    let pkcs1 = der::sequence(&parts.each_ref().map(|part| part.as_slice()));
    with_digest(algorithm, data, |digest| lh_crypto_sys::rsa::verify(&pkcs1, digest, signature))
        .unwrap_or(false)
}

impl RsaNumbers {
    /// Decodes `RSAPrivateKey` of RFC 8017 section A.1.2. Its exponents are ignored and computed again when
    /// needed.
    pub(super) fn from_pkcs1(der: &[u8]) -> Result<Self, DerError> {
        let mut key = Der::new(der).sequence()?;
        // Version 1 would have more than two primes.
        if key.small()? != 0 {
            return Err(DerError);
        }
        let (n, e) = (key.unsigned()?.to_vec(), key.unsigned()?.to_vec());
        let mut secret = || key.unsigned().map(|number| Zeroizing::new(number.to_vec()));
        let (d, p, q) = (secret()?, secret()?, secret()?);
        let (_d_p, _d_q, q_inverse) = (secret()?, secret()?, secret()?);
        if key.is_empty() { Ok(Self { n, e, d, p, q, q_inverse }) } else { Err(DerError) }
    }
}

impl RsaNumbers {
    /// Encodes `RSAPrivateKey` of RFC 8017 section A.1.2; returns `None` when a number is too large for a
    /// key.
    pub(super) fn to_pkcs1(&self) -> Option<Zeroizing<Vec<u8>>> {
        let parts = [
            der::unsigned(&[]),
            der::unsigned(&self.n),
            der::unsigned(&self.e),
            der::unsigned(&self.d),
            der::unsigned(&self.p),
            der::unsigned(&self.q),
            der::unsigned(&reduce(&self.d, &self.p)?),
            der::unsigned(&reduce(&self.d, &self.q)?),
            der::unsigned(&self.q_inverse),
        ];
        Some(der::sequence(&parts.each_ref().map(|part| part.as_slice())))
    }
}

/// Returns the `RSAPrivateKey` inside the library's PKCS#8 structure.
fn pkcs8_inner(der: &[u8]) -> Result<&[u8], DerError> {
    let mut info = Der::new(der).sequence()?;
    info.small()?;
    info.sequence()?;
    info.octets()
}

/// Computes `d mod (prime - 1)`, which OpenSSH's format omits, in time that depends only on the sizes.
fn reduce(d: &[u8], prime: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    // A precision that holds both. The lengths are public, and bounded by the size of the modulus.
    if d.len() > SIZES.end() / 8 || prime.len() > SIZES.end() / 8 {
        return None;
    }
    let bits = u32::try_from(d.len().max(prime.len()) * 8).ok()?;
    let d = Zeroizing::new(BoxedUint::from_be_slice(d, bits).ok()?);
    let prime = Zeroizing::new(BoxedUint::from_be_slice(prime, bits).ok()?);
    let less_one = prime.wrapping_sub(BoxedUint::one_with_precision(bits));
    let mut modulus = Option::<NonZero<BoxedUint>>::from(less_one.into_nz())?;
    let remainder = Zeroizing::new(d.rem(&modulus));
    modulus.zeroize();
    let bytes = Zeroizing::new(remainder.to_be_bytes().into_vec());
    Some(Zeroizing::new(Mpint::from_magnitude(&bytes).magnitude().to_vec()))
}
