use std::time::Instant;

use crate::Direction;
use crate::end::{Done, FaultKind, Handle, Info, Kind, Op};
use crate::flow::Bounds;
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
    direction: Direction,
    options: Options,
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
        let there = Handle::Remote(lh_sftp::Handle::new(b"h"), 0);
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
        let (flow, progress) = (Flow::new(Bounds::for_tests(), now), Progress::new(now));
        let (leftovers, options) = (Leftovers::new(None), Options::default());
        Self { tasks, ends, flow, progress, leftovers, direction, options, key, _dir: dir }
    }

    fn requests(&mut self) -> DataRequests<'_> {
        let (direction, reopening) = (self.direction, Reopening::default());
        let Self { options, tasks, ends, flow, progress, leftovers, .. } = self;
        DataRequests { direction, options, tasks, ends, flow, progress, leftovers, reopening }
    }

    /// The next step of the side whose requests these are.
    fn step(&mut self, side: Side, passed: &mut usize, out: &mut Vec<u8>) -> Step {
        self.requests().next_request(side, 0, passed, out)
    }

    /// A second file, all of whose data are still to be moved.
    fn another(&mut self, size: u64) -> Key {
        let info = Info { kind: Kind::File, size: Some(size), ..Info::UNKNOWN };
        let mut file = File::new(1, Item::top(b"2".to_vec(), b"2".to_vec(), info), self.progress.now);
        file.state = State::Copying(Copying::default());
        file.requests.size = size;
        (file.handles.source, file.handles.target) =
            (self.file().handles.source.clone(), self.file().handles.target.clone());
        self.tasks.files.insert(file)
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
    assert_eq!(copy.flow.in_flight.requests(), 1);
    let sent = work.carry_out(&mut out);
    assert!(out.ends_with(&content), "all of it is sent");
    copy.requests().step_done(0, sent.write);
    assert!(!copy.has_half_sent() && copy.file().requests.half_sent == 0);
    assert!(matches!(copy.requests().finish_write(0, &mut out), Break(Step::Done)));
}

#[test]
fn rest_of_a_write_of_a_failed_file_is_sent_as_zeros() {
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
    assert_eq!(copy.requests().queue_small_write(key, 0, 3, SMALL_WRITE).ok(), Some(4));
    assert!(copy.ends.queue_of(0) > before + 4);
    copy.requests().count_write(key, 0, 4);
    assert_eq!((copy.file().requests.next, copy.file().requests.writes), (4, 1));
    assert_eq!(copy.requests().queue_small_write(key, 0, 7, SMALL_WRITE).ok(), Some(0), "the end");
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
    assert_eq!(copy.flow.in_flight.requests(), 3);
}

