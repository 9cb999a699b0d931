//! Names that a listing has returned: a name is taken once, also where its listing is begun again.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

/// What has been listed of a directory, by hashes of names. Some servers return a name twice. And a listing
/// has to be begun again where its handle turns out to be that of another file, too.
///
/// A name that is taken for one that was listed before would be left out of a copy without a word, so hashes
/// have 128 bits: for a million names, one chance in 10^26.
#[derive(Debug, Default)]
pub(crate) struct SeenNames {
    hashes: HashSet<(u64, u64)>,
    hashers: (RandomState, RandomState),
    round: u8,
}

impl SeenNames {
    /// Number of restarts of the listing.
    pub(crate) const fn round(&self) -> u8 {
        self.round
    }

    /// Notes a name; false where it was listed before.
    pub(crate) fn is_new(&mut self, name: &[u8]) -> bool {
        self.hashes.insert((self.hashers.0.hash_one(name), self.hashers.1.hash_one(name)))
    }

    /// The listing is begun again.
    pub(crate) const fn begin_again(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Everything was listed.
    pub(crate) fn forget(&mut self) {
        self.hashes = HashSet::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_new_once() {
        let mut seen = SeenNames::default();
        assert!(seen.is_new(b"a") && seen.is_new(b"b"));
        assert!(!seen.is_new(b"a"), "the server lists it twice");
        seen.begin_again();
        assert_eq!(seen.round(), 1);
        assert!(!seen.is_new(b"a") && !seen.is_new(b"b") && seen.is_new(b"c"));
        seen.begin_again();
        assert!(!seen.is_new(b"a") && !seen.is_new(b"c"));
        seen.forget();
        assert!(seen.is_new(b"a"));
    }
}
