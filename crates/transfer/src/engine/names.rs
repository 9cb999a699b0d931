//! Symbolic links, and other names of a file: carries out what [`crate::links`] decides.
//!
//! Another name waits until the first one has its copy.

use crate::end::{Done, FaultKind, Kind, Op, Outcome};
use crate::engine::Engine;
use crate::event::CopiedKind;
use crate::item::Item;
use crate::links::new_names::{Name, NameAction, What};
use crate::links::shared::{Original, UnchangedName};
use crate::sync::backup::Replaced;
use crate::table::Key;
use crate::target_facts::NotKept;
use crate::token::{NameStep, Side, Token};
use crate::wording::Deed;
use crate::{Direction, Event, wording};

impl Engine {
    /// A symbolic link in a tree that is to be one in the copy.
    pub(super) fn begin_link(&mut self, item: Item) {
        let id = self.progress.new_file_id();
        if self.options.dry_run {
            let (source, target) = (item.source, item.target);
            self.report.event(Event::Planned { source, target, size: None });
            self.report.summary.files += 1;
            return self.child_finished(item.parent);
        }
        self.links.names.begin_symlink(id, item);
        self.make_names();
    }

    /// The file is known to have several names. True when this one is not to be copied, but made another name of the copy.
    pub(super) fn joins_another(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let info = &file.item.info;
        let several = self.options.keep.hard_links
            && info.kind == Kind::File
            && info.links.is_some_and(|links| links > 1)
            && !file.item.again;
        let Some(identity) = info.identity.filter(|_| several && !file.item.leads) else { return false };
        if let Some(target) = &self.ends.target
            && !target.session().supports(lh_sftp::extension::HARDLINK)
        {
            let text = "the server makes no hard links: each name becomes a file of its own";
            self.ends.facts.report_not_kept(NotKept::HardLinks, text, &mut self.report);
            return false;
        }
        if !self.links.shared.is_known(identity) {
            if !self.links.shared.add_first(identity, info.links) {
                let text = "too many files have names that have not been met: names of further ones become files of their own";
                self.ends.facts.report_not_kept(NotKept::ManyNames, text, &mut self.report);
                return false;
            }
            file.item.leads = true;
            return false;
        }
        let Some(mut file) = self.tasks.files.remove(key) else { return false };
        self.flow.expect(&mut file.queued.ahead, 0);
        if let Some(handle) = file.handles.source {
            self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        }
        if let Some((item, original)) = self.links.shared.meet(identity, file.id, file.item) {
            self.make_hard(file.id, item, original);
        }
        true
    }

    /// A name of a file with several, whose size and time are those of the source; `there` is what the target has under it. True when it is
    /// made another name of what the target has of an earlier one.
    pub(super) fn joins_names(
        &mut self,
        identity: (u64, u64),
        item: &Item,
        there: Option<(u64, u64)>,
    ) -> bool {
        let able = |target: &crate::remote::Remote| target.session().supports(lh_sftp::extension::HARDLINK);
        if !self.ends.target.as_ref().is_none_or(able) {
            return false;
        }
        match self.links.shared.meet_unchanged(identity, item, there) {
            UnchangedName::Stays => return false,
            UnchangedName::Waits => {
                let id = self.progress.new_file_id();
                self.links.shared.wait(identity, id, item.clone());
            }
            UnchangedName::Becomes(original) => {
                let id = self.progress.new_file_id();
                self.make_hard(id, item.clone(), original);
            }
        }
        true
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
        let waiting = self.links.shared.first_ended(identity, original.clone());
        if original.is_none() && !self.report.is_over() {
            return waiting;
        }
        for (id, item) in waiting {
            match &original {
                Some(original) => self.make_hard(id, item, original.clone()),
                None => self.child_finished(item.parent),
            }
        }
        Vec::new()
    }

    fn make_hard(&mut self, id: u64, item: Item, original: Original) {
        self.links.names.begin_hard(id, item, original);
        self.make_names();
    }

    pub(super) fn name_answer(&mut self, key: Key, step: NameStep, outcome: Outcome) {
        self.links.names.on_answer(key, step, outcome);
        self.make_names();
    }

    /// Carries out what is to be done for names.
    fn make_names(&mut self) {
        while let Some(action) = self.links.names.next_action(self.ends.link_order()) {
            let mut start = |side, op: Op<'_>, key, step| self.ends.start(side, op, Token::Name(key, step));
            match action {
                NameAction::Lstat(key, path) => start(Side::Source, Op::Lstat(&path), key, NameStep::Look),
                NameAction::ReadLink(key, path) => {
                    start(Side::Source, Op::ReadLink(&path), key, NameStep::Read);
                }
                NameAction::BackUp(key, path) => {
                    self.sync.backups.back_up(&mut self.ends, &self.plan.target, path, Replaced::ByName(key))
                }
                NameAction::Symlink { key, step, to, link, order } => {
                    start(Side::Target, Op::Symlink { to: &to, link: &link, order }, key, step);
                }
                NameAction::Look(key, path) => start(Side::Target, Op::Lstat(&path), key, NameStep::Trial),
                NameAction::ReadBack(key, path) => {
                    start(Side::Target, Op::ReadLink(&path), key, NameStep::Trial);
                }
                NameAction::Undo(key, path) => start(Side::Target, Op::Remove(&path), key, NameStep::Trial),
                NameAction::UseOrder(order) => {
                    if let Some(target) = &mut self.ends.target {
                        target.set_link_order(order);
                    }
                }
                NameAction::Link { key, step, old, new } => {
                    start(Side::Target, Op::Link { old: &old, new: &new }, key, step);
                }
                NameAction::Remove(path) => self.ends.start(Side::Target, Op::Remove(&path), Token::Nothing),
                NameAction::Rename { key, old, new } => {
                    start(Side::Target, Op::Rename { old: &old, new: &new }, key, NameStep::Replace);
                }
                NameAction::SetLink { key, path, change } => {
                    start(Side::Target, Op::SetLink { path: &path, change }, key, NameStep::Finish);
                }
                NameAction::Made(name) => self.name_made(name),
                NameAction::Failed(name, deed, fault) => {
                    if fault.kind != FaultKind::Lost {
                        let of_source = matches!(deed, Deed::StatSource | Deed::ReadSource);
                        let path = if of_source { &name.item.source } else { &name.item.target };
                        self.report.fail(wording::failed(self.plan.direction, deed, path, &fault));
                        self.report.missed(self.tree.path_of(&name.item));
                    }
                    self.child_finished(name.item.parent);
                }
            }
        }
    }

    fn name_made(&mut self, name: Name) {
        self.report.summary.files += 1;
        let file = crate::base_name(&name.item.source).to_vec();
        let (id, started) = (name.id, self.progress.now);
        self.report.event(Event::FileDone { id, name: file, size: 0, kept: 0, started });
        let (size, kind) = match name.what {
            What::Symlink(to) => (to.len() as u64, CopiedKind::Link(to)),
            What::Hard(original) => (name.item.info.size.unwrap_or(0), CopiedKind::File(original.sum)),
        };
        self.report.copied(&self.plan.target, &name.item, size, kind);
        self.child_finished(name.item.parent);
    }

    /// Before a file of this host is opened under its final name.
    pub(super) fn remove_link(&self, item: &Item) {
        if self.plan.direction == Direction::Download
            && self.options.follows_no_links(item)
            && let Ok(Done::Info(found)) = crate::local::perform(Op::Lstat(&item.target))
            && found.kind == Kind::Symlink
        {
            let _ = crate::local::perform(Op::Remove(&item.target));
        }
    }
}
