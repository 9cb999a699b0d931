//! Leftovers of unfinished copies: the journal, and files under part names.

use crate::end::{FaultKind, Op, Outcome};
use crate::ends::Ends;
use crate::item::Item;
use crate::journal::Journal;
use crate::report::Reporter;
use crate::table::{Key, Table};
use crate::task::File;
use crate::task::place::{tag_of, tag_with};
use crate::token::{Side, Token};

/// Progress is noted in the journal each time so large a part of the file has come, within bounds.
const NOTE_PART: u64 = 128;

const NOTE_BYTES: std::ops::RangeInclusive<u64> = 256 * 1024..=32 << 20;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// Progress that survives this process; `None` without a journal.
    pub(crate) journal: Option<Journal>,
    /// Files of ours that are being removed, by their paths.
    pub(crate) removing: Table<Vec<u8>>,
}

impl Leftovers {
    pub(crate) fn new(journal: Option<Journal>) -> Self {
        Self { journal, removing: Table::new() }
    }

    /// An attempt before this one has put this very file in its place; whether it is still there has to be
    /// looked at.
    pub(crate) fn may_be_done(&self, item: &Item) -> bool {
        let journal = self.journal.as_ref().filter(|journal| journal.goes_on());
        journal.is_some_and(|journal| tag_of(item).is_some_and(|tag| journal.is_done(&tag)))
    }

    /// An attempt before this one may have left an unfinished file beside the target.
    pub(crate) fn may_have_part(&self, item: &Item) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.may_have_left(&item.target))
    }

    /// Removes a part file at the target.
    pub(crate) fn remove_part(&mut self, path: Vec<u8>, ends: &mut Ends) {
        let key = self.removing.insert(path.clone());
        ends.start(Side::Target, Op::Remove(&path), Token::Removed(key));
    }

    /// Takes the answer to that.
    pub(crate) fn part_removed(&mut self, key: Key, outcome: &Outcome, report: &mut Reporter) {
        if let Some(path) = self.removing.remove(key) {
            self.removal_answered(&path, outcome, report);
        }
    }

    /// Reports a file that could not be removed. The journal knows of a file until it is gone: where there is
    /// no answer, because the connection is lost, the next attempt removes it.
    pub(crate) fn removal_answered(&mut self, path: &[u8], outcome: &Outcome, report: &mut Reporter) {
        report.left_behind(path, outcome);
        let is_gone = match outcome {
            Ok(_) => true,
            Err(fault) => fault.kind == FaultKind::NotFound,
        };
        if let Some(journal) = self.journal.as_mut().filter(|_| is_gone) {
            journal.forget(path);
        }
    }

    /// Removes what grew beside `target`, under other names than `part`: of an earlier state of the source,
    /// or of an attempt that took a random name. Nothing continues it.
    pub(crate) fn remove_outdated(&mut self, target: &[u8], part: &[u8], ends: &mut Ends) {
        let outdated =
            self.journal.as_ref().map(|journal| journal.outdated(target, part)).unwrap_or_default();
        for path in outdated {
            self.remove_part(path, ends);
        }
    }

    /// Notes from time to time in the journal that more of a file has come.
    pub(crate) fn note_progress(&mut self, file: &mut File) {
        let Some(journal) = &mut self.journal else { return };
        let step = (file.requests.size / NOTE_PART).clamp(*NOTE_BYTES.start(), *NOTE_BYTES.end());
        if file.place.there && file.taken.good_end() >= file.place.noted + step {
            file.place.noted = file.taken.good_end();
            if let Some(part) = &file.place.part {
                journal.advance(part, file.place.noted);
                // Seldom enough, and worth more than what waits for the end of a turn.
                journal.flush();
            }
        }
    }

    /// A small file is in its place.
    pub(crate) fn note_done(&mut self, item: &Item, size: u64, sum: Option<&[u8]>) {
        if let Some(journal) = &mut self.journal
            && let Some(tag) = tag_with(item, Some(size))
        {
            if let Some(sum) = sum {
                journal.note_sum(&tag, sum);
            }
            journal.finish(&tag, b"");
        }
    }

    /// Number of bytes from the start that the journal records under this name.
    pub(crate) fn noted(&self, part: &[u8]) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.upto(part))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Direction, Event, Options};

    use super::*;

    #[test]
    fn part_files_are_removed_and_those_that_stay_are_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name| dir.path().join(name).to_string_lossy().into_owned().into_bytes();
        std::fs::write(dir.path().join("part"), "").expect("a file");
        std::fs::create_dir(dir.path().join("dir")).expect("a directory");
        let (mut leftovers, mut ends) = (Leftovers::new(None), Ends::new(Direction::Download));
        let mut report = Reporter::new(&Options::default());
        for name in ["part", "none", "dir"] {
            leftovers.remove_part(path(name), &mut ends);
            let Some((Token::Removed(key), outcome)) = ends.next_answer() else { panic!("no answer") };
            leftovers.part_removed(key, &outcome, &mut report);
        }
        assert!(!dir.path().join("part").exists() && leftovers.removing.len() == 0);
        let told: Vec<_> = std::iter::from_fn(|| report.poll()).collect();
        assert!(matches!(&told[..], [Event::Skipped { .. }]), "only the directory stays: {told:?}");
    }
}
