//! Records by which a remote `scp` reports the files it has transferred, for the server's log.
//!
//! In the old protocol the server sees one command, and a stream that only the command can parse. A server
//! that logs transfers therefore passes the command a descriptor of an unnamed file, with its number in
//! [`VARIABLE`]. The command appends a record for each file. Other implementations of `scp` ignore the
//! variable.

/// Environment variable with the number of the descriptor.
pub const VARIABLE: &str = "LONGHAUL_COPIED_FD";

/// Record of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Path on the server.
    pub path: Vec<u8>,
    /// True for an upload to the server.
    pub upload: bool,
    /// Transferred bytes.
    pub bytes: u64,
    /// Duration of the transfer, microseconds.
    pub micros: u64,
    /// Why the copy failed; `None` on success.
    pub fault: Option<String>,
}

/// Number of fields of a record; each ends in a zero byte, which paths cannot contain.
const FIELDS: usize = 4;

impl Copied {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let direction = if self.upload { "up" } else { "down" };
        let mut out = format!("{direction} {} {}\0", self.bytes, self.micros).into_bytes();
        // An empty text stands for `None`.
        let (fault, done) = (self.fault.as_deref().unwrap_or_default(), self.fault.is_none());
        for field in [&self.path[..], fault.as_bytes(), if done { b"done" } else { b"failed" }] {
            out.extend(field.iter().filter(|&&byte| byte != 0));
            out.push(0);
        }
        out
    }

    /// Decodes records up to the first invalid one. The command runs with the user's rights and may have
    /// written any bytes.
    pub fn decode_all(bytes: &[u8]) -> Vec<Self> {
        let fields: Vec<&[u8]> = bytes.split(|&byte| byte == 0).collect();
        fields.chunks_exact(FIELDS).map_while(Self::decode).collect()
    }

    fn decode(fields: &[&[u8]]) -> Option<Self> {
        let [head, path, fault, end] = fields else { return None };
        let mut words = std::str::from_utf8(head).ok()?.split(' ');
        let upload = match words.next()? {
            "up" => true,
            "down" => false,
            _ => return None,
        };
        let (bytes, micros) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let fault = match *end {
            b"done" => None,
            b"failed" => Some(String::from_utf8_lossy(fault).into_owned()),
            _ => return None,
        };
        Some(Self { path: path.to_vec(), upload, bytes, micros, fault })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_records_decode(
            path in proptest::collection::vec(1..=255_u8, 0..40),
            upload: bool,
            bytes: u64,
            micros: u64,
            fault in proptest::option::of("[a-z ]{0,20}"),
        ) {
            let one = Copied { path, upload, bytes, micros, fault };
            let twice = [one.encode(), one.encode()].concat();
            prop_assert_eq!(Copied::decode_all(&twice), vec![one.clone(), one.clone()]);
            // The command was killed in the middle of a record.
            prop_assert_eq!(Copied::decode_all(&twice[..one.encode().len() + 3]), vec![one]);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Copied::decode_all(&bytes);
        }
    }
}
