//! Numbers of SSHFP records, fingerprints of host keys in DNS (RFC 4255).

use super::{PublicKey, names};
use crate::Hash;

/// IANA's numbers of key types (RFC 4255 section 3.1.1, RFC 6594, RFC 7479).
const ALGORITHMS: [(&str, u8); 6] = [
    (names::SSH_RSA, 1),
    ("ssh-dss", 2),
    (names::ECDSA_P256, 3),
    (names::ECDSA_P384, 3),
    (names::ECDSA_P521, 3),
    (names::ED25519, 4),
];

/// Hash of a fingerprint in an SSHFP record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SshfpHash {
    /// IANA's number (RFC 4255 section 3.1.2, RFC 6594).
    pub number: u8,
    /// Name in `hashalg=`.
    pub name: &'static str,
    /// The hash.
    pub hash: Hash,
}

impl SshfpHash {
    /// Hashes of SSHFP records, weakest first.
    pub const ALL: [Self; 2] = [
        Self { number: 1, name: "sha1", hash: Hash::Sha1 },
        Self { number: 2, name: "sha256", hash: Hash::Sha256 },
    ];
}

impl PublicKey {
    /// Number of this key's type in SSHFP records; `None` for types without one, certificates among them.
    pub fn sshfp_algorithm(&self) -> Option<u8> {
        ALGORITHMS.iter().find(|(name, _)| *name == self.key_type()).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use crate::{KeyType, PrivateKey};

    #[test]
    fn key_types_have_the_registered_numbers() {
        let number = |kind, bits| PrivateKey::generate(kind, bits).unwrap().public().sshfp_algorithm();
        assert_eq!(number(KeyType::Rsa, Some(1024)), Some(1));
        for curve in [KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::EcdsaP521] {
            assert_eq!(number(curve, None), Some(3));
        }
        assert_eq!(number(KeyType::Ed25519, None), Some(4));
        assert_eq!(number(KeyType::MlDsa44Ed25519, None), None);
    }
}
