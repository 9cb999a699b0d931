//! Names that are no files of their own: symbolic links, and other names of a file.
//!
//! Another name waits until the first one has its copy. It is made under our own name and moved over what is there, where there
//! is something.

use crate::end::{Change, Done, Kind, Op, Outcome, fault_of, path_of};
use crate::engine::Engine;
use crate::event::CopiedKind;
use crate::item::{Item, There};
use crate::links::{FirstCopy, MOST_SHARED, Name, Shared, What};
use crate::sync::backup::Replaced;
use crate::table::Key;
use crate::target_facts::NotKept;
use crate::task::place::part_name;
use crate::token::{NameStep, Side, Token};
use crate::wording::Deed;
use crate::{Direction, Event, wording};

impl Engine {
    /// A symbolic link in a tree that is to be one in the copy.
    pub(super) fn begin_link(&mut self, item: Item) {
        let source = item.source.clone();
        let id = self.progress.new_file_id();
        if self.options.dry_run {
            let (source, target) = (item.source, item.target);
            self.report.event(Event::Planned { source, target, size: None });
            self.report.summary.files += 1;
            return self.child_finished(item.parent);
        }
        let known = item.info.mode.is_some();
        let key = self.links.names.insert(Name { id, item, what: What::Symlink(Vec::new()) });
        if known {
            self.ends.start(Side::Source, Op::ReadLink(&source), Token::Name(key, NameStep::Read));
        } else {
            self.ends.start(Side::Source, Op::Lstat(&source), Token::Name(key, NameStep::Look));
        }
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
            self.report_not_kept(NotKept::HardLinks, text);
            return false;
        }
        let others = info.links.unwrap_or(1).saturating_sub(1);
        if !self.links.shared.contains_key(&identity) {
            if self.links.shared.len() >= self.options.max_shared_files.unwrap_or(MOST_SHARED) {
                let text = "too many files have names that have not been met: names of further ones become files of their own";
                self.report_not_kept(NotKept::ManyNames, text);
                return false;
            }
            file.item.leads = true;
            let copy = FirstCopy::Waiting(Vec::new());
            self.links.shared.insert(identity, Shared { copy, left: others, unchanged: None });
            return false;
        }
        let Some(mut file) = self.tasks.files.remove(key) else { return false };
        self.flow.expect(&mut file.queued.ahead, 0);
        if let Some(handle) = file.handles.source {
            self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        }
        let Some(shared) = self.links.shared.get_mut(&identity) else { return false };
        shared.left = shared.left.saturating_sub(1);
        let met = shared.left == 0;
        match &mut shared.copy {
            FirstCopy::Waiting(waiting) => waiting.push((file.id, file.item)),
            FirstCopy::There(old, sum) => {
                let (old, sum) = (old.clone(), sum.clone());
                if met {
                    self.links.shared.remove(&identity);
                }
                self.make_hard(file.id, file.item, old, sum);
            }
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
        let others = item.info.links.unwrap_or(1).saturating_sub(1);
        let Some(shared) = self.links.shared.get_mut(&identity) else {
            if self.links.shared.len() < self.options.max_shared_files.unwrap_or(MOST_SHARED) {
                let copy = FirstCopy::There(item.target.clone(), None);
                self.links.shared.insert(identity, Shared { copy, left: others, unchanged: Some(there) });
            }
            return false;
        };
        shared.left = shared.left.saturating_sub(1);
        let met = shared.left == 0;
        // What is not known to be another file is taken for the same one.
        let same = shared.unchanged.is_some_and(|first| first.is_none() || there.is_none() || first == there);
        let (old, sum) = match &mut shared.copy {
            FirstCopy::Waiting(waiting) => {
                let id = self.progress.new_file_id();
                waiting.push((id, item.clone()));
                return true;
            }
            FirstCopy::There(old, sum) => (old.clone(), sum.clone()),
        };
        if met {
            self.links.shared.remove(&identity);
        }
        if !same {
            let id = self.progress.new_file_id();
            self.make_hard(id, item.clone(), old, sum);
        }
        !same
    }

    /// The first name of a file with several has come to its end: the others follow.
    pub(super) fn first_name_done(&mut self, item: &Item, failed: bool, sum: Option<Vec<u8>>) {
        let Some(identity) = item.info.identity else { return };
        let Some(Shared { copy: FirstCopy::Waiting(waiting), left, .. }) =
            self.links.shared.remove(&identity)
        else {
            return;
        };
        if !failed {
            if left > 0 {
                let copy = FirstCopy::There(item.target.clone(), sum.clone());
                self.links.shared.insert(identity, Shared { copy, left, unchanged: None });
            }
            for (id, waiting) in waiting {
                self.make_hard(id, waiting, item.target.clone(), sum.clone());
            }
        } else if self.report.is_over() {
            for (_, waiting) in waiting {
                self.child_finished(waiting.parent);
            }
        } else {
            // One of them becomes the first.
            for (id, waiting) in waiting {
                self.begin_ordinary_file(id, waiting);
            }
        }
    }

    fn make_hard(&mut self, id: u64, item: Item, old: Vec<u8>, sum: Option<Vec<u8>>) {
        let replaced = (item.backed_up == Some(false)).then(|| item.target.clone());
        let key = self.links.names.insert(Name { id, item, what: What::Hard(old, sum) });
        match replaced {
            Some(target) => self.back_up(target, Replaced::ByName(key)),
            None => self.make_name(key, NameStep::Make),
        }
    }

