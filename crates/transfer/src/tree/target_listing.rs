//! Lists a directory of the target beside that of the source, where only what differs is copied
//! ([`crate::TreeSync`]).

use crate::end::{FaultKind, Info, Kind, Op, Outcome};
use crate::ends::Ends;
use crate::item::TargetEntry;
use crate::names::is_safe_name;
use crate::sync::listings::{Compared, EntryVerdict, Listings};
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::listing::ListingContext;
use crate::tree::target::{Comparing, ListRequest, Listed, Wanted};
use crate::tree::walk::Tree;
use crate::wording;
use crate::wording::FailedStep;

impl Tree {
    /// Begins to list the directory that the target has, where it is to be compared.
    pub(crate) fn list_target(&mut self, key: Key, ends: &mut Ends) {
        let Some(dir) = self.dirs.get_mut(key).filter(|dir| dir.at_target.comparing.is_some()) else {
            return;
        };
        dir.at_target.list.begin();
        dir.asked();
        self.waiting.open_targets += 1;
        let list = Op::List { path: &dir.item.target, pattern: b"" };
        ends.start(Side::Target, list, Token::Dir(key, DirStep::TargetList));
    }

    /// The handle is another file's, too: what it has listed may be another directory's.
    pub(crate) fn list_target_again(&mut self, key: Key, ends: &mut Ends) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let Some(handle) = dir.at_target.list.reset() else { return };
        ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        self.waiting.open_targets -= 1;
        if let Some(comparing) = &mut dir.at_target.comparing {
            self.waiting.comparing -= comparing.target.len();
            comparing.target.clear();
            self.list_target(key, ends);
        }
    }

    /// Takes the answer to opening the target's directory.
    pub(crate) fn target_list_begun(&mut self, key: Key, outcome: Outcome, lister: &mut ListingContext<'_>) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let listed = dir.at_target.list.on_begun(outcome);
        if dir.at_target.list.handle().is_none() {
            self.waiting.open_targets -= 1;
        }
        self.absorb_target(key, listed, lister);
    }

    /// Takes the answer to a request for more, of the listing's `round`.
    pub(crate) fn target_listed(
        &mut self,
        key: Key,
        round: u8,
        outcome: Outcome,
        lister: &mut ListingContext<'_>,
    ) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        if let Some(listed) = dir.at_target.list.on_more(round, outcome) {
            self.absorb_target(key, listed, lister);
        }
    }

    /// Processes an answer to the listing of a target's directory: stores the entries for the comparison with
    /// the source, or reports that the directory cannot be listed. Then asks for the entries that follow.
    fn absorb_target(&mut self, key: Key, listed: Listed, lister: &mut ListingContext<'_>) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let at_target = &mut dir.at_target;
        let local = lister.ends.target.is_none();
        match (listed, &mut at_target.comparing) {
            (Listed::Entries(mut entries), Some(comparing)) => {
                if let (true, Some(handle)) = (local, at_target.list.handle()) {
                    crate::local::look_at(handle, &mut entries);
                }
                // Names such as `..`, or with a slash, would lead out of the directory.
                entries.retain(|entry| is_safe_name(&entry.name));
                self.waiting.comparing += entries.len();
                comparing.target.append(&mut entries);
            }
            // Without the list, the copy can still look at each name that the source has. It cannot see what
            // only the target has, which is a failure where that should be deleted.
            (Listed::Failed(fault), _) if lister.options.deletes() && fault.kind != FaultKind::Lost => {
                let target = &dir.item.target;
                lister.report.fail(wording::failed(lister.direction, FailedStep::ListTarget, target, &fault));
            }
            _ => {}
        }
        let wanted = match dir.at_target.comparing {
            None => Wanted::Nothing,
            Some(_) if local => Wanted::OneByOne,
            Some(_) => Wanted::Ahead,
        };
        match dir.at_target.list.next_request(wanted) {
            Some(ListRequest::More { handle, count, round }) => {
                for _ in 0..count {
                    dir.asked();
                    let token = Token::Dir(key, DirStep::TargetMore(round));
                    lister.ends.start(Side::Target, Op::ListMore(&handle), token);
                }
            }
            Some(ListRequest::Close(handle)) => {
                lister.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
                self.waiting.open_targets -= 1;
            }
            None => {}
        }
    }

    /// Returns both ends' listings of a directory, once both are complete.
    pub(crate) fn take_listings(&mut self, key: Key) -> Option<Listings> {
        let dir = self.dirs.get_mut(key)?;
        let whole = dir.listing.complete && dir.listing.in_flight == 0;
        if !(whole && dir.at_target.list.is_over() && dir.making.ready) {
            return None;
        }
        let comparing = dir.at_target.comparing.take()?;
        self.waiting.comparing -= comparing.len();
        dir.at_target.there_else =
            if dir.at_target.list.is_whole() { TargetEntry::Nothing } else { TargetEntry::Unknown };
        self.walk_changed = true;
        let Comparing { source, target } = *comparing;
        Some(Listings::new(source, target))
    }

    /// Queues a compared entry to be copied, if it is to be; gives back what is to be reported only.
    pub(crate) fn queue_compared(
        &mut self,
        key: Key,
        compared: Compared,
        may_fold: bool,
    ) -> Option<Compared> {
        let dir = self.dirs.get_mut(key)?;
        if compared.verdict == EntryVerdict::Skip {
            return Some(compared);
        }
        // Two names that the target has both are two names to it.
        if may_fold && !dir.listing.twins.is_single(&compared.entry.name) && compared.there.is_none() {
            dir.listing.twins.wait(compared.entry);
            return None;
        }
        if compared.verdict == EntryVerdict::Unchanged {
            return Some(compared);
        }
        let Compared { entry, there, .. } = compared;
        match there {
            // The listing does not say what it is.
            Some(Info { kind: Kind::Unknown, .. }) => dir.at_target.there_else = TargetEntry::Unknown,
            Some(there) => drop(dir.at_target.there.insert(entry.name.clone(), there)),
            None => {}
        }
        self.queue_entry(key, entry);
        None
    }
}
