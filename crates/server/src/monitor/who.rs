//! Identity of the client, for log lines and the log of transfers.

use lh_config::accounting::TransferLogRate;

use super::Monitor;
use super::fingerprints::fingerprint;

/// Identity of the client, as far as the monitor knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientIdentity {
    /// The user name that the client sent, whether or not the user exists.
    pub(crate) user: String,
    /// Name of the method that succeeded last.
    pub(crate) method: String,
    /// Fingerprint of the key that succeeded last.
    pub(crate) key: String,
}

impl Monitor {
    /// Returns the identity of the client; empty before it has named a user, and after the grant.
    pub(crate) fn who(&self) -> ClientIdentity {
        let Some(candidate) = &self.candidate else { return ClientIdentity::default() };
        let last = candidate.proofs.lines().last().unwrap_or_default();
        ClientIdentity {
            user: candidate.name.clone(),
            method: last.split(' ').next().unwrap_or_default().to_owned(),
            key: candidate
                .used_keys
                .last()
                .map(|key| fingerprint(&candidate.settings, key))
                .unwrap_or_default(),
        }
    }

    /// Returns the user's `TransferLogRate`; none before the client has named a user, and after the grant.
    pub(crate) fn transfer_log_rate(&self) -> TransferLogRate {
        self.candidate
            .as_ref()
            .map(|candidate| candidate.settings.transfer_log_rate.value)
            .unwrap_or_default()
    }

    /// Returns the number of refused attempts, queries about keys among them.
    pub(crate) const fn failures(&self) -> u32 {
        self.attempts.refused()
    }
}
