//! Keys and fingerprints in log lines.

use lh_config::enums::ServerFingerprintHash;
use lh_config::server_table::ServerSettings;
use lh_crypto::{FingerprintHash, PublicKey};

/// Returns `ED25519 SHA256:…`, the form of a key in log lines.
pub(super) fn describe(settings: &ServerSettings, key: &PublicKey) -> String {
    format!("{} {}", key.display_type(), fingerprint(settings, key))
}

pub(super) fn fingerprint(settings: &ServerSettings, key: &PublicKey) -> String {
    key.fingerprint(match settings.fingerprint_hash.value {
        ServerFingerprintHash::Sha256 => FingerprintHash::Sha256,
        ServerFingerprintHash::Md5 => FingerprintHash::Md5,
    })
}
