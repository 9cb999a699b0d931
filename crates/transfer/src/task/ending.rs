//! Decides how a file ends, by the facts about this file alone.

use crate::Direction;
use crate::end::Change;
use crate::item::Item;
use crate::journal::Tag;
use crate::task::File;
use crate::task::file::Faults;
use crate::task::proof::ProofStage;

/// Fate of a part file after all data are written and it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartEnd {
    /// There is none, or what is under its name is not known well enough to be touched.
    Nothing,
    /// It gets the final name.
    Rename(Vec<u8>),
    /// It failed, and is removed.
    Discard(Vec<u8>),
    /// It failed, and a later attempt may continue behind its first bytes.
    Keep { part: Vec<u8>, good: u64 },
}

/// Which copies are read back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proofs {
    /// All copies, not only those whose sums were lost.
    pub(crate) always: bool,
    /// Both ends have digests.
    pub(crate) digests: bool,
    /// Also under their final names.
    pub(crate) names: bool,
}

impl File {
    /// Bytes of the copy. What was asked for past the end of a file of unknown length does not count.
    pub(crate) fn copied_size(&self, direction: Direction) -> u64 {
        match direction {
            _ if self.faults.failed => self.taken.good_end(),
            Direction::Upload => self.requests.next,
            Direction::Download => self.taken.prefix,
            Direction::Relay => self.relay.write_at,
        }
    }

    /// What CLOSE is to be preceded by: the length, and mode and times where `preserve`; `mode_mask` has the
    /// bits of the mode that may be set. With `foreign` the target is a server that is not Longhaul: only a
    /// copy that failed is given a length there. Servers that use Paramiko's `set_file_attr` empty a file
    /// before they set its length. A longer file is emptied when it is opened, and the last byte of a sparse
    /// file is written.
    pub(crate) fn change_on_close(
        &self,
        direction: Direction,
        preserve: bool,
        mode_mask: u32,
        foreign: bool,
    ) -> Change {
        let failed = self.faults.failed;
        let untouched = !self.state.has_begun() || self.is_all_denied();
        if (failed && untouched) || self.faults.tainted {
            return Change::default();
        }
        let size = self.copied_size(direction);
        let mut change = Change::default();
        if direction == Direction::Download {
            // Pieces may have been written behind a gap of a failed file; else only an old, longer tail
            // counts.
            let size = if failed { size.max(self.handles.least) } else { size };
            let written = self.handles.old_size.map(|old| if failed { u64::MAX } else { old });
            change.size = written.filter(|&written| written > size).map(|_| size);
            if self.holes.left_out && !failed {
                change.size = Some(size);
            }
        } else if failed && self.is_continued() {
            // What was there is not cut off for a copy that broke off within it.
            let cut = self.cut_at();
            change.size = (cut < self.requests.next).then_some(cut);
        } else if !foreign || failed {
            change.size = Some(size);
        }
        if failed {
            return change;
        }
        if preserve {
            change.mode = self.item.info.mode.map(|mode| mode & mode_mask);
            change.times = self.item.info.times;
        } else if let Some(mode) = self.place.mode_of_old() {
            change.mode = Some(mode);
        }
        change
    }

    /// Returns the item to copy again, because this copy is wrong or cannot get its name.
    pub(crate) fn copied_again(&self) -> Option<Item> {
        let Faults { undone, too_long, .. } = self.faults;
        let mut retry = self.item.retry;
        let again = (self.place.corrupt && !retry.was_wrong)
            || (self.place.barred && !retry.in_place)
            || self.place.taken
            || undone
            || (too_long && !retry.emptied);
        if !again {
            return None;
        }
        retry.was_wrong |= self.place.corrupt;
        retry.in_place |= self.place.barred;
        retry.own_name |= self.place.taken;
        retry.fresh |= self.place.corrupt || self.place.taken || undone || too_long;
        retry.emptied |= undone || too_long;
        retry.redone += u8::from(undone);
        Some(Item { retry, ..self.item.clone() })
    }

    /// Returns the fate of the part file.
    pub(crate) fn part_end(&self) -> PartEnd {
        let Some(part) = self.place.growing().map(<[u8]>::to_vec) else { return PartEnd::Nothing };
        let good = self.taken.good_end();
        let tag: Option<&Tag> = self.place.tag.as_ref();
        if !self.faults.failed {
            PartEnd::Rename(part)
        } else if !self.state.is_examined() && !self.faults.tainted {
            // Without knowledge about the existing file there is no reason to discard it.
            PartEnd::Nothing
        } else if self.place.corrupt
            || self.faults.tainted
            || self.faults.undone
            || good == 0
            || tag.is_none()
        {
            PartEnd::Discard(part)
        } else {
            PartEnd::Keep { part, good }
        }
    }

