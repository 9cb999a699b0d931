//! Public keys out of X.509 certificates and of PKCS#11 attributes, as smart cards store them. Nothing else
//! of a certificate is read: SSH trusts keys, not issuers.

use lh_wire::Writer as _;

use super::curve::Curve;
use super::der::{CONTEXT_0, Der, INTEGER, SEQUENCE};
use super::names::ED25519;
use super::oid;
use super::pem_write::spki_blob;
use super::public::PublicKey;

/// ASN.1's PrintableString, in which PKCS#11 tokens may name the curve `edwards25519`.
const PRINTABLE_STRING: u8 = 0x13;

impl PublicKey {
    /// Returns the key of an X.509 certificate in DER (RFC 5280 section 4.1); `None` for other bytes and for
    /// keys that SSH has no type for.
    pub fn from_x509(certificate: &[u8]) -> Option<Self> {
        let mut fields = Der::new(certificate).sequence().ok()?.sequence().ok()?;
        if fields.peek() == Some(CONTEXT_0) {
            fields.value(CONTEXT_0).ok()?;
        }
        fields.value(INTEGER).ok()?;
        // The signature's algorithm, the issuer, the validity, the subject.
        for _ in 0..4 {
            fields.value(SEQUENCE).ok()?;
        }
        let key = fields.value(SEQUENCE).ok()?;
        Self::from_blob(&spki_blob(&super::der::sequence(&[key]))?).ok()
    }

    /// Returns the key of the attributes `CKA_EC_PARAMS` and `CKA_EC_POINT` of a PKCS#11 token, an ECDSA or
    /// Ed25519 key. Some tokens store the point without its OCTET STRING.
    pub fn from_token_point(parameters: &[u8], point: &[u8]) -> Option<Self> {
        let inner = Der::new(point).octets().ok();
        let named = Der::new(parameters).object_id().ok();
        let printable = Der::new(parameters).value(PRINTABLE_STRING).ok();
        let mut blob = Vec::new();
        if named == Some(oid::ED25519) || printable == Some(b"edwards25519") {
            blob.put_string(ED25519.as_bytes());
            blob.put_string(inner.filter(|inner| inner.len() == 32).unwrap_or(point));
        } else {
            let curve = Curve::ALL.into_iter().find(|curve| Some(curve.object_id()) == named)?;
            blob.put_string(curve.key_type().as_bytes());
            blob.put_string(curve.identifier().as_bytes());
            blob.put_string(inner.unwrap_or(point));
        }
        Self::from_blob(&blob).ok()
    }

    /// Returns the RSA key of this modulus and exponent, big-endian.
    pub fn from_rsa_numbers(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let mut blob = Vec::new();
        blob.put_string(b"ssh-rsa");
        blob.put_mpint(exponent);
        blob.put_mpint(modulus);
        Self::from_blob(&blob).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::der;
    use crate::{KeyType, PrivateKey};
    use proptest::prelude::*;

    /// The DER of `SubjectPublicKeyInfo` for a key.
    fn spki(key: &PublicKey) -> Vec<u8> {
        use base64ct::{Base64, Encoding as _};
        let pem = key.to_spki_pem().expect("PEM");
        let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        Base64::decode_vec(&text).expect("Base64")
    }

    #[test]
    fn certificates_and_points_of_tokens_give_their_keys() {
        for kind in [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa] {
            let key = PrivateKey::generate(kind, None).expect("a key").public().clone();
            let nothing = der::sequence(&[]);
            let version = der::value(CONTEXT_0, &[&der::unsigned(&[2])]);
            let body = der::sequence(&[
                &version,
                &der::unsigned(&[7]),
                &nothing,
                &nothing,
                &nothing,
                &nothing,
                &spki(&key),
                &nothing,
            ]);
            let certificate = der::sequence(&[&body, &nothing, &der::bits(b"signature")]);
            assert_eq!(PublicKey::from_x509(&certificate), Some(key));
        }
        let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key").public().clone();
        let point = &key.blob()[19..];
        let name = der::value(PRINTABLE_STRING, &[b"edwards25519"]);
        for parameters in [&name, &der::object_id(oid::ED25519)] {
            assert_eq!(PublicKey::from_token_point(parameters, &der::octets(point)), Some(key.clone()));
            assert_eq!(PublicKey::from_token_point(parameters, point), Some(key.clone()));
        }
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            more in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = PublicKey::from_x509(&bytes);
            let _ = PublicKey::from_token_point(&bytes, &more);
            let _ = PublicKey::from_rsa_numbers(&bytes, &more);
        }
    }
}
