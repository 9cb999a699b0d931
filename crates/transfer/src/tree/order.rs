//! Starts a tree in the order of its paths, not in that of the answers ([`crate::TreeSync`]).
//!
//! The files of a directory come before its directories, and each directory with all that is below it before
//! the next one. Directories are listed ahead, in parallel; only their files wait until it is their turn. An
//! item that may turn out to be a directory holds its place until that is known.

use crate::end::Kind;
use crate::item::Item;
use crate::table::Key;
use crate::tree::Dir;
use crate::tree::walk::{ENTRIES_HELD, STARTING_DIRS, Tree, TreeLimits, child};
use crate::turn::{Class, Order, Place};

fn class_of(item: &Item, keeps_links: bool) -> Class {
    match item.info.kind {
        Kind::Symlink if keeps_links && item.parent.is_some() => Class::File,
        Kind::File | Kind::Special => Class::File,
        Kind::Symlink | Kind::Unknown => Class::Link,
        Kind::Dir => Class::Dir,
    }
}

impl Dir {
    /// Everything in it is listed and compared, and its files are started.
    fn has_only_subdirs(&self) -> bool {
        let listed = self.listing.complete && self.listing.in_flight == 0;
        listed && self.at_target.comparing.is_none() && self.unstarted.files.is_empty()
    }
}

impl Tree {
    /// Starts the tree in the order of its paths.
    pub(crate) fn in_order(self, order: Order) -> Self {
        Self { order: Some(order), ..self }
    }

    /// The directory is begun: what is in it waits to be started.
    pub(crate) fn enter_walk(&mut self, key: Key) {
        let at = match (&self.order, self.dirs.get(key).map(|dir| dir.position.in_walk())) {
            (Some(_), Some(own)) => self.walk.partition_point(|&other| {
                self.dirs.get(other).is_some_and(|other| other.position.in_walk() > own)
            }),
            _ => self.walk.len(),
        };
        self.walk.insert(at, key);
    }

    /// The directory whose turn it is; its subdirectories are started when its files are.
    fn first_dir(&mut self) -> Option<Key> {
        loop {
            let &key = self.walk.last()?;
            match self.dirs.get_mut(key) {
                Some(dir) if dir.exhausted() => {}
                Some(dir) if !dir.position.only_subdirs && dir.has_only_subdirs() => {
                    dir.position.only_subdirs = true;
                    self.walk.pop();
                    self.enter_walk(key);
                    continue;
                }
                Some(_) => return Some(key),
                None => {}
            }
            self.walk.pop();
        }
    }

    /// Returns a place that nothing comes before that is started from now on, or not decided; none when there
    /// is nothing.
    pub(crate) fn front(&mut self) -> Option<Place> {
        let next = self.first_dir().and_then(|key| self.dirs.get(key)).map(|dir| dir.position.next());
        let held = self.order.as_mut().and_then(Order::first).cloned();
        match (next, held) {
            (Some(next), Some(held)) => Some(next.min(held)),
            (next, held) => next.or(held),
        }
    }

    /// [`Tree::first_dir`], unless an earlier item is not decided.
    fn front_dir(&mut self) -> Option<Key> {
        let key = self.first_dir()?;
        let next = self.dirs.get(key)?.position.next();
        self.order.as_mut()?.first().is_none_or(|held| *held > next).then_some(key)
    }

    pub(crate) fn has_next_in_order(&mut self, limits: TreeLimits) -> bool {
        let front = self.front_dir().and_then(|key| self.dirs.get(key));
        front.is_some_and(|dir| dir.making.ready && !dir.unstarted.files.is_empty())
            || self.next_subdir_source(limits).is_some()
            || (!self.top.is_empty() && self.front().is_none())
    }

    /// Where the next directory to be started is: in a directory, or on the command line (`Some(None)`).
    fn next_subdir_source(&mut self, limits: TreeLimits) -> Option<Option<Key>> {
        let held = self.order.as_ref().map_or(0, Order::held);
        let waiting = &self.waiting;
        let many = self.starting_dirs + held >= STARTING_DIRS
            || (waiting.open_dirs >= limits.open_dirs && waiting.lists > 0)
            || waiting.open_targets >= limits.open_targets;
        if many {
            return None;
        }
        let full = waiting.comparing > ENTRIES_HELD || waiting.files > ENTRIES_HELD;
        let front = self.front_dir();
        let has = |key: &&Key| {
            self.dirs.get(**key).is_some_and(|dir| dir.making.ready && !dir.unstarted.subdirs.is_empty())
        };
        match self.walk.iter().rev().find(has).copied() {
            // What was listed ahead waits for the first one: that must go on.
            Some(key) => {
                let first =
                    Some(key) == front && self.dirs.get(key).is_some_and(|dir| dir.position.only_subdirs);
                (first || !full).then_some(Some(key))
            }
            None => self.top.front().filter(|top| top.info.kind == Kind::Dir && !full).map(|_| None),
        }
    }

    pub(crate) fn next_subdir_in_order(&mut self, limits: TreeLimits) -> Option<(Option<Key>, Item)> {
        let Some(key) = self.next_subdir_source(limits)? else { return self.next_top() };
        let dir = self.dirs.get_mut(key)?;
        let entry = dir.unstarted.subdirs.pop_front()?;
        self.waiting.subdirs -= 1;
        let item = child(key, dir, entry);
        Some((Some(key), self.held(item)))
    }