    /// Returns true where the copy is to be read back now.
    pub(crate) fn wants_proof(&self, stage: ProofStage, proofs: Proofs) -> bool {
        let special = self.state.closed().is_some_and(|closed| closed.special);
        let kept = self.taken.kept > 0 && self.taken.confirmed == 0 && self.place.is_kept();
        if self.faults.failed || special || kept {
            return false;
        }
        let growing = self.place.growing().is_some();
        match stage {
            ProofStage::Written => {
                let by_digests = self.sums.lost && proofs.digests && growing;
                !self.place.compared && self.sums.ours.is_none() && (proofs.always || by_digests)
            }
            ProofStage::Named => proofs.names && !growing && self.place.is_placed(),
        }
    }

    /// Returns true where bytes that are not known to be right have to be cut off by the name of the copy.
    pub(crate) fn wants_cut(&self, direction: Direction) -> bool {
        let cut = self.state.closed().is_some_and(|closed| closed.cut);
        let written = self.faults.failed && self.cut_at() < self.requests.next && !self.is_all_denied();
        direction != Direction::Download && written && !cut
    }

    /// Returns true where the target took no WRITE at all: it has what it had.
    const fn is_all_denied(&self) -> bool {
        self.faults.denied && self.taken.confirmed == 0
    }

    /// Returns true where the data follow what the target had before, in a file under its final name.
    const fn is_continued(&self) -> bool {
        self.taken.kept > 0 && self.handles.least > 0
    }

