//! `RevokedKeys`: files of keys that are worth nothing any more, as lines or as key revocation lists.

use std::path::Path;

use lh_config::server_table::ServerSettings;
use lh_crypto::{Krl, PublicKey};

use super::describe;
use crate::authorized_keys::{Line, parse_line};
use crate::log::{Log, error};

/// A list of every key a large site ever had is smaller.
const LARGEST: u64 = 64 << 20;

/// Whether a file revokes the key, or the authority of its certificate. A file that cannot be read revokes every key, so that
/// no accident lets a revoked one in.
pub(super) fn is_revoked(settings: &ServerSettings, key: &PublicKey, log: &Log) -> bool {
    settings.revoked_keys.list().iter().any(|path| match in_file(Path::new(path), key) {
        Ok(false) => false,
        Ok(true) => {
            error!(log, "Authentication key {} revoked by file {path}", describe(settings, key));
            true
        }
        Err(problem) => {
            error!(
                log,
                "Error checking authentication key {} in revoked keys file {path}: {problem}",
                describe(settings, key)
            );
            true
        }
    })
}

fn in_file(path: &Path, key: &PublicKey) -> Result<bool, String> {
    let read = || {
        if std::fs::metadata(path)?.len() > LARGEST {
            return Err(std::io::Error::other("file too large"));
        }
        std::fs::read(path)
    };
    let content = read()
        .map_err(|error| error.to_string().split(" (os error").next().unwrap_or_default().to_owned())?;
    if Krl::is_binary(&content) {
        return Ok(Krl::parse(&content).map_err(|error| error.to_string())?.is_revoked(key));
    }
    let authority = key.certificate().map(lh_crypto::Certificate::authority);
    let text = String::from_utf8_lossy(&content);
    Ok(text.lines().any(|line| match parse_line(line) {
        // The key itself, certified or not, or whoever certified it.
        Line::Entry(entry) => entry.key.plain() == key.plain() || Some(&entry.key) == authority,
        _ => false,
    }))
}
