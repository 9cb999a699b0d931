//! The directories being copied: what is listed of them, and what waits to be started.

pub(crate) mod listing;
pub(crate) mod order;
mod position;
pub(crate) mod target;
pub(crate) mod target_listing;
pub(crate) mod twin_copies;
pub(crate) mod twins;
pub(crate) mod walk;

use std::collections::{HashMap, VecDeque};

use crate::end::{Change, Entry, Fault, Handle, Info};
use crate::item::{Item, TargetEntry};
use crate::seen::SeenNames;
use crate::sync::same::same_time;
use crate::task::preserve::Preserved;
use crate::tree::position::Position;
pub use crate::tree::target::MAX_LISTS;
use crate::tree::target::{Comparing, TargetList};
use crate::tree::twins::CaseCollisions;

/// A directory being copied.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) item: Item,
    /// Its path from the top of the tree.
    pub(crate) relative: Vec<u8>,
    pub(crate) position: Position,
    /// Making or listing it failed; what is below is not copied.
    pub(crate) failed: bool,
    /// Counted in `Tree::starting_dirs`.
    pub(crate) starting: bool,
    pub(crate) finishing: bool,
    /// Answers awaited, listing included.
    pub(crate) outstanding: u32,
    pub(crate) making: Making,
    pub(crate) listing: Listing,
    pub(crate) unstarted: Unstarted,
    /// Files and directories below that are started and not finished.
    pub(crate) children: usize,
    pub(crate) at_target: AtTarget,
    /// Attributes that need requests of their own.
    pub(crate) preserved: Preserved,
    /// Something in the target was made or removed.
    pub(crate) touched: bool,
}

/// Entries of a directory that are not started.
#[derive(Debug, Default)]
pub(crate) struct Unstarted {
    pub(crate) files: VecDeque<Entry>,
    pub(crate) subdirs: VecDeque<Entry>,
}

/// Making a directory at the target.
#[derive(Debug, Default)]
pub(crate) struct Making {
    /// Files may be made in it.
    pub(crate) ready: bool,
    pub(crate) created: bool,
    /// Nothing was there before: it is worked in before it is known to be made.
    pub(crate) presumed: bool,
    /// It was presumed, and could not be made: what has failed in it so far, to be reported if it is there
    /// after all.
    pub(crate) doubts: Option<Vec<String>>,
    /// Why the directory could not be created, while the end is asked for the existing entry.
    pub(crate) fault: Option<Fault>,
    /// That fault is reported.
    pub(crate) reported: bool,
}

/// Listing a directory of the source.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) handle: Option<Handle>,
    /// Counted in `Waiting::open_dirs`.
    pub(crate) open: bool,
    pub(crate) complete: bool,
    pub(crate) in_flight: u32,
    pub(crate) allowed: u32,
    /// Names listed so far, for servers that are not Longhaul's.
    pub(crate) seen: SeenNames,
    /// Names that differ from another one by case only, and the one that is being looked at: they go last.
    pub(crate) twins: CaseCollisions,
    /// The source without symlinks, where it is known: to notice a link that leads back.
    pub(crate) real: Option<Vec<u8>>,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            handle: None,
            open: true,
            complete: false,
            in_flight: 0,
            allowed: 2,
            seen: SeenNames::default(),
            twins: CaseCollisions::default(),
            real: None,
        }
    }
}

/// The target's entries in a directory, if both ends are compared.
#[derive(Debug)]
pub(crate) struct AtTarget {
    /// Entries of both ends that wait to be compared, until both are listed.
    pub(crate) comparing: Option<Box<Comparing>>,
    pub(crate) list: TargetList,
    /// Entries under names that are not started yet; `there_else` holds for all other names.
    pub(crate) there: HashMap<Box<[u8]>, Info>,
    pub(crate) there_else: TargetEntry,
}

