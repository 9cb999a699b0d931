//! In which order directories and files are started: the walk over the tree.

use std::collections::{HashSet, VecDeque};

use crate::end::{Entry, Kind};
use crate::item::{Item, ItemSync, TargetEntry};
use crate::names::{base_name, join};
use crate::table::{Key, Table};
use crate::tree::{Dir, Waiting};
use crate::turn::Order;

/// Directories being made and listed at a time.
pub(crate) const STARTING_DIRS: usize = 128;

/// Listed but not started files from which on no further directory is begun.
const FILES_WAITING: usize = 512;

/// Limit of listed entries that wait, in all directories. Above it, only directories without any are listed.
pub(crate) const ENTRIES_HELD: usize = 8 * 1024;

/// Limits of open directories at each end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeLimits {
    pub(crate) open_dirs: usize,
    pub(crate) open_targets: usize,
}

/// The directories being copied, and what waits to be started.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) dirs: Table<Dir>,
    /// Directories that still have entries to be started; the deepest is last, or the first one in order.
    pub(crate) walk: Vec<Key>,
    /// Some directory of `walk` may have nothing left to be started.
    pub(crate) walk_changed: bool,
    pub(crate) waiting: Waiting,
    /// Directories being made or listed for the first time.
    pub(crate) starting_dirs: usize,
    /// Items of the command line that are not started.
    pub(crate) top: VecDeque<Item>,
    /// Paths of the manifest that no listing has had yet.
    pub(crate) expected: HashSet<Vec<u8>>,
    /// Set where everything is started in the order of paths.
    pub(crate) order: Option<Order>,
}

impl Tree {
    pub(crate) fn new(expected: HashSet<Vec<u8>>) -> Self {
        Self {
            dirs: Table::new(),
            walk: Vec::new(),
            walk_changed: false,
            waiting: Waiting::default(),
            starting_dirs: 0,
            top: VecDeque::new(),
            expected,
            order: None,
        }
    }

