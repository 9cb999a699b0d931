//! Records of the protocol: one line each, read from a peer that may lie.
//!
//! | record | meaning |
//! |---|---|
//! | `T<mtime> 0 <atime> 0` | times for the next file or directory, seconds since 1970 |
//! | `C<mode> <size> <name>` | a file; its bytes follow the acknowledgement |
//! | `D<mode> 0 <name>` | a directory; what is in it follows, up to `E` |
//! | `E` | the end of a directory |
//! | 0x01 text | a warning or a failed file; the copy goes on |
//! | 0x02 text | the end of everything |
//!
//! Each but the last two is acknowledged with a zero byte or answered with one of the last two.

use crate::end::Times;
use crate::names::is_safe_name;

use super::violation::{Field, Violation};

/// Longest line taken from a peer: a name of
/// [`libc::NAME_MAX`](https://man7.org/linux/man-pages/man7/path_resolution.7.html) bytes fits many times
/// over, and OpenSSH's limit is the same.
pub(super) const LONGEST: usize = 16 * 1024;

/// Bits of a mode that travel.
pub(super) const MODE_BITS: u32 = 0o7777;

/// A line, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Times(Times),
    File {
        mode: u32,
        size: u64,
        name: Vec<u8>,
    },
    Dir {
        mode: u32,
        name: Vec<u8>,
    },
    EndDir,
    /// The peer could not do something. The text is its own.
    Failed {
        text: Vec<u8>,
        fatal: bool,
    },
}

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It begins with nothing that a record begins with: perhaps it was written by a shell.
    Unknown,
    /// It breaks a rule of the protocol.
    Protocol(Violation),
    /// A file or directory of this name would not be where it belongs (CVE-2019-6111).
    Name(Vec<u8>),
}

impl Record {
    /// Understands a line.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Malformed> {
        match line.split_first() {
            None => Err(Malformed::Protocol(Violation::Empty)),
            Some((b'\x01', text)) => Ok(Self::Failed { text: text.to_vec(), fatal: false }),
            Some((b'\x02', text)) => Ok(Self::Failed { text: text.to_vec(), fatal: true }),
            Some((b'E', _)) => Ok(Self::EndDir),
            Some((b'T', rest)) => times(rest).map(Self::Times).map_err(Malformed::Protocol),
            Some((kind @ (b'C' | b'D'), rest)) => {
                let (mode, rest) = mode(rest).map_err(Malformed::Protocol)?;
                let (size, name) = size(rest).map_err(Malformed::Protocol)?;
                if !is_safe_name(name) {
                    return Err(Malformed::Name(name.to_vec()));
                }
                let name = name.to_vec();
                Ok(if *kind == b'C' { Self::File { mode, size, name } } else { Self::Dir { mode, name } })
            }
            Some(_) => Err(Malformed::Unknown),
        }
    }

    /// The record as it is sent, newline included. A newline in a name, which would end the line, goes as
    /// `\^J`, as OpenSSH has it.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Times(times) => {
                // No file is older than 1970.
                let seconds = |(seconds, _): (i64, u32)| seconds.max(0);
                format!("T{} 0 {} 0\n", seconds(times.modification), seconds(times.access)).into_bytes()
            }
            Self::File { mode, size, name } => named(format!("C{:04o} {size} ", mode & MODE_BITS), name),
            Self::Dir { mode, name } => named(format!("D{:04o} 0 ", mode & MODE_BITS), name),
            Self::EndDir => b"E\n".to_vec(),
            Self::Failed { text, fatal } => {
                let mut line = vec![if *fatal { 2 } else { 1 }];
                line.extend(text.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
                line.push(b'\n');
                line
            }
        }
    }
}

fn named(head: String, name: &[u8]) -> Vec<u8> {
    let mut line = head.into_bytes();
    if name.contains(&b'\n') {
        for &byte in name {
            match byte {
                b'\n' => line.extend_from_slice(b"\\^J"),
                b'\\' => line.extend_from_slice(b"\\\\"),
                byte => line.push(byte),
            }
        }
    } else {
        line.extend_from_slice(name);
    }
    line.push(b'\n');
    line
}

