//! Composite keys in a FIPS build: none can be made, and no signature verifies. Their public keys are still
//! read and listed. The functions are those of `composite.rs`.

use crate::{CryptoError, VerifyError};

/// Length of a public key, bytes: ML-DSA-44's, then Ed25519's.
pub(super) const PUBLIC_LEN: usize = 1312 + 32;
/// Length of the seed of a private key, bytes.
pub(super) const SEED_LEN: usize = 32 + 32;

/// A private key, of which there is none.
pub(super) enum CompositePair {}

impl CompositePair {
    pub(super) const fn from_seed(_: &[u8; SEED_LEN]) -> Option<Self> {
        None
    }

    pub(super) const fn seed(&self) -> &[u8; SEED_LEN] {
        match *self {}
    }

    pub(super) const fn public(&self) -> Option<Vec<u8>> {
        match *self {}
    }

    pub(super) const fn sign(&self, _: &[u8]) -> Result<Vec<u8>, CryptoError> {
        match *self {}
    }
}

pub(super) const fn verify(_: &[u8; PUBLIC_LEN], _: &[u8], _: &[u8]) -> Result<(), VerifyError> {
    Err(VerifyError::WrongAlgorithm)
}
