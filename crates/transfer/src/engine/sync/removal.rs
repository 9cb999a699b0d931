//! Carries out the steps of [`Deletions`](crate::sync::deletions::Deletions), when it is time for them.

use crate::end::{Change, Done, Fault, Op, Outcome};
use crate::engine::schedule::Scheduler;
use crate::item::Item;
use crate::names::display_name;
use crate::sync::backup::Replaced;
use crate::sync::deletions::DeletionStep;
use crate::table::Key;
use crate::token::{RemovalStep, Side, Token};
use crate::{Event, local, wording};

impl Scheduler<'_> {
    /// Nothing is deleted any more, and what waits for that is not copied.
    pub(in crate::engine) fn stop_deletions(&mut self) {
        self.parts.sync.deletions.stop();
        self.carry_out_deletions();
    }

    pub(in crate::engine) fn removal_answer(&mut self, key: Key, step: RemovalStep, mut outcome: Outcome) {
        if self.parts.ends.target.is_none()
            && let Ok(Done::Listed(Some(entries))) = &mut outcome
            && let Some(directory) = self.parts.sync.deletions.listed_directory(key)
        {
            local::look_at(directory, entries);
        }
        self.parts.sync.deletions.on_answer(key, step, outcome, &self.parts.options.select);
        self.carry_out_deletions();
    }

    pub(in crate::engine) fn carry_out_deletions(&mut self) {
        while let Some(step) = self.parts.sync.deletions.next_step() {
            self.carry_out_deletion(step);
        }
    }

    fn carry_out_deletion(&mut self, step: DeletionStep) {
        let token = |key, step| Token::Removal(key, step);
        let remote = self.parts.ends.target.is_some();
        let mut start = |op: Op<'_>, token| self.parts.ends.start(Side::Target, op, token);
        match step {
            DeletionStep::List(key, path) => {
                let op = match remote {
                    true => Op::List { path: &path, pattern: b"" },
                    false => Op::ListPlain(&path),
                };
                start(op, token(key, RemovalStep::List));
            }
            DeletionStep::ListMore(key, handle) => {
                start(Op::ListMore(&handle), token(key, RemovalStep::ListMore));
            }
            DeletionStep::Close(handle) => start(Op::Close(handle), Token::Nothing),
            DeletionStep::Remove(key, path) => start(Op::Remove(&path), token(key, RemovalStep::Delete)),
            DeletionStep::RemoveDir(key, path) => {
                start(Op::RemoveDir(&path), token(key, RemovalStep::Delete));
            }
            DeletionStep::BackUp(key, path) => self.parts.sync.backups.back_up(
                &mut self.parts.ends,
                &self.parts.plan.target,
                path,
                Replaced::Deleted(key),
            ),
            DeletionStep::Restore(key, path, times) => {
                let change = Change { times: Some(times), ..Change::default() };
                start(Op::SetPath { path: &path, change }, token(key, RemovalStep::Restore));
            }
            DeletionStep::Deleted(target) => {
                self.parts.report.summary.deleted += 1;
                let planned = self.parts.options.dry_run;
                self.parts.report.event(match planned {
                    true => Event::PlannedDelete { target },
                    false => Event::Deleted { target },
                });
            }
            DeletionStep::Failed(step, path, fault) => {
                self.parts.report.fail(wording::failed(self.parts.plan.direction, step, &path, &fault));
            }
            DeletionStep::MostReached(most) => {
                self.parts.report.fail(format!("--max-delete {most}: there is more to delete, which stays"));
            }
            DeletionStep::NotEmpty(path) => {
                if !self.parts.report.is_over() {
                    let path = display_name(&path);
                    self.parts.report.skip(format!("\"{path}\" is not deleted: something in it stays"));
                }
            }
            DeletionStep::Copy(item) if self.parts.report.is_over() => self.child_finished(item.parent),
            DeletionStep::Copy(item) => {
                self.parts.tree.touch_dir(item.parent);
                self.copy_item(item);
            }
            DeletionStep::DoNotCopy(item) => self.not_replaced(&item),
        }
    }

    fn not_replaced(&mut self, item: &Item) {
        if !self.parts.report.is_over() {
            let fault = Fault::other("it is a directory that stays");
            self.parts.report.fail(wording::in_the_way(&item.target, &fault));
        }
        self.child_finished(item.parent);
    }
}
