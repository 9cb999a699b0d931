//! What is kept of files and directories by requests of its own: owner and group, extended attributes, access control lists.
//!
//! In this order, because a new owner takes set-user-id bits and capabilities away; mode and times come after that. What an end
//! cannot keep is no failure of the copy: it is reported once.

use crate::end::{Change, Done, Fault, FaultKind, Op, Outcome, fault_of};
use crate::engine::Engine;
use crate::item::Item;
use crate::target_facts::NotKept;
use crate::task::preserve::Preserved;
use crate::token::{PreserveStep, Side, Token, Whose};
use crate::tree::Dir;

impl Engine {
    /// Asks remote ends for more attributes than version 3 has.
    pub(super) fn ask_for_full_attrs(&mut self) {
        let wanted = self.options.attrs_wanted();
        for side in [Side::Source, Side::Target] {
            if self.ends.remote(side).is_some_and(|remote| remote.full()) {
                self.ends.start(side, Op::FullAttrs { wanted }, Token::Nothing);
            }
        }
        let silent = self.ends.source.as_ref().is_some_and(|source| !source.full());
        if self.options.keep.hard_links && silent {
            let text =
                "the server does not say which files are the same: hard links become files of their own";
            self.ends.facts.report_not_kept(NotKept::HardLinksUnknown, text, &mut self.report);
        }
    }

    fn preserved_of(&mut self, whose: Whose) -> Option<&mut Preserved> {
        match whose {
            Whose::File(key) => Some(&mut self.tasks.files.get_mut(key)?.state.copying_mut()?.preserved),
            Whose::Dir(key) => self.tree.dirs.get_mut(key).map(|dir| &mut dir.preserved),
        }
    }

    fn item_of(&self, whose: Whose) -> Option<&Item> {
        match whose {
            Whose::File(key) => self.tasks.files.get(key).map(|file| &file.item),
            Whose::Dir(key) => self.tree.dirs.get(key).map(|dir| &dir.item),
        }
    }

    fn ids_of(&self, whose: Whose) -> Option<(u32, u32)> {
        self.item_of(whose)?.info.ids
    }

    fn paths_of(&self, whose: Whose) -> Option<(Vec<u8>, Vec<u8>)> {
        match whose {
            Whose::File(key) => {
                let file = self.tasks.files.get(key)?;
                Some((file.item.source.clone(), file.written_path().to_vec()))
            }
            Whose::Dir(key) => {
                let dir = self.tree.dirs.get(key)?;
                Some((dir.item.source.clone(), dir.item.target.clone()))
            }
        }
    }

    /// All data are written. True while something is to be kept first; what follows is then done by the answer.
    pub(super) fn preserve(&mut self, whose: Whose) -> bool {
        if !self.options.keep.asks_for_each() {
            return false;
        }
        match self.preserved_of(whose) {
            Some(preserved @ Preserved::Todo) => *preserved = Preserved::Asked,
            Some(Preserved::Asked) => return true,
            _ => return false,
        }
        match self.options.keep.ids_to_keep(self.ids_of(whose)) {
            Some(ids) => self.give(whose, ids, PreserveStep::Owner),
            None if !self.keep_xattrs(whose, false) => {
                self.note_kept(whose, false);
                return false;
            }
            None => {}
        }
        true
    }

    fn give(&mut self, whose: Whose, ids: (u32, u32), step: PreserveStep) {
        let Some((_, target)) = self.paths_of(whose) else { return };
        let change = Change { ids: Some(ids), ..Change::default() };
        self.ask_to_preserve(Side::Target, Op::SetPath { path: &target, change }, whose, step);
    }

    fn ask_to_preserve(&mut self, side: Side, op: Op<'_>, whose: Whose, step: PreserveStep) {
        match whose {
            Whose::File(key) => {
                self.tasks.files.get_mut(key).into_iter().for_each(|file| file.outstanding += 1)
            }
            Whose::Dir(key) => self.tree.dirs.get_mut(key).into_iter().for_each(Dir::asked),
        }
        self.ends.start(side, op, Token::Preserve(whose, step));
    }

    /// Asks for the extended attributes and ACLs of the source. False where none are to be kept.
    fn keep_xattrs(&mut self, whose: Whose, owned: bool) -> bool {
        let wanted = self.options.keep.xattr_kinds();
        let Some((source, _)) = self.paths_of(whose).filter(|_| wanted != 0) else { return false };
        if !self.ends.have_xattrs() {
            let text = "the server has no extended attributes and no access control lists for us: they are not copied";
            self.ends.facts.report_not_kept(NotKept::Xattrs, text, &mut self.report);
            return false;
        }
        let op = Op::Xattrs { path: &source, wanted };
        self.ask_to_preserve(Side::Source, op, whose, PreserveStep::Xattrs { owned });
        true
    }

    /// Keeps the extended attributes too. Returns true when there are none to be kept.
    fn keep_xattrs_next(&mut self, whose: Whose, owned: bool) -> bool {
        let asked = self.keep_xattrs(whose, owned);
        if !asked {
            self.note_kept(whose, owned);
        }
        !asked
    }

    /// Returns true when all is kept, or cannot be: what waited for that continues.
    pub(super) fn preserve_answer(&mut self, whose: Whose, step: PreserveStep, outcome: Outcome) -> bool {
        match whose {
            Whose::File(key) => {
                self.tasks.files.get_mut(key).into_iter().for_each(|file| file.outstanding -= 1)
            }
            Whose::Dir(key) => self.tree.dirs.get_mut(key).into_iter().for_each(Dir::answered),
        }
        let lost = matches!(&outcome, Err(Fault { kind: FaultKind::Lost, .. }));
        match (step, outcome) {
            _ if lost => self.note_kept(whose, false),
            (PreserveStep::Owner, Ok(_)) => {
                return self.keep_xattrs_next(whose, self.options.keep.owner);
            }
            (PreserveStep::Owner, Err(fault)) => {
                self.report_not_kept_of(NotKept::Owner, whose, &fault);
                match self.ids_of(whose) {
                    Some((_, group)) if self.options.keep.owner && self.options.keep.group => {
                        self.give(whose, (u32::MAX, group), PreserveStep::Group);
                    }
                    _ => return self.keep_xattrs_next(whose, false),
                }
                return false;
            }
            (PreserveStep::Group, _) => return self.keep_xattrs_next(whose, false),
            (PreserveStep::Xattrs { owned }, Ok(Done::Xattrs(xattrs))) => {
                let wanted = self.options.keep.xattr_kinds();
                if let Some((_, target)) = self.paths_of(whose) {
                    let op = Op::SetXattrs { path: &target, wanted, xattrs: &xattrs };
                    self.ask_to_preserve(Side::Target, op, whose, PreserveStep::SetXattrs { owned });
                }
                return false;
            }
            (PreserveStep::SetXattrs { owned }, Ok(_)) => self.note_kept(whose, owned),
            (PreserveStep::Xattrs { owned } | PreserveStep::SetXattrs { owned }, outcome) => {
                let fault = fault_of(outcome);
                self.report_not_kept_of(NotKept::Xattrs, whose, &fault);
                self.note_kept(whose, owned);
            }
        }
        true
    }

    fn report_not_kept_of(&mut self, what: NotKept, whose: Whose, fault: &Fault) {
        let path = self.item_of(whose).map(|item| item.target.clone()).unwrap_or_default();
        self.ends.facts.report_not_kept_at(what, &path, fault, &mut self.report);
    }

    fn note_kept(&mut self, whose: Whose, owned: bool) {
        if let Some(preserved) = self.preserved_of(whose) {
            *preserved = Preserved::Done { owned };
        }
    }
}
