//! Exporter: key material for other protocols, bound to the first key exchange of this connection.
//!
//! RFC 4253 has none; this one follows TLS's (RFC 8446 section 7.5). The pseudorandom key is
//! HKDF-Extract with the exchange hash H as salt and the shared secret K (as it is hashed in RFC 4253 section
//! 8) as input; each export is an HKDF-Expand of it under a label and a context. Keys of RFC 4253 section 7.2
//! are plain hashes of inputs that begin with K; HMAC hashes inputs that begin with a padded key first, so no
//! export equals such a key, nor does one reveal anything of another.

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
