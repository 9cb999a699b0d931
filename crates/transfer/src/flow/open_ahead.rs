//! Files that are opened before their data are requested.

/// Bytes of opened files whose data are not requested yet, from which on no further file is opened: an
/// interrupted copy of large files should not leave dozens of empty ones.
const MOST: u64 = 16 << 20;

/// Bytes of open files that are not requested yet.
#[derive(Debug, Default)]
pub(crate) struct OpenAhead {
    bytes: u64,
}

impl OpenAhead {
    /// `size` bytes of a file are to be requested; `of_file` is what is counted of them.
    pub(crate) fn expect(&mut self, of_file: &mut u64, size: u64) {
        // Bounded, so that no server can make the sum overflow.
        let ahead = size.min(MOST);
        self.bytes = self.bytes - *of_file + ahead;
        *of_file = ahead;
    }

    /// `len` bytes of those have been requested, or need not be.
    pub(crate) fn no_longer(&mut self, of_file: &mut u64, len: u64) {
        let len = len.min(*of_file);
        *of_file -= len;
        self.bytes -= len;
    }

    /// Returns true when another file may be opened.
    pub(crate) const fn may_open(&self) -> bool {
        self.bytes < MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_opened_ahead_are_counted_once() {
        let mut ahead = OpenAhead::default();
        let (mut one, mut other) = (0, 0);
        ahead.expect(&mut one, u64::MAX);
        assert!(!ahead.may_open());
        // Its size turns out smaller.
        ahead.expect(&mut one, 1_000);
        ahead.expect(&mut other, 5);
        assert!(ahead.may_open());
        ahead.no_longer(&mut one, 600);
        ahead.no_longer(&mut one, 600);
        ahead.no_longer(&mut other, 5);
        assert_eq!((one, other, ahead.bytes), (0, 0, 0));
    }
}
