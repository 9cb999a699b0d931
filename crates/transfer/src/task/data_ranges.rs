//! Data ranges of sparse files: holes are not read or sent, and remain holes in the copy.
//!
//! A file that takes less space on its disk than it is long is asked where its data are before the first of
//! them moves. Nothing is sent of a hole; the copy gets its length at the end. A server that is not Longhaul
//! gets the last byte instead: it may empty a file whose length is set. That is right only where the target
//! holds nothing yet, which is so for a file that is new, and behind what an earlier attempt has left;
//! elsewhere zeros are sent.

use std::collections::VecDeque;

use crate::end::{Done, Op, Outcome};
use crate::ends::Ends;
use crate::table::Key;
use crate::task::queues::Tasks;
use crate::token::{FileStep, Side, Token};

/// Ranges of data that are remembered of one file; what is behind them is copied as data.
const MOST_RANGES: usize = 256 * 1024;

impl Tasks {
    /// Asks where the holes of a file are that is open at both ends. False where there is nothing to ask.
    pub(crate) fn ask_for_holes(&mut self, key: Key, ends: &mut Ends, resume: bool) -> bool {
        let able = ends
            .source
            .as_ref()
            .is_none_or(|source| source.session().supports(lh_sftp::extension::DATA_RANGES));
        let Some(file) = self.files.get_mut(key) else { return false };
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
        self.ask_from(key, offset, ends);
        true
    }

    fn ask_from(&mut self, key: Key, offset: u64, ends: &mut Ends) {
        let Some(file) = self.files.get_mut(key) else { return };
        let Some(source) = file.handles.source.clone() else { return };
        file.outstanding += 1;
        ends.start(Side::Source, Op::Ranges { handle: &source, offset }, Token::File(key, FileStep::Ranges));
    }

    /// Takes the answer. Returns true when all is known, and the data may move.
    pub(crate) fn ranges_answer(&mut self, key: Key, outcome: Outcome, ends: &mut Ends) -> bool {
        let Some(file) = self.files.get_mut(key).filter(|file| !file.faults.failed) else { return false };
        let foreign = ends.is_foreign(Side::Target);
        let size = file.requests.size;
        match (outcome, &mut file.holes.data) {
            (Ok(Done::Ranges(found)), Some(data)) if is_further(data, &found.ranges) => {
                data.extend(found.ranges);
                match found.next {
                    Some(next) if data.len() < MOST_RANGES => {
                        self.ask_from(key, next, ends);
                        return false;
                    }
                    Some(next) => data.push_back((next, u64::MAX)),
                    None if foreign && data.back().is_none_or(|&(_, end)| end < size) => {
                        data.push_back((size.saturating_sub(1), size));
                    }
                    None => {}
                }
            }
            // An unknown layout is copied like plain data.
            _ => file.holes.data = None,
        }
        true
    }
}

/// Returns true where `found` begins at or behind the end of `known`. A server that goes back would otherwise
/// be asked again and again.
fn is_further(known: &VecDeque<(u64, u64)>, found: &[(u64, u64)]) -> bool {
    let end = known.back().map_or(0, |&(_, end)| end);
    found.first().is_none_or(|&(from, _)| from >= end)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt as _;
    use std::time::Instant;

    use crate::item::Item;
    use crate::task::File;
    use crate::{Direction, local};

    use super::*;

    #[test]
    fn server_that_repeats_its_ranges_is_asked_no_more() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        fs::write(&path, "text").expect("a file");
        let name = path.to_string_lossy().into_owned().into_bytes();
        let Ok(Done::Opened(handle, Some(info))) = local::perform(Op::OpenRead(&name)) else {
            panic!("the file is not opened");
        };
        let mut tasks = Tasks::default();
        let mut file = File::new(0, Item::top(name, Vec::new(), info), Instant::now());
        file.handles.source = Some(handle);
        file.holes.data = Some(VecDeque::new());
        let key = tasks.files.insert(file);
        let mut ends = Ends::new(Direction::Upload);
        let answer = || {
            let (ranges, next) = (vec![(0, u64::MAX)], Some(u64::MAX));
            Ok(Done::Ranges(lh_sftp::extended_attrs::Ranges { ranges, next }))
        };
        assert!(!tasks.ranges_answer(key, answer(), &mut ends), "there may be more");
        assert!(tasks.ranges_answer(key, answer(), &mut ends), "the same again");
        assert_eq!(tasks.files.get_mut(key).expect("the file").holes.data, None);
    }

    #[test]
    fn local_sparse_file_is_asked_for_its_data_once() {
        const SIZE: u64 = 4 << 20;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        let file = fs::File::create(&path).expect("a file");
        file.write_all_at(b"data", SIZE - 4).expect("a write");
        let name = path.to_string_lossy().into_owned().into_bytes();
        let Ok(Done::Opened(handle, Some(mut info))) = local::perform(Op::OpenRead(&name)) else {
            panic!("the file is not opened");
        };
        for (storage, resume, asks) in [(4096, false, true), (SIZE, false, false), (4096, true, false)] {
            // The file system's handling of holes does not matter here.
            info.storage = Some(storage);
            let mut tasks = Tasks::default();
            let mut file = File::new(0, Item::top(name.clone(), Vec::new(), info), Instant::now());
            file.handles.source = Some(handle.clone());
            (file.requests.size, file.holes.blank_from) = (SIZE, 0);
            let key = tasks.files.insert(file);
            let mut ends = Ends::new(Direction::Upload);
            assert_eq!(tasks.ask_for_holes(key, &mut ends, resume), asks);
            let Some((token, outcome)) = ends.next_answer() else {
                assert!(!asks);
                continue;
            };
            assert!(asks && matches!(token, Token::File(_, FileStep::Ranges)));
            assert!(tasks.ranges_answer(key, outcome, &mut ends), "one answer says everything");
            let file = tasks.files.get_mut(key).expect("the file");
            let data = file.holes.data.take().expect("ranges");
            assert!(data.iter().any(|&(_, end)| end >= SIZE), "{data:?}");
        }
    }
}
