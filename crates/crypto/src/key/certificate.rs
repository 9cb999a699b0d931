//! OpenSSH certificates (`…-cert-v01@openssh.com`, OpenSSH's PROTOCOL.certkeys).
//!
//! Parsing a certificate does not make it trusted: [`Certificate::verify`] checks the CA's signature, and the
//! caller decides whether to trust that CA. [`Certificate::check`] applies the rules that hold everywhere.

use super::PublicKey;
use super::algorithms::{is_certificate, plain};
use super::public::Data;
use crate::VerifyError;
use lh_wire::{Reader, WireError, Writer};

/// Limit of principals, of critical options and of extensions: OpenSSH's limit for principals. Certificates
/// are parsed before authentication.
const MAX_LIST: usize = 256;

/// Kind of holder of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateKind {
    /// A user: principals are user names.
    User,
    /// A host: principals are host names.
    Host,
}

/// A parsed certificate. Its content must not be trusted before [`verify`](Self::verify).
#[derive(Debug, Clone)]
pub struct Certificate {
    key: PublicKey,
    serial: u64,
    kind: CertificateKind,
    key_id: String,
    key_id_bytes: Vec<u8>,
    principals: Vec<String>,
    valid_after: u64,
    valid_before: u64,
    critical_options: Vec<(String, Vec<u8>)>,
    extensions: Vec<(String, Vec<u8>)>,
    raw_critical_options: Vec<(String, Vec<u8>)>,
    raw_extensions: Vec<(String, Vec<u8>)>,
    authority: PublicKey,
    /// The bytes that the authority signed.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

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
    /// Parses a whole blob. Returns `None` for a certificate with an unknown key type.
    pub(super) fn parse(blob: &[u8]) -> Result<Option<Self>, WireError> {
        let mut reader = Reader::new(blob);
        let certificate_type = reader.text()?;
        let plain_type = plain(certificate_type);
        let _nonce = reader.string()?;
        let fields_at = blob.len() - reader.remaining();
        if matches!(Data::read(&plain_type, &mut reader)?, Data::Other) {
            return Ok(None);
        }
        let fields = blob.get(fields_at..blob.len() - reader.remaining()).unwrap_or_default();
        let mut key_blob = Vec::with_capacity(4 + plain_type.len() + fields.len());
        key_blob.put_string(plain_type.as_bytes());
        key_blob.put_bytes(fields);

        let serial = reader.u64()?;
        let kind = match reader.u32()? {
            1 => CertificateKind::User,
            2 => CertificateKind::Host,
            _ => return Err(WireError::Invalid { what: "certificate type" }),
        };
        let key_id_bytes = reader.string()?.to_vec();
        let key_id = String::from_utf8_lossy(&key_id_bytes).into_owned();
        let mut principals = Vec::new();
        let mut list = Reader::new(reader.string()?);
        while !list.is_empty() {
            if principals.len() == MAX_LIST {
                return Err(WireError::Invalid { what: "principals" });
            }
            principals.push(list.text()?.to_owned());
        }
        let (valid_after, valid_before) = (reader.u64()?, reader.u64()?);
        let raw_critical_options = options(reader.string()?)?;
        let raw_extensions = options(reader.string()?)?;
        let critical_options = unwrapped(&raw_critical_options)?;
        let extensions = unwrapped(&raw_extensions)?;
        let _reserved = reader.string()?;
        let authority = reader.string()?;
        let signed = blob.get(..blob.len() - reader.remaining()).unwrap_or_default().to_vec();
        let signature = reader.string()?.to_vec();
        reader.finish()?;
        // A certificate signed by a certified key would be a chain, which the format excludes. The check by
        // name prevents a hostile blob from causing recursion.
        if is_certificate(Reader::new(authority).text()?) {
            return Err(WireError::Invalid { what: "certificate authority" });
        }
        Ok(Some(Self {
            key: PublicKey::from_blob(&key_blob)?,
            serial,
            kind,
            key_id,
            key_id_bytes,
            principals,
            valid_after,
            valid_before,
            critical_options,
            extensions,
            raw_critical_options,
            raw_extensions,
            authority: PublicKey::from_blob(authority)?,
            signed,
            signature,
        }))
    }

    /// Returns the certified key.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Returns the serial number that the authority assigned.
    pub const fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the kind of holder.
    pub const fn kind(&self) -> CertificateKind {
        self.kind
    }

    /// Returns the authority's name for the holder, for logs. Bytes that are not UTF-8 are replaced. The name
    /// comes from a peer: escape it before printing.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Returns the key id byte for byte: revocation lists compare these bytes.
    pub fn key_id_bytes(&self) -> &[u8] {
        &self.key_id_bytes
    }

