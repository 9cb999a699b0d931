//! Holes of sparse files: not read, not sent, and still holes in the copy.
//!
//! A file that takes less space on its disk than it is long is asked where its data are before the first of them moves. Nothing is sent of a
//! hole; the copy gets its length at the end. That is right only where the target holds nothing yet, which is so
//! for a file that is new, and behind what an earlier attempt has left; elsewhere zeros are sent.

use std::collections::VecDeque;

use crate::Direction;
use crate::end::{Done, Op, Outcome};
use crate::engine::Engine;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};

/// Ranges of data that are remembered of one file; what is behind them is copied as data.
const MOST_RANGES: usize = 256 * 1024;

impl Engine {
    /// The file is open at both ends. True when it has holes, and the answer where they are is awaited first.
    pub(super) fn ask_for_holes(&mut self, key: Key) -> bool {
        let able = match (self.plan.direction, &self.ends.source) {
            (Direction::Upload, _) => true,
            (Direction::Download | Direction::Relay, Some(source)) => {
                source.session().supports(lh_sftp::extension::DATA_RANGES)
            }
            _ => false,
        };
        let resume = self.options.resume;
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let has_holes = file.item.info.storage.is_some_and(|storage| storage < file.requests.size);
        if !able
            || !has_holes
            || resume
            || file.requests.to_eof
            || file.faults.failed
            || file.holes.blank_from >= file.requests.size
        {
            return false;
        }
        file.holes.data = Some(VecDeque::new());
        let offset = file.requests.next;
        self.ask_from(key, offset);
        true
    }

    fn ask_from(&mut self, key: Key, offset: u64) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(source) = file.handles.source.clone() else { return };
        file.outstanding += 1;
        self.ends.start(
            Side::Source,
            Op::Ranges { handle: &source, offset },
            Token::File(key, FileStep::Ranges),
        );
    }

    pub(super) fn ranges_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.faults.failed {
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
        self.begin_copying(key);
    }

    /// Passes over a hole that the next request would be about.
    pub(super) fn pass_hole(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        let passed = file.skip_hole();
        if passed > 0 {
            self.flow.no_longer_ahead(&mut file.queued.ahead, passed);
            self.note_progress(key);
        }
    }
}