impl Dir {
    /// A directory that is about to be made at the target and listed at the source: two answers are awaited.
    /// `compares`: what the target has in it is listed, too.
    pub(crate) fn new(item: Item, relative: Vec<u8>, compares: bool) -> Self {
        Self {
            item,
            relative,
            position: Position::default(),
            failed: false,
            starting: true,
            finishing: false,
            outstanding: 2,
            making: Making::default(),
            listing: Listing::default(),
            unstarted: Unstarted::default(),
            children: 0,
            at_target: AtTarget {
                comparing: compares.then(Box::default),
                list: TargetList::default(),
                there: HashMap::new(),
                there_else: TargetEntry::Unknown,
            },
            preserved: Preserved::default(),
            touched: false,
        }
    }

    /// Entries not started.
    pub(crate) fn waiting(&self) -> usize {
        self.unstarted.files.len() + self.unstarted.subdirs.len()
    }

    /// Files that are not started.
    pub(crate) fn waiting_files(&self) -> usize {
        self.unstarted.files.len()
    }

    /// Everything in it has been listed and started.
    pub(crate) fn exhausted(&self) -> bool {
        // The end of a listing may come before what was listed.
        self.listing.complete
            && self.waiting() == 0
            && self.listing.in_flight == 0
            && self.at_target.comparing.is_none()
    }

    /// Only items that were put off are left to be done in it.
    pub(crate) fn only_waits(&self) -> bool {
        self.outstanding == 0
            && self.listing.complete
            && self.waiting() == 0
            && self.at_target.comparing.is_none()
            && !self.finishing
    }

    /// Drops what has not been started. The connection is lost, or the user has stopped the copy.
    pub(crate) fn abandon(&mut self) {
        self.failed = true;
        self.listing.complete = true;
        self.unstarted = Unstarted::default();
        self.listing.twins = CaseCollisions::default();
        self.at_target.comparing = None;
    }

    /// It is taken for made: nothing was there before, and no answer says otherwise.
    pub(crate) const fn presumed(&self) -> bool {
        self.making.presumed && !self.failed && self.making.doubts.is_none()
    }

    /// Something in it has failed. True where the failure of the directory is the reason, or may be.
    pub(crate) fn doubt(&mut self, text: &str) -> bool {
        match &mut self.making.doubts {
            Some(doubts) => doubts.push(text.to_owned()),
            None => return self.making.presumed && self.failed && self.making.reported,
        }
        true
    }

    /// Its path from the top of the tree.
    pub(crate) fn relative(&self) -> &[u8] {
        &self.relative
    }

    /// It did not exist before: nothing can be in it but what this copy puts there.
    pub(crate) const fn created(&self) -> bool {
        self.making.created
    }

    /// One more below is to be waited for.
    pub(crate) const fn count_in(&mut self) {
        self.children += 1;
    }

    /// One more answer is awaited; one has come.
    pub(crate) const fn asked(&mut self) {
        self.outstanding += 1;
    }

    pub(crate) const fn answered(&mut self) {
        self.outstanding -= 1;
    }

    /// The target had the directory, and nothing in it or of it is changed.
    pub(crate) fn stays_as_it_is(&self, change: Change, full: bool) -> bool {
        let TargetEntry::Found(there) = self.item.sync.there else { return false };
        let same_mode =
            change.mode.is_none_or(|mode| there.mode.is_some_and(|old| old & 0o1777 == mode & 0o1777));
        let same_times = match (change.times, there.times) {
            (Some(ours), Some(theirs)) => same_time(ours, theirs, full),
            (ours, _) => ours.is_none(),
        };
        !self.touched && same_mode && same_times
    }

    pub(crate) fn temporary_mode(&self) -> u32 {
        self.item.info.mode.map_or(0o777, |mode| mode & 0o1777 | 0o300)
    }
}

/// Entries of all directories that are listed and not started, and the directories that are open.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) files: usize,
    pub(crate) subdirs: usize,
    pub(crate) open_dirs: usize,
    /// Parts of listings that are awaited.
    pub(crate) lists: u32,
    /// Entries of directories that are being compared, and directories of the target that are open.
    pub(crate) comparing: usize,
    pub(crate) open_targets: usize,
    /// Directories that are worked in and not known to be made.
    pub(crate) presumed: usize,
}
