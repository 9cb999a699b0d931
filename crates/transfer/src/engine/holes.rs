//! Holes of sparse files: not read, not sent, and still holes in the copy.
//!
//! A file that takes less room on its disk than it is long is asked where its data are before the first of them moves. Nothing is sent of a
//! hole; the copy gets its length at the end. That is right only where the target holds nothing yet, which is so
//! for a file that is new, and behind what an earlier attempt has left; elsewhere zeros are sent.

use std::collections::{BTreeMap, VecDeque};

use crate::Direction;
use crate::end::{Done, Op, Outcome};
use crate::table::Key;

use super::file::{File, FileStep};
use super::{Engine, Side, Token};

/// Ranges of data that are remembered of one file; what is behind them is copied as data.
const MOST_RANGES: usize = 256 * 1024;

/// What is known of a file's holes.
#[derive(Debug)]
pub(super) struct Holes {
    /// Where data are, from the next request on; `None`: everywhere.
    data: Option<VecDeque<(u64, u64)>>,
    asked: bool,
    /// Relay: those that were passed over and that writing has not come to, from start to end.
    passed: BTreeMap<u64, u64>,
    /// From here on the target holds nothing.
    pub(super) blank_from: u64,
    /// Something was left out.
    pub(super) left_out: bool,
}

impl Default for Holes {
    fn default() -> Self {
        Self { data: None, asked: false, passed: BTreeMap::new(), blank_from: u64::MAX, left_out: false }
    }
}

impl File {
    /// Where the data end that begin at the cursor.
    pub(super) fn data_end(&self) -> u64 {
        let left = |data: &&VecDeque<(u64, u64)>| data.iter().position(|&(_, to)| to > self.requested);
        match self.holes.data.as_ref().and_then(|data| data.get(left(&data)?)) {
            // In a hole that has to be sent.
            Some(&(from, _)) if self.requested < from => from.min(self.size),
            Some(&(_, to)) => to.min(self.size),
            None => self.size,
        }
    }

    /// Passes over a hole at the cursor; says how long it was.
    fn skip_hole(&mut self) -> u64 {
        let (at, size) = (self.requested, self.size);
        let Some(data) = &mut self.holes.data else { return 0 };
        while data.front().is_some_and(|&(_, to)| to <= at) {
            data.pop_front();
        }
        let next = data.front().map_or(size, |&(from, _)| from.min(size));
        if next <= at || at < self.holes.blank_from {
            return 0;
        }
        self.holes.left_out = true;
        self.confirm(at, next - at);
        self.requested = next;
        self.holes.passed.insert(at, next);
        self.content.add_hole(at, next);
        self.write_behind_holes();
        next - at
    }

    /// Relay: where writing has come to a hole it goes on behind it.
    pub(super) fn write_behind_holes(&mut self) {
        while let Some(end) = self.holes.passed.remove(&self.write_at) {
            self.write_at = end;
        }
    }
}

impl Engine {
    /// The file is open at both ends. True when it has holes, and where they are has to be heard first.
    pub(super) fn ask_for_holes(&mut self, key: Key) -> bool {
        let able = match (self.plan.direction, &self.source) {
            (Direction::Upload, _) => true,
            (Direction::Download | Direction::Relay, Some(source)) => {
                source.session().supports(lh_sftp::extension::DATA_RANGES)
            }
            _ => false,
        };
        let resume = self.options.resume;
        let Some(file) = self.files.get_mut(key) else { return false };
        let has_holes = file.item.info.storage.is_some_and(|storage| storage < file.size);
        if !able || !has_holes || resume || file.to_eof || file.failed || file.holes.blank_from >= file.size {
            return false;
        }
        if std::mem::replace(&mut file.holes.asked, true) {
            return false;
        }
        file.holes.data = Some(VecDeque::new());
        let offset = file.requested;
        self.ask_from(key, offset);
        true
    }

    fn ask_from(&mut self, key: Key, offset: u64) {
        let Some(file) = self.files.get_mut(key) else { return };
        let Some(source) = file.source.clone() else { return };
        file.outstanding += 1;
        self.start(Side::Source, Op::Ranges { handle: &source, offset }, Token::File(key, FileStep::Ranges));
    }

    pub(super) fn ranges_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.files.get_mut(key) else { return };
        if file.failed {
            return;
        }
        match (outcome, &mut file.holes.data) {
            (Ok(Done::Ranges(found)), Some(data)) => {
                data.extend(found.ranges);
                match found.next {
                    Some(next) if data.len() < MOST_RANGES => return self.ask_from(key, next),
                    Some(next) => data.push_back((next, u64::MAX)),
                    None => {}
                }
            }
            // What is not known is copied as it reads.
            _ => file.holes.data = None,
        }
        self.begin_data(key);
    }

    /// Passes over a hole that the next request would be about.
    pub(super) fn pass_hole(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key).filter(|file| !file.failed) else { return };
        let passed = file.skip_hole();
        if passed > 0 {
            self.flow.no_longer_ahead(&mut file.ahead, passed);
            self.note_progress(key);
        }
    }
}
