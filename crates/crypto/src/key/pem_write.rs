//! Writer for key formats of other programs: PKCS#1, SEC1, PKCS#8 and `SubjectPublicKeyInfo`, in PEM.

use super::curve::Curve;
use super::data::Data;
use super::der::{self, CONTEXT_0, CONTEXT_1, Der, NULL};
use super::file_cipher::{BLOCK_LEN, cbc_encrypt};
use super::names::{ED25519, SSH_RSA};
use super::oid;
use super::pem::traditional_key;
use super::private::Numbers;
use super::public::PublicKey;
use crate::{CryptoError, Random, SystemRandom};
use aws_lc_rs::pbkdf2;
use base64ct::{Base64, Encoding};
use core::num::NonZeroU32;
use lh_wire::Writer;
use zeroize::Zeroizing;

/// PBKDF2 iterations for new files: OWASP's recommendation for HMAC-SHA-256.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(600_000).unwrap();

const FAILED: CryptoError = CryptoError::Library { what: "encrypt a key" };
const NOT_HERE: CryptoError = CryptoError::Unsupported { what: "this kind of key in this format" };

/// A private key format other than OpenSSH's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PemFormat {
    /// `RSA PRIVATE KEY` (PKCS#1) and `EC PRIVATE KEY` (SEC1), which OpenSSL calls traditional.
    Traditional,
    /// `PRIVATE KEY` and `ENCRYPTED PRIVATE KEY` (RFC 5958).
    Pkcs8,
}

/// Encodes a private key, encrypted if there is a passphrase.
pub(super) fn private(
    numbers: &Numbers<'_>,
    format: PemFormat,
    passphrase: Option<&[u8]>,
) -> Result<Zeroizing<String>, CryptoError> {
    if passphrase.is_some_and(<[u8]>::is_empty) {
        return Err(CryptoError::Unsupported { what: "an empty passphrase" });
    }
    match (format, passphrase) {
        (PemFormat::Traditional, _) => {
            let (label, body) = match numbers {
                Numbers::Rsa(body) => ("RSA PRIVATE KEY", body.clone()),
                Numbers::Ecdsa(curve, scalar, point) => ("EC PRIVATE KEY", sec1(scalar, point, Some(*curve))),
                Numbers::Ed25519(_) => return Err(NOT_HERE),
            };
            match passphrase {
                None => Ok(armor(label, &[], &body, 64)),
                Some(passphrase) => encrypt_traditional(label, &body, passphrase),
            }
        }
        (PemFormat::Pkcs8, None) => Ok(armor("PRIVATE KEY", &[], &pkcs8(numbers), 64)),
        (PemFormat::Pkcs8, Some(passphrase)) => {
            Ok(armor("ENCRYPTED PRIVATE KEY", &[], &pbes2(&pkcs8(numbers), passphrase)?, 64))
        }
    }
}

/// Encodes `ECPrivateKey` of RFC 5915. In PKCS#8 the curve is specified outside.
fn sec1(scalar: &[u8], point: &[u8], curve: Option<Curve>) -> Zeroizing<Vec<u8>> {
    let curve = curve.map(|curve| der::value(CONTEXT_0, &[&der::object_id(curve.object_id())]));
    der::sequence(&[
        &der::unsigned(&[1]),
        &der::octets(scalar),
        curve.as_ref().map_or(&[], |curve| curve.as_slice()),
        &der::value(CONTEXT_1, &[&der::bits(point)]),
    ])
}

/// Encodes `PrivateKeyInfo` of RFC 5208.
fn pkcs8(numbers: &Numbers<'_>) -> Zeroizing<Vec<u8>> {
    let (algorithm, body) = match numbers {
        Numbers::Ed25519(seed) => (algorithm(oid::ED25519, &[]), der::octets(&seed[..])),
        Numbers::Ecdsa(curve, scalar, point) => {
            (algorithm(oid::EC_PUBLIC_KEY, &der::object_id(curve.object_id())), sec1(scalar, point, None))
        }
        Numbers::Rsa(body) => (algorithm(oid::RSA_ENCRYPTION, &der::value(NULL, &[])), body.clone()),
    };
    der::sequence(&[&der::unsigned(&[]), &algorithm, &der::octets(&body)])
}

fn algorithm(object_id: &[u8], parameters: &[u8]) -> Zeroizing<Vec<u8>> {
    der::sequence(&[&der::object_id(object_id), parameters])
}

/// Encodes `EncryptedPrivateKeyInfo` with PBES2, PBKDF2 with HMAC-SHA-256, and AES-256-CBC (RFC 8018).
fn pbes2(body: &[u8], passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    let (mut salt, mut iv) = ([0; 16], [0; BLOCK_LEN]);
    SystemRandom.fill(&mut salt);
    SystemRandom.fill(&mut iv);
    let mut key = Zeroizing::new([0; 32]);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, passphrase, &mut key[..]);
    let mut data = padded(body);
    cbc_encrypt(&key[..], &iv, &mut data).map_err(|_| FAILED)?;
    let prf = algorithm(&[oid::HMAC_WITH, &[oid::HMAC_SHA256]].concat(), &der::value(NULL, &[]));
    let kdf = der::sequence(&[&der::octets(&salt), &der::unsigned(&ITERATIONS.get().to_be_bytes()), &prf]);
    let scheme = algorithm(&[oid::AES_CBC, &[oid::AES_256]].concat(), &der::octets(&iv));
    let parameters = der::sequence(&[&algorithm(oid::PBKDF2, &kdf), &scheme]);
    Ok(der::sequence(&[&algorithm(oid::PBES2, &parameters), &der::octets(&data)]))
}

