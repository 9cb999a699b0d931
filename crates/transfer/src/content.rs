//! Sums over the content of whole files, which other programs can check: SHA-256 as `sha256sum` prints it,
//! XXH3 of 128 bits as `xxh128sum` does.

use std::fmt;
use std::io::{self, Read};

use lh_crypto::{Hash, Hasher};
use twox_hash::XxHash3_128;

/// Bytes read at a time: first, and from a file that fills this buffer.
const SHORT_BUFFER: usize = 16 * 1024;
const LONG_BUFFER: usize = 256 * 1024;

/// Algorithm of a content sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SumAlgorithm {
    /// SHA-256: also shows a file that was changed on purpose.
    #[default]
    Sha256,
    /// XXH3 of 128 bits: several times as fast; shows accidents only.
    Xxh3,
}

impl SumAlgorithm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Xxh3];

    /// Its name in command lines and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Xxh3 => "xxh3",
        }
    }

    /// The algorithm of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Length of its sums, bytes.
    pub const fn output_len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Xxh3 => 16,
        }
    }

    /// Begins a sum.
    pub fn start(self) -> ContentSum {
        ContentSum(match self {
            Self::Sha256 => State::Sha256(Hash::Sha256.start()),
            Self::Xxh3 => State::Xxh3(Box::new(XxHash3_128::with_seed(0))),
        })
    }

    /// The sum of `data`.
    pub fn sum(self, data: &[u8]) -> Vec<u8> {
        let mut sum = self.start();
        sum.update(data);
        sum.finish()
    }

    /// The sum of all that `reader` still holds.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sum_of(self, reader: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut sum = self.start();
        // Most files are small: to clear a long buffer would take longer than their sums.
        let mut buffer = vec![0; SHORT_BUFFER];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(sum.finish()),
                Ok(n) => {
                    sum.update(buffer.get(..n).unwrap_or_default());
                    if n == buffer.len() {
                        buffer.resize(LONG_BUFFER, 0);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A sum in the making.
#[derive(Clone)]
pub struct ContentSum(State);

#[derive(Clone)]
enum State {
    Sha256(Hasher),
    Xxh3(Box<XxHash3_128>),
}

impl ContentSum {
    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(data),
            State::Xxh3(state) => state.write(data),
        }
    }

    /// Adds `len` zeros.
    pub fn update_zeros(&mut self, mut len: u64) {
        const ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];
        while len > 0 {
            let now = usize::try_from(len).unwrap_or(usize::MAX).min(ZEROS.len());
            self.update(ZEROS.get(..now).unwrap_or_default());
            len -= now as u64;
        }
    }

    /// The sum, most significant byte first.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            State::Sha256(state) => state.finish().as_ref().to_vec(),
            State::Xxh3(state) => state.finish_128().to_be_bytes().to_vec(),
        }
    }
}

impl fmt::Debug for ContentSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentSum").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::hex;

    #[test]
    fn sums_are_those_of_other_programs() {
        // printf longhaul | sha256sum; printf longhaul | xxh128sum; the same of nothing.
        for (algorithm, data, sum) in [
            (
                SumAlgorithm::Sha256,
                &b""[..],
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (SumAlgorithm::Xxh3, b"", "99aa06d3014798d86001c324468d497f"),
        ] {
            assert_eq!(hex(&algorithm.sum(data)), sum);
        }
        for algorithm in SumAlgorithm::ALL {
            assert_eq!(SumAlgorithm::parse(algorithm.name()), Some(algorithm));
            assert_eq!(algorithm.sum(b"x").len(), algorithm.output_len());
        }
        assert_eq!(SumAlgorithm::parse("md5"), None);
    }

    /// Notes how much it was asked for.
    struct Noting<'a>(&'a [u8], Vec<usize>);

    impl Read for Noting<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.push(buffer.len());
            self.0.read(buffer)
        }
    }

    #[test]
    fn long_files_alone_are_read_through_a_long_buffer() {
        let data: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7) as u8).collect();
        for (len, buffers) in [
            (1000, &[SHORT_BUFFER, SHORT_BUFFER][..]),
            (data.len(), &[SHORT_BUFFER, LONG_BUFFER, LONG_BUFFER, LONG_BUFFER, LONG_BUFFER, LONG_BUFFER]),
        ] {
            let mut reader = Noting(&data[..len], Vec::new());
            assert_eq!(SumAlgorithm::Xxh3.sum_of(&mut reader).unwrap(), SumAlgorithm::Xxh3.sum(&data[..len]));
            assert_eq!(reader.1, buffers);
        }
    }

    #[test]
    fn zeros_are_summed_like_any_bytes() {
        for algorithm in SumAlgorithm::ALL {
            let mut sum = algorithm.start();
            sum.update(b"a");
            sum.update_zeros(100_000);
            assert_eq!(sum.finish(), algorithm.sum(&[&b"a"[..], &[0; 100_000]].concat()));
        }
    }
}
