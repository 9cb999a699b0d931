//! Beginning one file, until its data move.
//!
//! | module | what |
//! |---|---|
//! | [`answers`] | the answer to each question about a file |
//! | [`ending`] | from the last byte to the report |
//! | [`failing`] | a file that fails, or is given up |

mod answers;
mod ending;
mod failing;

use crate::Event;
use crate::end::{Done, Kind, Op};
use crate::engine::Engine;
use crate::item::Item;
use crate::table::Key;
use crate::task::File;
use crate::task::state::{Copying, State};
use crate::token::{FileStep, Side, Token};

impl Engine {
    /// Copies it without comparing it with what the target has.
    pub(super) fn copy_item(&mut self, item: Item) {
        match (item.info.kind, item.info.mode) {
            // A path of the command line is looked up first, see `behind_link`.
            (Kind::Dir, Some(_)) if !item.linked && self.options.recursive => self.begin_dir(item, None),
            (Kind::Symlink, _) if self.options.keep.links && item.parent.is_some() => self.begin_link(item),
            _ => {
                if let Some(item) = self.small_files().take_listed(item) {
                    let id = self.progress.new_file_id();
                    self.begin_ordinary_file(id, item);
                }
            }
        }
    }

    pub(super) fn begin_ordinary_file(&mut self, id: u64, item: Item) {
        let info = item.info;
        // A file of its own was asked for: only trees are chosen from, but for their links, which may be
        // anything.
        if self.options.dry_run && info.kind == Kind::File && info.size.is_some() {
            let (source, target, size) = (item.source, item.target, info.size);
            self.report.event(Event::Planned { source, target, size });
            self.report.summary.files += 1;
            return self.child_finished(item.parent);
        }
        let source = item.source.clone();
        let mut file = File::new(id, item, self.progress.now);
        file.outstanding = 1;
        let opens_at_once = info.kind == Kind::File && !self.options.dry_run;
        if opens_at_once {
            file.expect_size(info.size.unwrap_or(0), &mut self.flow);
        }
        let key = self.tasks.files.insert(file);
        match info.kind {
            _ if opens_at_once => {
                self.ends.start(Side::Source, Op::OpenRead(&source), Token::File(key, FileStep::OpenSource));
            }
            Kind::Dir | Kind::Special if info.mode.is_some() => {
                self.ends.answer((Token::File(key, FileStep::Stat), Ok(Done::Info(info))));
            }
            _ => self.ends.start(Side::Source, Op::Stat(&source), Token::File(key, FileStep::Stat)),
        }
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