/// Encrypts with `Proc-Type: 4,ENCRYPTED` and AES-128-CBC, as OpenSSH does. The key is derived with one round
/// of MD5: the format offers nothing better.
fn encrypt_traditional(
    label: &str,
    body: &[u8],
    passphrase: &[u8],
) -> Result<Zeroizing<String>, CryptoError> {
    let mut iv = [0; BLOCK_LEN];
    SystemRandom.fill(&mut iv);
    let mut data = padded(body);
    cbc_encrypt(&traditional_key(passphrase, &iv, 16), &iv, &mut data).map_err(|_| FAILED)?;
    let iv: String = iv.iter().map(|byte| format!("{byte:02X}")).collect();
    let headers = ["Proc-Type: 4,ENCRYPTED".to_owned(), format!("DEK-Info: AES-128-CBC,{iv}"), String::new()];
    Ok(armor(label, &headers, &data, 64))
}

/// Adds PKCS#7 padding to whole blocks.
fn padded(body: &[u8]) -> Zeroizing<Vec<u8>> {
    let padding = BLOCK_LEN - body.len() % BLOCK_LEN;
    let mut data = Zeroizing::new(Vec::with_capacity(body.len() + padding));
    data.extend_from_slice(body);
    data.resize(body.len() + padding, padding as u8);
    data
}

/// Returns `-----BEGIN label-----`, headers, base64 in lines, and `-----END label-----`.
pub(super) fn armor(label: &str, headers: &[String], body: &[u8], columns: usize) -> Zeroizing<String> {
    let encoded = Zeroizing::new(Base64::encode_string(body));
    let head: usize = headers.iter().map(|line| line.len() + 1).sum();
    // Reserved in full, so that growing leaves no copies behind.
    let mut file =
        Zeroizing::new(String::with_capacity(encoded.len() + encoded.len() / columns + head + 128));
    file.push_str("-----BEGIN ");
    file.push_str(label);
    file.push_str("-----\n");
    for line in headers {
        file.push_str(line);
        file.push('\n');
    }
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(columns));
        file.push_str(line);
        file.push('\n');
        rest = tail;
    }
    file.push_str("-----END ");
    file.push_str(label);
    file.push_str("-----\n");
    file
}

impl PublicKey {
    /// Returns the key as `PUBLIC KEY` (`SubjectPublicKeyInfo`, RFC 5280) in PEM; for a certificate, the key
    /// that it certifies. Returns `None` for key types that the format does not support.
    pub fn to_spki_pem(&self) -> Option<String> {
        let (algorithm, key) = match self.plain().data() {
            Data::Ed25519(point) => (algorithm(oid::ED25519, &[]), point.to_vec()),
            Data::Ecdsa(curve, point) => {
                (algorithm(oid::EC_PUBLIC_KEY, &der::object_id(curve.object_id())), point.clone())
            }
            Data::Rsa { e, n } => {
                (algorithm(oid::RSA_ENCRYPTION, &der::value(NULL, &[])), rsa_public(e, n).to_vec())
            }
            _ => return None,
        };
        let info = der::sequence(&[&algorithm, &der::bits(&key)]);
        Some(armor("PUBLIC KEY", &[], &info, 64).to_string())
    }

    /// Returns an RSA key as `RSA PUBLIC KEY` (PKCS#1, RFC 8017 section A.1.1) in PEM; `None` for other keys.
    pub fn to_pkcs1_pem(&self) -> Option<String> {
        match self.plain().data() {
            Data::Rsa { e, n } => Some(armor("RSA PUBLIC KEY", &[], &rsa_public(e, n), 64).to_string()),
            _ => None,
        }
    }

    /// Parses `PUBLIC KEY` or `RSA PUBLIC KEY` in PEM; returns `None` when the text contains neither, or an
    /// unknown key type.
    pub fn from_public_pem(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        let label = lines
            .find_map(|line| line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")))?;
        let mut encoded = String::new();
        loop {
            let line = lines.next()?;
            if line.strip_prefix("-----END ").and_then(|rest| rest.strip_suffix("-----")) == Some(label) {
                break;
            }
            encoded.push_str(line);
        }
        let bytes = Base64::decode_vec(&encoded).ok()?;
        let blob = match label {
            "RSA PUBLIC KEY" => rsa_blob(&bytes)?,
            "PUBLIC KEY" => spki_blob(&bytes)?,
            _ => return None,
        };
        Self::from_blob(&blob).ok()
    }
}

/// Encodes `RSAPublicKey`.
fn rsa_public(e: &[u8], n: &[u8]) -> Zeroizing<Vec<u8>> {
    der::sequence(&[&der::unsigned(n), &der::unsigned(e)])
}

fn rsa_blob(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut key = Der::new(bytes).sequence().ok()?;
    let (n, e) = (key.unsigned().ok()?, key.unsigned().ok()?);
    let mut blob = Vec::new();
    blob.put_string(SSH_RSA.as_bytes());
    blob.put_mpint(e);
    blob.put_mpint(n);
    Some(blob)
}

pub(super) fn spki_blob(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut info = Der::new(bytes).sequence().ok()?;
    let mut algorithm = info.sequence().ok()?;
    let key = info.bits().ok()?;
    let mut blob = Vec::new();
    match algorithm.object_id().ok()? {
        oid::RSA_ENCRYPTION => return rsa_blob(key),
        oid::ED25519 => {
            blob.put_string(ED25519.as_bytes());
            blob.put_string(key);
        }
        oid::EC_PUBLIC_KEY => {
            let named = algorithm.object_id().ok()?;
            let curve = Curve::ALL.into_iter().find(|curve| curve.object_id() == named)?;
            blob.put_string(curve.key_type().as_bytes());
            blob.put_string(curve.identifier().as_bytes());
            blob.put_string(key);
        }
        _ => return None,
    }
    Some(blob)
}
