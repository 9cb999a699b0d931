//! Names that a listing has had: it may have to be begun again.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

/// What has been listed of a directory, by hashes of names: its listing may have to be begun again, where its handle turns out to be that of
/// another file, too.
#[derive(Debug, Default)]
pub(crate) struct SeenNames {
    hashes: Vec<u64>,
    /// Of the listings before this one.
    before: HashSet<u64>,
    hasher: RandomState,
    round: u8,
}

impl SeenNames {
    /// How often it was begun again.
    pub(crate) const fn round(&self) -> u8 {
        self.round
    }

    /// Notes a name; false where it was listed before.
    pub(crate) fn is_new(&mut self, name: &[u8]) -> bool {
        let hash = self.hasher.hash_one(name);
        if self.before.contains(&hash) {
            return false;
        }
        self.hashes.push(hash);
        true
    }

    /// The listing is begun again.
    pub(crate) fn begin_again(&mut self) {
        self.before.extend(self.hashes.drain(..));
        self.round = self.round.wrapping_add(1);
    }

    /// Everything was listed.
    pub(crate) fn forget(&mut self) {
        (self.hashes, self.before) = (Vec::new(), HashSet::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_earlier_listings_are_not_new_and_those_of_this_one_are() {
        let mut seen = SeenNames::default();
        assert!(seen.is_new(b"a") && seen.is_new(b"b"));
        assert!(seen.is_new(b"a"), "a listing is not compared with itself");
        seen.begin_again();
        assert_eq!(seen.round(), 1);
        assert!(!seen.is_new(b"a") && !seen.is_new(b"b") && seen.is_new(b"c"));
        seen.begin_again();
        assert!(!seen.is_new(b"a") && !seen.is_new(b"c"));
        seen.forget();
        assert!(seen.is_new(b"a"));
    }
}
