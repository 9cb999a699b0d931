//! Names of key types in messages.

use lh_crypto::key_algorithms;

/// Returns the name of a key type in messages: `ED25519`, `RSA`, `ECDSA`.
pub(crate) fn short_type(key_type: &str) -> String {
    let cert = if key_algorithms::is_certificate(key_type) { "-CERT" } else { "" };
    let plain = key_algorithms::plain(key_type);
    let name = match plain.trim_end_matches("@openssh.com") {
        "ssh-ed25519" => "ED25519",
        "ssh-mldsa44-ed25519" => "MLDSA44-ED25519",
        "ssh-rsa" => "RSA",
        "sk-ssh-ed25519" => "ED25519-SK",
        "sk-ecdsa-sha2-nistp256" => "ECDSA-SK",
        other if other.starts_with("ecdsa-sha2-") => "ECDSA",
        other => other,
    };
    format!("{name}{cert}")
}
