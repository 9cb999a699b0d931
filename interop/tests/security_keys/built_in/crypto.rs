//! The cryptography of an emulated security key.

use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, EncryptingKey, UnboundCipherKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};

use super::cbor::{Value, map};

/// A key pair.
pub(super) enum Pair {
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl Pair {
    pub(super) fn ed25519() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().unwrap())
    }

    pub(super) fn ecdsa() -> Self {
        Self::Ecdsa(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap())
    }

    /// The public key in COSE's form.
    pub(super) fn public(&self) -> Value {
        match self {
            Self::Ed25519(pair) => {
                let x = pair.public_key().as_ref().into();
                map([(1, 1.into()), (3, Value::Int(-8)), (-1, 6.into()), (-2, x)])
            }
            Self::Ecdsa(pair) => point(pair.public_key().as_ref(), -7),
        }
    }

    pub(super) fn sign(&self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519(pair) => pair.sign(data).as_ref().to_vec(),
            Self::Ecdsa(pair) => pair.sign(&SystemRandom::new(), data).unwrap().as_ref().to_vec(),
        }
    }
}

/// A point of P-256 in COSE's form.
pub(super) fn point(uncompressed: &[u8], algorithm: i64) -> Value {
    let (x, y) = uncompressed[1..].split_at(32);
    map([(1, 2.into()), (3, algorithm.into()), (-1, 1.into()), (-2, x.into()), (-3, y.into())])
}

/// AES-256-CBC without padding; the first block's predecessor is zero.
pub(super) fn encrypt(key: &[u8], plain: &[u8]) -> Vec<u8> {
    let key = EncryptingKey::ecb(UnboundCipherKey::new(&AES_256, key).unwrap()).unwrap();
    let mut before = vec![0; 16];
    plain
        .chunks(16)
        .flat_map(|block| {
            before.iter_mut().zip(block).for_each(|(old, new)| *old ^= new);
            key.encrypt(&mut before).unwrap();
            before.clone()
        })
        .collect()
}

pub(super) fn decrypt(key: &[u8], secret: &[u8]) -> Vec<u8> {
    let key = DecryptingKey::ecb(UnboundCipherKey::new(&AES_256, key).unwrap()).unwrap();
    let mut before = vec![0; 16];
    secret
        .chunks(16)
        .flat_map(|block| {
            let mut plain = block.to_vec();
            key.decrypt(&mut plain, DecryptionContext::None).unwrap();
            plain.iter_mut().zip(&before).for_each(|(new, old)| *new ^= old);
            before = block.to_vec();
            plain
        })
        .collect()
}

/// OIDs in DER: ecdsa-with-SHA256, id-ecPublicKey and prime256v1.
const ECDSA_SHA256: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_KEY: [u8; 9] = [6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];

/// An X.509 certificate for an ECDSA key, signed by itself, with empty names.
pub(super) fn certificate(key: &Pair) -> Vec<u8> {
    let Pair::Ecdsa(pair) = key else { panic!("not an ECDSA key") };
    let time = der(0x17, &[b"200101000000Z"]);
    let names = der(0x30, &[]);
    let bits = |bytes: &[u8]| der(3, &[&[0], bytes]);
    let algorithm = der(0x30, &[&ECDSA_SHA256]);
    let public = der(0x30, &[&der(0x30, &[&EC_KEY, &P256]), &bits(pair.public_key().as_ref())]);
    let validity = der(0x30, &[&time, &time]);
    let (version, serial) = (der(0xa0, &[&[2, 1, 2]]), [2, 1, 1]);
    let body = der(0x30, &[&version, &serial, &algorithm, &names, &validity, &names, &public]);
    der(0x30, &[&body, &algorithm, &bits(&key.sign(&body))])
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).unwrap();
    let head = match length {
        0..128 => vec![tag, length.to_be_bytes()[1]],
        _ => [&[tag, 0x82], &length.to_be_bytes()[..]].concat(),
    };
    [head, content].concat()
}
