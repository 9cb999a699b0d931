//! The binary format of revocation lists (OpenSSH's PROTOCOL.krl).

use super::serials::{BITMAP, LIST, RANGE};
use super::{Krl, KrlError, Revoked};
use crate::key::PublicKey;
use lh_wire::{Reader, WireError, Writer};

const MAGIC: &[u8] = b"SSHKRL\n\0";
const VERSION: u32 = 1;

const CERTIFICATES: u8 = 1;
const EXPLICIT_KEY: u8 = 2;
const SHA1: u8 = 3;
const SIGNATURE: u8 = 4;
const SHA256: u8 = 5;
const EXTENSION: u8 = 255;

const KEY_ID: u8 = 0x23;
const CERTIFICATE_EXTENSION: u8 = 0x39;

impl Krl {
    /// Returns true when the bytes start like a list in the binary format.
    pub fn is_binary(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads the binary format. Signatures in it are skipped, as in OpenSSH: the file's permissions protect
    /// it.
    ///
    /// # Errors
    /// The problem with the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, KrlError> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC).ok_or(KrlError::NotAKrl)?);
        match reader.u32()? {
            VERSION => {}
            other => return Err(KrlError::Version(other)),
        }
        let mut krl = Self { version: reader.u64()?, generated: reader.u64()?, ..Self::default() };
        let _flags = reader.u64()?;
        let _reserved = reader.string()?;
        krl.comment = String::from_utf8_lossy(reader.string()?).into_owned();
        while !reader.is_empty() {
            let kind = reader.u8()?;
            let mut section = Reader::new(reader.string()?);
            match kind {
                CERTIFICATES => read_certificates(&mut krl, section)?,
                EXPLICIT_KEY => {
                    while !section.is_empty() {
                        let blob = section.string()?;
                        PublicKey::from_blob(blob)?;
                        krl.keys.insert(blob.to_vec());
                    }
                }
                SHA1 => {
                    while !section.is_empty() {
                        krl.sha1.insert(fingerprint(&mut section)?);
                    }
                }
                SHA256 => {
                    while !section.is_empty() {
                        krl.sha256.insert(fingerprint(&mut section)?);
                    }
                }
                // The section contained the key; the signature follows.
                SIGNATURE => {
                    reader.string()?;
                }
                EXTENSION => pass_extension(&mut section)?,
                other => return Err(KrlError::Section(other.to_string())),
            }
        }
        Ok(krl)
    }

    /// Returns the list in the binary format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_bytes(MAGIC);
        out.put_u32(VERSION);
        out.put_u64(self.version);
        out.put_u64(self.generated);
        out.put_u64(0);
        out.put_string(b"");
        out.put_string(self.comment.as_bytes());
        for (authority, revoked) in &self.certificates {
            out.put_u8(CERTIFICATES);
            out.nested(|out| {
                out.put_string(authority);
                out.put_string(b"");
                revoked.serials.write(out);
                if !revoked.key_ids.is_empty() {
                    out.put_u8(KEY_ID);
                    out.nested(|out| revoked.key_ids.iter().for_each(|id| out.put_string(id)));
                }
            });
        }
        section(&mut out, EXPLICIT_KEY, self.keys.iter().map(Vec::as_slice));
        section(&mut out, SHA1, self.sha1.iter().map(<[u8; 20]>::as_slice));
        section(&mut out, SHA256, self.sha256.iter().map(<[u8; 32]>::as_slice));
        out
    }
}

fn fingerprint<const N: usize>(section: &mut Reader<'_>) -> Result<[u8; N], WireError> {
    section.string()?.try_into().map_err(|_| WireError::Invalid { what: "KRL fingerprint" })
}

/// Reads the revoked certificates of one authority.
fn read_certificates(krl: &mut Krl, mut section: Reader<'_>) -> Result<(), KrlError> {
    let authority = section.string()?;
    if !authority.is_empty() {
        PublicKey::from_blob(authority)?;
    }
    let _reserved = section.string()?;
    let revoked = krl.certificates.entry(authority.to_vec()).or_default();
    while !section.is_empty() {
        let kind = section.u8()?;
        let mut part = Reader::new(section.string()?);
        let insert = |revoked: &mut Revoked, first: u64, last: u64| {
            if first == 0 || first > last {
                return Err(KrlError::Serial);
            }
            revoked.serials.insert(first, last);
            Ok(())
        };
        match kind {
            LIST => {
                while !part.is_empty() {
                    let serial = part.u64()?;
                    insert(revoked, serial, serial)?;
                }
            }
            RANGE => {
                let (first, last) = (part.u64()?, part.u64()?);
                insert(revoked, first, last)?;
            }
            BITMAP => revoked.serials.read_bitmap(&mut part)?,
            KEY_ID => {
                while !part.is_empty() {
                    revoked.key_ids.insert(part.string()?.to_vec());
                }
            }
            CERTIFICATE_EXTENSION => pass_extension(&mut part)?,
            other => return Err(KrlError::Section(format!("{other:#x} for certificates"))),
        }
        part.finish()?;
    }
    Ok(())
}