    /// Returns true when nothing waits and no directory is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.top.is_empty() && self.dirs.len() == 0
    }

    /// Files that were listed and are not started.
    pub(crate) fn waiting_files(&self) -> usize {
        let top = self.top.iter().filter(|item| item.info.kind != Kind::Dir).count();
        self.walked().map(Dir::waiting_files).sum::<usize>() + top
    }

    /// Returns true when all that was handed on is listed and started.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.top.is_empty() && self.walked().all(Dir::exhausted)
    }

    fn walked(&self) -> impl Iterator<Item = &Dir> {
        self.walk.iter().filter_map(|&key| self.dirs.get(key))
    }

    /// Path of an item from the top of its tree; `None` for what the command line names.
    pub(crate) fn path_of(&self, item: &Item) -> Option<Vec<u8>> {
        let dir = self.dirs.get(item.parent?)?;
        Some(join(dir.relative(), base_name(&item.source)))
    }

    /// Returns true where a directory or file may be started now.
    pub(crate) fn has_next(&mut self, limits: TreeLimits) -> bool {
        if self.order.is_some() {
            return self.has_next_in_order(limits);
        }
        let has = |list: fn(&Dir) -> &VecDeque<Entry>| {
            self.walked().any(|dir| dir.making.ready && !list(dir).is_empty())
        };
        !self.top.is_empty()
            || (self.waiting.files > 0 && has(|dir| &dir.unstarted.files))
            || (self.may_start_subdir(limits) && has(|dir| &dir.unstarted.subdirs))
    }

    fn may_start_subdir(&self, limits: TreeLimits) -> bool {
        let waiting = &self.waiting;
        if self.starting_dirs >= STARTING_DIRS || waiting.subdirs == 0 || waiting.files > FILES_WAITING {
            return false;
        }
        // With nothing on its way, those that are open wait for us: to go on is the only way to close them.
        if waiting.open_dirs >= limits.open_dirs && waiting.lists > 0 {
            return false;
        }
        waiting.open_targets < limits.open_targets && waiting.comparing <= ENTRIES_HELD
    }

    /// The directory to be started next, if one may be, and the directory that it is in.
    pub(crate) fn next_subdir(&mut self, limits: TreeLimits) -> Option<(Option<Key>, Item)> {
        if self.order.is_some() {
            return self.next_subdir_in_order(limits);
        }
        if !self.may_start_subdir(limits) {
            return None;
        }
        let found = self.next_of(|dir| &mut dir.unstarted.subdirs)?;
        self.waiting.subdirs -= 1;
        Some(found)
    }

    /// The file to be started next, or what the command line names, and the directory that it is in.
    pub(crate) fn next_file(&mut self) -> Option<(Option<Key>, Item)> {
        if self.order.is_some() {
            return self.next_file_in_order();
        }
        if std::mem::take(&mut self.walk_changed) {
            let dirs = &self.dirs;
            self.walk.retain(|&key| dirs.get(key).is_some_and(|dir| !dir.exhausted()));
        }
        if self.waiting.files > 0
            && let Some(found) = self.next_of(|dir| &mut dir.unstarted.files)
        {
            self.waiting.files -= 1;
            return Some(found);
        }
        self.top.pop_front().map(|item| (None, item))
    }

    /// What waits in one of a directory's two lists, of the directory that was reached last.
    fn next_of(&mut self, list: impl Fn(&mut Dir) -> &mut VecDeque<Entry>) -> Option<(Option<Key>, Item)> {
        for &key in self.walk.iter().rev() {
            let dir = self.dirs.get_mut(key)?;
            if dir.making.ready
                && let Some(entry) = list(dir).pop_front()
            {
                self.walk_changed |= dir.waiting() == 0;
                return Some((Some(key), child(key, dir, entry)));
            }
        }
        None
    }

    /// Returns true when the directory contains, or is, one that it is being copied as part of.
    pub(crate) fn leads_back(&self, item: &Item, real: Option<&[u8]>) -> bool {
        let mut above = item.parent;
        while let Some(dir) = above.and_then(|key| self.dirs.get(key)) {
            let same_inode = item.info.identity.is_some() && item.info.identity == dir.item.info.identity;
            let contains = match (real, &dir.listing.real) {
                (Some(real), Some(above)) if item.linked => {
                    let inside = above.strip_prefix(real);
                    inside.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || real == b"/")
                }
                _ => false,
            };
            if same_inode || contains {
                return true;
            }
            above = dir.item.parent;
        }
        false
    }

    /// It is open no more, or never was.
    pub(crate) fn dir_closed(&mut self, key: Key) {
        if let Some(dir) = self.dirs.get_mut(key)
            && std::mem::take(&mut dir.listing.open)
        {
            self.waiting.open_dirs -= 1;
        }
    }

    /// An entry of the directory waits to be started.
    pub(crate) fn queue_entry(&mut self, key: Key, entry: Entry) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let (list, waiting) = match entry.info.kind {
            Kind::Dir => (&mut dir.unstarted.subdirs, &mut self.waiting.subdirs),
            _ => (&mut dir.unstarted.files, &mut self.waiting.files),
        };
        list.push_back(entry);
        *waiting += 1;
    }

    /// Drops what has not been started of a directory; returns how many entries that were.
    pub(crate) fn abandon_dir(&mut self, key: Key) -> usize {
        let Some(dir) = self.dirs.get_mut(key) else { return 0 };
        let dropped = dir.waiting();
        self.waiting.comparing -= dir.at_target.comparing.as_ref().map_or(0, |comparing| comparing.len());
        self.waiting.files -= dir.unstarted.files.len();
        self.waiting.subdirs -= dir.unstarted.subdirs.len();
        dir.abandon();
        dropped
    }

    /// Something is made or removed in the directory `parent`.
    pub(crate) fn touch_dir(&mut self, parent: Option<Key>) {
        if let Some(dir) = parent.and_then(|key| self.dirs.get_mut(key)) {
            dir.touched = true;
        }
    }

    /// The directory is new: there is nothing in it.
    pub(crate) fn target_is_new(&mut self, key: Key) {
        if let Some(dir) = self.dirs.get_mut(key).filter(|dir| dir.at_target.comparing.is_some()) {
            dir.at_target.list.set_empty();
        }
    }

    /// Something below a directory has failed that may not be there: then only the directory is reported.
    /// False where the failure itself has to be.
    pub(crate) fn reported_by_dir(&mut self, parent: Option<Key>, text: &str) -> bool {
        parent.and_then(|key| self.dirs.get_mut(key)).is_some_and(|dir| dir.doubt(text))
    }
}

/// The item for an entry of the directory `dir`, which waits for its end from now on.
pub(crate) fn child(key: Key, dir: &mut Dir, entry: Entry) -> Item {
    dir.children += 1;
    let found = dir.at_target.there.remove(&entry.name);
    Item {
        parent: Some(key),
        linked: entry.info.kind != Kind::Dir,
        sync: ItemSync {
            there: found.map_or(dir.at_target.there_else, TargetEntry::Found),
            ..ItemSync::default()
        },
        ..Item::top(join(&dir.item.source, &entry.name), join(&dir.item.target, &entry.name), entry.info)
    }
}

#[cfg(test)]
mod tests {
    use crate::end::Info;

    use super::*;

    const LIMITS: TreeLimits = TreeLimits { open_dirs: 8, open_targets: 8 };