/// Why there is no number.
enum NoNumber {
    Missing,
    NotDelimited,
    OutOfRange,
}

impl NoNumber {
    const fn of(self, field: Field) -> Violation {
        match self {
            Self::Missing => Violation::Missing(field),
            Self::NotDelimited => Violation::NotDelimited(field),
            Self::OutOfRange => Violation::OutOfRange(field),
        }
    }
}

/// Parses digits up to `end`, at least one; returns the number and the text after `end`.
fn number(text: &[u8], end: Option<u8>) -> Result<(u64, &[u8]), NoNumber> {
    let len = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(len);
    if digits.is_empty() {
        return Err(NoNumber::Missing);
    }
    let rest = match (end, rest.split_first()) {
        (Some(end), Some((byte, rest))) if *byte == end => rest,
        (None, None) => rest,
        _ => return Err(NoNumber::NotDelimited),
    };
    let value = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    // Sizes and times are signed numbers at both ends.
    let value = value.filter(|&value: &u64| i64::try_from(value).is_ok()).ok_or(NoNumber::OutOfRange)?;
    Ok((value, rest))
}

fn times(text: &[u8]) -> Result<Times, Violation> {
    // `scp` has one text for two things that can be wrong with seconds, and one for all that can be with
    // microseconds.
    let seconds = |text, field| {
        number(text, Some(b' ')).map_err(|why| match why {
            NoNumber::OutOfRange => Violation::Missing(field),
            why => why.of(field),
        })
    };
    let micros = |text, end, field| {
        let (micros, rest) = number(text, end).map_err(|_| Violation::NotDelimited(field))?;
        let micros = u32::try_from(micros).ok().filter(|&micros| micros < 1_000_000);
        Ok((micros.ok_or(Violation::NotDelimited(field))? * 1000, rest))
    };
    let (mtime, text) = seconds(text, Field::ModificationSeconds)?;
    let (mtime_nanos, text) = micros(text, Some(b' '), Field::ModificationMicros)?;
    let (atime, text) = seconds(text, Field::AccessSeconds)?;
    let (atime_nanos, _) = micros(text, None, Field::AccessMicros)?;
    Ok(Times { modification: (mtime as i64, mtime_nanos), access: (atime as i64, atime_nanos) })
}

/// Four octal digits and a space.
fn mode(text: &[u8]) -> Result<(u32, &[u8]), Violation> {
    let digits = text.get(..4).ok_or(Violation::Mode)?;
    let mut mode = 0;
    for digit in digits {
        if !(b'0'..=b'7').contains(digit) {
            return Err(Violation::Mode);
        }
        mode = mode * 8 + u32::from(digit - b'0');
    }
    match text.get(4) {
        Some(b' ') => Ok((mode, text.get(5..).unwrap_or_default())),
        _ => Err(Violation::NotDelimited(Field::Mode)),
    }
}

fn size(text: &[u8]) -> Result<(u64, &[u8]), Violation> {
    number(text, Some(b' ')).map_err(|why| why.of(Field::Size))
}

