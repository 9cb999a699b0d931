//! Looks at a source again after it was read, to see whether it changed meanwhile ([`crate::changed`]).
//!
//! A file of this host is looked at when its last byte has been read. A server gets an FSTAT: behind the last
//! READ of a small file, which costs no round trip, and before the CLOSE of a large one.

use crate::changed::{Changed, Precision};
use crate::end::{Done, Fault, Op, Outcome};
use crate::ends::Ends;
use crate::table::Key;
use crate::task::File;
use crate::task::queues::Tasks;
use crate::task::source_after::SourceAfter;
use crate::task::state::{Copying, State};
use crate::token::{FileStep, Side, Token};
use crate::{Direction, local};

/// Files up to this size are closed without waiting for their WRITEs: CLOSE follows in the same flight. For
/// larger ones the wait is nothing, and a failure can be repaired on the open handle.
pub(crate) const CLOSE_BEHIND: u64 = 256 * 1024;

impl Tasks {
    /// Asks behind the last READ of a small file.
    pub(crate) fn look_at_source_ahead(&mut self, key: Key, ends: &mut Ends, direction: Direction) {
        let small = |file: &File| {
            file.requests.size <= CLOSE_BEHIND && file.handles.on_channels.is_empty() && !file.requests.to_eof
        };
        if ends.source.is_some() && self.files.get(key).is_some_and(small) {
            self.look_at_source(key, ends, direction);
        }
    }

    /// Looks at a source of which everything has been asked for, or read. True while the answer is awaited.
    pub(crate) fn look_at_source(&mut self, key: Key, ends: &mut Ends, direction: Direction) -> bool {
        let Some(file) = self.files.get_mut(key) else { return false };
        let State::Copying(copying) = &mut file.state else { return false };
        match copying.source_after {
            SourceAfter::Known(_) => return false,
            SourceAfter::Asked { .. } => return true,
            SourceAfter::Unasked => {}
        }
        let wanted = !file.faults.failed && file.handles.target.is_some();
        let Some(handle) = file.handles.source.clone().filter(|_| wanted) else { return false };
        let op = Op::Fstat(&handle);
        if ends.source.is_none() {
            self.source_looked_at(key, &local::perform(op), Precision::Exact, direction);
            return false;
        }
        copying.source_after = SourceAfter::Asked { outdated: false };
        file.outstanding += 1;
        ends.start(Side::Source, op, Token::File(key, FileStep::SourceAfter));
        true
    }

    /// Takes the answer.
    pub(crate) fn source_looked_at(
        &mut self,
        key: Key,
        outcome: &Outcome,
        precision: Precision,
        direction: Direction,
    ) {
        let Some(file) = self.files.get_mut(key) else { return };
        let State::Copying(copying) = &mut file.state else { return };
        if copying.source_after == (SourceAfter::Asked { outdated: true }) {
            copying.source_after = SourceAfter::Unasked;
            return;
        }
        let read = match direction {
            _ if !file.requests.to_eof => file.requests.size,
            Direction::Upload => file.requests.next,
            Direction::Download => file.taken.prefix,
            Direction::Relay => file.relay.write_at,
        };
        let changed = match outcome {
            Ok(Done::Info(after)) => Changed::between(&file.item.info, after, read, precision),
            // An end that cannot tell; that it is lost shows elsewhere.
            _ => None,
        };
        copying.source_after = SourceAfter::Known(changed);
    }

    /// Returns why a copy is wrong that has as many bytes as its server says that there are: there are more,
    /// and not because it grew.
    pub(crate) fn size_was_wrong(&self, key: Key) -> Option<Fault> {
        let file = self.files.get(key)?;
        let State::Copying(Copying { source_after: SourceAfter::Known(changed), .. }) = file.state else {
            return None;
        };
        let grew = matches!(changed, Some(Changed::Grew { .. }));
        (file.requests.longer && !grew).then(|| {
            let size = file.requests.size;
            Fault::other(format!("the server says that it has {size} bytes, and it has more"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::time::Instant;

    use crate::item::Item;

    use super::*;

    #[test]
    fn local_source_that_grew_while_it_was_read_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        let name = path.to_string_lossy().into_owned().into_bytes();
        for grows in [false, true] {
            fs::write(&path, "1234").expect("a file");
            let Ok(Done::Opened(handle, Some(info))) = local::perform(Op::OpenRead(&name)) else {
                panic!("the file is not opened");
            };
            let mut tasks = Tasks::default();
            let mut file = File::new(0, Item::top(name.clone(), Vec::new(), info), Instant::now());
            (file.handles.source, file.handles.target) = (Some(handle.clone()), Some(handle));
            (file.requests.size, file.state) = (4, State::Copying(Copying::default()));
            let key = tasks.files.insert(file);
            if grows {
                let file = fs::OpenOptions::new().append(true).open(&path);
                file.and_then(|mut file| file.write_all(b"5")).expect("a write");
            }
            let mut ends = Ends::new(Direction::Upload);
            assert!(!tasks.look_at_source(key, &mut ends, Direction::Upload), "the answer is there at once");
            let state = tasks.files.get(key).map(|file| &file.state);
            let Some(State::Copying(Copying { source_after, .. })) = state else { panic!("{state:?}") };
            assert_eq!(source_after.changed().is_some(), grows);
        }
    }
}
