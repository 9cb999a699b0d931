//! The scheduler: acts on answers, and begins what may be begun.

use crate::ends::Ends;
use crate::engine::parts::Parts;
use crate::flow::Flow;
use crate::item::Item;
use crate::sync::terms::Terms;
use crate::token::{AttributeSubject, Side, Token};
use crate::tree::walk::TreeLimits;
use crate::{Event, capabilities};

/// Acts on answers and on finished work: takes the next step of each file and directory.
///
/// Its methods are spread over the modules of [`engine`](crate::engine) beside this one.
#[derive(Debug)]
pub(in crate::engine) struct Scheduler<'a> {
    pub(in crate::engine) parts: &'a mut Parts,
}

impl Scheduler<'_> {
    /// Acts on answers until there are none.
    pub(in crate::engine) fn handle_answers(&mut self) {
        while let Some((token, outcome)) = self.parts.ends.next_answer() {
            match token {
                Token::Prepare(step) => self.parts.prepared(step, outcome),
                Token::Dir(key, step) => self.dir_answer(key, step, outcome),
                Token::File(key, step) => self.file_answer(key, step, outcome),
                Token::Batch(key) => {
                    let ended = self.parts.small_files().answered(key, outcome);
                    self.batch_ended(ended);
                }
                Token::Name(key, step) => {
                    self.parts.links.names.on_answer(key, step, outcome);
                    self.make_names();
                }
                Token::Sync(key, step) => {
                    let terms = Terms::new(&self.parts.options, &self.parts.ends);
                    self.parts.sync.comparisons.on_answer(key, step, outcome, &terms);
                    self.carry_out_comparisons();
                }
                Token::Removal(key, step) => self.removal_answer(key, step, outcome),
                Token::Backup(key) => self.parts.sync.backups.answered(
                    &mut self.parts.ends,
                    &self.parts.plan.target,
                    key,
                    outcome,
                ),
                Token::Preserve(whose, step) => {
                    if self.parts.preserving().on_answer(whose, step, outcome) {
                        match whose {
                            AttributeSubject::File(key) => self.move_on(key),
                            AttributeSubject::Dir(key) => self.finish_dir_if_done(key),
                        }
                    }
                }
                Token::Renames => {
                    capabilities::on_renames_answer(
                        &outcome,
                        &mut self.parts.ends.facts,
                        &mut self.parts.report,
                    );
                }
                Token::TargetUser(step) => self.user_answer(step, outcome),
                Token::Removed(key) => {
                    self.parts.leftovers.part_removed(key, &outcome, &mut self.parts.report)
                }
                Token::Probe(side, channel) => self.probe_answered(side, channel),
                Token::Nothing => {}
            }
        }
    }

    /// Starts directories and files while more may be open.
    pub(in crate::engine) fn begin_work(&mut self) {
        let ready = self.parts.ends.are_ready();
        if ready && !std::mem::replace(&mut self.parts.ends.facts.asked_for_more, true) {
            capabilities::ask(&self.parts.options, &mut self.parts.ends, &mut self.parts.report);
        }
        if !self.parts.prepare.finished() {
            self.parts.prepare_more();
        }
        if self.parts.ends.is_a_queue_full() {
            return;
        }
        self.begin_items();
        self.sync_deletions();
    }

    /// Returns true where [`begin_work`](Self::begin_work) would begin something.
    pub(super) fn may_begin_work(&mut self) -> bool {
        !self.parts.ends.is_a_queue_full()
            && (self.parts.batches.has_unsent()
                || (self.parts.tree.has_next(tree_limits(&self.parts.flow, &self.parts.ends))
                    && self.parts.may_begin_item())
                || (self.parts.sync.deletions.are_waiting() && self.parts.all_is_copied()))
    }

    /// Starts files and directories until the limits of open ones are reached. A directory comes before the
    /// next file, unless too many directories are open or too many listed entries wait
    /// ([`next_subdir`](crate::tree::walk::Tree::next_subdir)).
    pub(in crate::engine) fn begin_items(&mut self) {
        while self.parts.may_begin_item() {
            let limits = tree_limits(&self.parts.flow, &self.parts.ends);
            let next = self.parts.tree.next_subdir(limits).or_else(|| self.parts.tree.next_file());
            let Some((from, item)) = next else { break };
            if let (Some(turn), true) = (&item.turn, self.parts.options.dry_run) {
                self.parts.report.expect(turn);
            }
            if let Some(from) = from {
                self.parts.tree.list_more(from, &mut self.parts.ends);
            }
            self.begin_item(item);
            self.handle_answers();
        }
        // Sends the batch of small files though it is not full: nobody knows when the next file comes.
        self.parts.small_files().send();
    }

    fn begin_item(&mut self, item: Item) {
        if self.parts.options.reporting.begun && item.parent.is_none() && item.retry.is_first() {
            let (source, target) = (item.source.clone(), item.target.clone());
            self.parts.report.event(Event::Started { source, target });
        }
        if self.parts.options.tree_sync.is_some() && !item.sync.compared {
            let terms = Terms::new(&self.parts.options, &self.parts.ends);
            self.parts.sync.comparisons.begin(item, &self.parts.plan.target, &terms);
            return self.carry_out_comparisons();
        }
        self.copy_item(item);
    }

    /// Goes on with deleting, where it is time for that.
    pub(in crate::engine) fn sync_deletions(&mut self) {
        if self.parts.sync.deletions.are_waiting() && self.parts.all_is_copied() {
            self.begin_deletions();
        }
        while self.parts.sync.deletions.are_under_way() {
            self.parts.sync.deletions.start_more();
            self.carry_out_deletions();
            // Answers of this host are there at once. Work on files is not carried out here.
            if self.parts.ends.no_answer_waits() {
                break;
            }
            self.handle_answers();
        }
    }

    pub(in crate::engine) fn begin_deletions(&mut self) {
        if self.parts.report.is_over() {
            return self.stop_deletions();
        }
        if self.parts.report.may_lack_something() {
            self.parts.report.skip("there were errors: nothing is deleted".to_owned());
            return self.stop_deletions();
        }
        self.parts.report_in_order();
        self.parts.sync.deletions.begin(self.parts.sync.backups.root(&self.parts.plan.target));
    }
}

fn tree_limits(flow: &Flow, ends: &Ends) -> TreeLimits {
    TreeLimits {
        open_dirs: flow.max_open_dirs(ends.handles(Side::Source)),
        open_targets: flow.max_open_dirs(ends.handles(Side::Target)),
    }
}
