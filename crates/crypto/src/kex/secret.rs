//! The shared secret of a key exchange.

use lh_wire::Writer;
use zeroize::Zeroizing;

/// The shared secret K. Wiped on drop.
pub struct SharedSecret(Zeroizing<Vec<u8>>);

impl SharedSecret {
    /// Returns K in the encoding of the exchange hash and key derivation: an mpint or a string, including the
    /// length.
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// Encodes K as an mpint (RFC 4253 section 8, RFC 5656 section 4, RFC 8731 section 3.1).
    pub(super) fn from_magnitude(magnitude: &[u8]) -> Self {
        // Reserved in full: a growing buffer would leave copies of the secret behind.
        let mut encoded = Zeroizing::new(Vec::with_capacity(magnitude.len() + 5));
        encoded.put_mpint(magnitude);
        Self(encoded)
    }

    /// Encodes K as a string, for the hybrid methods.
    pub(super) fn from_string(content: &[u8]) -> Self {
        let mut encoded = Zeroizing::new(Vec::with_capacity(content.len() + 4));
        encoded.put_string(content);
        Self(encoded)
    }
}
