//! Servers that give one handle to two open files.
//!
//! What was read or written through such a handle may have gone to the other file. Nothing more goes through
//! it, the files that had it are thrown away and copied again from the start, and the server has one file or
//! directory open at a time from then on.

use crate::Event;
use crate::end::{Fault, Op};
use crate::engine::schedule::Scheduler;
use crate::handles::HandlePurpose;
use crate::names::display_name;
use crate::plan::Prepare;
use crate::remote::Received;
use crate::table::Key;
use crate::token::{DirStep, FileStep, PlaceStep, PrepareStep, Side, Token};

const WHY: &str = "the server gave one handle to two open files";

impl Scheduler<'_> {
    /// Acts on what came from the server of `side`.
    pub(super) fn take(&mut self, side: Side, came: Received) {
        match came {
            Received::Answer(token, outcome) => self.parts.ends.answer((token, outcome)),
            Received::SameHandle { opened, holders } => self.same_handle(side, opened, &holders),
        }
        self.handle_answers();
    }

    /// A handle was given for `opened` that `holders` have.
    fn same_handle(&mut self, side: Side, opened: Token, holders: &[HandlePurpose]) {
        let in_order = self.parts.ends.remote(side).is_none_or(|remote| remote.in_order());
        self.parts.ends.open_one_at_a_time(side);
        if !std::mem::replace(&mut self.parts.ends.facts.reported_same_handle, true) {
            let text = format!("{WHY}: they are copied again, with one file open at a time");
            self.parts.report.event(Event::Notice { text });
        }
        for holder in holders {
            match holder.token {
                // Its data were read before the handle was given again.
                Token::File(..) if holder.gone && in_order => {}
                Token::File(..) if holder.gone => {
                    let path = display_name(&holder.path);
                    self.parts.report.fail(format!("\"{path}\" may hold another file's data: {WHY}"));
                    // Which part of the tree it was is not known any more.
                    self.parts.report.missed(Some(Vec::new()));
                }
                Token::File(key, _) => {
                    self.undo_file(key);
                    self.move_on(key);
                }
                Token::Dir(key, DirStep::TargetList | DirStep::TargetMore(_)) if !holder.gone => {
                    self.parts.tree.list_target_again(key, &mut self.parts.ends);
                }
                Token::Dir(key, _) if !holder.gone => self.parts.tree.list_again(key, &mut self.parts.ends),
                Token::Prepare(PrepareStep::GlobOpen(key)) if !holder.gone => {
                    self.parts.prepare.patterns.list_again(key);
                    self.parts.prepare_with(Prepare::match_patterns);
                }
                _ => {}
            }
        }
        self.open_again(side, opened);
    }

    /// Repeats the request that `opened` belongs to, or restarts its file or directory.
    fn open_again(&mut self, side: Side, opened: Token) {
        match opened {
            Token::File(key, step) => {
                if let Some(file) = self.parts.tasks.files.get_mut(key) {
                    file.outstanding -= 1;
                    // Made by now, and perhaps written to.
                    file.place.there |= matches!(step, FileStep::Place(PlaceStep::Open));
                }
                self.undo_file(key);
                self.move_on(key);
            }
            Token::Dir(key, DirStep::List) => {
                if let Some(dir) = self.parts.tree.dirs.get(key) {
                    let path = dir.item.source.clone();
                    self.parts.ends.start(side, Op::List { path: &path, pattern: b"" }, opened);
                }
            }
            Token::Dir(key, DirStep::TargetList) => {
                if let Some(dir) = self.parts.tree.dirs.get(key) {
                    let path = dir.item.target.clone();
                    self.parts.ends.start(side, Op::List { path: &path, pattern: b"" }, opened);
                }
            }
            Token::Prepare(PrepareStep::GlobOpen(key)) => {
                self.parts.prepare.patterns.open(key);
                self.parts.prepare_with(Prepare::match_patterns);
            }
            other => self.parts.ends.answer((other, Err(Fault::other(WHY)))),
        }
    }

    /// The copy of a file may hold another file's data: it is made again.
    fn undo_file(&mut self, key: Key) {
        if let Some(file) = self.parts.tasks.files.get_mut(key) {
            file.faults.tainted = true;
        }
        self.parts.copy_again(key, WHY);
    }
}
