//! Lists of revoked keys and certificates (OpenSSH's PROTOCOL.krl), and plain lists of public keys with the
//! same purpose.
//!
//! A [`Krl`] is one set of revocations, independent of its file format. [`Krl::read`] accepts both formats,
//! like `RevokedKeys` and `RevokedHostKeys`, and [`Krl::is_revoked`] answers all queries. A caller that
//! cannot read a list must treat every key as revoked; therefore errors are returned as values here.

mod format;
mod serials;

use super::{Certificate, PublicKey};
use crate::Hash;
use lh_wire::WireError;
use serials::Serials;
use std::collections::{BTreeMap, BTreeSet};

/// Error of reading a list of revoked keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KrlError {
    /// The file does not start like a list in the binary format.
    #[error("bad KRL magic header")]
    NotAKrl,
    /// The format version is newer than ours.
    #[error("unsupported KRL format {0}")]
    Version(u32),
    /// The bytes do not form a list.
    #[error("invalid format: {0}")]
    Malformed(#[from] WireError),
    /// A section that is unknown and must not be skipped. The name is escaped.
    #[error("unsupported KRL section {0}")]
    Section(String),
    /// The serial number is zero (a certificate without a number), or a range ends before it starts.
    #[error("invalid certificate serial number")]
    Serial,
    /// A line of a plain list is not a public key.
    #[error("line {0}: not a public key")]
    Line(usize),
}

/// Revoked keys and certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Krl {
    /// The list's version number, for its maintainer; it has no effect here.
    pub version: u64,
    /// Time of creation, seconds since 1970.
    pub generated: u64,
    /// The creator's comment. Comes from a file: escape it before printing.
    pub comment: String,
    /// Indexed by the blob of the authority's key; the empty blob stands for every authority.
    certificates: BTreeMap<Vec<u8>, Revoked>,
    keys: BTreeSet<Vec<u8>>,
    sha1: BTreeSet<[u8; 20]>,
    sha256: BTreeSet<[u8; 32]>,
}

/// Revoked certificates of one authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Revoked {
    serials: Serials,
    key_ids: BTreeSet<Vec<u8>>,
}

impl Krl {
    /// Creates a list that revokes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file of `RevokedKeys`: a list in the binary format, or a text file with one public key per
    /// line.
    ///
    /// # Errors
    /// The problem with the file. Unreadable lines or sections must not be skipped: one may be the entry that
    /// matters.
    pub fn read(bytes: &[u8]) -> Result<Self, KrlError> {
        if Self::is_binary(bytes) { Self::parse(bytes) } else { Self::from_lines(bytes) }
    }

