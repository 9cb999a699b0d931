//! What is in a directory: listed a part at a time, sorted into files and directories.

use crate::end::{Done, Entry, Fault, FaultKind, Kind, Op, Outcome, fault_of};
use crate::engine::Engine;
use crate::names::{display_name, is_safe_name, join};
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::walk::ENTRIES_HELD;
use crate::wording;
use crate::wording::Deed;

impl Engine {
    /// The directory's handle is another file's, too: what it lists from now on may be another directory's.
    pub(in crate::engine) fn list_again(&mut self, key: Key) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let Some(handle) = dir.listing.handle.take() else { return };
        let path = dir.item.source.clone();
        let listed = dir.listing.complete;
        dir.listing.in_flight = 0;
        dir.listing.seen.begin_again();
        self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        if listed {
            return self.tree.dir_closed(key);
        }
        if let Some(dir) = self.tree.dirs.get_mut(key) {
            dir.asked();
        }
        self.tree.waiting.lists += 1;
        let list = Op::List { path: &path, pattern: b"" };
        self.ends.start(Side::Source, list, Token::Dir(key, DirStep::List));
    }

    pub(super) fn list_begun(&mut self, key: Key, outcome: Outcome) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        match outcome {
            Ok(Done::Opened(handle, _)) => dir.listing.handle = Some(handle),
            Ok(Done::Listing(handle, entries)) => {
                dir.listing.complete = handle.is_none();
                dir.listing.handle = handle;
                if dir.listing.complete {
                    self.tree.dir_closed(key);
                }
                self.absorb(key, entries);
            }
            outcome => {
                self.tree.dir_closed(key);
                self.list_failed(key, fault_of(outcome));
            }
        }
        self.list_more(key);
    }

    pub(super) fn list_failed(&mut self, key: Key, fault: Fault) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let first = !dir.listing.complete;
        dir.listing.complete = true;
        let source = dir.item.source.clone();
        if first && fault.kind != FaultKind::Lost {
            let relative = dir.relative.clone();
            self.report.fail(wording::failed(self.plan.direction, Deed::ListSource, &source, &fault));
            self.report.missed(Some(relative));
        }
    }

    pub(super) fn absorb(&mut self, key: Key, mut entries: Vec<Entry>) {
        let may_fold = !self.options.dry_run && self.ends.may_fold_names();
        let of_others = self.ends.source.as_ref().is_some_and(|source| !source.is_ours());
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        if dir.failed {
            return;
        }
        if let (None, Some(handle), Some(_)) =
            (&self.ends.source, &dir.listing.handle, &dir.at_target.comparing)
        {
            crate::local::look_at(handle, &mut entries);
        }
        let chosen = self.options.select != crate::Selection::default();
        let (mut suspects, mut specials) = (Vec::new(), Vec::new());
        let (files, subdirs) = (dir.files.len(), dir.subdirs.len());
        for entry in entries {
            if *entry.name == *b"." || *entry.name == *b".." {
                continue;
            }
            if of_others && !dir.listing.seen.is_new(&entry.name) {
                continue;
            }
            if !is_safe_name(&entry.name) {
                suspects.push(entry.name);
            } else {
                let path = if chosen { join(&dir.relative, &entry.name) } else { Vec::new() };
                if chosen {
                    self.tree.expected.remove(&path);
                }
                if chosen && !self.options.select.wants(&path, entry.info.kind == Kind::Dir) {
                    continue;
                }
                if let Some(comparing) = &mut dir.at_target.comparing {
                    comparing.source.push(entry);
                    self.tree.waiting.comparing += 1;
                    continue;
                }
                if may_fold && !dir.listing.twins.is_single(&entry.name) {
                    dir.listing.twins.wait(entry);
                    continue;
                }
                match entry.info.kind {
                    Kind::Dir => dir.subdirs.push_back(entry),
                    Kind::Special => specials.push(join(&dir.item.source, &entry.name)),
                    Kind::Symlink if !self.options.follow_links && !self.options.keep.links => {
                        specials.push(join(&dir.item.source, &entry.name));
                    }
                    Kind::File | Kind::Symlink | Kind::Unknown => dir.files.push_back(entry),
                }
            }
        }
        let (files, subdirs) = (dir.files.len() - files, dir.subdirs.len() - subdirs);
        self.tree.waiting.files += files;
        self.tree.waiting.subdirs += subdirs;
        let path = display_name(&dir.item.source);
        for name in suspects {
            let name = display_name(&name);
            self.report.fail(format!("Server sent suspect path \"{name}\" during readdir of \"{path}\""));
            self.report.missed(None);
        }
        for special in specials {
            self.report.skip(wording::skipped(self.plan.direction, &special));
        }
    }

    /// Keeps the listing of a directory going, or ends it.
    pub(in crate::engine) fn list_more(&mut self, key: Key) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let Some(handle) = dir.listing.handle.clone() else { return };
        if dir.listing.complete {
            dir.listing.seen.forget();
            if dir.listing.in_flight == 0 {
                dir.listing.handle = None;
                self.tree.dir_closed(key);
                self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
            }
            return;
        }
        // Where one is open at a time, what waits is opened when this one is closed.
        let alone = self.ends.source.as_ref().is_some_and(|source| source.one_at_a_time());
        let few =
            alone || dir.waiting() == 0 || self.tree.waiting.files + self.tree.waiting.subdirs < ENTRIES_HELD;
        // A local answer comes at once: more requests gain nothing.
        let allowed = if self.ends.source.is_some() { dir.listing.allowed } else { 1 };
        let round = dir.listing.seen.round();
        let more = if few { allowed.saturating_sub(dir.listing.in_flight) } else { 0 };
        dir.listing.in_flight += more;
        self.tree.waiting.lists += more;
        dir.outstanding += more;
        for _ in 0..more {
            self.ends.start(Side::Source, Op::ListMore(&handle), Token::Dir(key, DirStep::ListMore(round)));
        }
    }
}
