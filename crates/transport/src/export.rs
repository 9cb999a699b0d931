//! Exporter: key material for other protocols, bound to the first key exchange of this connection.
//!
//! RFC 4253 has none; this one follows TLS's (RFC 8446 section 7.5). The pseudorandom key is HKDF-Extract
//! with the exchange hash H as salt. Its input is the shared secret K, encoded as for the hash in RFC 4253
//! section 8. Each export is an HKDF-Expand of that key under a label and a context. The keys of RFC 4253
//! section 7.2 are plain hashes of inputs that begin with K, but HMAC hashes inputs that begin with a padded
//! key. So no export equals such a key, and neither reveals anything about the other.

use lh_crypto::{Hash, SharedSecret};
use lh_wire::Writer;
use zeroize::Zeroizing;

/// Length of an export, bytes.
pub const EXPORT_LEN: usize = 32;

/// Separates this exporter from every other use of HKDF over the same inputs.
const INFO: &[u8] = b"longhaul exporter 1";

/// The pseudorandom key of a connection's exporter.
pub(crate) struct Exporter {
    key: Zeroizing<Vec<u8>>,
}

impl Exporter {
    pub(crate) fn new(secret: &SharedSecret, exchange_hash: &[u8]) -> Self {
        Self { key: Hash::Sha256.hkdf_extract(exchange_hash, secret.encoded()) }
    }

    /// Restores the exporter of a frozen connection.
    pub(crate) fn from_key(key: &[u8]) -> Self {
        Self { key: Zeroizing::new(key.to_vec()) }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns key material for this label and context. `None` when the exporter was restored from a
    /// malformed key.
    pub(crate) fn export(&self, label: &str, context: &[u8]) -> Option<Zeroizing<[u8; EXPORT_LEN]>> {
        let mut info = INFO.to_vec();
        info.put_string(label.as_bytes());
        info.put_string(context);
        Hash::Sha256.hkdf_expand_array(&self.key, &info)
    }
}
