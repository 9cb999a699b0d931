//! Creation of certificates (OpenSSH's PROTOCOL.certkeys).
//!
//! The caller signs between the two steps: the authority's key may be in an agent, on a card or in a file.

use super::algorithms::{certified, is_certificate};
use super::{CertificateKind, PublicKey};
use crate::{CryptoError, Random};
use lh_wire::{Reader, Writer};

/// Content of a certificate to be created.
#[derive(Debug, Clone)]
pub struct CertificateFields {
    /// The authority's serial number; 0 for none.
    pub serial: u64,
    /// Kind of holder.
    pub kind: CertificateKind,
    /// The authority's name for the holder, for logs.
    pub key_id: String,
    /// The names for which it is valid.
    pub principals: Vec<String>,
    /// Start of validity, seconds since 1970.
    pub valid_after: u64,
    /// End of validity, seconds since 1970 (exclusive); 2^64-1 for none.
    pub valid_before: u64,
    /// Critical options; `None` for options without a value. Written sorted by name, as the format requires.
    pub critical_options: Vec<(String, Option<Vec<u8>>)>,
    /// Extensions, in the same form.
    pub extensions: Vec<(String, Option<Vec<u8>>)>,
}

impl CertificateFields {
    /// Returns the bytes that the authority signs to certify `key`: everything before the signature.
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for a key that cannot be certified (a certificate, or an unknown type),
    /// and for an authority that is itself a certificate.
    pub fn to_be_signed(
        &self,
        key: &PublicKey,
        authority: &PublicKey,
        random: &mut dyn Random,
    ) -> Result<Vec<u8>, CryptoError> {
        const UNFIT: CryptoError = CryptoError::Unsupported { what: "certifying this kind of key" };
        if key.signature_algorithms().is_empty() || is_certificate(key.key_type()) {
            return Err(UNFIT);
        }
        if authority.signature_algorithms().is_empty() || is_certificate(authority.key_type()) {
            return Err(CryptoError::Unsupported { what: "certifying with this kind of key" });
        }
        let mut numbers = Reader::new(key.blob());
        numbers.string().map_err(|_| UNFIT)?;
        let mut nonce = [0; 32];
        random.fill(&mut nonce);
        let mut out = Vec::new();
        out.put_string(certified(key.key_type()).as_bytes());
        out.put_string(&nonce);
        out.put_bytes(numbers.rest());
        out.put_u64(self.serial);
        out.put_u32(match self.kind {
            CertificateKind::User => 1,
            CertificateKind::Host => 2,
        });
        out.put_string(self.key_id.as_bytes());
        out.nested(|out| self.principals.iter().for_each(|name| out.put_string(name.as_bytes())));
        out.put_u64(self.valid_after);
        out.put_u64(self.valid_before);
        put_options(&mut out, &self.critical_options);
        put_options(&mut out, &self.extensions);
        out.put_string(b"");
        out.put_string(authority.blob());
        Ok(out)
    }

    /// Assembles the certificate from the signed bytes and the authority's signature blob, and verifies it.
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] when the fields do not form a certificate that can be parsed again (for
    /// example, with a duplicate option); [`CryptoError::Library`] when the signature is not the authority's.
    pub fn finish(mut to_be_signed: Vec<u8>, signature: &[u8]) -> Result<PublicKey, CryptoError> {
        const BAD: CryptoError = CryptoError::Unsupported { what: "a certificate with these fields" };
        to_be_signed.put_string(signature);
        let key = PublicKey::from_blob(&to_be_signed).map_err(|_| BAD)?;
        let certificate = key.certificate().ok_or(BAD)?;
        certificate
            .verify(&[certificate.signature_algorithm()])
            .map_err(|_| CryptoError::Library { what: "make a certificate: the signature does not match" })?;
        Ok(key)
    }
}

fn put_options(out: &mut Vec<u8>, options: &[(String, Option<Vec<u8>>)]) {
    let mut sorted: Vec<_> = options.iter().collect();
    sorted.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    out.nested(|out| {
        for (name, value) in sorted {
            out.put_string(name.as_bytes());
            out.nested(|out| value.iter().for_each(|value| out.put_string(value)));
        }
    });
}
