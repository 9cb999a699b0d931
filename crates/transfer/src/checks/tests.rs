use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::end::{FaultKind, Info, Kind};
use crate::file_work::JobDone;
use crate::flow::Bounds;
use crate::item::Item;
use crate::task::File;
use crate::task::proof::ProofStage;
use crate::task::state::{Closed, Closing};
use crate::{Placing, Verify, local};

use super::*;

const SIZE: u64 = 200_000;

/// Two files of this host, one of which is to be a copy of the other one.
struct Host {
    _dir: tempfile::TempDir,
    options: Options,
    tasks: Tasks,
    ends: Ends,
    report: Reporter,
    flow: Flow,
    key: Key,
    target: PathBuf,
}

fn bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

impl Host {
    /// `there`: what the target has.
    fn new(options: Options, there: impl FnOnce(&mut Vec<u8>)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (source, target) = (dir.path().join("source"), dir.path().join("target"));
        let mut data: Vec<u8> = (0..SIZE).map(|n| (n / 7) as u8).collect();
        fs::write(&source, &data).expect("a source");
        there(&mut data);
        fs::write(&target, &data).expect("a target");
        let info = Info { kind: Kind::File, size: Some(SIZE), ..Info::UNKNOWN };
        let mut file = File::new(0, Item::top(bytes(&source), bytes(&target), info), Instant::now());
        file.requests.size = SIZE;
        let mut tasks = Tasks::default();
        let key = tasks.files.insert(file);
        let mut ends = Ends::new(Direction::Download);
        ends.source = None;
        let report = Reporter::new(&options);
        let flow = Flow::new(Bounds::for_tests(), Instant::now());
        Self { _dir: dir, options, tasks, ends, report, flow, key, target }
    }

    fn checks(&mut self) -> Checks<'_> {
        Checks {
            direction: Direction::Download,
            options: &self.options,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            report: &mut self.report,
            flow: &mut self.flow,
        }
    }

    fn file(&mut self) -> &mut File {
        self.tasks.files.get_mut(self.key).expect("the file")
    }

    fn open(&mut self) {
        let (source, target) = (self.file().item.source.clone(), self.file().item.target.clone());
        let handle = |path: &[u8]| match local::perform(Op::OpenRead(path)) {
            Ok(Done::Opened(handle, _)) => handle,
            other => panic!("{other:?}"),
        };
        self.file().handles.source = Some(handle(&source));
        self.file().handles.target = Some(handle(&target));
    }

    /// Acts on answers until something follows for the file.
    fn answers(&mut self, mut next: CheckNext) -> CheckNext {
        while let CheckNext::Wait = next {
            if let Some(work) = self.ends.file_work.pop_front()
                && let JobDone::Operation(token, outcome) = work.carry_out().0
            {
                self.ends.answer((token, outcome));
            }
            let Some((token, outcome)) = self.ends.next_answer() else { break };
            let (key, Token::File(_, step)) = (self.key, token) else { continue };
            self.file().outstanding -= 1;
            next = match step {
                FileStep::Check(step) => self.checks().on_answer(key, step, outcome),
                FileStep::Proof(side) => self.checks().proof_opened(key, side, outcome),
                other => panic!("{other:?}"),
            };
        }
        next
    }

    /// Compares what is there before more is copied.
    fn resume(&mut self) -> CheckNext {
        self.open();
        let (key, found) = (self.key, fs::metadata(&self.target).expect("a target").len());
        let next = self.checks().begin(key, Found::Part, found, found, false);
        self.answers(next)
    }

    /// Reads back a closed copy.
    fn prove(&mut self) -> CheckNext {
        let file = self.file();
        file.taken.prefix = SIZE;
        file.state = State::Closing(Closing { closed: Closed::default(), ..Closing::default() });
        let key = self.key;
        assert!(self.checks().prove(key, ProofStage::Written));
        self.answers(CheckNext::Wait)
    }
}

#[test]
fn the_copy_goes_on_behind_what_agrees() {
    let mut host = Host::new(Options::default(), |data| data.truncate(90_000));
    assert!(matches!(host.resume(), CheckNext::Data));
    assert_eq!((host.file().taken.kept, host.file().requests.next), (90_000, 90_000));
    assert!(matches!(host.report.poll(), Some(Event::Resumed { kept: 90_000, size: SIZE, .. })));
}

