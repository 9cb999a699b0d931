//! Which paths a manifest has, in 16 bytes each.

use std::collections::HashSet;

use lh_transfer::SumAlgorithm;

/// The paths of a manifest.
#[derive(Debug, Default)]
pub(super) struct Known {
    paths: HashSet<[u8; 16]>,
    /// The directory that all paths begin with, as far as has been seen; empty where there is none.
    first: Option<Vec<u8>>,
}

impl Known {
    /// The manifest has this path.
    pub(super) fn add(&mut self, path: &[u8]) {
        self.paths.insert(key(path));
        let slash = path.iter().position(|&byte| byte == b'/');
        let first = slash.and_then(|slash| path.get(..slash)).unwrap_or_default();
        match &mut self.first {
            None => self.first = Some(first.to_vec()),
            Some(known) if known == first => {}
            Some(known) => known.clear(),
        }
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(&key(path))
    }

    /// Returns the directory in which extra files are searched for. A tree that was copied into a directory
    /// has neighbours there, which are no part of the copy.
    pub(super) fn top(&self) -> Vec<u8> {
        self.first.clone().unwrap_or_default()
    }
}

fn key(path: &[u8]) -> [u8; 16] {
    SumAlgorithm::Xxh3.sum(path).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_its_own_name_is_looked_at_alone() {
        for (paths, top) in [
            (&["a/b", "a/c/d"][..], "a"),
            (&["a/b", "c"], ""),
            (&["a/b", "c/d"], ""),
            (&["a"], ""),
            (&[], ""),
        ] {
            let mut known = Known::default();
            paths.iter().for_each(|path| known.add(path.as_bytes()));
            assert_eq!(known.top(), top.as_bytes(), "{paths:?}");
            assert!(paths.iter().all(|path| known.has(path.as_bytes())) && !known.has(b"x"));
        }
    }
}
