//! Symbolic links, and other names of a file: reports what [`crate::links`] has done.
//!
//! Another name waits until the first one has its copy.

use crate::Event;
use crate::end::{FaultKind, Kind, Op};
use crate::engine::schedule::Scheduler;
use crate::event::CopiedKind;
use crate::item::Item;
use crate::links::new_names::{Name, What};
use crate::links::shared::Original;
use crate::links::{LinkAction, NameEvent};
use crate::sync::backup::Replaced;
use crate::table::Key;
use crate::target_facts::NotKept;
use crate::token::{Side, Token};
use crate::wording;
use crate::wording::FailedStep;

impl Scheduler<'_> {
    /// A symbolic link in a tree that is to be one in the copy.
    pub(super) fn begin_link(&mut self, item: Item) {
        let id = self.parts.progress.new_file_id();
        if self.parts.options.dry_run {
            let (source, target) = (item.source, item.target);
            self.parts.report.planned(item.turn, Event::Planned { source, target, size: None });
            self.parts.report.summary.files += 1;
            return self.child_finished(item.parent);
        }
        self.parts.links.names.begin_symlink(id, item);
        self.make_names();
    }

    /// The file is known to have several names. True when this one is not to be copied, but made another name
    /// of the copy.
    pub(super) fn joins_another(&mut self, key: Key) -> bool {
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return false };
        let info = &file.item.info;
        let several = self.parts.options.keep.hard_links
            && info.kind == Kind::File
            && info.links.is_some_and(|links| links > 1)
            && !file.item.retry.was_wrong;
        let Some(identity) = info.identity.filter(|_| several && !file.item.leads) else { return false };
        if !self.parts.ends.target_has_hard_links() {
            let text = "the server makes no hard links: each name becomes a file of its own";
            self.parts.ends.facts.report_not_kept(NotKept::HardLinks, text, &mut self.parts.report);
            return false;
        }
        match self.parts.links.meet(identity, info.links) {
            LinkAction::First => file.item.leads = true,
            LinkAction::TooMany => {
                let text = "too many files have further names that were not found yet: the names of further files are copied as separate files";
                self.parts.ends.facts.report_not_kept(NotKept::ManyNames, text, &mut self.parts.report);
            }
            LinkAction::Another => {
                let Some(mut file) = self.parts.tasks.files.remove(key) else { return false };
                self.parts.flow.ahead.expect(&mut file.queued.ahead, 0);
                if let Some(handle) = file.handles.source {
                    self.parts.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
                }
                self.parts.links.join(identity, file.id, file.item);
                self.make_names();
                return true;
            }
        }
        false
    }

    /// The first name of a file with several has come to its end: the others follow.
    /// Returns those that are to be copied, of which one becomes the first.
    #[must_use]
    pub(super) fn first_name_done(
        &mut self,
        item: &Item,
        failed: bool,
        sum: Option<Vec<u8>>,
    ) -> Vec<(u64, Item)> {
        let Some(identity) = item.info.identity else { return Vec::new() };
        let original = (!failed).then(|| Original { path: item.target.clone(), sum });
        let without = self.parts.links.first_ended(identity, original);
        self.make_names();
        if !self.parts.report.is_over() {
            return without;
        }
        for (_, item) in without {
            self.child_finished(item.parent);
        }
        Vec::new()
    }

    /// Carries out the next steps of new links. Reports those that are made, and those that failed.
    pub(super) fn make_names(&mut self) {
        while let Some(event) = self.parts.links.next_event(&mut self.parts.ends) {
            match event {
                NameEvent::BackUp(key, path) => self.parts.sync.backups.back_up(
                    &mut self.parts.ends,
                    &self.parts.plan.target,
                    path,
                    Replaced::ByName(key),
                ),
                NameEvent::Made(name) => self.name_made(name),
                NameEvent::Failed(name, step, fault) => {
                    if fault.kind != FaultKind::Lost {
                        let of_source = matches!(step, FailedStep::StatSource | FailedStep::ReadSource);
                        let path = if of_source { &name.item.source } else { &name.item.target };
                        self.parts.report.fail(wording::failed(
                            self.parts.plan.direction,
                            step,
                            path,
                            &fault,
                        ));
                        self.parts.report.blame(&name.item.source);
                        self.parts.report.missed(self.parts.tree.path_of(&name.item));
                    }
                    self.child_finished(name.item.parent);
                }
            }
        }
    }

    fn name_made(&mut self, name: Name) {
        self.parts.report.summary.files += 1;
        let file = crate::base_name(&name.item.source).to_vec();
        let (id, started) = (name.id, self.parts.progress.now);
        self.parts.report.event(Event::FileDone { id, name: file, size: 0, kept: 0, started });
        let (size, kind) = match name.what {
            What::Symlink(to) => (to.len() as u64, CopiedKind::Link(to)),
            What::Hard(original) => (name.item.info.size.unwrap_or(0), CopiedKind::File(original.sum)),
        };
        self.parts.report.copied(&self.parts.plan.target, &name.item, size, kind);
        self.child_finished(name.item.parent);
    }
}
