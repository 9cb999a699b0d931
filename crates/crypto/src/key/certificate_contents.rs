//! Fields of a certificate blob, with the certified key and the authority's key as blobs.

use super::algorithms::{is_certificate, plain};
use super::data::Data;
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

/// All fields of a certificate; the two keys as blobs.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    /// The blob of the certified key.
    pub(super) key_blob: Vec<u8>,
    pub(super) serial: u64,
    pub(super) kind: CertificateKind,
    pub(super) key_id: String,
    pub(super) key_id_bytes: Vec<u8>,
    pub(super) principals: Vec<String>,
    pub(super) valid_after: u64,
    pub(super) valid_before: u64,
    pub(super) critical_options: Vec<(String, Vec<u8>)>,
    pub(super) extensions: Vec<(String, Vec<u8>)>,
    pub(super) raw_critical_options: Vec<(String, Vec<u8>)>,
    pub(super) raw_extensions: Vec<(String, Vec<u8>)>,
    /// The blob of the authority's key.
    pub(super) authority_blob: Vec<u8>,
    /// The bytes that the authority signed.
    pub(super) signed: Vec<u8>,
    pub(super) signature: Vec<u8>,
}

impl Contents {
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
            key_blob,
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
            authority_blob: authority.to_vec(),
            signed,
            signature,
        }))
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