#[test]
fn ranges_taken_back_are_leased_again() {
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

#[test]
fn an_upload_goes_on_to_the_end_of_each_file() {
    let content = vec![5; 100_000];
    let (mut copy, mut out, mut passed) = (Copy::new(Direction::Upload, &content), Vec::new(), 0);
    let key = copy.key;
    assert!(matches!(copy.step(Side::Target, &mut passed, &mut out), Step::Idle), "nothing has begun");
    copy.tasks.send_first(key);
    loop {
        match copy.step(Side::Target, &mut passed, &mut out) {
            Step::Read(work) => {
                assert_eq!(copy.requests().sent(work.carry_out(&mut out)).ok(), Some(true));
            }
            Step::Done => {}
            Step::Moved(moved) => break assert_eq!(moved, key),
            step => panic!("{step:?}"),
        }
    }
    let requests = &copy.file().requests;
    assert_eq!((requests.next, requests.lent, requests.half_sent), (100_000, 0, 0));
    assert!(requests.complete && copy.tasks.sending.is_empty());
    assert!(out.len() + copy.ends.queue_of(0) > content.len());
}

#[test]
fn a_source_that_has_become_shorter_fails_its_copy() {
    let (mut copy, mut out, mut passed) = (Copy::new(Direction::Upload, b"short"), Vec::new(), 0);
    let key = copy.key;
    copy.file().requests.size = 10;
    copy.tasks.send_first(key);
    assert!(matches!(copy.step(Side::Target, &mut passed, &mut out), Step::Done));
    assert_eq!(copy.file().requests.next, 5);
    let step = copy.step(Side::Target, &mut passed, &mut out);
    assert!(matches!(step, Step::Failed(failed, _) if failed == key), "{step:?}");
}

#[test]
fn unreadable_source_takes_its_write_back() {
    let (mut copy, mut out, mut passed) = (Copy::new(Direction::Upload, &[1; 20]), Vec::new(), 0);
    let key = copy.key;
    copy.file().requests.size = 100_000;
    copy.file().requests.next = 50_000;
    copy.tasks.send_first(key);
    let Step::Read(work) = copy.step(Side::Target, &mut passed, &mut out) else { panic!("no work") };
    assert!(copy.requests().sent(work.carry_out(&mut out)).is_err(), "it ends before");
    let requests = &copy.file().requests;
    assert_eq!((requests.writes, requests.lent, requests.half_sent), (0, 0, 0));
    assert_eq!(copy.flow.in_flight.requests(), 0);
}

#[test]
fn a_file_of_unknown_length_lets_others_pass_while_it_is_read() {
    let (mut copy, mut out, mut passed) = (Copy::new(Direction::Download, &[0; 10]), Vec::new(), 0);
    let (key, other) = (copy.key, copy.another(10));
    copy.file().requests.to_eof = true;
    copy.tasks.send_first(other);
    copy.tasks.send_first(key);
    let mut step = || copy.step(Side::Source, &mut passed, &mut out);
    // Its first READ is on its way, and how much more there is will show.
    assert!(matches!(step(), Step::Done) && matches!(step(), Step::Done) && matches!(step(), Step::Done));
    assert!(matches!(step(), Step::Moved(moved) if moved == other), "all of the other one is asked for");
    assert!(matches!(step(), Step::Idle));
    assert_eq!((passed, copy.tasks.sending.clone()), (1, [key].into()));
    assert_eq!(copy.file().requests.reads, 1);
}

#[test]
fn a_relay_writes_in_order_what_comes_in_any() {
    let (mut copy, mut out, mut passed) = (Copy::new(Direction::Relay, &[0; 8]), Vec::new(), 0);
    let key = copy.key;
    copy.ends.adopt(Side::Target, lh_sftp::Session::new());
    copy.file().handles.target = Some(Handle::Remote(lh_sftp::Handle::new(b"t"), 0));
    for (offset, bytes) in [(4, b"5678"), (0, b"1234")] {
        copy.file().requests.reads += 1;
        copy.flow.request(4);
        let data = lh_sftp::Data::from(bytes.to_vec());
        assert!(matches!(copy.step(Side::Target, &mut passed, &mut out), Step::Blocked), "nothing is next");
        assert!(copy.requests().on_answer(key, offset, 4, Ok(Done::Data(data))).is_ok());
    }
    let mut moved = false;
    while !moved {
        match copy.step(Side::Target, &mut passed, &mut out) {
            Step::Done => {}
            Step::Moved(_) => moved = copy.tasks.writing.is_empty(),
            step => panic!("{step:?}"),
        }
    }
    let at = |part: &[u8]| out.windows(4).position(|bytes| bytes == part);
    assert!(at(b"1234").is_some() && at(b"1234") < at(b"5678"));
    assert_eq!(copy.file().relay.write_at, 8);
}

#[test]
fn answers_to_reads_that_are_wrong_are_no_data() {
    let data = |len: usize| Ok(Done::Data(lh_sftp::Data::from(vec![1; len])));
    let eof = || Err(Fault { kind: crate::end::FaultKind::Eof, text: String::new() });
    for (outcome, right, again) in [
        (data(100), true, 0),
        (data(60), true, 1),
        (data(101), false, 0),
        (data(0), false, 0),
        (eof(), false, 0),
        (Ok(Done::Ok), false, 0),
    ] {
        let mut copy = Copy::new(Direction::Download, &[0; 200]);
        copy.file().requests.reads = 1;
        copy.flow.request(100);
        let (key, shown) = (copy.key, format!("{outcome:?}"));
        assert_eq!(copy.requests().on_answer(key, 0, 100, outcome).is_ok(), right, "{shown}");
        let requests = &copy.file().requests;
        assert_eq!((requests.reads, requests.again.len()), (0, again), "{shown}");
        assert_eq!(copy.ends.file_work.len(), usize::from(right), "{shown}");
    }
}

#[test]
fn only_a_confirmed_write_counts() {
    let mut copy = Copy::new(Direction::Upload, &[0; 200]);
    let key = copy.key;
    copy.file().requests.writes = 2;
    (0..2).for_each(|_| copy.flow.request(100));
    assert_eq!(copy.requests().confirmed(key, 0, 100, Ok(Done::Ok)).ok(), Some(100));
    assert!(copy.requests().confirmed(key, 100, 100, Err(Fault::other("full"))).is_err());
    assert_eq!((copy.file().requests.writes, copy.file().taken.prefix), (0, 100));
}

#[test]
fn a_source_that_is_longer_than_its_server_says_is_noticed() {
    let data = |len: usize| Ok(Done::Data(lh_sftp::Data::from(vec![1; len])));
    let failed = |kind| Err(Fault { kind, text: String::new() });
    // In requests of 120 bytes, the last one asks for a byte more.
    for (there, longer) in [(100, false), (101, true)] {
        let mut copy = Copy::new(Direction::Download, &[0; 100]);
        let key = copy.key;
        copy.requests().request_next(key, 0, 120);
        assert_eq!((copy.file().requests.next, copy.file().requests.reads), (100, 1));
        assert!(copy.requests().on_answer(key, 0, 101, data(there)).is_ok());
        assert_eq!(copy.file().requests.longer, longer);
        assert_eq!(copy.flow.in_flight.requests(), 0);
        assert_eq!(copy.ends.file_work.len(), 1, "no more than its size is copied");
    }
    // Where the data end with a request, the byte is asked for by one of its own: none is shorter.
    for (behind, longer) in [
        (failed(FaultKind::Eof), false),
        (failed(FaultKind::Other), false),
        (data(0), false),
        (data(1), true),
    ] {
        let mut copy = Copy::new(Direction::Download, &[0; 100]);
        let key = copy.key;
        copy.requests().request_next(key, 0, 100);
        assert_eq!((copy.file().requests.next, &copy.file().requests.again[..]), (100, &[(100, 1)][..]));
        copy.requests().request_next(key, 0, 100);
        assert_eq!((copy.file().requests.next, copy.file().requests.reads), (100, 2));
        assert!(copy.requests().on_answer(key, 0, 100, data(100)).is_ok());
        assert!(copy.requests().on_answer(key, 100, 1, behind).is_ok());
        let requests = &copy.file().requests;
        assert_eq!((requests.longer, requests.again.len(), requests.reads), (longer, 0, 0));
        assert_eq!(copy.flow.in_flight.requests(), 0);
        assert_eq!(copy.ends.file_work.len(), 1, "no more than its size is copied");
    }
}
