//! The agent's log. In the background it has no output.

use std::io::{self, Write as _};

use lh_crypto::{FingerprintHash, PublicKey};

/// Log level, and the hash of logged fingerprints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    level: u8,
    fingerprint: FingerprintHash,
}

impl Log {
    /// Logs no messages.
    pub(crate) const fn silent(fingerprint: FingerprintHash) -> Self {
        Self { level: 0, fingerprint }
    }

    /// Logs refusals; with `debug`, all messages.
    pub(crate) const fn new(debug: bool, fingerprint: FingerprintHash) -> Self {
        Self { level: if debug { 2 } else { 1 }, fingerprint }
    }

    /// Logs an error or a refusal. The text may contain a client's data, so it is escaped here.
    pub(crate) fn error(self, text: &str) {
        self.write(1, text);
    }

    /// Logs a debugging message (`-d`).
    pub(crate) fn debug(self, text: impl FnOnce() -> String) {
        if self.level >= 2 {
            self.write(2, &format!("debug1: {}", text()));
        }
    }

    fn write(self, level: u8, text: &str) {
        if self.level >= level {
            let _ = writeln!(io::stderr(), "{}", lh_wire::printable(text.as_bytes()));
        }
    }

    /// Type and fingerprint of a key: `ED25519 SHA256:…`.
    pub(crate) fn name(self, key: &PublicKey) -> String {
        format!("{} {}", key.display_type(), self.fingerprint(key))
    }

    pub(crate) fn fingerprint(self, key: &PublicKey) -> String {
        key.fingerprint(self.fingerprint)
    }
}