    /// Returns the names for which it is valid.
    pub fn principals(&self) -> &[String] {
        &self.principals
    }

    /// Returns the validity in seconds since 1970: from the first value, before the second (2^64-1: no end).
    pub const fn validity(&self) -> (u64, u64) {
        (self.valid_after, self.valid_before)
    }

    /// Returns the options that a verifier must understand (`force-command`, `source-address`,
    /// `verify-required`). The nested `string` around each value is removed.
    pub fn critical_options(&self) -> &[(String, Vec<u8>)] {
        &self.critical_options
    }

    /// Returns the critical options as encoded in the certificate, for programs that print unknown ones.
    pub fn raw_critical_options(&self) -> &[(String, Vec<u8>)] {
        &self.raw_critical_options
    }

    /// Returns the extensions as encoded in the certificate.
    pub fn raw_extensions(&self) -> &[(String, Vec<u8>)] {
        &self.raw_extensions
    }

    /// Returns the permissions that the certificate grants (`permit-pty`, …).
    pub fn extensions(&self) -> &[(String, Vec<u8>)] {
        &self.extensions
    }

    /// Returns the key of the signing authority.
    pub const fn authority(&self) -> &PublicKey {
        &self.authority
    }

    /// Returns the authority's signature algorithm as named in the signature; empty when it cannot be
    /// decoded.
    pub fn signature_algorithm(&self) -> &str {
        Reader::new(&self.signature).text().unwrap_or_default()
    }

    /// Verifies the authority's signature. `allowed` lists the accepted signature algorithms
    /// (`CASignatureAlgorithms`).
    ///
    /// # Errors
    /// [`VerifyError::WrongAlgorithm`] when the signature uses another algorithm, and the errors of
    /// [`PublicKey::verify`].
    pub fn verify(&self, allowed: &[&str]) -> Result<(), VerifyError> {
        let algorithm =
            Reader::new(&self.signature).text().map_err(|_| VerifyError::Malformed { why: "truncated" })?;
        if !allowed.contains(&algorithm) {
            return Err(VerifyError::WrongAlgorithm);
        }
        self.authority.verify(algorithm, &self.signed, &self.signature)
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
        if self.kind != kind {
            return Err(CertificateError::WrongKind(match kind {
                CertificateKind::User => "user",
                CertificateKind::Host => "host",
            }));
        }
        if now < self.valid_after {
            return Err(CertificateError::NotYetValid);
        }
        if now >= self.valid_before {
            return Err(CertificateError::Expired);
        }
        if self.principals.is_empty() {
            return Err(CertificateError::NoPrincipals);
        }
        let listed = self.principals.iter().any(|principal| match kind {
            CertificateKind::User => principal == name,
            CertificateKind::Host => wildcard(principal.as_bytes(), name.as_bytes()),
        });
        if !listed {
            return Err(CertificateError::NotAPrincipal);
        }
        match self.critical_options.iter().find(|(option, _)| !understood.contains(&option.as_str())) {
            Some((option, _)) => Err(CertificateError::CriticalOption(option.clone())),
            None => Ok(()),
        }
    }
}

/// Decodes a sequence of `string` name and `string` value.
fn options(content: &[u8]) -> Result<Vec<(String, Vec<u8>)>, WireError> {
    let mut reader = Reader::new(content);
    let mut options: Vec<(String, Vec<u8>)> = Vec::new();
    while !reader.is_empty() {
        let name = reader.text()?;
        // OpenSSH's specification: sorted, without duplicates. A second value of a checked option must not be
        // accepted.
        if options.len() == MAX_LIST || options.iter().any(|(seen, _)| seen == name) {
            return Err(WireError::Invalid { what: "certificate options" });
        }
        options.push((name.to_owned(), reader.string()?.to_vec()));
    }
    Ok(options)
}

/// Removes the nested `string` around option values. Options that OpenSSH defines must have one; values of
/// other options are kept unchanged if they do not.
fn unwrapped(options: &[(String, Vec<u8>)]) -> Result<Vec<(String, Vec<u8>)>, WireError> {
    let unwrap = |content: &[u8]| {
        let mut value = Reader::new(content);
        let inner = value.string()?.to_vec();
        value.finish().map(|()| inner)
    };
    options
        .iter()
        .map(|(name, content)| {
            let inner = match unwrap(content) {
                Ok(inner) => inner,
                Err(why) if matches!(name.as_str(), "force-command" | "source-address") => return Err(why),
                Err(_) => content.clone(),
            };
            Ok((name.clone(), inner))
        })
        .collect()
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
