//! Finishing a directory after the last thing in it, and those above it.

use crate::end::{Change, Op};
use crate::engine::schedule::Scheduler;
use crate::table::Key;
use crate::token::{AttributeSubject, DirStep, Side, Token};

impl Scheduler<'_> {
    /// Sets the directory's own mode and times when nothing below is left to do.
    pub(in crate::engine) fn finish_dir_if_done(&mut self, key: Key) {
        let Some(dir) = self.parts.tree.dirs.get_mut(key) else { return };
        let begun = dir.listing.complete || dir.waiting() > 0;
        if dir.starting && begun && (dir.making.ready || dir.failed) {
            dir.starting = false;
            self.parts.tree.starting_dirs -= 1;
        }
        let waits = dir.waiting() > 0 || dir.at_target.comparing.is_some() || !dir.listing.complete;
        let busy = dir.outstanding > 0 || dir.children > 0 || waits;
        if busy || dir.finishing || !(dir.making.ready || dir.failed) {
            return;
        }
        let ready = dir.making.ready;
        if ready && self.parts.tree.look_at_twin(key, &mut self.parts.ends) {
            return;
        }
        if ready && !self.parts.options.dry_run && self.parts.preserving().begin(AttributeSubject::Dir(key)) {
            return;
        }
        let full = self.parts.ends.times_are_full();
        let Some(dir) = self.parts.tree.dirs.get_mut(key) else { return };
        dir.finishing = true;
        let mut change = Change::default();
        if dir.making.ready && self.parts.options.preserve {
            change.mode = dir.item.info.mode.map(|mode| mode & dir.preserved.mode_mask(0o1777));
            change.times = dir.item.info.times;
            if dir.stays_as_it_is(change, full) {
                change = Change::default();
            }
        } else if dir.making.ready && dir.making.created {
            let mode = dir.item.info.mode.map(|mode| mode & 0o1777);
            change.mode = mode.filter(|&mode| mode != dir.temporary_mode());
        }
        if change == Change::default() || self.parts.options.dry_run {
            return self.dir_finished(key);
        }
        dir.outstanding += 1;
        let target = dir.item.target.clone();
        self.parts.ends.start(
            Side::Target,
            Op::SetPath { path: &target, change },
            Token::Dir(key, DirStep::Finish),
        );
    }

    pub(in crate::engine) fn dir_finished(&mut self, key: Key) {
        self.parts.tree.dir_closed(key);
        let Some(dir) = self.parts.tree.dirs.remove(key) else { return };
        self.parts.tree.walk.retain(|&other| other != key);
        if !dir.failed {
            self.parts.report.summary.directories += 1;
        }
        self.child_finished(dir.item.parent);
    }

    /// Something in the directory `parent` is done.
    pub(in crate::engine) fn child_finished(&mut self, parent: Option<Key>) {
        if let Some(key) = parent
            && let Some(dir) = self.parts.tree.dirs.get_mut(key)
        {
            dir.children -= 1;
            self.finish_dir_if_done(key);
        }
    }
}
