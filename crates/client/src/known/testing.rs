//! Keys and files for tests.

use lh_crypto::{FingerprintHash, PublicKey};

use crate::hostkey::{Policy, Strict};

/// A policy for `h.example`, port 2222, with the files `ssh/known_hosts`, `global` and `revoked` of a
/// directory.
pub(crate) fn policy(directory: &std::path::Path, hash: bool) -> Policy {
    Policy {
        strict: Strict::AcceptNew,
        name: "[h.example]:2222".to_owned(),
        portless: Some("h.example".to_owned()),
        principal: "h.example".to_owned(),
        ca_algorithms: vec!["ssh-ed25519".to_owned()],
        address: None,
        skip_localhost: false,
        user_files: vec![directory.join("ssh/known_hosts")],
        ssh_directory: directory.join("ssh"),
        global_files: vec![directory.join("global")],
        revoked_files: vec![directory.join("revoked")],
        hash,
        fingerprint: FingerprintHash::Sha256,
        visual: false,
        checks: crate::hostkey::Checks::default(),
        session: None,
    }
}

/// An Ed25519 key of 32 bytes `seed`.
pub(crate) fn key(seed: u8) -> PublicKey {
    let mut blob = Vec::new();
    lh_wire::Writer::put_string(&mut blob, b"ssh-ed25519");
    lh_wire::Writer::put_string(&mut blob, &[seed; 32]);
    PublicKey::from_blob(&blob).expect("a public key")
}
