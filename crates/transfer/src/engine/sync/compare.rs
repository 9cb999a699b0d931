//! Carries out the steps of [`Comparisons`](crate::sync::comparisons::Comparisons).

use crate::end::Op;
use crate::engine::Engine;
use crate::item::Item;
use crate::names::{base_name, display_name, join};
use crate::sync::backup::Replaced;
use crate::sync::comparisons::CompareStep;
use crate::sync::terms::Terms;
use crate::table::Key;
use crate::task::File;
use crate::task::state::State;
use crate::token::{FileStep, Side, Token};
use crate::tree::Dir;
use crate::wording::FailedStep;
use crate::{Event, wording};

impl Engine {
    pub(in crate::engine) fn carry_out_comparisons(&mut self) {
        while let Some(step) = self.sync.comparisons.next_step() {
            self.carry_out_comparison(step);
        }
    }

    fn carry_out_comparison(&mut self, step: CompareStep) {
        match step {
            CompareStep::Ask { key, step, path, request } => {
                let op = request.op(&path, self.options.keep.xattr_kinds());
                self.ends.start(step.side(), op, Token::Sync(key, step));
            }
            CompareStep::BackUp(key, path) => {
                self.sync.backups.back_up(&mut self.ends, &self.plan.target, path, Replaced::Compared(key));
            }
            CompareStep::Touch(directory) => self.tree.touch_dir(directory),
            CompareStep::Copy(item) => self.copy_item(*item),
            CompareStep::Finished(item) => self.child_finished(item.parent),
            CompareStep::Unchanged { source, target, info, link } => {
                self.report.summary.unchanged += 1;
                self.report.unchanged(&self.plan.target, source, target, &info, link);
            }
            CompareStep::Newer(target) => {
                let text = format!("\"{}\" is newer than its source", display_name(&target));
                self.report.event(Event::Notice { text });
                self.report.summary.unchanged += 1;
            }
            CompareStep::CompareContents(item) => self.compare_contents(*item),
            CompareStep::Link { key, item, identity, there } => {
                let new_id = || self.progress.new_file_id();
                let joined = self.ends.target_has_hard_links()
                    && self.links.join_unchanged(identity, &item, there, new_id);
                self.make_names();
                self.sync.comparisons.linked(key, joined, &Terms::new(&self.options, &self.ends));
            }
            CompareStep::DeleteFirst(item) => {
                let above = item.parent.and_then(|key| self.tree.dirs.get(key)).map(Dir::relative);
                let relative = above.map_or_else(Vec::new, |above| join(above, base_name(&item.source)));
                self.sync.deletions.delete_before(*item, relative);
            }
            CompareStep::InTheWay(target, fault) => self.report.fail(wording::in_the_way(&target, &fault)),
            CompareStep::Failed(step, path, fault) => {
                let text = wording::failed(self.plan.direction, step, &path, &fault);
                match step {
                    FailedStep::FinishTarget => self.report.fail_attributes(text),
                    _ => self.report.fail(text),
                }
            }
            CompareStep::NotKept(what, target, fault) => {
                self.ends.facts.report_not_kept_at(what, &target, &fault, &mut self.report);
            }
        }
    }

    /// Opens both files to compare them whole.
    fn compare_contents(&mut self, item: Item) {
        let (source, target) = (item.source.clone(), item.target.clone());
        let id = self.progress.new_file_id();
        // Not counted as a file. If it is copied after all, it gets another id.
        self.progress.not_files += 1;
        let size = item.info.size.unwrap_or(0);
        let mut file = File::new(id, item, self.progress.now);
        (file.state, file.requests.size, file.outstanding) = (State::Comparing(None), size, 2);
        let key = self.tasks.files.insert(file);
        for (side, path) in [(Side::Source, source), (Side::Target, target)] {
            self.ends.start(side, Op::OpenRead(&path), Token::File(key, FileStep::Contents(side)));
        }
    }

    /// The contents of both files were found to be the same, or not: leaves the item, or copies it.
    pub(in crate::engine) fn contents_compared(&mut self, key: Key, same: bool) {
        let Some(file) = self.tasks.files.remove(key) else { return };
        for (side, handle) in [(Side::Source, file.handles.source), (Side::Target, file.handles.target)] {
            if let Some(handle) = handle {
                self.ends.start(side, Op::Close(handle), Token::Nothing);
            }
        }
        let terms = Terms::new(&self.options, &self.ends);
        self.sync.comparisons.contents_compared(file.item, same, &terms);
        self.carry_out_comparisons();
    }
}
