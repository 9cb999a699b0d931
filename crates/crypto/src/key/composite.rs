//! `ssh-mldsa44-ed25519`: keys and signatures that are secure as long as one of ML-DSA-44 and
//! Ed25519 is.
//!
//! draft-miller-sshm-mldsa44-ed25519-composite-sigs-00 brings the combination MLDSA44-Ed25519-SHA512 of
//! draft-ietf-lamps-pq-composite-sigs to SSH. Public keys, signatures and seeds are the concatenation of
//! those of the two schemes, and both sign one message that names the combination. The combination's optional
//! context is always empty.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use lh_crypto_sys::mldsa;
use zeroize::Zeroizing;

use crate::{CryptoError, Hash, VerifyError};

const ED25519_PUBLIC_LEN: usize = 32;
const ED25519_SEED_LEN: usize = 32;

/// Length of a public key, bytes: ML-DSA's, then Ed25519's.
pub(super) const PUBLIC_LEN: usize = mldsa::PUBLIC_LEN + ED25519_PUBLIC_LEN;
/// Length of the seed of a private key, bytes, in the same order.
pub(super) const SEED_LEN: usize = mldsa::SEED_LEN + ED25519_SEED_LEN;

/// First bytes of the message of every combination.
const PREFIX: &[u8] = b"CompositeAlgorithmSignatures2025";
/// Name of this combination: follows the prefix, and is the context under which ML-DSA signs.
const LABEL: &[u8] = b"COMPSIG-MLDSA44-Ed25519-SHA512";

/// A private key, wiped on drop.
pub(super) struct CompositePair {
    seed: Zeroizing<[u8; SEED_LEN]>,
    lattice: mldsa::Key,
    curve: Ed25519KeyPair,
}

impl CompositePair {
    /// Creates the key from its seed; `None` when the library fails.
    pub(super) fn from_seed(seed: &[u8; SEED_LEN]) -> Option<Self> {
        let (first, second) = seed.split_first_chunk()?;
        Some(Self {
            lattice: mldsa::Key::from_seed(first).ok()?,
            curve: Ed25519KeyPair::from_seed_unchecked(second).ok()?,
            seed: Zeroizing::new(*seed),
        })
    }

    /// Returns the seed, as stored in key files.
    pub(super) fn seed(&self) -> &[u8; SEED_LEN] {
        &self.seed
    }

    /// Returns the public key; `None` when the library fails.
    pub(super) fn public(&self) -> Option<Vec<u8>> {
        let lattice = self.lattice.public().ok()?;
        Some([&lattice[..], self.curve.public_key().as_ref()].concat())
    }

    /// Returns both signatures over `data`.
    pub(super) fn sign(&self, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        const FAILED: CryptoError = CryptoError::Library { what: "sign" };
        let message = message(data);
        let lattice = self.lattice.sign(LABEL, &message).map_err(|_| FAILED)?;
        let curve = self.curve.try_sign(&message).map_err(|_| FAILED)?;
        Ok([&lattice[..], curve.as_ref()].concat())
    }
}

/// Verifies both halves of `signature`.
pub(super) fn verify(public: &[u8; PUBLIC_LEN], data: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
    const SIZE: VerifyError = VerifyError::Malformed { why: "not of the composite scheme's size" };
    let (lattice, curve) = signature.split_at_checked(mldsa::SIGNATURE_LEN).ok_or(SIZE)?;
    let (lattice_key, curve_key) = public.split_first_chunk().ok_or(SIZE)?;
    if curve.len() != 64 {
        return Err(SIZE);
    }
    let message = message(data);
    let lattice_key = mldsa::Key::from_public(lattice_key).map_err(|_| VerifyError::BadSignature)?;
    if !lattice_key.verify(LABEL, &message, lattice) {
        return Err(VerifyError::BadSignature);
    }
    UnparsedPublicKey::new(&ED25519, curve_key).verify(&message, curve).map_err(|_| VerifyError::BadSignature)
}

/// Returns the message that both schemes sign: prefix, label, the length of the (empty) context, and a hash
/// of the data.
fn message(data: &[u8]) -> Vec<u8> {
    [PREFIX, LABEL, &[0], Hash::Sha512.digest(&[data]).as_ref()].concat()
}
