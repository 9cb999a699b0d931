//! Key types of `-t`, and the host key algorithms that request each.

use lh_crypto::key_algorithms;

use crate::error::PlanError;

/// Key type of `-t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Rsa,
    Ecdsa,
    Ed25519,
    EcdsaSk,
    Ed25519Sk,
    MlDsa44Ed25519,
}

impl KeyKind {
    /// Default key types, in the order of ssh-keyscan.
    pub(crate) fn every() -> Vec<Self> {
        Self::ALL.iter().map(|(_, kind)| *kind).collect()
    }

    const ALL: [(&'static str, Self); 6] = [
        ("rsa", Self::Rsa),
        ("ecdsa", Self::Ecdsa),
        ("ed25519", Self::Ed25519),
        ("ecdsa-sk", Self::EcdsaSk),
        ("ed25519-sk", Self::Ed25519Sk),
        ("mldsa44-ed25519", Self::MlDsa44Ed25519),
    ];

    /// Finds a key type by its short or full name.
    fn by_name(name: &str) -> Option<Self> {
        let short = match name {
            "ssh-rsa" => "rsa",
            "ssh-ed25519" => "ed25519",
            "sk-ssh-ed25519@openssh.com" => "ed25519-sk",
            "sk-ecdsa-sha2-nistp256@openssh.com" => "ecdsa-sk",
            "ssh-mldsa44-ed25519" => "mldsa44-ed25519",
            name if name.starts_with("ecdsa-sha2-nistp") => "ecdsa",
            name => name,
        };
        Self::ALL.iter().find(|(known, _)| *known == short).map(|(_, kind)| *kind)
    }

    /// # Errors
    /// [`PlanError::KeyType`].
    pub(crate) fn parse(list: &str) -> Result<Vec<Self>, PlanError> {
        let mut wanted = Vec::new();
        for name in list.split(',') {
            match Self::by_name(name) {
                Some(kind) => wanted.push(kind),
                None => return Err(PlanError::KeyType(name.to_owned())),
            }
        }
        // Each once, in a fixed order.
        Ok(Self::ALL.iter().map(|(_, kind)| *kind).filter(|kind| wanted.contains(kind)).collect())
    }

    fn algorithms(self) -> &'static [&'static str] {
        match self {
            Self::Rsa => &["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"],
            Self::Ecdsa => &["ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"],
            Self::Ed25519 => &["ssh-ed25519"],
            Self::EcdsaSk => &["sk-ecdsa-sha2-nistp256@openssh.com"],
            Self::Ed25519Sk => &["sk-ssh-ed25519@openssh.com"],
            Self::MlDsa44Ed25519 => &["ssh-mldsa44-ed25519"],
        }
    }

    /// Wire names of the algorithms that request this key type, or certificates of it.
    pub(crate) fn names(self, certificates: bool) -> Vec<String> {
        let name = |plain: &&str| match certificates {
            true => key_algorithms::certified(plain),
            false => (*plain).to_owned(),
        };
        self.algorithms().iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::KeyKind;

    #[test]
    fn key_types_are_requested_in_a_fixed_order() {
        use KeyKind::{Ed25519, Rsa};
        assert_eq!(KeyKind::parse("ed25519,rsa,rsa").expect("two types"), [Rsa, Ed25519]);
        let refused = KeyKind::parse("rsa1").expect_err("an unknown type");
        assert_eq!(refused.to_string(), "Unknown key type \"rsa1\"");
        assert_eq!(KeyKind::Ed25519Sk.names(true), ["sk-ssh-ed25519-cert-v01@openssh.com"]);
        assert_eq!(KeyKind::every().last(), Some(&KeyKind::MlDsa44Ed25519));
    }
}
