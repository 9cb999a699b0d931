use lh_sftp::Session;

use crate::end::{FaultKind, Info, Kind};
use crate::flow::Bounds;

use super::*;

/// A copy of small files from or to a server that takes them in batches.
struct Copy {
    direction: Direction,
    options: Options,
    batches: Batches,
    tasks: Tasks,
    ends: Ends,
    flow: Flow,
    progress: Progress,
    leftovers: Leftovers,
    report: Reporter,
}

impl Copy {
    fn new(direction: Direction) -> Self {
        let (options, now) = (Options::default(), Instant::now());
        let mut ends = Ends::new(direction);
        ends.adopt(direction.side_with_channels(), Session::new());
        Self {
            direction,
            report: Reporter::new(&options),
            options,
            batches: Batches::offered(),
            tasks: Tasks::default(),
            ends,
            flow: Flow::new(Bounds::for_tests(), now),
            progress: Progress::new(now),
            leftovers: Leftovers::new(None),
        }
    }

    fn files(&mut self) -> SmallFiles<'_> {
        SmallFiles {
            direction: self.direction,
            options: &self.options,
            batches: &mut self.batches,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            flow: &mut self.flow,
            progress: &mut self.progress,
            leftovers: &self.leftovers,
            report: &mut self.report,
            ordered: false,
        }
    }

    /// A download's batch of two files, which is sent; returns its key.
    fn sent() -> (Self, Key) {
        let mut copy = Self::new(Direction::Download);
        for name in ["a", "b"] {
            assert!(copy.files().take_listed(listed(name, 10)).is_none(), "{name} goes in a batch");
        }
        copy.files().send();
        let key = copy.batches.keys().next().expect("a batch");
        (copy, key)
    }
}

fn listed(name: &str, size: u64) -> Item {
    let info = Info { kind: Kind::File, size: Some(size), mode: Some(0o600), ..Info::UNKNOWN };
    Item::top(name.into(), name.into(), info)
}

#[test]
fn large_files_and_other_directions_are_not_batched() {
    let mut copy = Copy::new(Direction::Download);
    assert!(copy.files().take_listed(listed("large", 1 << 30)).is_some());
    assert_eq!(copy.progress.bytes_found, 0);
    assert!(Copy::new(Direction::Upload).files().take_listed(listed("small", 10)).is_some());
}

#[test]
fn files_of_a_lost_channel_are_copied_and_counted_once() {
    let (mut copy, key) = Copy::sent();
    assert_eq!((copy.progress.bytes_found, copy.flow.in_flight.requests()), (20, 1));
    let ended = copy.files().lost(key).expect("the batch");
    assert!(ended.files.iter().all(|end| matches!(end, SmallEnd::Alone(small) if small.item.alone)));
    assert_eq!((ended.files.len(), copy.progress.bytes_found, copy.flow.in_flight.requests()), (2, 0, 0));
    assert!(copy.files().lost(key).is_none(), "it has ended");
}

#[test]
fn answers_that_are_about_other_files_are_failures_of_all() {
    for outcome in [
        Ok(Done::Got(vec![Err(Fault::other("one"))])),
        Ok(Done::Ok),
        Err(Fault { kind: FaultKind::Other, text: "Failure".to_owned() }),
    ] {
        let (mut copy, key) = Copy::sent();
        let shown = format!("{outcome:?}");
        let ended = copy.files().answered(key, outcome).expect("the batch");
        let failed = |end: &SmallEnd| matches!(end, SmallEnd::Failed(_, FailedStep::ReadSource, _));
        assert!(ended.files.len() == 2 && ended.files.iter().all(failed), "{shown}");
        assert!(copy.batches.is_empty() && copy.flow.in_flight.requests() == 0, "{shown}");
    }
}

#[test]
fn each_file_of_an_upload_has_its_own_failures() {
    let mut copy = Copy::new(Direction::Upload);
    for name in ["a", "b"] {
        copy.batches.add(Small { id: 0, item: listed(name, 1), size: 1, sum: None }, u64::MAX);
    }
    copy.files().send();
    let key = copy.batches.keys().next().expect("a batch");
    let failure = (1, lh_sftp::batch::PutStep::Write, Fault::other("full"));
    let ended = copy.files().answered(key, Ok(Done::Put(vec![failure]))).expect("the batch");
    let [SmallEnd::Done(done), SmallEnd::Failed(failed, FailedStep::WriteTarget, _)] = &ended.files[..]
    else {
        panic!("{ended:?}")
    };
    assert_eq!((&done.item.target[..], &failed.item.target[..]), (&b"a"[..], &b"b"[..]));
}

#[test]
fn failures_that_fit_no_file_fail_all() {
    let at = |index| (index, PutStep::Open, Fault::other("no"));
    for failures in [vec![at(2)], vec![at(1), at(0)]] {
        let (mut copy, key) = Copy::sent();
        let ended = copy.files().answered(key, Ok(Done::Put(failures))).expect("the batch");
        assert!(ended.files.len() == 2, "{ended:?}");
        assert!(ended.files.iter().all(|end| matches!(end, SmallEnd::Failed(..))), "{ended:?}");
    }
}
