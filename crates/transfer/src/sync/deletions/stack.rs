//! What is to be deleted next: a stack, on which directories are listed ahead.

use crate::end::{Entry, Kind};
use crate::names::join;
use crate::sync::deletions::removal::{Contents, Parent, Pending, Removal, Waiting};
use crate::sync::deletions::{DeletionStep, Deletions, Stage};
use crate::sync::extraneous::Extraneous;
use crate::table::Key;
use crate::wording::FailedStep;

/// Answers awaited at a time.
const AT_A_TIME: usize = 64;

/// Entries among which directories are listed ahead.
const LOOKED_AHEAD: usize = 256;

impl Deletions {
    /// Begins deletions while more may be under way.
    pub(crate) fn start_more(&mut self) {
        while self.in_flight < AT_A_TIME {
            while self.pending.len() < LOOKED_AHEAD
                && let Some(extraneous) = self.extraneous.pop_front()
            {
                self.queue_directory(extraneous);
            }
            let Some(next) = self.pending.pop_back() else {
                if self.removals.len() == 0 {
                    self.stage = Stage::Done;
                }
                return;
            };
            match next {
                Waiting::New(next) if self.stays(&next) => self.keep(next.parent),
                Waiting::New(next) if next.is_dir => {
                    let key = self.list(next);
                    self.pending.push_back(Waiting::Begun(key));
                }
                Waiting::New(next) => self.start(next),
                Waiting::Begun(key) if self.is_listed(key) => self.expand(key),
                Waiting::Begun(_) => {
                    self.pending.push_back(next);
                    return self.list_ahead();
                }
            }
        }
    }

    /// Lists directories behind the one whose turn it is.
    fn list_ahead(&mut self) {
        for at in (0..self.pending.len()).rev().take(LOOKED_AHEAD) {
            if self.in_flight >= AT_A_TIME {
                return;
            }
            let is_next = |waiting: &Waiting| match waiting {
                Waiting::New(pending) => pending.is_dir && !self.stays(pending),
                Waiting::Begun(_) => false,
            };
            if self.pending.get(at).is_some_and(is_next)
                && let Some(Waiting::New(pending)) = self.pending.remove(at)
            {
                let key = self.list(pending);
                self.pending.insert(at, Waiting::Begun(key));
            }
        }
    }

    fn is_listed(&self, key: Key) -> bool {
        self.removals.get(key).is_none_or(|removal| !matches!(removal.contents, Contents::Unknown))
    }

    /// A directory that stays, with things in it that do not: they come behind all that waits.
    fn queue_directory(&mut self, extraneous: Extraneous) {
        let Extraneous { directory, relative, times, entries } = extraneous;
        let contents = Contents::Queued;
        let removal = Removal { times, contents, ..Removal::new(directory, relative, None) };
        let key = self.removals.insert(removal);
        for pending in self.entries_of(key, entries) {
            self.pending.push_front(pending);
        }
        self.advance(key);
    }

    /// Returns true where it is not deleted, regardless of its contents.
    fn stays(&self, pending: &Pending) -> bool {
        let of_another = self.tops.contains(&pending.path) && matches!(pending.parent, Parent::Removal(_));
        self.over || of_another || self.backups.as_ref() == Some(&pending.path)
    }

    /// Deletes something that is no directory.
    fn start(&mut self, pending: Pending) {
        let Pending { path, relative, parent, .. } = pending;
        let key = self
            .removals
            .insert(Removal { contents: Contents::Queued, ..Removal::new(path, relative, Some(parent)) });
        self.delete(key, false);
    }

    /// Begins to list a directory.
    fn list(&mut self, pending: Pending) -> Key {
        let Pending { path, relative, parent, .. } = pending;
        let key = self.removals.insert(Removal::new(path.clone(), relative, Some(parent)));
        self.ask(key, DeletionStep::List(key, path));
        key
    }

    /// It is the turn of a directory that was listed.
    fn expand(&mut self, key: Key) {
        let Some(removal) = self.removals.get_mut(key) else { return };
        match std::mem::replace(&mut removal.contents, Contents::Queued) {
            Contents::Listed(entries) => {
                let entries = self.entries_of(key, entries);
                self.pending.extend(entries.into_iter().rev());
                self.advance(key);
            }
            // It is gone, and so is all that was in it.
            Contents::Missing => self.removed(key),
            Contents::Unlistable(fault) => {
                self.report(key, FailedStep::ListTarget, fault);
                self.failed(key);
            }
            Contents::Unknown | Contents::Queued => {}
        }
    }

    /// What is to be deleted in the directory `key` before that.
    fn entries_of(&mut self, key: Key, entries: Vec<Entry>) -> Vec<Waiting> {
        let Some(removal) = self.removals.get_mut(key) else { return Vec::new() };
        removal.open += entries.len() as u32;
        let pending = |entry: Entry| {
            Waiting::New(Pending {
                path: join(&removal.path, &entry.name),
                relative: join(&removal.relative, &entry.name),
                is_dir: entry.info.kind == Kind::Dir,
                parent: Parent::Removal(key),
            })
        };
        entries.into_iter().map(pending).collect()
    }

    /// Nothing is deleted any more: a directory that was listed ahead stays.
    pub(super) fn end_if_unasked(&mut self, key: Key) {
        if self.removals.get(key).is_some_and(|removal| removal.open == 0) {
            self.failed(key);
        }
    }
}
