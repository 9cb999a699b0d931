//! Files with several names: which name is copied, and which become other names of that copy.

use std::collections::HashMap;

use crate::item::Item;

/// Files with several names that are remembered until the last of them is met. Beyond that the names of
/// further ones become files of their own.
const MOST_SHARED: usize = 256 * 1024;

/// Device and inode.
type Identity = (u64, u64);

/// A copy that is complete, and the sum of its content where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Original {
    pub(crate) path: Vec<u8>,
    pub(crate) sum: Option<Vec<u8>>,
}

/// Action for a name whose file is unchanged at the target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnchangedName {
    /// It stays as it is.
    Stays,
    /// It waits for the first name: give it to [`SharedFiles::wait`].
    Waits,
    /// It becomes another name of this copy.
    Becomes(Original),
}

/// A file that has several names.
#[derive(Debug)]
struct Shared {
    copy: FirstCopy,
    /// Names that have not been met.
    left: u64,
    /// Nothing was copied: the target had this file under the first name, with this identity where it is
    /// known.
    unchanged: Option<Option<Identity>>,
}

#[derive(Debug)]
enum FirstCopy {
    /// Its first name is being copied; others wait, each with its id.
    Waiting(Vec<(u64, Item)>),
    Complete(Original),
}

/// Files of which more names are to come, by the identity of the source.
#[derive(Debug)]
pub(crate) struct SharedFiles {
    files: HashMap<Identity, Shared>,
    most: usize,
}

impl SharedFiles {
    pub(crate) fn new(most: Option<usize>) -> Self {
        Self { files: HashMap::new(), most: most.unwrap_or(MOST_SHARED) }
    }

    /// Returns true when a name of this file was met.
    pub(crate) fn is_known(&self, identity: Identity) -> bool {
        self.files.contains_key(&identity)
    }

    /// Remembers that the first of the `links` names of a file is being copied. False where too many files
    /// are remembered.
    pub(crate) fn add_first(&mut self, identity: Identity, links: Option<u64>) -> bool {
        self.insert(identity, FirstCopy::Waiting(Vec::new()), others(links), None)
    }

    fn insert(
        &mut self,
        identity: Identity,
        copy: FirstCopy,
        left: u64,
        unchanged: Option<Option<Identity>>,
    ) -> bool {
        let has_room = self.files.len() < self.most;
        if has_room {
            self.files.insert(identity, Shared { copy, left, unchanged });
        }
        has_room
    }

    /// Another name of a known file. Gives it back with the copy that it becomes a name of; `None`: it waits.
    pub(crate) fn meet(&mut self, identity: Identity, id: u64, item: Item) -> Option<(Item, Original)> {
        let shared = self.files.get_mut(&identity)?;
        shared.left = shared.left.saturating_sub(1);
        let met = shared.left == 0;
        match &mut shared.copy {
            FirstCopy::Waiting(waiting) => {
                waiting.push((id, item));
                None
            }
            FirstCopy::Complete(original) => {
                let original = original.clone();
                if met {
                    self.files.remove(&identity);
                }
                Some((item, original))
            }
        }
    }

    /// A name whose size and time the target has already; `there` is the identity of what it has.
    pub(crate) fn meet_unchanged(
        &mut self,
        identity: Identity,
        item: &Item,
        there: Option<Identity>,
    ) -> UnchangedName {
        let Some(shared) = self.files.get_mut(&identity) else {
            let original = Original { path: item.target.clone(), sum: None };
            self.insert(identity, FirstCopy::Complete(original), others(item.info.links), Some(there));
            return UnchangedName::Stays;
        };
        shared.left = shared.left.saturating_sub(1);
        let met = shared.left == 0;
        // Without evidence of another file it counts as this one.
        let same = shared.unchanged.is_some_and(|first| first.is_none() || there.is_none() || first == there);
        let FirstCopy::Complete(original) = &shared.copy else { return UnchangedName::Waits };
        let original = original.clone();
        if met {
            self.files.remove(&identity);
        }
        if same { UnchangedName::Stays } else { UnchangedName::Becomes(original) }
    }

