//! Beginning one file, until its data move.
//!
//! | module | what |
//! |---|---|
//! | [`answers`] | the answer to each question about a file |
//! | [`received`] | bytes of the source |
//! | [`ending`] | from the last byte to the report |
//! | [`failing`] | a file that fails, or is given up |

mod answers;
mod ending;
mod failing;
mod received;

use crate::end::{Done, Fault, Info, Kind, Op, Outcome};
use crate::engine::Engine;
use crate::item::Item;
use crate::table::Key;
use crate::task::File;
use crate::task::handles::{LEAST_LEFT, SPAN};
use crate::task::state::{Access, Copying, Opening, State};
use crate::token::{FileStep, Side, Token};
use crate::tree::Dir;
use crate::wording::Deed;
use crate::{Direction, Event, local, wording};

impl Engine {
    /// Copies it without comparing it with what the target has.
    pub(super) fn copy_item(&mut self, item: Item) {
        match (item.info.kind, item.info.mode) {
            // What the command line names gets its path looked up first, see `behind_link`.
            (Kind::Dir, Some(_)) if !item.linked && self.options.recursive => self.begin_dir(item, None),
            (Kind::Symlink, _) if self.options.keep.links && item.parent.is_some() => self.begin_link(item),
            _ => self.begin_file(item),
        }
    }

    fn begin_file(&mut self, item: Item) {
        if let Some(item) = self.get_in_batch(item) {
            let id = self.progress.new_file_id();
            self.begin_ordinary_file(id, item);
        }
    }

    pub(super) fn begin_ordinary_file(&mut self, id: u64, item: Item) {
        let info = item.info;
        // A file of its own was asked for: only trees are chosen from, but for their links, which may be anything.
        if self.options.dry_run && info.kind == Kind::File && info.size.is_some() {
            let (source, target, size) = (item.source, item.target, info.size);
            self.report.event(Event::Planned { source, target, size });
            self.report.summary.files += 1;
            return self.child_finished(item.parent);
        }
        let source = item.source.clone();
        let mut file = File::new(id, item, self.progress.now);
        file.outstanding = 1;
        let key = self.tasks.files.insert(file);
        match info.kind {
            Kind::File if !self.options.dry_run => {
                self.expect_size(key, info.size.unwrap_or(0));
                self.ends.start(Side::Source, Op::OpenRead(&source), Token::File(key, FileStep::OpenSource));
            }
            Kind::Dir | Kind::Special if info.mode.is_some() => {
                self.ends.answer((Token::File(key, FileStep::Stat), Ok(Done::Info(info))));
            }
            _ => self.ends.start(Side::Source, Op::Stat(&source), Token::File(key, FileStep::Stat)),
        }
    }

    /// Begins behind the `there` bytes of the copy; false when there is nothing to do, or no way to do it.
    fn resume_behind(&mut self, key: Key, there: u64) -> bool {
        let direction = self.plan.direction;
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if there == 0 {
            return true;
        }
        match there.cmp(&file.requests.size) {
            std::cmp::Ordering::Less => {
                // It may have come over several channels, and then its last [`SPAN`] bytes may have gaps.
                let unsure = file.requests.size >= LEAST_LEFT;
                file.resume_at(if unsure { there.saturating_sub(SPAN) } else { there });
                return true;
            }
            std::cmp::Ordering::Greater => {
                let text = wording::not_resumable(direction, &file.item);
                self.file_failed_with(key, text);
            }
            std::cmp::Ordering::Equal => {
                let text = wording::complete(direction, &file.item);
                // What OpenSSH's exit status says of a file that was named; in a tree it is no failure.
                if direction == Direction::Upload && file.item.parent.is_none() {
                    self.file_failed_with(key, text);
                } else {
                    file.faults.failed = true;
                    self.report.skip(text);
                }
            }
        }
        false
    }

    pub(super) fn open_target(&mut self, key: Key) {
        if !self.ask_for_old_size(key) {
            self.open_target_for(key, Access::ReadWrite);
        }
    }

    /// Asks how long the file is that the copy is written over, so that a longer one is emptied when it is opened. Returns
    /// false where there is nothing to ask. Servers that are not Longhaul may lose all data when a tail is cut off later.
    fn ask_for_old_size(&mut self, key: Key) -> bool {
        let foreign = self.ends.target.as_ref().is_some_and(|target| !target.is_ours());
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let new = file.item.parent.and_then(|key| self.tree.dirs.get(key)).is_some_and(Dir::created);
        if !foreign || new || file.item.emptied || file.faults.failed || file.taken.kept > 0 {
            return false;
        }
        file.outstanding += 1;
        let target = file.item.target.clone();
        self.ends.start(Side::Target, Op::Stat(&target), Token::File(key, FileStep::OldSize));
        true
    }

    pub(super) fn old_size_answer(&mut self, key: Key, outcome: &Outcome) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        if let Ok(Done::Info(Info { kind: Kind::File | Kind::Unknown, size: Some(size), .. })) = outcome {
            file.item.emptied = *size > file.requests.size;
        }
        // OPEN alone is timed as one round trip.
        file.started = self.progress.now;
        self.open_target_for(key, Access::ReadWrite);
    }

    fn open_target_for(&mut self, key: Key, access: Access) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.item.backed_up == Some(false) {
            let fault = Fault::other(
                "what is there cannot be replaced by renaming, so that there would be no backup",
            );
            return self.file_failed(key, Deed::OpenTarget, &fault);
        }
        file.outstanding += 1;
        file.state = State::Opening(Opening::InPlace(access));
        let item = file.item.clone();
        if self.plan.direction == Direction::Download && self.options.follows_no_links(&item) {
            local::remove_symlink(&item.target);
        }
        let (target, info) = (item.target, item.info);
        let mode = info.mode.unwrap_or(0o666) & 0o777;
        let op = match (self.ends.target.is_some(), access) {
            (true, Access::WriteOnly) => Op::OpenWriteOnly { path: &target, mode },
            (true, Access::ReadWrite) if item.emptied => Op::OpenEmptied { path: &target, mode },
            _ => Op::OpenWrite { path: &target, mode },
        };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::OpenTarget));
    }

    /// Both ends are open: the data may follow.
    pub(super) fn begin_data(&mut self, key: Key) {
        if !self.tasks.ask_for_holes(key, &mut self.ends, self.options.resume) {
            self.begin_copying(key);
        }
    }

    /// All is known that is asked before the data move.
    fn begin_copying(&mut self, key: Key) {
        self.checks().begin_sum(key);
        let sums = self.options.sums;
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        match sums {
            Some(algorithm) if file.taken.kept == 0 => file.sums.content.begin(algorithm),
            _ => file.sums.content.lose(),
        }
        file.state = State::Copying(Copying::default());
        file.started = self.progress.now;
        file.queued.sending = true;
        self.tasks.sending.push_back(key);
    }
}
