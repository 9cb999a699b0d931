//! Keys as log lines name them.

use lh_config::enums::ServerFingerprintHash;
use lh_config::server_table::ServerSettings;
use lh_crypto::{FingerprintHash, PublicKey};

/// `ED25519 SHA256:…`, as log lines have it.
pub(super) fn describe(settings: &ServerSettings, key: &PublicKey) -> String {
    format!("{} {}", key.display_type(), fingerprint(settings, key))
}

pub(super) fn fingerprint(settings: &ServerSettings, key: &PublicKey) -> String {
    key.fingerprint(match settings.fingerprint_hash.value {
        ServerFingerprintHash::Sha256 => FingerprintHash::Sha256,
        ServerFingerprintHash::Md5 => FingerprintHash::Md5,
    })
}
