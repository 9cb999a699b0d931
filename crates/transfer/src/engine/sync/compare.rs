//! Carries out the steps of [`Comparisons`](crate::sync::comparisons::Comparisons).

use crate::end::Op;
use crate::engine::schedule::Scheduler;
use crate::names::{base_name, display_name, join};
use crate::sync::backup::Replaced;
use crate::sync::comparisons::CompareStep;
use crate::sync::terms::Terms;
use crate::table::Key;
use crate::token::{Side, Token};
use crate::tree::Dir;
use crate::wording::FailedStep;
use crate::{Event, wording};

impl Scheduler<'_> {
    pub(in crate::engine) fn carry_out_comparisons(&mut self) {
        while let Some(step) = self.parts.sync.comparisons.next_step() {
            self.carry_out_comparison(step);
        }
    }

    fn carry_out_comparison(&mut self, step: CompareStep) {
        match step {
            CompareStep::Ask { key, step, path, request } => {
                let op = request.op(&path, self.parts.options.keep.xattr_kinds());
                self.parts.ends.start(step.side(), op, Token::Sync(key, step));
            }
            CompareStep::BackUp(key, path) => {
                self.parts.sync.backups.back_up(
                    &mut self.parts.ends,
                    &self.parts.plan.target,
                    path,
                    Replaced::Compared(key),
                );
            }
            CompareStep::Touch(directory) => self.parts.tree.touch_dir(directory),
            CompareStep::Copy(item) => self.copy_item(*item),
            CompareStep::Finished(item) => self.child_finished(item.parent),
            CompareStep::Unchanged { source, target, info, link } => {
                self.parts.report.summary.unchanged += 1;
                self.parts.report.unchanged(&self.parts.plan.target, source, target, &info, link);
            }
            CompareStep::Newer(target) => {
                let text = format!("\"{}\" is newer than its source", display_name(&target));
                self.parts.report.event(Event::Notice { text });
                self.parts.report.summary.unchanged += 1;
            }
            CompareStep::CompareContents(mut item) => {
                item.turn = item.turn.filter(|_| self.parts.options.dry_run);
                self.parts.compare_contents(*item);
            }
            CompareStep::Link { key, item, identity, there } => {
                let new_id = || self.parts.progress.new_file_id();
                let joined = self.parts.ends.target_has_hard_links()
                    && self.parts.links.join_unchanged(identity, &item, there, new_id);
                self.make_names();
                self.parts.sync.comparisons.linked(
                    key,
                    joined,
                    &Terms::new(&self.parts.options, &self.parts.ends),
                );
            }
            CompareStep::DeleteFirst(mut item) => {
                item.turn = None;
                let above = item.parent.and_then(|key| self.parts.tree.dirs.get(key)).map(Dir::relative);
                let relative = above.map_or_else(Vec::new, |above| join(above, base_name(&item.source)));
                self.parts.sync.deletions.delete_before(*item, relative);
            }
            CompareStep::InTheWay(target, fault) => {
                self.parts.report.fail(wording::in_the_way(&target, &fault))
            }
            CompareStep::Failed(step, path, fault) => {
                let text = wording::failed(self.parts.plan.direction, step, &path, &fault);
                match step {
                    FailedStep::FinishTarget => self.parts.report.fail_attributes(text),
                    _ => self.parts.report.fail(text),
                }
            }
            CompareStep::NotKept(what, target, fault) => {
                self.parts.ends.facts.report_not_kept_at(what, &target, &fault, &mut self.parts.report);
            }
        }
    }

    /// The contents of both files were found to be the same, or not: leaves the item, or copies it.
    pub(in crate::engine) fn contents_compared(&mut self, key: Key, same: bool) {
        let Some(file) = self.parts.tasks.files.remove(key) else { return };
        for (side, handle) in [(Side::Source, file.handles.source), (Side::Target, file.handles.target)] {
            if let Some(handle) = handle {
                self.parts.ends.start(side, Op::Close(handle), Token::Nothing);
            }
        }
        let terms = Terms::new(&self.parts.options, &self.parts.ends);
        self.parts.sync.comparisons.contents_compared(file.item, same, &terms);
        self.carry_out_comparisons();
    }
}
