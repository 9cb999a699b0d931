//! Signatures by host keys: checks what is signed, and limits the rate after the login. Each key exchange
//! takes one signature, and nothing else takes many.
//!
//! Otherwise an attacker who controls a session process could use the host keys as fast as the machine can
//! sign.

use std::time::Instant;

use lh_crypto::{CryptoError, FingerprintHash};
use lh_wire::Writer;

use super::stage::Unexpected;
use crate::host_keys::HostKey;

/// Capacity of the bucket, signatures.
const RESERVE: u32 = 2048;
/// Lowest sustained rate, signatures/s: enough for a rekey limit of 8 MiB at 500 MB/s.
const LEAST_RATE: u32 = 64;
/// Highest throughput of any connection, bytes/s. With the server's `RekeyLimit` it determines the rate of
/// key exchanges.
const FASTEST: u64 = 4 << 30;

/// A token bucket that limits signatures.
#[derive(Debug)]
pub(super) struct SigningRate {
    rate: u32,
    left: f64,
    since: Instant,
}

impl SigningRate {
    /// `rekey_bytes` is the server's `RekeyLimit` in bytes, where it has one.
    pub(super) fn new(rekey_bytes: Option<u64>, now: Instant) -> Self {
        let own = rekey_bytes.map_or(0, |bytes| FASTEST / bytes.max(1));
        let rate = u32::try_from(own).unwrap_or(u32::MAX).max(LEAST_RATE);
        Self { rate, left: RESERVE.into(), since: now }
    }

    /// Takes one signature from the bucket.
    ///
    /// # Errors
    /// The bucket is empty: there were too many signatures recently.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Unexpected> {
        let grown = now.saturating_duration_since(self.since).as_secs_f64() * f64::from(self.rate);
        self.since = now;
        self.left = (self.left + grown).min(RESERVE.into());
        if self.left < 1.0 {
            return Err(Unexpected::SigningRate(RESERVE, self.rate));
        }
        self.left -= 1.0;
        Ok(())
    }
}

/// The host keys; signs only what a session may have signed.
pub(super) struct HostKeySigner {
    keys: Vec<HostKey>,
    /// Whether host keys sign with SHA-1.
    pub(super) sha1: bool,
    rate: SigningRate,
}

impl HostKeySigner {
    /// `rekey_bytes` is the server's `RekeyLimit` in bytes, where it has one.
    pub(super) fn new(keys: Vec<HostKey>, rekey_bytes: Option<u64>) -> Self {
        Self { keys, sha1: false, rate: SigningRate::new(rekey_bytes, Instant::now()) }
    }

    pub(super) fn keys(&self) -> &[HostKey] {
        &self.keys
    }

    /// Applies the `RekeyLimit` of the user who has logged in to the rate.
    pub(super) fn logged_in(&mut self, rekey_bytes: Option<u64>) {
        self.rate = SigningRate::new(rekey_bytes, Instant::now());
    }

    /// Signs the hash of a key exchange.
    ///
    /// # Errors
    /// The outer one: no key exchange asks for such a signature. The inner one: the key cannot sign.
    pub(super) fn sign(
        &mut self,
        key_index: usize,
        algorithm: &str,
        hash: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        // The lengths of SHA-1 and of the SHA-2 hashes that key exchanges use. Nothing else that a host key
        // signs is this short.
        if !matches!(hash.len(), 20 | 32 | 48 | 64) {
            return Err(Unexpected::HashLength(hash.len()));
        }
        let key = self.keys.get_mut(key_index).ok_or(Unexpected::HostKey)?;
        if !key.for_transport(self.sha1).algorithms.iter().any(|name| name == algorithm) {
            return Err(Unexpected::HostKey);
        }
        Ok(key.sign(algorithm, hash))
    }

    /// Like [`sign`](Self::sign), but limited in rate: for key exchanges after the login.
    pub(super) fn sign_at_rate(
        &mut self,
        key_index: usize,
        algorithm: &str,
        hash: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        self.rate.take(Instant::now())?;
        self.sign(key_index, algorithm, hash)
    }

    /// Signs a proof for the client of this session only that the host has a key.
    pub(super) fn prove(
        &mut self,
        session_id: &[u8],
        algorithm: &str,
        blob: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        let mut data = Vec::new();
        data.put_string(b"hostkeys-prove-00@openssh.com");
        data.put_string(session_id);
        data.put_string(blob);
        let key = self.keys.iter_mut().find(|key| key.public().blob() == blob).ok_or(Unexpected::HostKey)?;
        self.rate.take(Instant::now())?;
        if !key.public().signature_algorithms().contains(&algorithm) {
            return Err(Unexpected::HostKey);
        }
        Ok(key.sign(algorithm, &data))
    }

    /// Returns the keys' fingerprints, which identify the server.
    pub(super) fn fingerprints(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|key| key.public().fingerprint(FingerprintHash::Sha256))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_of_signatures_ends_and_rekeying_does_not() {
        let start = Instant::now();
        let mut rate = SigningRate::new(None, start);
        for _ in 0..RESERVE {
            assert_eq!(rate.take(start), Ok(()));
        }
        assert_eq!(rate.take(start), Err(Unexpected::SigningRate(RESERVE, LEAST_RATE)));
        // At the permitted rate, for an hour.
        for second in 1..3600 {
            let now = start + Duration::from_secs(second);
            assert!((0..LEAST_RATE).all(|_| rate.take(now).is_ok()));
            assert!(rate.take(now).is_err());
        }
    }

    #[test]
    fn a_small_limit_of_the_servers_own_counts() {
        let start = Instant::now();
        let mut rate = SigningRate::new(Some(1 << 20), start);
        for tenth in 1..600 {
            let now = start + Duration::from_millis(100 * tenth);
            assert!((0..400).all(|_| rate.take(now).is_ok()));
        }
    }
}