/// For the fuzz targets: reads a line; what is written of it can be read again, and says the same.
#[cfg(fuzzing)]
pub(crate) fn fuzz(line: &[u8]) {
    let Ok(record) = Record::parse(line) else { return };
    if let Record::File { name, .. } | Record::Dir { name, .. } = &record {
        assert!(is_safe_name(name), "a name that leads elsewhere: {name:?}");
        if name.contains(&b'\n') {
            return;
        }
    }
    if !matches!(record, Record::Failed { .. }) {
        let text = record.encode();
        let again = Record::parse(text.strip_suffix(b"\n").unwrap_or(&text));
        match (record, again) {
            // On the wire, times have whole seconds.
            (Record::Times(_), Ok(Record::Times(_))) => {}
            (record, again) => assert_eq!(again, Ok(record)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(mode: u32, size: u64, name: &str) -> Record {
        Record::File { mode, size, name: name.into() }
    }

    #[test]
    fn records_are_read_and_written() {
        let times = Times { modification: (1_183_828_267, 0), access: (1_183_828_268, 0) };
        for (line, record) in [
            (&b"C0644 12 a b"[..], file(0o644, 12, "a b")),
            (b"C4755 9223372036854775807 -x", file(0o4755, i64::MAX as u64, "-x")),
            (b"D0755 0 dir", Record::Dir { mode: 0o755, name: b"dir".to_vec() }),
            (b"T1183828267 0 1183828268 0", Record::Times(times)),
            (b"E", Record::EndDir),
            (b"\x01scp: no", Record::Failed { text: b"scp: no".to_vec(), fatal: false }),
            (b"\x02no", Record::Failed { text: b"no".to_vec(), fatal: true }),
        ] {
            assert_eq!(Record::parse(line), Ok(record.clone()));
            assert_eq!(record.encode(), [line, b"\n"].concat());
        }
    }

    #[test]
    fn a_newline_in_a_name_does_not_end_the_line() {
        assert_eq!(file(0o600, 1, "a\nb\\c").encode(), b"C0600 1 a\\^Jb\\\\c\n");
        assert_eq!(file(0o600, 1, "b\\c").encode(), b"C0600 1 b\\c\n");
    }

    #[test]
    fn malformed_records_are_named_in_openssh_s_words() {
        let refused = |line| match Record::parse(line) {
            Err(Malformed::Protocol(why)) => why.to_string(),
            other => panic!("{other:?}"),
        };
        for (line, why) in [
            (&b""[..], "unexpected <newline>"),
            (b"C", "bad mode"),
            (b"C0844 1 x", "bad mode"),
            (b"C06441 1 x", "mode not delimited"),
            (b"C0644 -1 x", "size not present"),
            (b"C0644 1", "size not delimited"),
            (b"C0644 9223372036854775808 x", "size out of range"),
            (b"C0644 99999999999999999999999 x", "size out of range"),
            (b"T-1 0 0 0", "mtime.sec not present"),
            (b"T9223372036854775808 0 0 0", "mtime.sec not present"),
            (b"T1 x 1 0", "mtime.usec not delimited"),
            (b"T1 1000000 1 0", "mtime.usec not delimited"),
            (b"T1 0 1", "atime.sec not delimited"),
            (b"T1 0 1 0x", "atime.usec not delimited"),
        ] {
            assert_eq!(refused(line), why, "{}", line.escape_ascii());
        }
        assert_eq!(Record::parse(b"bash: scp: command not found"), Err(Malformed::Unknown));
        for (line, name) in [
            (&b"C0644 1 ../x"[..], "../x"),
            (b"C0644 1 ..", ".."),
            (b"C0644 1 .", "."),
            (b"C0644 1 ", ""),
            (b"D0755 0 a/b", "a/b"),
        ] {
            assert_eq!(Record::parse(line), Err(Malformed::Name(name.into())), "{}", line.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_line_is_understood_or_refused(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Record::parse(&line);
        }

        #[test]
        fn almost_records(kind in "[CDT]", rest in "[0-9 ]{0,30}[a-z./]{0,6}") {
            if let Ok(Record::File { name, .. } | Record::Dir { name, .. }) =
                Record::parse(format!("{kind}{rest}").as_bytes())
            {
                prop_assert!(is_safe_name(&name));
            }
        }

        #[test]
        fn records_round_trip(mode in 0u32..0o10000, size in 0u64..=i64::MAX as u64, name in "[^/\n\0]{1,20}") {
            prop_assume!(name != "." && name != "..");
            let record = file(mode, size, &name);
            let line = record.encode();
            prop_assert_eq!(Record::parse(&line[..line.len() - 1]), Ok(record));
        }
    }
}
