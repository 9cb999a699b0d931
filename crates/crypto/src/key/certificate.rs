//! OpenSSH certificates (`…-cert-v01@openssh.com`, OpenSSH's PROTOCOL.certkeys).
//!
//! Reading one says nothing about believing it: [`Certificate::verify`] checks the CA's signature, and the caller decides
//! whether that CA is trusted. [`Certificate::check`] holds the rules that are the same everywhere.

use super::PublicKey;
use super::algorithms::{is_certificate, plain};
use super::public::Data;
use crate::VerifyError;
use lh_wire::{Reader, WireError, Writer};

/// Most principals, critical options and extensions each that are read: OpenSSH's limit for principals. A certificate
/// arrives before anybody is authenticated.
const MAX_LIST: usize = 256;

/// Whom a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateKind {
    /// A user: principals are account names.
    User,
    /// A host: principals are host names.
    Host,
}

/// A parsed certificate. Nothing in it is to be believed before [`verify`](Self::verify).
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
    /// What the authority signed, and its signature.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

/// Why a certificate that is authentic does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A user certificate where a host's is needed, or the other way round.
    #[error("Certificate invalid: not a {0} certificate")]
    WrongKind(&'static str),
    /// Its time has not come.
    #[error("Certificate invalid: not yet valid")]
    NotYetValid,
    /// Its time has gone.
    #[error("Certificate invalid: expired")]
    Expired,
    /// It lists no principals. OpenSSH 10.3 refuses that everywhere; it used to mean "anybody".
    #[error("Certificate lacks principal list")]
    NoPrincipals,
    /// It is not for the name it was shown for.
    #[error("Certificate invalid: name is not a listed principal")]
    NotAPrincipal,
    /// It carries a critical option that is not understood.
    #[error("Certificate has an unsupported critical option \"{0}\"")]
    CriticalOption(String),
}

impl Certificate {
    /// Reads a whole blob. `None` for a certificate around a key type that is not known.
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
        // A certificate signed by a certified key would be a chain, which the format rules out; refusing it by name
        // keeps a hostile blob from recursing.
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

    /// The key that is certified.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// The serial number the authority gave.
    pub const fn serial(&self) -> u64 {
        self.serial
    }

    /// Whom it is for.
    pub const fn kind(&self) -> CertificateKind {
        self.kind
    }

    /// The authority's name for the holder, for logs. Bytes that are not UTF-8 are replaced; it comes from a peer, so
    /// escape it before printing.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The same, byte for byte: lists of revoked certificates compare these.
    pub fn key_id_bytes(&self) -> &[u8] {
        &self.key_id_bytes
    }

    /// The names it is valid for.
    pub fn principals(&self) -> &[String] {
        &self.principals
    }

    /// Seconds since 1970: valid from the first, before the second (2^64-1: for ever).
    pub const fn validity(&self) -> (u64, u64) {
        (self.valid_after, self.valid_before)
    }

    /// Options that must be understood to use the certificate (`force-command`, `source-address`, `verify-required`).
    /// Values hold a nested `string`, which is taken off here.
    pub fn critical_options(&self) -> &[(String, Vec<u8>)] {
        &self.critical_options
    }

    /// The critical options as they stand in the certificate, for programs that print what they do not understand.
    pub fn raw_critical_options(&self) -> &[(String, Vec<u8>)] {
        &self.raw_critical_options
    }

    /// The extensions as they stand in the certificate.
    pub fn raw_extensions(&self) -> &[(String, Vec<u8>)] {
        &self.raw_extensions
    }

    /// What the certificate permits (`permit-pty`, …).
    pub fn extensions(&self) -> &[(String, Vec<u8>)] {
        &self.extensions
    }

    /// The key of the authority that signed.
    pub const fn authority(&self) -> &PublicKey {
        &self.authority
    }

    /// The algorithm the authority signed with, as the signature names it; empty when it cannot be read.
    pub fn signature_algorithm(&self) -> &str {
        Reader::new(&self.signature).text().unwrap_or_default()
    }

    /// Checks the authority's signature. `allowed` says which signature algorithms count (`CASignatureAlgorithms`).
    ///
    /// # Errors
    /// [`VerifyError::WrongAlgorithm`] when the signature is of another kind, and what [`PublicKey::verify`] says.
    pub fn verify(&self, allowed: &[&str]) -> Result<(), VerifyError> {
        let algorithm =
            Reader::new(&self.signature).text().map_err(|_| VerifyError::Malformed { why: "truncated" })?;
        if !allowed.contains(&algorithm) {
            return Err(VerifyError::WrongAlgorithm);
        }
        self.authority.verify(algorithm, &self.signed, &self.signature)
    }

    /// The rules that hold wherever a certificate is shown: its kind, its time (`now`, seconds since 1970), that `name` is
    /// among its principals, and that every critical option is one of `understood`.
    ///
    /// Wildcards (`*`, `?`) in principals work for hosts only, as OpenSSH 10.3 has it.
    ///
    /// # Errors
    /// The first rule that is broken.
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

/// `string` name, `string` value, again and again.
fn options(content: &[u8]) -> Result<Vec<(String, Vec<u8>)>, WireError> {
    let mut reader = Reader::new(content);
    let mut options: Vec<(String, Vec<u8>)> = Vec::new();
    while !reader.is_empty() {
        let name = reader.text()?;
        // OpenSSH's document: sorted, none twice. A second value for an option that was checked must not slip through.
        if options.len() == MAX_LIST || options.iter().any(|(seen, _)| seen == name) {
            return Err(WireError::Invalid { what: "certificate options" });
        }
        options.push((name.to_owned(), reader.string()?.to_vec()));
    }
    Ok(options)
}

/// Takes the nested `string` off the values of options. Those that OpenSSH defines must have one; what others put into options
/// of their own is kept as it is.
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

/// `*` and `?`, in time linear in the product of the lengths.
fn wildcard(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last star seen and where its match may be extended.
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
