//! What a remote `scp` tells the server that has started it: the files it has moved, for the server's log.
//!
//! In the old protocol the server sees one command and a stream that only the command understands. So where the server keeps a log it gives
//! such a command a descriptor of a file that has no name, and says in [`VARIABLE`] which; the command adds a record to it for each
//! file. Other people's `scp` knows nothing of it.

/// The environment variable with the number of the descriptor.
pub const VARIABLE: &str = "LONGHAUL_COPIED_FD";

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Its path at the server.
    pub path: Vec<u8>,
    /// To the server.
    pub upload: bool,
    /// Bytes of it that were moved.
    pub bytes: u64,
    /// How long that took, microseconds.
    pub micros: u64,
    /// Why it was not copied; `None` when it was.
    pub fault: Option<String>,
}

/// Fields of a record; each ends with a zero byte, which no path has.
const FIELDS: usize = 4;

impl Copied {
    /// The record.
    pub fn encode(&self) -> Vec<u8> {
        let direction = if self.upload { "up" } else { "down" };
        let mut out = format!("{direction} {} {}\0", self.bytes, self.micros).into_bytes();
        // An empty text stands for none.
        let (fault, done) = (self.fault.as_deref().unwrap_or_default(), self.fault.is_none());
        for field in [&self.path[..], fault.as_bytes(), if done { b"done" } else { b"failed" }] {
            out.extend(field.iter().filter(|&&byte| byte != 0));
            out.push(0);
        }
        out
    }

    /// Reads records until something is none. The command is the user's and may have written anything.
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
        fn what_is_written_is_read_again(
            path in proptest::collection::vec(1..=255_u8, 0..40),
            upload: bool,
            bytes: u64,
            micros: u64,
            fault in proptest::option::of("[a-z ]{0,20}"),
        ) {
            let one = Copied { path, upload, bytes, micros, fault };
            let twice = [one.encode(), one.encode()].concat();
            prop_assert_eq!(Copied::decode_all(&twice), vec![one.clone(), one.clone()]);
            // A command that was killed in the middle of one.
            prop_assert_eq!(Copied::decode_all(&twice[..one.encode().len() + 3]), vec![one]);
        }

        #[test]
        fn anything_else_ends_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Copied::decode_all(&bytes);
        }
    }
}