    pub(crate) fn next_file_in_order(&mut self) -> Option<(Option<Key>, Item)> {
        let Some(key) = self.front_dir() else {
            return if self.front().is_none() { self.next_top() } else { None };
        };
        let dir = self.dirs.get_mut(key).filter(|dir| dir.making.ready)?;
        let entry = dir.unstarted.files.pop_front()?;
        self.waiting.files -= 1;
        let item = child(key, dir, entry);
        Some((Some(key), self.held(item)))
    }

    fn next_top(&mut self) -> Option<(Option<Key>, Item)> {
        let item = self.top.pop_front()?;
        Some((None, self.held(item)))
    }

    /// Gives the item its place.
    fn held(&mut self, item: Item) -> Item {
        let Some(order) = &mut self.order else { return item };
        let class = class_of(&item, order.rules.keeps_links);
        let place = match item.parent.and_then(|key| self.dirs.get_mut(key)) {
            Some(dir) => dir.position.next_place(class),
            None => {
                order.tops += 1;
                vec![u64::from(order.tops)]
            }
        };
        let may_be_dir = class != Class::File;
        let turn = (may_be_dir || order.rules.holds_files).then(|| order.hold(place, may_be_dir));
        Item { turn, ..item }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::end::{Entry, Info};

    use crate::turn::OrderRules;

    use super::*;

    const LIMITS: TreeLimits = TreeLimits { open_dirs: 8, open_targets: 8 };

    fn entry(name: &str, kind: Kind) -> Entry {
        Entry { name: name.as_bytes().into(), info: Info { kind, ..Info::UNKNOWN } }
    }

    fn tree(top: &[&str]) -> Tree {
        let mut tree = Tree::new(HashSet::new()).in_order(Order::new(OrderRules::default()));
        let info = Info { kind: Kind::Dir, ..Info::UNKNOWN };
        tree.top.extend(top.iter().map(|name| Item::top((*name).into(), (*name).into(), info)));
        tree
    }

    /// Begins the directory `item`, which is not listed yet.
    fn begin(tree: &mut Tree, mut item: Item) -> Key {
        let place = item.turn.take().map(|turn| turn.to_vec()).unwrap_or_default();
        let mut dir = Dir::new(item, Vec::new(), false);
        (dir.making.ready, dir.position.place) = (true, place);
        let key = tree.dirs.insert(dir);
        tree.enter_walk(key);
        key
    }

    fn list(tree: &mut Tree, key: Key, files: &[&str], subdirs: &[&str]) {
        let dir = tree.dirs.get_mut(key).expect("it");
        dir.unstarted.files.extend(files.iter().map(|name| entry(name, Kind::File)));
        dir.unstarted.subdirs.extend(subdirs.iter().map(|name| entry(name, Kind::Dir)));
        dir.listing.complete = true;
        tree.waiting.files += files.len();
        tree.waiting.subdirs += subdirs.len();
    }

    /// Starts all files that may be started; returns their names.
    fn files(tree: &mut Tree) -> Vec<String> {
        std::iter::from_fn(|| tree.next_file_in_order())
            .map(|(_, item)| String::from_utf8(item.source).expect("a name"))
            .collect()
    }

    #[test]
    fn files_come_in_the_order_of_paths_whatever_is_listed_first() {
        let mut tree = tree(&["t"]);
        let (_, top) = tree.next_file_in_order().expect("the top");
        assert!(tree.next_file_in_order().is_none(), "the top may be a directory");
        let top = begin(&mut tree, top);
        list(&mut tree, top, &["1", "2"], &["a", "b"]);
        let mut subdirs = Vec::new();
        while let Some((_, item)) = tree.next_subdir_in_order(LIMITS) {
            subdirs.push(begin(&mut tree, item));
        }
        assert_eq!(subdirs.len(), 2, "they are listed ahead");
        list(&mut tree, subdirs[1], &["4"], &[]);
        assert_eq!(files(&mut tree), ["t/1", "t/2"]);
        assert!(!tree.has_next_in_order(LIMITS));
        list(&mut tree, subdirs[0], &["3"], &["c"]);
        assert_eq!(files(&mut tree), ["t/a/3"]);
        let (_, inner) = tree.next_subdir_in_order(LIMITS).expect("a directory");
        assert!(files(&mut tree).is_empty(), "it comes before the next one");
        let inner = begin(&mut tree, inner);
        list(&mut tree, inner, &["5"], &[]);
        assert_eq!(files(&mut tree), ["t/a/c/5", "t/b/4"]);
        assert!(tree.front().is_none());
    }

    #[test]
    fn item_that_is_no_directory_after_all_gives_its_place_up() {
        let mut tree = tree(&["t", "u"]);
        let (_, first) = tree.next_subdir_in_order(LIMITS).expect("the first");
        let (_, second) = tree.next_subdir_in_order(LIMITS).expect("the second, ahead");
        let second = begin(&mut tree, second);
        list(&mut tree, second, &["1"], &[]);
        assert!(files(&mut tree).is_empty());
        drop(first);
        assert!(tree.has_next_in_order(LIMITS));
        assert_eq!(files(&mut tree), ["u/1"]);
    }

    #[test]
    fn full_memory_stops_listing_ahead_but_not_the_first_directory() {
        let mut tree = tree(&["t"]);
        let (_, top) = tree.next_file_in_order().expect("the top");
        let top = begin(&mut tree, top);
        list(&mut tree, top, &["1"], &["a", "b"]);
        tree.waiting.files += ENTRIES_HELD;
        assert!(tree.next_subdir_in_order(LIMITS).is_none());
        assert_eq!(files(&mut tree), ["t/1"]);
        assert!(tree.has_next_in_order(LIMITS));
        assert!(tree.next_subdir_in_order(LIMITS).is_some());
    }
}
