//! `VerifyHostKeyDNS`: fingerprints of host keys in DNS (SSHFP records, RFC 4255, 6594 and 7479).

use lh_crypto::{PublicKey, SshfpHash};

use crate::log::Log;

/// Record type SSHFP.
const SSHFP: u16 = 44;
/// "Authentic data" flag of an answer (RFC 4035 section 3.2.3).
const AUTHENTIC: u16 = 0x0020;
/// Mask of the response code in the flags.
const RCODE: u16 = 0x000f;

/// Result of the DNS query for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DnsVerdict {
    /// No fingerprints for keys of this type.
    Nothing,
    /// The fingerprint was found; `secure` if a trusted resolver has validated the answer (DNSSEC).
    Match {
        /// The answer is DNSSEC-validated.
        secure: bool,
    },
    /// Fingerprints of this type exist, but not this one.
    Mismatch,
}

/// An SSHFP record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    algorithm: u8,
    hash: u8,
    fingerprint: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    authentic: bool,
    records: Vec<Record>,
}

/// Queries DNS about `host`, which must be a name.
pub(crate) fn look_up(host: &str, key: &PublicKey, log: &mut Log<'_>) -> DnsVerdict {
    let answer = match lh_sys::forward_lookup::query(host, SSHFP) {
        Ok(bytes) => parse(&bytes),
        Err(error) => {
            log.debug(|| format!("DNS lookup error: {error}"));
            return DnsVerdict::Nothing;
        }
    };
    let Some(answer) = answer else {
        log.debug(|| "DNS lookup error: malformed answer".to_owned());
        return DnsVerdict::Nothing;
    };
    log.debug(|| {
        let trust = if answer.authentic { "secure" } else { "insecure" };
        format!("found {} {trust} fingerprints in DNS", answer.records.len())
    });
    judge(&answer, key)
}

fn judge(answer: &Answer, key: &PublicKey) -> DnsVerdict {
    let Some(algorithm) = key.sshfp_algorithm() else { return DnsVerdict::Nothing };
    let about: Vec<&Record> = answer.records.iter().filter(|record| record.algorithm == algorithm).collect();
    // If there is a SHA-256 fingerprint, SHA-1 ones are ignored (RFC 6594 section 4.1).
    for SshfpHash { number, hash, .. } in SshfpHash::ALL.into_iter().rev() {
        let mut given = about.iter().filter(|record| record.hash == number).peekable();
        if given.peek().is_some() {
            let digest = hash.digest(&[key.blob()]);
            return if given.any(|record| record.fingerprint == digest.as_ref()) {
                DnsVerdict::Match { secure: answer.authentic }
            } else {
                DnsVerdict::Mismatch
            };
        }
    }
    DnsVerdict::Nothing
}

/// Parses an answer (RFC 1035 section 4.1). `None` if it is malformed.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let mut rest = Bytes { all: bytes, at: 2 };
    let flags = rest.u16()?;
    let (questions, answers) = (rest.u16()?, rest.u16()?);
    rest.skip(4)?;
    if flags & RCODE != 0 {
        return Some(Answer { authentic: false, records: Vec::new() });
    }
    for _ in 0..questions {
        rest.skip_name()?;
        rest.skip(4)?;
    }
    let mut records = Vec::new();
    for _ in 0..answers {
        rest.skip_name()?;
        let (kind, class) = (rest.u16()?, rest.u16()?);
        rest.skip(4)?;
        let length = rest.u16()?.into();
        let data = rest.take(length)?;
        // CNAME records before the SSHFP records are skipped.
        if let (SSHFP, 1, [algorithm, hash, fingerprint @ ..]) = (kind, class, data) {
            records.push(Record { algorithm: *algorithm, hash: *hash, fingerprint: fingerprint.to_vec() });
        }
    }
    Some(Answer { authentic: flags & AUTHENTIC != 0, records })
}

/// A read position in an answer.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let part = self.all.get(self.at..end)?;
        self.at = end;
        Some(part)
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.take(length).map(|_| ())
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Skips a name: labels up to an empty one, or up to a pointer, which is not followed.
    fn skip_name(&mut self) -> Option<()> {
        loop {
            match self.take(1)?[0] {
                0 => return Some(()),
                length @ 1..=63 => self.skip(length.into())?,
                0xc0.. => return self.skip(1),
                _ => return None,
            }
        }
    }
}

/// Parses an answer and compares a key with it. Only its fingerprint in the answer is a match, and only with
/// the resolver's flag a secure one.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    let blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20abcdefghijklmnopqrstuvwxyz012345";
    let key = PublicKey::from_blob(blob).expect("a key");
    let Some(answer) = parse(bytes) else { return };
    if let DnsVerdict::Match { secure } = judge(&answer, &key) {
        let has = |hash: &SshfpHash| {
            let digest = hash.hash.digest(&[blob]);
            bytes.windows(digest.as_ref().len()).any(|part| part == digest.as_ref())
        };
        assert!(SshfpHash::ALL.iter().any(has), "a match without the fingerprint");
        assert!(!secure || bytes[3] & 0x20 != 0, "secure without the resolver's word");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;
    use lh_crypto::Hash;
    use proptest::prelude::*;

    fn record(algorithm: u8, hash: u8, good: bool) -> Record {
        let kind = if hash == 2 { Hash::Sha256 } else { Hash::Sha1 };
        let mut fingerprint = kind.digest(&[key().blob()]).as_ref().to_vec();
        if !good {
            fingerprint[0] ^= 1;
        }
        Record { algorithm, hash, fingerprint }
    }

    /// Covers: ssh_config VerifyHostKeyDNS
    #[test]
    fn strongest_hash_of_the_key_type_decides() {
        let verdict =
            |authentic, records: &[Record]| judge(&Answer { authentic, records: records.to_vec() }, &key());
        assert_eq!(verdict(true, &[record(4, 2, true)]), DnsVerdict::Match { secure: true });
        assert_eq!(verdict(false, &[record(4, 1, true)]), DnsVerdict::Match { secure: false });
        assert_eq!(verdict(true, &[record(4, 2, false)]), DnsVerdict::Mismatch);
        assert_eq!(verdict(true, &[record(4, 1, true), record(4, 2, false)]), DnsVerdict::Mismatch);
        let rolled_over = [record(4, 2, false), record(4, 2, true)];
        assert_eq!(verdict(true, &rolled_over), DnsVerdict::Match { secure: true });
        assert_eq!(verdict(true, &[record(1, 2, true), record(3, 2, true)]), DnsVerdict::Nothing);
        assert_eq!(verdict(true, &[record(4, 9, true)]), DnsVerdict::Nothing);
    }

    #[test]
    fn answer_with_a_cname_is_parsed() {
        let mut bytes = vec![0, 1, 0x81, 0xa0, 0, 1, 0, 2, 0, 0, 0, 0];
        bytes.extend(b"\x01h\x07example\0\0\x2c\0\x01");
        bytes.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01r\xc0\x0e");
        bytes.extend(b"\x01r\xc0\x0e\0\x2c\0\x01\0\0\0\x3c\0\x05\x04\x02abc");
        let expected = Record { algorithm: 4, hash: 2, fingerprint: b"abc".to_vec() };
        assert_eq!(parse(&bytes), Some(Answer { authentic: true, records: vec![expected] }));
        bytes[3] = 0x83;
        assert_eq!(parse(&bytes), Some(Answer { authentic: false, records: vec![] }), "no such name");
        for length in 0..bytes.len() {
            bytes[3] = 0xa0;
            assert_eq!(parse(&bytes[..length]), None, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn answers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
