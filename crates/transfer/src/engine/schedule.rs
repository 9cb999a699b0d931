//! The scheduler: acts on answers, and begins what may be begun.

use crate::ends::Ends;
use crate::engine::Engine;
use crate::flow::Flow;
use crate::item::Item;
use crate::sync::terms::Terms;
use crate::token::{AttributeSubject, Side, Token};
use crate::tree::Dir;
use crate::tree::walk::TreeLimits;
use crate::{Event, capabilities};

impl Engine {
    /// Acts on answers until there are none.
    pub(in crate::engine) fn handle_answers(&mut self) {
        while let Some((token, outcome)) = self.ends.next_answer() {
            match token {
                Token::Prepare(step) => self.prepared(step, outcome),
                Token::Dir(key, step) => self.dir_answer(key, step, outcome),
                Token::File(key, step) => self.file_answer(key, step, outcome),
                Token::Batch(key) => {
                    let ended = self.small_files().answered(key, outcome);
                    self.batch_ended(ended);
                }
                Token::Name(key, step) => {
                    self.links.names.on_answer(key, step, outcome);
                    self.make_names();
                }
                Token::Sync(key, step) => {
                    let terms = Terms::new(&self.options, &self.ends);
                    self.sync.comparisons.on_answer(key, step, outcome, &terms);
                    self.carry_out_comparisons();
                }
                Token::Removal(key, step) => self.removal_answer(key, step, outcome),
                Token::Backup(key) => {
                    self.sync.backups.answered(&mut self.ends, &self.plan.target, key, outcome)
                }
                Token::Preserve(whose, step) => {
                    if self.preserving().on_answer(whose, step, outcome) {
                        match whose {
                            AttributeSubject::File(key) => self.move_on(key),
                            AttributeSubject::Dir(key) => self.finish_dir_if_done(key),
                        }
                    }
                }
                Token::Renames => {
                    capabilities::on_renames_answer(&outcome, &mut self.ends.facts, &mut self.report);
                }
                Token::TargetUser(step) => self.user_answer(step, outcome),
                Token::Removed(key) => self.leftovers.part_removed(key, &outcome, &mut self.report),
                Token::Probe(side, channel) => self.probe_answered(side, channel),
                Token::Nothing => {}
            }
        }
    }

    /// Starts directories and files while more may be open.
    pub(in crate::engine) fn begin_work(&mut self) {
        let ready = self.ends.are_ready();
        if ready && !std::mem::replace(&mut self.ends.facts.asked_for_more, true) {
            capabilities::ask(&self.options, &mut self.ends, &mut self.report);
        }
        if !self.prepare.finished() {
            self.prepare_more();
        }
        if self.ends.is_a_queue_full() {
            return;
        }
        self.begin_items();
        self.sync_deletions();
    }

    /// Returns true where [`begin_work`](Self::begin_work) would begin something. That is for the first
    /// channel to do, although an answer on any channel may be what makes it possible.
    pub(crate) fn may_begin_work(&mut self) -> bool {
        !self.ends.is_a_queue_full()
            && (self.batches.has_unsent()
                || (self.tree.has_next(tree_limits(&self.flow, &self.ends)) && self.may_begin_item())
                || (self.sync.deletions.are_waiting() && self.all_is_copied()))
    }

    fn may_begin_item(&mut self) -> bool {
        let worth = self.flow.worth_open(self.progress.ids(), self.ends.channels_up());
        self.tasks.files.len() < self.flow.max_open(self.ends.fewest_handles()).min(worth)
            && self.flow.may_open()
            && self.sync.comparisons.has_room()
            && self.small_files().have_room()
    }

    /// Starts items and directories as long as more may be open: directories first, as long as few are open
    /// and little waits.
    pub(in crate::engine) fn begin_items(&mut self) {
        while self.may_begin_item() {
            let limits = tree_limits(&self.flow, &self.ends);
            let next = self.tree.next_subdir(limits).or_else(|| self.tree.next_file());
            let Some((from, item)) = next else { break };
            if let Some(from) = from {
                self.tree.list_more(from, &mut self.ends);
            }
            self.begin_item(item);
            self.handle_answers();
        }
        // When there will be more for it is not known.
        self.small_files().send();
    }

    fn begin_item(&mut self, item: Item) {
        if self.options.announce && item.parent.is_none() && !item.again && !item.in_place && !item.fresh {
            let (source, target) = (item.source.clone(), item.target.clone());
            self.report.event(Event::Started { source, target });
        }
        if self.options.tree_sync.is_some() && !item.compared {
            let terms = Terms::new(&self.options, &self.ends);
            self.sync.comparisons.begin(item, &self.plan.target, &terms);
            return self.carry_out_comparisons();
        }
        self.copy_item(item);
    }

    /// Goes on with deleting, where it is time for that.
    pub(in crate::engine) fn sync_deletions(&mut self) {
        if self.sync.deletions.are_waiting() && self.all_is_copied() {
            self.begin_deletions();
        }
        while self.sync.deletions.are_under_way() {
            self.sync.deletions.start_more();
            self.carry_out_deletions();
            // Answers of this host are there at once. Work on files is not carried out here.
            if self.ends.no_answer_waits() {
                break;
            }
            self.handle_answers();
        }
    }

    /// Nothing is left to be copied but what waits for a deletion.
    pub(in crate::engine) fn all_is_copied(&self) -> bool {
        self.prepare.finished()
            && self.tree.top.is_empty()
            && self.tasks.files.len() == 0
            && self.batches.is_empty()
            && self.links.names.is_empty()
            && self.sync.comparisons.is_empty()
            && self.leftovers.removing.len() == 0
            && self.ends.all_answered()
            && self.tree.dirs.values().all(Dir::only_waits)
    }

    pub(in crate::engine) fn begin_deletions(&mut self) {
        if self.report.is_over() {
            return self.stop_deletions();
        }
        if self.report.may_lack_something() {
            self.report.skip("there were errors: nothing is deleted".to_owned());
            return self.stop_deletions();
        }
        self.sync.deletions.begin(self.sync.backups.root(&self.plan.target));
    }
}

fn tree_limits(flow: &Flow, ends: &Ends) -> TreeLimits {
    TreeLimits {
        open_dirs: flow.max_open_dirs(ends.handles(Side::Source)),
        open_targets: flow.max_open_dirs(ends.handles(Side::Target)),
    }
}