#[test]
fn files_with_another_start_are_copied_whole() {
    let mut host = Host::new(
        Options { placing: Placing { resume: true, ..Placing::default() }, ..Options::default() },
        |data| data[3] ^= 1,
    );
    assert!(matches!(host.resume(), CheckNext::Data));
    assert_eq!(host.file().taken.kept, 0);
    assert!(matches!(host.report.poll(), Some(Event::Skipped { .. })));
}

#[test]
fn a_target_that_cannot_be_read_where_it_is_written_is_emptied() {
    for (refused, emptied) in [(Ok(Done::Ok), true), (Err(Fault::other("Failure")), true), (Err(EOF), false)]
    {
        let mut host = Host::new(Options::default(), |_| {});
        host.open();
        let key = host.key;
        let begun = host.checks().begin(key, Found::InPlace, 100, 100, false);
        assert!(matches!(begun, CheckNext::Wait));
        let step = CheckStep::Range(Side::Target, 0);
        assert!(matches!(host.checks().on_answer(key, step, refused), CheckNext::Wait));
        let step = CheckStep::Range(Side::Source, 0);
        let next = host.checks().on_answer(key, step, Ok(Done::Digests(Vec::new())));
        assert_eq!(matches!(next, CheckNext::Emptied), emptied, "{next:?}");
        assert!(emptied || matches!(next, CheckNext::Anew), "{next:?}");
    }
}

#[test]
fn unreadable_source_decides_nothing_about_resuming() {
    for of in [Found::InPlace, Found::ToContinue] {
        for fault in [EOF, Fault::other("Failure")] {
            let mut host = Host::new(
                Options { placing: Placing { resume: true, ..Placing::default() }, ..Options::default() },
                |_| {},
            );
            host.open();
            let key = host.key;
            host.file().handles.old_size = Some(SIZE);
            let of = if matches!(of, Found::InPlace) { Found::InPlace } else { Found::ToContinue };
            assert!(matches!(host.checks().begin(key, of, 100, 100, false), CheckNext::Wait));
            let next = host.checks().on_answer(key, CheckStep::Range(Side::Source, 0), Err(fault));
            let CheckNext::Failed(FailedStep::ReadSource, fault) = next else { panic!("{next:?}") };
            assert!(!fault.text.is_empty() && host.file().handles.old_size.is_none());
        }
    }
}

const EOF: Fault = Fault { kind: FaultKind::Eof, text: String::new() };

#[test]
fn a_closed_copy_is_read_back() {
    let options = || Options { verify: Verify::Always, ..Options::default() };
    let mut right = Host::new(options(), |_| {});
    assert!(matches!(right.prove(), CheckNext::Wait));
    assert!(right.file().place.compared && right.file().outstanding == 0);
    assert!(right.file().handles.source.is_none() && right.file().handles.target.is_none());
    let mut wrong = Host::new(options(), |data| data[150_000] ^= 1);
    assert!(matches!(wrong.prove(), CheckNext::Wrong));
    assert!(!wrong.file().place.compared);
    let mut longer = Host::new(options(), |data| data.push(0));
    assert!(matches!(longer.prove(), CheckNext::Wrong));
    let mut missing = Host::new(options(), |_| {});
    fs::remove_file(&missing.target).expect("a target");
    assert!(matches!(missing.prove(), CheckNext::Failed(FailedStep::VerifyTarget, _)));
}

#[test]
fn sums_of_both_ends_must_agree() {
    let mut host = Host::new(Options::default(), |_| {});
    let key = host.key;
    let sum = |host: &mut Host, outcome| host.checks().on_answer(key, CheckStep::Sum, outcome);
    assert!(matches!(sum(&mut host, Ok(Done::Ok)), CheckNext::Wait), "none was asked for");
    host.file().sums.ours = Some(lh_sftp::RunningSum::default());
    let next = sum(&mut host, Err(Fault::other("Failure")));
    assert!(matches!(next, CheckNext::Failed(FailedStep::VerifyTarget, _)), "{next:?}");
    let refused = host.checks().on_answer(key, CheckStep::SumBegun, Err(Fault::other("Failure")));
    assert!(matches!(refused, CheckNext::Wait) && host.file().sums.ours.is_none());
}