    fn entry(name: &str, kind: Kind) -> Entry {
        Entry { name: name.as_bytes().into(), info: Info { kind, ..Info::UNKNOWN } }
    }

    /// A directory that is made and listed, with these files and directories.
    fn add(tree: &mut Tree, path: &str, parent: Option<Key>, files: &[&str], subdirs: &[&str]) -> Key {
        let top =
            Item::top(path.into(), format!("to/{path}").into(), Info { kind: Kind::Dir, ..Info::UNKNOWN });
        let mut dir = Dir::new(Item { parent, ..top }, path.into(), false);
        dir.unstarted.files.extend(files.iter().map(|name| entry(name, Kind::File)));
        dir.unstarted.subdirs.extend(subdirs.iter().map(|name| entry(name, Kind::Dir)));
        (dir.making.ready, dir.listing.complete, dir.at_target.there_else) =
            (true, true, TargetEntry::Nothing);
        tree.waiting.files += files.len();
        tree.waiting.subdirs += subdirs.len();
        let key = tree.dirs.insert(dir);
        tree.walk.push(key);
        key
    }

    fn names(tree: &mut Tree) -> Vec<String> {
        let mut names = Vec::new();
        while let Some((_, item)) = tree.next_subdir(LIMITS).or_else(|| tree.next_file()) {
            names.push(String::from_utf8(item.source).expect("a name"));
        }
        names
    }

    #[test]
    fn directories_come_first_and_the_deepest_is_emptied_first() {
        let mut tree = Tree::new(HashSet::new());
        tree.top.push_back(Item::top(b"named".to_vec(), b"to/named".to_vec(), Info::UNKNOWN));
        let above = add(&mut tree, "a", None, &["1", "2"], &["x", "y"]);
        add(&mut tree, "a/b", Some(above), &["3"], &["z"]);
        assert_eq!(names(&mut tree), ["a/b/z", "a/x", "a/y", "a/b/3", "a/1", "a/2", "named"]);
        assert_eq!(tree.dirs.get(above).map(|dir| dir.children), Some(4));
        assert!(tree.walk.is_empty(), "nothing is left to be started in them");
        assert_eq!((tree.waiting.files, tree.waiting.subdirs), (0, 0));
        assert!(!tree.is_empty(), "what was started is not finished");
    }

    #[test]
    fn entries_know_their_directory_and_what_the_target_has() {
        let mut tree = Tree::new(HashSet::new());
        let key = add(&mut tree, "d", None, &["old", "new"], &[]);
        let there = Info { size: Some(7), ..Info::UNKNOWN };
        tree.dirs.get_mut(key).expect("it").at_target.there.insert(b"old"[..].into(), there);
        for (name, expected) in [("old", TargetEntry::Found(there)), ("new", TargetEntry::Nothing)] {
            let (from, item) = tree.next_file().expect("a file");
            assert_eq!((from, item.parent, item.sync.there), (Some(key), Some(key), expected));
            assert_eq!(item.target, format!("to/d/{name}").into_bytes());
        }
    }

    #[test]
    fn directories_wait_while_many_are_open_or_files_wait() {
        let mut tree = Tree::new(HashSet::new());
        add(&mut tree, "d", None, &[], &["sub"]);
        let blocks: [fn(&mut Waiting); 4] = [
            |waiting| (waiting.open_dirs, waiting.lists) = (8, 1),
            |waiting| waiting.open_targets = 8,
            |waiting| waiting.comparing = ENTRIES_HELD + 1,
            |waiting| waiting.files = FILES_WAITING + 1,
        ];
        for block in blocks {
            let subdirs = tree.waiting.subdirs;
            block(&mut tree.waiting);
            assert!(tree.next_subdir(LIMITS).is_none());
            tree.waiting = Waiting { subdirs, ..Waiting::default() };
        }
        // With nothing on its way only going on closes what is open.
        tree.waiting.open_dirs = 8;
        assert!(tree.next_subdir(LIMITS).is_some());
    }

    #[test]
    fn a_link_to_a_directory_above_leads_back() {
        let mut tree = Tree::new(HashSet::new());
        let above = add(&mut tree, "a", None, &[], &[]);
        tree.dirs.get_mut(above).expect("it").listing.real = Some(b"/home/a".to_vec());
        let linked =
            |linked| Item { parent: Some(above), linked, ..Item::top(Vec::new(), Vec::new(), Info::UNKNOWN) };
        for (real, leads) in
            [("/home/a", true), ("/home", true), ("/", true), ("/home/ab", false), ("/home/a/b", false)]
        {
            assert_eq!(tree.leads_back(&linked(true), Some(real.as_bytes())), leads, "{real}");
            assert!(!tree.leads_back(&linked(false), Some(real.as_bytes())));
        }
    }
}
