//! Elliptic-curve Diffie-Hellman: NIST curves (RFC 5656) and X25519 (RFC 8731).

use crate::KexError;
use aws_lc_rs::agreement::{
    self, Algorithm, ECDH_P256, ECDH_P384, ECDH_P521, PrivateKey, UnparsedPublicKey, X25519,
};
use zeroize::Zeroizing;

/// A curve for key agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Curve {
    X25519,
    P256,
    P384,
    P521,
}

impl Curve {
    const fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::X25519 => &X25519,
            Self::P256 => &ECDH_P256,
            Self::P384 => &ECDH_P384,
            Self::P521 => &ECDH_P521,
        }
    }

    /// Returns the length of a public value, bytes; for the NIST curves an uncompressed point.
    const fn public_len(self) -> usize {
        match self {
            Self::X25519 => 32,
            Self::P256 => 65,
            Self::P384 => 97,
            Self::P521 => 133,
        }
    }
}

pub(super) struct Key {
    curve: Curve,
    private: PrivateKey,
}

impl Key {
    /// Generates a key and its public value.
    pub(super) fn generate(curve: Curve) -> Result<(Self, Vec<u8>), KexError> {
        const FAILED: KexError = KexError::Library { what: "generate a key" };
        let private = PrivateKey::generate(curve.algorithm()).map_err(|_| FAILED)?;
        let public = private.compute_public_key().map_err(|_| FAILED)?.as_ref().to_vec();
        Ok((Self { curve, private }, public))
    }

    /// Computes the raw secret: the x coordinate, or X25519's output.
    pub(super) fn agree(&self, peer_public: &[u8]) -> Result<Zeroizing<Vec<u8>>, KexError> {
        // Checked here because the library also accepts compressed points and DER.
        if peer_public.len() != self.curve.public_len() {
            return Err(KexError::BadPublicValue { why: "wrong length" });
        }
        if self.curve != Curve::X25519 && peer_public.first() != Some(&4) {
            return Err(KexError::BadPublicValue { why: "not an uncompressed point" });
        }
        agreement::agree(
            &self.private,
            UnparsedPublicKey::new(self.curve.algorithm(), peer_public),
            // The library refuses points off the curve and X25519's all-zero output.
            KexError::BadPublicValue { why: "not a valid point" },
            |secret| Ok(Zeroizing::new(secret.to_vec())),
        )
    }
}