    fn make_name(&mut self, key: Key, step: NameStep) {
        let Some(name) = self.links.names.get(key) else { return };
        let beside = part_name(&name.item.target, &[0; 16]);
        let at = if matches!(step, NameStep::Make) { name.item.target.clone() } else { beside };
        let (symlink, to) = match &name.what {
            What::Symlink(to) => (true, to.clone()),
            What::Hard(old, _) => (false, old.clone()),
        };
        let op = if symlink { Op::Symlink { to: &to, link: &at } } else { Op::Link { old: &to, new: &at } };
        self.ends.start(Side::Target, op, Token::Name(key, step));
    }

    pub(super) fn name_answer(&mut self, key: Key, step: NameStep, outcome: Outcome) {
        let Some(name) = self.links.names.get_mut(key) else { return };
        let beside = part_name(&name.item.target, &[0; 16]);
        match (step, outcome) {
            (NameStep::Look, Ok(Done::Info(info))) => {
                name.item.info = info;
                let source = name.item.source.clone();
                self.ends.start(Side::Source, Op::ReadLink(&source), Token::Name(key, NameStep::Read));
            }
            (NameStep::Look, outcome) => self.name_failed(key, Deed::StatSource, outcome),
            (NameStep::Read, outcome) => match path_of(outcome) {
                Ok(to) => {
                    name.what = What::Symlink(to);
                    if matches!(name.item.there, There::Found(_)) {
                        // A server that does not know the order of the two strings could guess that the other one is the link.
                        self.ends.start(Side::Target, Op::Remove(&beside), Token::Nothing);
                        self.make_name(key, NameStep::MakeBeside);
                    } else {
                        self.make_name(key, NameStep::Make);
                    }
                }
                Err(fault) => self.name_failed(key, Deed::ReadSource, Err(fault)),
            },
            (NameStep::BackUp, Ok(_)) => self.make_name(key, NameStep::Make),
            (NameStep::BackUp, outcome) => self.name_failed(key, Deed::PlaceTarget, outcome),
            (NameStep::Make, Ok(_)) => self.finish_name(key),
            (NameStep::Make, Err(fault)) if fault.kind == crate::end::FaultKind::Lost => {
                self.name_failed(key, Deed::OpenTarget, Err(fault));
            }
            (NameStep::Make, Err(_)) => {
                // What an earlier attempt has left would be in the way.
                self.ends.start(Side::Target, Op::Remove(&beside), Token::Nothing);
                self.make_name(key, NameStep::MakeBeside);
            }
            (NameStep::MakeBeside, Ok(_)) => {
                let target = name.item.target.clone();
                let op = Op::Rename { old: &beside, new: &target };
                self.ends.start(Side::Target, op, Token::Name(key, NameStep::Replace));
            }
            (NameStep::MakeBeside, outcome) => self.name_failed(key, Deed::OpenTarget, outcome),
            (NameStep::Replace, outcome) => {
                let hard = matches!(name.what, What::Hard(..));
                if hard || outcome.is_err() {
                    // Renaming a name of a file over another name of it does nothing.
                    self.ends.start(Side::Target, Op::Remove(&beside), Token::Nothing);
                }
                match outcome {
                    Ok(_) => self.finish_name(key),
                    outcome => self.name_failed(key, Deed::PlaceTarget, outcome),
                }
            }
            // A link whose times cannot be set is a link all the same.
            (NameStep::Finish, _) => self.name_done(key),
        }
    }

    fn finish_name(&mut self, key: Key) {
        let Some(name) = self.links.names.get(key) else { return };
        let (info, keep) = (&name.item.info, self.options.keep);
        let mut change = Change::default();
        if matches!(name.what, What::Symlink(_)) {
            change.times = info.times.filter(|_| self.options.preserve);
            change.ids = info.ids.filter(|_| keep.owner && keep.group);
        }
        if change == Change::default() {
            return self.name_done(key);
        }
        let target = name.item.target.clone();
        self.ends.start(
            Side::Target,
            Op::SetLink { path: &target, change },
            Token::Name(key, NameStep::Finish),
        );
    }

    fn name_done(&mut self, key: Key) {
        let Some(name) = self.links.names.remove(key) else { return };
        self.report.summary.files += 1;
        let file = crate::base_name(&name.item.source).to_vec();
        let (id, started) = (name.id, self.progress.now);
        self.report.event(Event::FileDone { id, name: file, size: 0, kept: 0, started });
        let (size, kind) = match name.what {
            What::Symlink(to) => (to.len() as u64, CopiedKind::Link(to)),
            What::Hard(_, sum) => (name.item.info.size.unwrap_or(0), CopiedKind::File(sum)),
        };
        self.report_copied(&name.item, size, kind);
        self.child_finished(name.item.parent);
    }

    fn name_failed(&mut self, key: Key, deed: Deed, outcome: Outcome) {
        let Some(name) = self.links.names.remove(key) else { return };
        let fault = fault_of(outcome);
        if fault.kind != crate::end::FaultKind::Lost {
            let of_source = matches!(deed, Deed::StatSource | Deed::ReadSource);
            let path = if of_source { &name.item.source } else { &name.item.target };
            self.report.fail(wording::failed(self.plan.direction, deed, path, &fault));
            self.report_missed(&name.item);
        }
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
