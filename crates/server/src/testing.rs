//! Helpers for this crate's tests.

use lh_config::ServerConfig;
use lh_config::server_table::ServerSettings;
use lh_sys::users::User;

/// Returns the configuration made of these lines of `sshd_config`.
pub(crate) fn config(lines: &str) -> ServerConfig {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sshd_config");
    std::fs::write(&path, lines).unwrap();
    ServerConfig::load(Some(&path), &[], &crate::surroundings::Host).unwrap()
}

/// Returns the settings of [`config`].
pub(crate) fn settings(lines: &str) -> ServerSettings {
    config(lines).settings
}

/// Returns the user `ada` with this home directory and shell.
pub(crate) fn user(uid: u32, home: &std::path::Path, shell: &str) -> User {
    User {
        name: "ada".to_owned(),
        uid,
        gid: 1000,
        home: home.into(),
        shell: shell.into(),
        gecos: String::new(),
    }
}
