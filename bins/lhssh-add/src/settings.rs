//! Settings of the command line that every action obeys.

use lh_agent::Constraints;
use lh_crypto::{FingerprintHash, Zeroizing};

use crate::console::{ask, say};

/// Settings for messages and keys.
pub(crate) struct AddSettings {
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) fingerprint: FingerprintHash,
    /// `-k`.
    pub(crate) keys_only: bool,
    /// `-C`.
    pub(crate) certificates_only: bool,
    /// Cleared by `-N`: certificates leave the agent shortly after they expire.
    pub(crate) limit_certificates: bool,
    /// `-P`: send no PIN to tokens and security keys.
    pub(crate) skip_pin: bool,
    pub(crate) constraints: Constraints,
}

impl AddSettings {
    /// The PIN that the user enters; empty with `-P`.
    pub(crate) fn ask_pin(&self, prompt: &str) -> Zeroizing<String> {
        if self.skip_pin { Zeroizing::new(String::new()) } else { ask(prompt) }
    }

    /// Reports the constraints of an added key.
    pub(crate) fn report_constraints(&self, lifetime: Option<u32>) {
        if let Some(seconds) = lifetime {
            say(&format!("Lifetime set to {seconds} seconds"));
        }
        if self.constraints.confirm {
            say("The user must confirm each use of the key");
        }
    }
}
