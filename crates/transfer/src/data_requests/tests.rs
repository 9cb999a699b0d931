use std::time::Instant;

use crate::Direction;
use crate::end::{Done, Handle, Info, Kind, Op};
use crate::flow::Limits;
use crate::item::Item;
use crate::task::File;
use crate::task::state::{Copying, State};

use super::*;

/// One file whose data move.
struct Copy {
    tasks: Tasks,
    ends: Ends,
    flow: Flow,
    progress: Progress,
    leftovers: Leftovers,
    key: Key,
    _dir: tempfile::TempDir,
}

impl Copy {
    fn new(direction: Direction, content: &[u8]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("from");
        std::fs::write(&path, content).expect("a file");
        let path = path.to_string_lossy().into_owned().into_bytes();
        let Ok(Done::Opened(here, _)) = local::perform(Op::OpenRead(&path)) else { panic!("a file") };
        let there = Handle::Remote(lh_sftp::Handle::new(b"h"));
        let now = Instant::now();
        let info = Info { kind: Kind::File, size: Some(content.len() as u64), ..Info::UNKNOWN };
        let mut file = File::new(0, Item::top(path, b"to".to_vec(), info), now);
        file.state = State::Copying(Copying::default());
        file.requests.size = content.len() as u64;
        (file.handles.source, file.handles.target) = match direction {
            Direction::Upload => (Some(here), Some(there)),
            Direction::Download | Direction::Relay => (Some(there), Some(here)),
        };
        let (mut tasks, mut ends) = (Tasks::default(), Ends::new(direction));
        let key = tasks.files.insert(file);
        ends.adopt(direction.side_with_channels(), lh_sftp::Session::new());
        let (flow, progress) = (Flow::new(Limits::FOR_TESTS, now), Progress::new(now));
        Self { tasks, ends, flow, progress, leftovers: Leftovers::new(None), key, _dir: dir }
    }

    fn requests(&mut self) -> DataRequests<'_> {
        let Self { tasks, ends, flow, progress, leftovers, .. } = self;
        DataRequests { tasks, ends, flow, progress, leftovers }
    }

    fn file(&mut self) -> &mut File {
        self.tasks.files.get_mut(self.key).expect("a file")
    }

    fn has_half_sent(&mut self) -> bool {
        self.ends.channels.is_first_unfinished()
    }
}

#[test]
fn a_write_is_counted_when_it_is_handed_out() {
    let content: Vec<u8> = (0..40_000_u32).map(|n| n as u8).collect();
    let (mut copy, mut out) = (Copy::new(Direction::Upload, &content), Vec::new());
    let key = copy.key;
    let begun = copy.requests().write_from_file(key, 0, 0, 40_000, &mut out);
    let Break(Step::Read(work)) = begun else { panic!("{begun:?}") };
    let requests = &copy.file().requests;
    assert_eq!((requests.next, requests.writes, requests.lent, requests.half_sent), (40_000, 1, 1, 1));
    assert_eq!(copy.flow.requests(), 1);
    let sent = work.carry_out(&mut out);
    assert!(out.ends_with(&content), "all of it is sent");
    copy.requests().step_done(0, sent.write);
    assert!(!copy.has_half_sent() && copy.file().requests.half_sent == 0);
    assert!(matches!(copy.requests().finish_write(0, &mut out), Break(Step::Done)));
}

#[test]
fn what_a_failed_file_has_promised_is_sent_as_zeros() {
    let (mut copy, mut out) = (Copy::new(Direction::Upload, &[7; 100]), Vec::new());
    let write =
        Unfinished { key: copy.key, head: Vec::new(), offset: 60, left: 40, rest: Rest::File, sum: None };
    copy.file().requests.half_sent = 1;
    copy.file().faults.failed = true;
    *copy.ends.channels.unfinished(0).expect("a place") = Some(write);
    let key = copy.key;
    assert!(matches!(copy.requests().finish_write(0, &mut out), Continue(complete) if complete == key));
    assert_eq!((out, copy.file().taken.real_end), (vec![0; 40], 60));
    assert_eq!(copy.file().requests.half_sent, 0);
}

#[test]
fn small_writes_wait_with_the_other_requests() {
    let mut copy = Copy::new(Direction::Upload, b"content");
    let (key, before) = (copy.key, copy.ends.queue_of(0));
    assert_eq!(copy.requests().queue_small_write(key, 3, SMALL_WRITE).ok(), Some(4));
    assert!(copy.ends.queue_of(0) > before + 4);
    copy.requests().count_write(key, 0, 4);
    assert_eq!((copy.file().requests.next, copy.file().requests.writes), (4, 1));
    assert_eq!(copy.requests().queue_small_write(key, 7, SMALL_WRITE).ok(), Some(0), "the end");
}

#[test]
fn ranges_without_an_answer_are_asked_for_first() {
    let mut copy = Copy::new(Direction::Download, &[0; 100_000]);
    let key = copy.key;
    copy.requests().request_next(key, 0, 32_768);
    assert_eq!((copy.file().requests.next, copy.file().requests.reads), (32_768, 1));
    copy.file().requests.again.push((100, 50));
    copy.requests().request_next(key, 0, 32_768);
    assert_eq!((copy.file().requests.next, copy.file().requests.reads), (32_768, 2));
    assert!(copy.file().requests.again.is_empty());
    // Of a file whose size says nothing little is asked for at first.
    copy.file().requests.to_eof = true;
    copy.requests().request_next(key, 0, 32_768);
    assert_eq!(copy.file().requests.next, 32_768 + FIRST_OF_UNSIZED);
    assert_eq!(copy.flow.requests(), 3);
}

#[test]
fn what_was_handed_out_and_not_read_is_handed_out_again() {
    let mut copy = Copy::new(Direction::Upload, &[0; 100]);
    let key = copy.key;
    copy.requests().count_write(key, 0, 100);
    copy.requests().take_range_back(key, 60, 40);
    assert_eq!((copy.file().requests.next, copy.file().requests.again.clone()), (100, vec![(60, 40)]));
    assert_eq!(copy.tasks.sending, [key]);
    copy.file().requests.to_eof = true;
    copy.requests().take_range_back(key, 50, 10);
    assert_eq!(copy.file().requests.next, 50, "a file of unknown length goes in order");
}