    /// A name waits until the first one has its copy.
    pub(crate) fn wait(&mut self, identity: Identity, id: u64, item: Item) {
        if let Some(Shared { copy: FirstCopy::Waiting(waiting), .. }) = self.files.get_mut(&identity) {
            waiting.push((id, item));
        }
    }

    /// The first name has come to its end, with a copy or without one; returns the names that waited.
    pub(crate) fn first_ended(&mut self, identity: Identity, copy: Option<Original>) -> Vec<(u64, Item)> {
        let Some(Shared { copy: FirstCopy::Waiting(_), .. }) = self.files.get(&identity) else {
            return Vec::new();
        };
        let Some(Shared { copy: FirstCopy::Waiting(waiting), left, .. }) = self.files.remove(&identity)
        else {
            return Vec::new();
        };
        if let Some(copy) = copy.filter(|_| left > 0) {
            self.insert(identity, FirstCopy::Complete(copy), left, None);
        }
        waiting
    }
}

/// Names that are to come of a file that has `links`.
fn others(links: Option<u64>) -> u64 {
    links.unwrap_or(1).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use crate::end::Info;

    use super::*;

    const FILE: Identity = (1, 2);

    fn name(target: &str) -> Item {
        let info = Info { links: Some(3), ..Info::UNKNOWN };
        Item::top(b"s".to_vec(), target.into(), info)
    }

    fn original(path: &str) -> Original {
        Original { path: path.into(), sum: None }
    }

    #[test]
    fn names_wait_for_the_first_and_follow_it() {
        let mut shared = SharedFiles::new(None);
        assert!(!shared.is_known(FILE) && shared.add_first(FILE, Some(3)));
        assert!(shared.is_known(FILE) && shared.meet(FILE, 7, name("b")).is_none());
        let waiting = shared.first_ended(FILE, Some(original("a")));
        assert_eq!(waiting.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [7]);
        let (item, first) = shared.meet(FILE, 8, name("c")).expect("a complete copy");
        assert_eq!((&item.target[..], first), (&b"c"[..], original("a")));
        assert!(!shared.is_known(FILE), "all names were met");
    }

    #[test]
    fn failed_first_name_leaves_no_copy() {
        let mut shared = SharedFiles::new(None);
        shared.add_first(FILE, Some(3));
        shared.meet(FILE, 7, name("b"));
        assert_eq!(shared.first_ended(FILE, None).len(), 1);
        assert!(!shared.is_known(FILE) && shared.first_ended(FILE, None).is_empty());
    }

    #[test]
    fn unchanged_names_stay_where_they_are_one_file() {
        let mut shared = SharedFiles::new(None);
        let mut meet = |target, there| shared.meet_unchanged(FILE, &name(target), there);
        assert_eq!(meet("a", Some((9, 1))), UnchangedName::Stays);
        assert_eq!(meet("b", Some((9, 1))), UnchangedName::Stays);
        assert_eq!(meet("c", Some((9, 2))), UnchangedName::Becomes(original("a")));
        assert!(!shared.is_known(FILE));
        shared.add_first(FILE, Some(3));
        assert_eq!(shared.meet_unchanged(FILE, &name("b"), None), UnchangedName::Waits);
        shared.wait(FILE, 4, name("b"));
        assert_eq!(shared.first_ended(FILE, None).len(), 1);
    }

    #[test]
    fn files_beyond_the_limit_are_not_remembered() {
        let mut shared = SharedFiles::new(Some(1));
        assert!(shared.add_first(FILE, Some(2)) && !shared.add_first((1, 3), Some(2)));
        assert_eq!(shared.meet_unchanged((1, 3), &name("a"), None), UnchangedName::Stays);
        assert!(!shared.is_known((1, 3)));
    }
}
