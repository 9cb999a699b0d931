//! What the agent says. In the background it has nobody to say it to.

use std::io::{self, Write as _};

use lh_crypto::{FingerprintHash, PublicKey};

/// How much is said, and the hash of fingerprints in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    level: u8,
    fingerprint: FingerprintHash,
}

impl Log {
    /// Nothing.
    pub(crate) const fn silent(fingerprint: FingerprintHash) -> Self {
        Self { level: 0, fingerprint }
    }

    /// Refusals; with `debug`, everything.
    pub(crate) const fn new(debug: bool, fingerprint: FingerprintHash) -> Self {
        Self { level: if debug { 2 } else { 1 }, fingerprint }
    }

    /// Something went wrong or was refused. May hold what a client sent, so it is escaped here.
    pub(crate) fn error(self, text: &str) {
        self.say(1, text);
    }

    /// For `-d`.
    pub(crate) fn debug(self, text: impl FnOnce() -> String) {
        if self.level >= 2 {
            self.say(2, &format!("debug1: {}", text()));
        }
    }

    fn say(self, level: u8, text: &str) {
        if self.level >= level {
            let _ = writeln!(io::stderr(), "{}", lh_wire::printable(text.as_bytes()));
        }
    }

    /// `ED25519 SHA256:…`.
    pub(crate) fn name(self, key: &PublicKey) -> String {
        format!("{} {}", key.display_type(), self.fingerprint(key))
    }

    pub(crate) fn fingerprint(self, key: &PublicKey) -> String {
        key.fingerprint(self.fingerprint)
    }
}

/// The system's words for an error, without the number Rust puts behind them.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}