/// Skips an unknown extension (all are unknown), unless it is marked as critical.
fn pass_extension(section: &mut Reader<'_>) -> Result<(), KrlError> {
    let name = String::from_utf8_lossy(section.string()?).into_owned();
    let critical = section.boolean()?;
    section.string()?;
    if critical { Err(KrlError::Section(name.escape_default().to_string())) } else { Ok(()) }
}

/// Writes a section of strings; none if there are no strings.
fn section<'a>(out: &mut Vec<u8>, kind: u8, strings: impl ExactSizeIterator<Item = &'a [u8]>) {
    if strings.len() > 0 {
        out.put_u8(kind);
        out.nested(|out| strings.for_each(|string| out.put_string(string)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyType, PrivateKey};
    use proptest::prelude::*;

    fn header() -> Vec<u8> {
        Krl::new().to_bytes()
    }

    #[test]
    fn only_non_critical_unknown_sections_are_skipped() {
        let extension = |critical| {
            let mut out = header();
            out.put_u8(EXTENSION);
            out.nested(|out| {
                out.put_string(b"new\n");
                out.put_bool(critical);
                out.put_string(b"x");
            });
            out
        };
        assert_eq!(Krl::parse(&extension(false)), Ok(Krl::new()));
        assert_eq!(Krl::parse(&extension(true)), Err(KrlError::Section("new\\n".into())));
        let mut signed = header();
        signed.put_u8(SIGNATURE);
        signed.put_string(b"key");
        signed.put_string(b"signature");
        assert_eq!(Krl::parse(&signed), Ok(Krl::new()));
        let mut other = header();
        other.put_u8(17);
        other.put_string(b"");
        assert_eq!(Krl::parse(&other), Err(KrlError::Section("17".into())));
        let mut newer = MAGIC.to_vec();
        newer.put_u32(2);
        assert_eq!(Krl::parse(&newer), Err(KrlError::Version(2)));
        assert_eq!(Krl::parse(b"nothing"), Err(KrlError::NotAKrl));
    }

    #[test]
    fn bitmap_beyond_64_bits_is_refused() {
        let bitmap = |offset: u64, bits: &[u8]| {
            let mut out = header();
            out.put_u8(CERTIFICATES);
            out.nested(|out| {
                out.put_string(b"");
                out.put_string(b"");
                out.put_u8(BITMAP);
                out.nested(|out| {
                    out.put_u64(offset);
                    out.put_mpint(bits);
                });
            });
            Krl::parse(&out)
        };
        assert!(bitmap(u64::MAX, &[1]).is_ok());
        assert!(bitmap(u64::MAX, &[2]).is_err());
        assert!(bitmap(0, &[2]).is_ok());
        assert!(bitmap(0, &[1]).is_err(), "zero is not a serial number");
    }

    fn lists() -> impl Strategy<Value = Krl> {
        let runs = || proptest::collection::vec((1u64..1 << 40, 0u64..5000), 0..30);
        let close = || proptest::collection::vec((1u64..3000, 0u64..20), 0..60);
        let ids = || proptest::collection::vec("[ -~]{0,8}", 0..4);
        let sums = || proptest::collection::vec(any::<[u8; 20]>(), 0..4);
        (runs(), close(), ids(), sums(), any::<bool>(), any::<u64>(), "[a-z ]{0,9}").prop_map(
            |(runs, close, ids, sums, own, version, comment)| {
                let key = PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
                let authority = own.then(|| key.public());
                let mut krl = Krl { version, generated: 7, comment, ..Krl::default() };
                for (first, len) in runs {
                    krl.revoke_serials(authority, first, first + len).expect("in order");
                }
                for (first, len) in close {
                    krl.revoke_serials(None, first, first + len).expect("in order");
                }
                ids.iter().for_each(|id| krl.revoke_key_id(authority, id.as_bytes()));
                sums.into_iter().for_each(|sum| krl.revoke_sha1(sum));
                krl.revoke_key(key.public());
                krl.revoke_sha256([9; 32]);
                krl
            },
        )
    }

    proptest! {
        #[test]
        fn written_lists_parse_back(krl in lists()) {
            prop_assert_eq!(Krl::parse(&krl.to_bytes()), Ok(krl));
        }

        #[test]
        fn damaged_lists_never_panic(krl in lists(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = krl.to_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Krl::parse(&bytes);
            let _ = Krl::parse(&bytes[..at]);
        }

        #[test]
        fn parsing_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut list = header();
            list.extend_from_slice(&bytes);
            let _ = Krl::parse(&list);
            let _ = Krl::from_lines(&bytes);
        }
    }
}
