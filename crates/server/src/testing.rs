//! Help for this crate's own tests.

use lh_config::ServerConfig;
use lh_config::server_table::ServerSettings;

/// The configuration that `lines` (of `sshd_config`) make.
pub(crate) fn config(lines: &str) -> ServerConfig {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sshd_config");
    std::fs::write(&path, lines).unwrap();
    ServerConfig::load(Some(&path), &[], &crate::surroundings::Host).unwrap()
}

/// The values of [`config`].
pub(crate) fn settings(lines: &str) -> ServerSettings {
    config(lines).settings
}
