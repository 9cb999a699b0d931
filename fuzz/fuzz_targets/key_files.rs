//! Private key files of every format, public keys and certificates, lines of authorized_keys.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = lh_crypto::PrivateKey::parse(bytes, None);
    let _ = lh_crypto::PrivateKey::parse_public(bytes);
    if let Ok(key) = lh_crypto::PublicKey::from_blob(bytes) {
        assert_eq!(key.blob(), bytes);
        let _ = key.fingerprint(lh_crypto::FingerprintHash::Sha256);
        let _ = key.verify("ssh-ed25519", b"data", bytes);
        for algorithm in key.signature_algorithms() {
            let _ = key.verify(algorithm, b"data", bytes);
        }
    }
    if let Ok(text) = core::str::from_utf8(bytes) {
        if let Some((key, comment)) = lh_crypto::PublicKey::from_openssh_line(text) {
            let line = key.to_openssh_line(&comment);
            assert!(lh_crypto::PublicKey::from_openssh_line(&line).is_some_and(|(again, _)| again == key));
        }
        for line in text.lines() {
            let _ = lh_server::authorized_keys::parse_line(line);
        }
    }
});
