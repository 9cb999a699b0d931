//! Beginning one file, until its data move.
//!
//! | module | what |
//! |---|---|
//! | [`answers`] | the answer to each question about a file |
//! | [`ending`] | from the last byte to the report |
//! | [`giving_up`] | taking a file out of the table |

mod answers;
mod ending;
mod giving_up;

use crate::Event;
use crate::end::{Done, Kind, Op};
use crate::engine::schedule::Scheduler;
use crate::item::Item;
use crate::task::File;
use crate::token::{FileStep, Side, Token};

impl Scheduler<'_> {
    /// Copies it without comparing it with what the target has.
    pub(super) fn copy_item(&mut self, mut item: Item) {
        let kept_link = self.parts.options.keep.links && item.parent.is_some();
        let is_dir = match item.info.kind {
            Kind::File => false,
            Kind::Symlink => !kept_link,
            _ => true,
        };
        // What comes behind it in the order of the tree need not wait.
        item.turn = item.turn.filter(|_| is_dir || self.parts.options.dry_run);
        match (item.info.kind, item.info.mode) {
            // A path of the command line is looked up first, see `behind_link`.
            (Kind::Dir, Some(_)) if !item.linked && self.parts.options.recursive => {
                self.begin_dir(item, None)
            }
            (Kind::Symlink, _) if self.parts.options.keep.links && item.parent.is_some() => {
                self.begin_link(item)
            }
            _ => {
                if let Some(item) = self.parts.small_files().take_listed(item) {
                    let id = self.parts.progress.new_file_id();
                    self.begin_ordinary_file(id, item);
                }
            }
        }
    }

    pub(super) fn begin_ordinary_file(&mut self, id: u64, item: Item) {
        let info = item.info;
        // A file of its own was asked for: only trees are chosen from, but for their links, which may be
        // anything.
        if self.parts.options.dry_run && info.kind == Kind::File && info.size.is_some() {
            let (source, target, size) = (item.source, item.target, info.size);
            self.parts.report.planned(item.turn, Event::Planned { source, target, size });
            self.parts.report.summary.files += 1;
            return self.child_finished(item.parent);
        }
        let source = item.source.clone();
        let mut file = File::new(id, item, self.parts.progress.now);
        file.outstanding = 1;
        let opens_at_once = info.kind == Kind::File && !self.parts.options.dry_run;
        if opens_at_once {
            file.expect_size(info.size.unwrap_or(0), &mut self.parts.flow);
        }
        let key = self.parts.tasks.files.insert(file);
        self.parts.ends.begin_on_first(key);
        match info.kind {
            _ if opens_at_once => {
                self.parts.ends.start(
                    Side::Source,
                    Op::OpenRead(&source),
                    Token::File(key, FileStep::OpenSource),
                );
            }
            Kind::Dir | Kind::Special if info.mode.is_some() => {
                self.parts.ends.answer((Token::File(key, FileStep::Stat), Ok(Done::Info(info))));
            }
            _ => self.parts.ends.start(Side::Source, Op::Stat(&source), Token::File(key, FileStep::Stat)),
        }
    }
}
