//! Between SSH's signatures and those of PKCS#11: which mechanism signs which bytes, and the blob of the
//! result.

use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use lh_crypto::PublicKey;
use lh_wire::Writer as _;

use crate::error::TokenError;

/// DER of the hash's name before the digest in PKCS#1 signatures (RFC 8017 section 9.2).
const SHA1_INFO: &[u8] = &[0x30, 0x21, 0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0, 4, 0x14];
const SHA256_INFO: &[u8] =
    &[0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];
const SHA512_INFO: &[u8] =
    &[0x30, 0x51, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3, 5, 0, 4, 0x40];

/// The bytes to sign.
pub(crate) struct Signed<'a> {
    pub(crate) data: &'a [u8],
    /// Their hash by the signature algorithm; empty for Ed25519.
    pub(crate) digest: &'a [u8],
}

/// How a token makes a signature.
pub(crate) struct Plan {
    pub(crate) mechanism: Mechanism<'static>,
    /// The bytes for it: what is left of hashing to do beforehand is done.
    pub(crate) input: Vec<u8>,
    /// A mechanism that hashes the data by itself, in parts.
    pub(crate) hashing: Option<Mechanism<'static>>,
}

/// Chooses the mechanism of a signature algorithm.
///
/// # Errors
/// The algorithm does not fit the key, or tokens.
pub(crate) fn plan(key: &PublicKey, algorithm: &str, signed: &Signed<'_>) -> Result<Plan, TokenError> {
    if !key.signature_algorithms().contains(&algorithm) {
        return Err(TokenError::OtherAlgorithm(algorithm.to_owned()));
    }
    let rsa = |info: &[u8], hashing| Plan {
        mechanism: Mechanism::RsaPkcs,
        input: [info, signed.digest].concat(),
        hashing: Some(hashing),
    };
    let ecdsa =
        |hashing| Plan { mechanism: Mechanism::Ecdsa, input: signed.digest.to_vec(), hashing: Some(hashing) };
    Ok(match algorithm {
        "ssh-rsa" => rsa(SHA1_INFO, Mechanism::Sha1RsaPkcs),
        "rsa-sha2-256" => rsa(SHA256_INFO, Mechanism::Sha256RsaPkcs),
        "rsa-sha2-512" => rsa(SHA512_INFO, Mechanism::Sha512RsaPkcs),
        "ecdsa-sha2-nistp256" => ecdsa(Mechanism::EcdsaSha256),
        "ecdsa-sha2-nistp384" => ecdsa(Mechanism::EcdsaSha384),
        "ecdsa-sha2-nistp521" => ecdsa(Mechanism::EcdsaSha512),
        "ssh-ed25519" => Plan {
            mechanism: Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Pure)),
            input: signed.data.to_vec(),
            hashing: None,
        },
        other => return Err(TokenError::UnsupportedAlgorithm(other.to_owned())),
    })
}

/// Returns the signature blob of the token's raw signature.
///
/// # Errors
/// [`TokenError::InvalidSignature`].
pub(crate) fn blob(key: &PublicKey, algorithm: &str, raw: &[u8]) -> Result<Vec<u8>, TokenError> {
    let mut out = Vec::new();
    out.put_string(algorithm.as_bytes());
    if algorithm.starts_with("ecdsa-") {
        // r and s, each with half of the bytes.
        if raw.is_empty() || !raw.len().is_multiple_of(2) {
            return Err(TokenError::InvalidSignature);
        }
        let (r, s) = raw.split_at(raw.len() / 2);
        out.nested(|out| {
            out.put_mpint(r);
            out.put_mpint(s);
        });
    } else if key.key_type() == "ssh-rsa" {
        // Some tokens drop leading zeros.
        let length = key.bits().div_ceil(8);
        let missing = length.checked_sub(raw.len()).ok_or(TokenError::InvalidSignature)?;
        out.put_string(&[&vec![0; missing], raw].concat());
    } else {
        out.put_string(raw);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey};
    use lh_wire::Reader;

    #[test]
    fn raw_signatures_become_blobs_that_verify() {
        let key = PrivateKey::generate(KeyType::EcdsaP256, None).expect("a key");
        let signed = key.sign("ecdsa-sha2-nistp256", b"data").expect("a signature");
        let mut fields = Reader::new(&signed);
        fields.string().expect("the name");
        let mut numbers = Reader::new(fields.string().expect("the numbers"));
        let mut raw = Vec::new();
        for _ in 0..2 {
            let number = numbers.mpint().expect("a number");
            raw.resize(raw.len() + 32 - number.magnitude().len(), 0);
            raw.extend_from_slice(number.magnitude());
        }
        assert_eq!(blob(key.public(), "ecdsa-sha2-nistp256", &raw).expect("a blob"), signed);
        assert!(blob(key.public(), "ecdsa-sha2-nistp256", &raw[1..]).is_err());
    }

    #[test]
    fn only_algorithms_of_the_key_are_planned() {
        let key = PrivateKey::generate(KeyType::EcdsaP384, None).expect("a key");
        let signed = Signed { data: b"data", digest: b"digest" };
        let found = plan(key.public(), "ecdsa-sha2-nistp384", &signed).expect("a plan");
        assert_eq!(found.input, b"digest");
        for other in ["ecdsa-sha2-nistp256", "rsa-sha2-256", "ssh-ed25519", "x"] {
            assert!(plan(key.public(), other, &signed).is_err());
        }
    }
}