    /// Reads one public key per line; empty lines and lines that start with `#` are skipped. A certificate in
    /// the file revokes exactly that certificate.
    ///
    /// # Errors
    /// [`KrlError::Line`] for a line that is not a public key.
    pub fn from_lines(bytes: &[u8]) -> Result<Self, KrlError> {
        let mut list = Self::new();
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            // Comments may have any encoding.
            let line = String::from_utf8_lossy(line);
            let (key, _) = PublicKey::from_openssh_line(&line).ok_or(KrlError::Line(number))?;
            list.keys.insert(key.blob().to_vec());
        }
        Ok(list)
    }

    /// Returns true when a key or certificate is revoked: directly, by the key it certifies, by its serial
    /// number or key id, or because its authority is revoked.
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        self.keys.contains(key.blob())
            || self.has_key(key.plain())
            || key.certificate().is_some_and(|certificate| {
                self.has_certificate(certificate) || self.has_key(certificate.authority())
            })
    }

    fn has_key(&self, key: &PublicKey) -> bool {
        let blob = key.blob();
        let digest = |hash: Hash| hash.digest(&[blob]);
        self.keys.contains(blob)
            || (!self.sha1.is_empty()
                && <[u8; 20]>::try_from(digest(Hash::Sha1).as_ref())
                    .is_ok_and(|sum| self.sha1.contains(&sum)))
            || (!self.sha256.is_empty()
                && <[u8; 32]>::try_from(digest(Hash::Sha256).as_ref())
                    .is_ok_and(|sum| self.sha256.contains(&sum)))
    }

    fn has_certificate(&self, certificate: &Certificate) -> bool {
        [certificate.authority().blob(), &[]].into_iter().filter_map(|blob| self.certificates.get(blob)).any(
            |revoked| {
                // Serial number 0 means that the certificate has none; lists never contain it.
                revoked.serials.contains(certificate.serial())
                    || revoked.key_ids.contains(certificate.key_id_bytes())
            },
        )
    }

    /// Revokes a key; for a certificate, only the certificate: by its serial number, or by its key id if it
    /// has none.
    pub fn revoke(&mut self, key: &PublicKey) {
        let Some(certificate) = key.certificate() else { return self.revoke_key(key) };
        let revoked = self.certificates.entry(certificate.authority().blob().to_vec()).or_default();
        match certificate.serial() {
            0 => {
                revoked.key_ids.insert(certificate.key_id_bytes().to_vec());
            }
            serial => revoked.serials.insert(serial, serial),
        }
    }

    /// Revokes a key; for a certificate, the key that it certifies.
    pub fn revoke_key(&mut self, key: &PublicKey) {
        self.keys.insert(key.plain().blob().to_vec());
    }

    /// Revokes the key with this SHA-1 fingerprint.
    pub fn revoke_sha1(&mut self, fingerprint: [u8; 20]) {
        self.sha1.insert(fingerprint);
    }

    /// Revokes the key with this SHA-256 fingerprint.
    pub fn revoke_sha256(&mut self, fingerprint: [u8; 32]) {
        self.sha256.insert(fingerprint);
    }

    /// Revokes the certificates of an authority (`None`: of all) with serial numbers from `first` to `last`.
    ///
    /// # Errors
    /// [`KrlError::Serial`] when `first` is zero or greater than `last`.
    pub fn revoke_serials(
        &mut self,
        authority: Option<&PublicKey>,
        first: u64,
        last: u64,
    ) -> Result<(), KrlError> {
        if first == 0 || first > last {
            return Err(KrlError::Serial);
        }
        self.of(authority).serials.insert(first, last);
        Ok(())
    }

    /// Revokes the certificates of an authority (`None`: of all) with this key id.
    pub fn revoke_key_id(&mut self, authority: Option<&PublicKey>, key_id: &[u8]) {
        self.of(authority).key_ids.insert(key_id.to_vec());
    }

    fn of(&mut self, authority: Option<&PublicKey>) -> &mut Revoked {
        let blob = authority.map(|key| key.plain().blob().to_vec()).unwrap_or_default();
        self.certificates.entry(blob).or_default()
    }

    /// Returns the content of the list, in the order of the binary format, for programs that print it.
    pub fn contents(&self) -> KrlContents<'_> {
        KrlContents {
            keys: self.keys.iter().map(Vec::as_slice).collect(),
            sha1: self.sha1.iter().collect(),
            sha256: self.sha256.iter().collect(),
            certificates: self
                .certificates
                .iter()
                .map(|(authority, revoked)| KrlCertificates {
                    authority,
                    serials: revoked.serials.iter().collect(),
                    key_ids: revoked.key_ids.iter().map(Vec::as_slice).collect(),
                })
                .collect(),
        }
    }
}

/// Content of a [`Krl`].
#[derive(Debug)]
pub struct KrlContents<'a> {
    /// Blobs of revoked keys.
    pub keys: Vec<&'a [u8]>,
    /// SHA-1 fingerprints.
    pub sha1: Vec<&'a [u8; 20]>,
    /// SHA-256 fingerprints.
    pub sha256: Vec<&'a [u8; 32]>,
    /// Revoked certificates by authority.
    pub certificates: Vec<KrlCertificates<'a>>,
}

/// Revoked certificates of one authority in a [`Krl`].
#[derive(Debug)]
pub struct KrlCertificates<'a> {
    /// The blob of the authority's key; empty for all authorities.
    pub authority: &'a [u8],
    /// First and last number of each run of serial numbers.
    pub serials: Vec<(u64, u64)>,
    /// Key ids.
    pub key_ids: Vec<&'a [u8]>,
}