    /// Length of the target after a failure: what is known to be right, and what it had before, unless zeros
    /// are in that.
    pub(crate) fn cut_at(&self) -> u64 {
        let found = self.is_continued() && self.taken.real_end >= self.handles.least;
        let least = if found { self.handles.least } else { 0 };
        self.taken.good_end().max(least)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::end::Info;
    use crate::item::{Item, Retry};
    use crate::task::state::{Closed, Closing, Copying, State, Target};

    /// A file of 100 bytes that grows under a part file's name; 40 bytes are there.
    fn file() -> File {
        let info = Info { mode: Some(0o4755), size: Some(100), ..Info::UNKNOWN };
        let mut file = File::new(0, Item::top(Vec::new(), b"final".to_vec(), info), Instant::now());
        file.state = State::Copying(Copying::default());
        (file.requests.size, file.requests.next) = (100, 100);
        file.taken.confirm(0, 40);
        (file.place.part, file.place.there, file.place.tag) = (Some(b"part".to_vec()), true, Some([7; 16]));
        file
    }

    fn closed(mut file: File, cut: bool) -> File {
        let closed = Closed { examined: file.state.is_examined(), cut, ..Closed::default() };
        file.state = State::Closing(Closing { closed, ..Closing::default() });
        file
    }

    #[test]
    fn a_part_file_is_renamed_kept_or_discarded() {
        assert_eq!(closed(file(), false).part_end(), PartEnd::Rename(b"part".to_vec()));
        let failed = || {
            let mut file = closed(file(), true);
            file.faults.failed = true;
            file
        };
        assert_eq!(failed().part_end(), PartEnd::Keep { part: b"part".to_vec(), good: 40 });
        let wrong: [fn(&mut File); 5] = [
            |file| file.place.corrupt = true,
            |file| file.faults.tainted = true,
            |file| file.faults.undone = true,
            |file| file.place.tag = None,
            |file| file.taken.prefix = 0,
        ];
        for wrong in wrong {
            let mut file = failed();
            wrong(&mut file);
            assert_eq!(file.part_end(), PartEnd::Discard(b"part".to_vec()));
        }
        let mut unknown = file();
        unknown.state = State::Opened(Target::Part);
        unknown.faults.failed = true;
        assert_eq!(closed(unknown, true).part_end(), PartEnd::Nothing);
        let mut placed = closed(file(), false);
        placed.place.there = false;
        assert_eq!(placed.part_end(), PartEnd::Nothing);
    }

    #[test]
    fn wrong_files_are_copied_once_more_in_another_way() {
        let again = |file: &File| file.copied_again().expect("a copy").retry;
        assert!(file().copied_again().is_none());
        let mut wrong = file();
        wrong.place.corrupt = true;
        let Retry { was_wrong, fresh, emptied, in_place, .. } = again(&wrong);
        assert!(was_wrong && fresh && !emptied && !in_place);
        wrong.item.retry.was_wrong = true;
        assert!(wrong.copied_again().is_none(), "not twice");
        let mut barred = file();
        barred.place.barred = true;
        let Retry { was_wrong, fresh, in_place, .. } = again(&barred);
        assert!(in_place && !was_wrong && !fresh);
        let mut taken = file();
        taken.place.taken = true;
        let Retry { own_name, fresh, emptied, in_place, .. } = again(&taken);
        assert!(own_name && fresh && !in_place && !emptied);
        let mut undone = file();
        undone.faults.undone = true;
        let Retry { fresh, emptied, redone, .. } = again(&undone);
        assert_eq!((fresh, emptied, redone), (true, true, 1));
        let mut long = file();
        long.faults.too_long = true;
        let Retry { emptied, redone, .. } = again(&long);
        assert!(emptied && redone == 0);
        long.item.retry.emptied = true;
        assert!(long.copied_again().is_none(), "it was emptied already");
    }

    #[test]
    fn only_what_began_is_cut() {
        let mut file = file();
        let change = file.change_on_close(Direction::Upload, true, 0o777, false);
        assert_eq!((change.size, change.mode), (Some(100), Some(0o755)));
        let change = file.change_on_close(Direction::Upload, true, 0o777, true);
        assert_eq!((change.size, change.mode), (None, Some(0o755)));
        file.holes.left_out = true;
        assert_eq!(file.change_on_close(Direction::Relay, true, 0o777, true).size, None);
        file.holes.left_out = false;
        assert_eq!(file.change_on_close(Direction::Download, false, 0o777, false), Change::default());
        file.handles.old_size = Some(200);
        assert_eq!(file.change_on_close(Direction::Download, false, 0o777, false).size, Some(40));
        file.faults.failed = true;
        assert_eq!(file.change_on_close(Direction::Download, false, 0o777, false).size, Some(40));
        file.handles.least = 70;
        assert_eq!(
            file.change_on_close(Direction::Download, false, 0o777, false).size,
            Some(70),
            "continued"
        );
        let change = file.change_on_close(Direction::Upload, true, 0o777, false);
        assert_eq!((change.size, change.mode), (Some(40), None));
        file.state = State::Opened(Target::Part);
        assert_eq!(file.change_on_close(Direction::Upload, true, 0o777, false), Change::default());
        file.state = State::Opened(Target::InPlace);
        assert_eq!(file.change_on_close(Direction::Upload, true, 0o777, false).size, Some(40));
        file.faults.tainted = true;
        assert_eq!(file.change_on_close(Direction::Upload, true, 0o777, false), Change::default());
    }

    #[test]
    fn a_failure_leaves_what_a_continued_upload_found() {
        let mut file = file();
        file.faults.failed = true;
        (file.taken.kept, file.handles.least) = (30, 90);
        let size = |file: &File| file.change_on_close(Direction::Upload, false, 0o777, true).size;
        assert_eq!(size(&file), Some(90), "more may be behind a gap");
        file.requests.next = 40;
        assert_eq!(size(&file), None, "all that was sent is there");
        file.taken.kept = 0;
        assert_eq!(size(&file), Some(40), "it was written over from its start");
        let mut file = closed(file, false);
        assert!(!file.wants_cut(Direction::Upload));
        (file.taken.kept, file.requests.next) = (30, 80);
        assert!(!file.wants_cut(Direction::Upload));
        file.requests.next = 100;
        assert!(file.wants_cut(Direction::Upload) && file.cut_at() == 90);
        (file.taken.real_end, file.requests.next) = (95, 100);
        assert_eq!(file.cut_at(), 90, "what was found is before the zeros");
        (file.taken.real_end, file.requests.next) = (40, 60);
        assert!(file.wants_cut(Direction::Upload) && file.cut_at() == 40, "zeros are in what was found");
    }

    #[test]
    fn a_file_is_cut_once_and_only_after_a_failure() {
        let mut file = closed(file(), false);
        assert!(!file.wants_cut(Direction::Upload));
        file.faults.failed = true;
        assert!(file.wants_cut(Direction::Upload) && !file.wants_cut(Direction::Download));
        assert!(!closed(file, true).wants_cut(Direction::Upload));
    }

    #[test]
    fn file_that_took_nothing_is_not_cut() {
        let mut file = closed(file(), false);
        (file.faults.failed, file.faults.denied) = (true, true);
        assert!(file.wants_cut(Direction::Upload), "it has taken something");
        file.taken.confirmed = 0;
        assert!(!file.wants_cut(Direction::Upload));
        assert_eq!(file.change_on_close(Direction::Upload, true, 0o777, true), Change::default());
        file.faults.denied = false;
        assert!(file.wants_cut(Direction::Upload), "some of it may have been written");
    }

    #[test]
    fn copies_are_read_back_where_sums_say_nothing() {
        let lost = Proofs { always: false, digests: true, names: false };
        let mut file = closed(file(), false);
        assert!(!file.wants_proof(ProofStage::Written, lost));
        file.sums.lost = true;
        assert!(file.wants_proof(ProofStage::Written, lost));
        assert!(!file.wants_proof(ProofStage::Written, Proofs { digests: false, ..lost }));
        assert!(file.wants_proof(ProofStage::Written, Proofs { always: true, digests: false, ..lost }));
        let names = Proofs { always: true, digests: true, names: true };
        assert!(!file.wants_proof(ProofStage::Named, names), "it has not its name yet");
        (file.place.there, file.place.placed, file.place.compared) = (false, true, true);
        assert!(file.wants_proof(ProofStage::Named, names) && !file.wants_proof(ProofStage::Written, names));
        file.faults.failed = true;
        assert!(!file.wants_proof(ProofStage::Named, names));
    }
}
