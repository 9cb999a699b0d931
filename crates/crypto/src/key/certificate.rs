//! OpenSSH certificates (`…-cert-v01@openssh.com`, OpenSSH's PROTOCOL.certkeys).
//!
//! Parsing a certificate does not make it trusted: [`Certificate::verify`] checks the CA's signature, and the
//! caller decides whether to trust that CA. [`Certificate::check`] applies the rules that hold everywhere.

use super::certificate_contents::CertificateKind;
use super::public::{Certificate, PublicKey};
use crate::VerifyError;
use lh_wire::Reader;

/// Reason why an authentic certificate does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A user certificate where a host certificate is required, or the reverse.
    #[error("Certificate invalid: not a {0} certificate")]
    WrongKind(&'static str),
    /// Its validity has not begun.
    #[error("Certificate invalid: not yet valid")]
    NotYetValid,
    /// Its validity has ended.
    #[error("Certificate invalid: expired")]
    Expired,
    /// It lists no principals. OpenSSH 10.3 refuses that everywhere; it used to mean any principal.
    #[error("Certificate lacks principal list")]
    NoPrincipals,
    /// The name is not among its principals.
    #[error("Certificate invalid: name is not a listed principal")]
    NotAPrincipal,
    /// It contains an unknown critical option.
    #[error("Certificate has an unsupported critical option \"{0}\"")]
    CriticalOption(String),
}

impl Certificate {
    /// Returns the certified key.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Returns the serial number that the authority assigned.
    pub const fn serial(&self) -> u64 {
        self.contents.serial
    }

    /// Returns the kind of holder.
    pub const fn kind(&self) -> CertificateKind {
        self.contents.kind
    }

    /// Returns the authority's name for the holder, for logs. Bytes that are not UTF-8 are replaced. The name
    /// comes from a peer: escape it before printing.
    pub fn key_id(&self) -> &str {
        &self.contents.key_id
    }

    /// Returns the key id byte for byte: revocation lists compare these bytes.
    pub fn key_id_bytes(&self) -> &[u8] {
        &self.contents.key_id_bytes
    }

    /// Returns the names for which it is valid.
    pub fn principals(&self) -> &[String] {
        &self.contents.principals
    }

    /// Returns the validity in seconds since 1970: from the first value, before the second (2^64-1: no end).
    pub const fn validity(&self) -> (u64, u64) {
        (self.contents.valid_after, self.contents.valid_before)
    }

    /// Returns the options that a verifier must understand (`force-command`, `source-address`,
    /// `verify-required`). The nested `string` around each value is removed.
    pub fn critical_options(&self) -> &[(String, Vec<u8>)] {
        &self.contents.critical_options
    }

    /// Returns the critical options as encoded in the certificate, for programs that print unknown ones.
    pub fn raw_critical_options(&self) -> &[(String, Vec<u8>)] {
        &self.contents.raw_critical_options
    }

    /// Returns the extensions as encoded in the certificate.
    pub fn raw_extensions(&self) -> &[(String, Vec<u8>)] {
        &self.contents.raw_extensions
    }

    /// Returns the permissions that the certificate grants (`permit-pty`, …).
    pub fn extensions(&self) -> &[(String, Vec<u8>)] {
        &self.contents.extensions
    }

    /// Returns the key of the signing authority.
    pub const fn authority(&self) -> &PublicKey {
        &self.authority
    }

    /// Returns the authority's signature algorithm as named in the signature; empty when it cannot be
    /// decoded.
    pub fn signature_algorithm(&self) -> &str {
        Reader::new(&self.contents.signature).text().unwrap_or_default()
    }

    /// Verifies the authority's signature. `allowed` lists the accepted signature algorithms
    /// (`CASignatureAlgorithms`).
    ///
    /// # Errors
    /// [`VerifyError::WrongAlgorithm`] when the signature uses another algorithm, and the errors of
    /// [`PublicKey::verify`].
    pub fn verify(&self, allowed: &[&str]) -> Result<(), VerifyError> {
        let algorithm = Reader::new(&self.contents.signature)
            .text()
            .map_err(|_| VerifyError::Malformed { why: "truncated" })?;
        if !allowed.contains(&algorithm) {
            return Err(VerifyError::WrongAlgorithm);
        }
        self.authority.verify(algorithm, &self.contents.signed, &self.contents.signature)
    }

    /// Checks the rules that hold everywhere: the kind, the validity (`now`, seconds since 1970), that `name`
    /// is among the principals, and that every critical option is one of `understood`.
    ///
    /// Wildcards (`*`, `?`) in principals are only supported for hosts, as in OpenSSH 10.3.
    ///
    /// # Errors
    /// The first rule that is violated.
    pub fn check(
        &self,
        kind: CertificateKind,
        name: &str,
        now: u64,
        understood: &[&str],
    ) -> Result<(), CertificateError> {
        if self.contents.kind != kind {
            return Err(CertificateError::WrongKind(match kind {
                CertificateKind::User => "user",
                CertificateKind::Host => "host",
            }));
        }
        if now < self.contents.valid_after {
            return Err(CertificateError::NotYetValid);
        }
        if now >= self.contents.valid_before {
            return Err(CertificateError::Expired);
        }
        if self.contents.principals.is_empty() {
            return Err(CertificateError::NoPrincipals);
        }
        let listed = self.contents.principals.iter().any(|principal| match kind {
            CertificateKind::User => principal == name,
            CertificateKind::Host => wildcard(principal.as_bytes(), name.as_bytes()),
        });
        if !listed {
            return Err(CertificateError::NotAPrincipal);
        }
        match self.contents.critical_options.iter().find(|(option, _)| !understood.contains(&option.as_str()))
        {
            Some((option, _)) => Err(CertificateError::CriticalOption(option.clone())),
            None => Ok(()),
        }
    }
}

/// Matches `*` and `?`, in time linear in the product of the lengths.
fn wildcard(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last star, and the position to which its match may be extended.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(each) if *each == b'?' || each.eq_ignore_ascii_case(&name[from]) => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((star_at, start)) => {
                    star = Some((star_at, start + 1));
                    at = star_at + 1;
                    from = start + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|each| *each == b'*')
}
