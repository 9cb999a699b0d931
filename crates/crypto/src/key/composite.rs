//! `ssh-mldsa44-ed25519@openssh.com`: a key and a signature that hold as long as one of ML-DSA-44 and Ed25519 does.
//!
//! draft-miller-sshm-mldsa44-ed25519-composite-sigs-00 puts the combination MLDSA44-Ed25519-SHA512 of
//! draft-ietf-lamps-pq-composite-sigs into SSH: public keys, signatures and seeds are those of the two schemes one behind the
//! other, and both sign one message that names the combination. The context that the combination allows is always empty.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use lh_sys::mldsa;
use zeroize::Zeroizing;

use crate::{CryptoError, Hash, VerifyError};

const ED25519_PUBLIC_LEN: usize = 32;
const ED25519_SEED_LEN: usize = 32;

/// Bytes of a public key: ML-DSA's, then Ed25519's.
pub(super) const PUBLIC_LEN: usize = mldsa::PUBLIC_LEN + ED25519_PUBLIC_LEN;
/// Bytes that a private key is made from, in the same order.
pub(super) const SEED_LEN: usize = mldsa::SEED_LEN + ED25519_SEED_LEN;

/// What every combination's message begins with.
const PREFIX: &[u8] = b"CompositeAlgorithmSignatures2025";
/// This combination: behind the prefix, and the context under which ML-DSA signs.
const LABEL: &[u8] = b"COMPSIG-MLDSA44-Ed25519-SHA512";

/// A private key, wiped when it is dropped.
pub(super) struct CompositePair {
    seed: Zeroizing<[u8; SEED_LEN]>,
    lattice: mldsa::Key,
    curve: Ed25519KeyPair,
}

impl CompositePair {
    /// `None` when the library fails.
    pub(super) fn from_seed(seed: &[u8; SEED_LEN]) -> Option<Self> {
        let (first, second) = seed.split_first_chunk()?;
        Some(Self {
            lattice: mldsa::Key::from_seed(first).ok()?,
            curve: Ed25519KeyPair::from_seed_unchecked(second).ok()?,
            seed: Zeroizing::new(*seed),
        })
    }

    /// What the key was made from, as key files hold it.
    pub(super) fn seed(&self) -> &[u8; SEED_LEN] {
        &self.seed
    }

    /// The public half; `None` when the library fails.
    pub(super) fn public(&self) -> Option<Vec<u8>> {
        let lattice = self.lattice.public().ok()?;
        Some([&lattice[..], self.curve.public_key().as_ref()].concat())
    }

    /// Both signatures over `data`.
    pub(super) fn sign(&self, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        const FAILED: CryptoError = CryptoError::Library { what: "sign" };
        let message = message(data);
        let lattice = self.lattice.sign(LABEL, &message).map_err(|_| FAILED)?;
        let curve = self.curve.try_sign(&message).map_err(|_| FAILED)?;
        Ok([&lattice[..], curve.as_ref()].concat())
    }
}

/// Whether both halves of `signature` are right.
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

/// What both sign: prefix, label, the length of the (empty) context, and a hash of the data.
fn message(data: &[u8]) -> Vec<u8> {
    [PREFIX, LABEL, &[0], Hash::Sha512.digest(&[data]).as_ref()].concat()
}
