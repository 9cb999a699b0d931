use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::end::{Done, Info, Kind, Times};
use crate::item::Item;
use crate::target_facts::UncommonOpens;
use crate::task::place::is_part_name;
use crate::task::state::{Closed, Closing, Copying};
use crate::{Direction, Placing};

use super::*;

/// A download's target on this host, of one file.
struct Host {
    plan: Plan,
    options: Options,
    tasks: Tasks,
    ends: Ends,
    dirs: Table<Dir>,
    leftovers: Leftovers,
    backups: Backups,
    report: Reporter,
    key: Key,
}

impl Host {
    fn new(target: &Path, options: Options) -> Self {
        let target = target.to_string_lossy().into_owned().into_bytes();
        let times = Some(Times { access: (1, 0), modification: (2, 0) });
        let info = Info { kind: Kind::File, size: Some(4), mode: Some(0o644), times, ..Info::UNKNOWN };
        let mut tasks = Tasks::default();
        let item = Item::top(b"from".to_vec(), target.clone(), info);
        let key = tasks.files.insert(File::new(0, item, Instant::now()));
        let (direction, sources) = (Direction::Download, vec![b"from".to_vec()]);
        Self {
            plan: Plan { direction, sources, target, target_must_be_dir: false },
            tasks,
            ends: Ends::new(direction),
            dirs: Table::new(),
            leftovers: Leftovers::new(None),
            backups: Backups::new(None),
            report: Reporter::new(&options),
            options,
            key,
        }
    }

    fn names(&mut self) -> PartFiles<'_> {
        PartFiles {
            plan: &self.plan,
            options: &self.options,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            dirs: &self.dirs,
            leftovers: &mut self.leftovers,
            backups: &mut self.backups,
            report: &mut self.report,
            now: Instant::now(),
        }
    }

    fn file(&mut self) -> &mut File {
        self.tasks.files.get_mut(self.key).expect("the file")
    }

    /// Acts on answers until something else follows for the file.
    fn answers(&mut self, mut next: PlaceNext) -> PlaceNext {
        while let (PlaceNext::Wait, Some((token, outcome))) = (&next, self.ends.next_answer()) {
            let Token::File(key, FileStep::Place(step)) = token else { continue };
            self.file().outstanding -= 1;
            next = self.names().on_answer(key, step, outcome);
        }
        next
    }

    /// Finds the place of the file.
    fn find(&mut self) -> PlaceNext {
        let key = self.key;
        let next = self.names().find(key);
        self.answers(next)
    }

    /// The copy has these bytes and is closed; gives it its name.
    fn finish(&mut self, data: &[u8]) -> PlaceNext {
        let file = self.file();
        let path = String::from_utf8_lossy(file.written_path()).into_owned();
        file.state = State::Copying(Copying::default());
        let closed = Closed { examined: file.state.is_examined(), ..Closed::default() };
        file.state = State::Closing(Closing { closed, ..Closing::default() });
        file.handles.target = None;
        fs::write(path, data).expect("a part file");
        let key = self.key;
        assert!(self.names().finish(key));
        self.answers(PlaceNext::Wait)
    }
}

fn atomic() -> Options {
    Options { placing: Placing { atomic: true, ..Placing::default() }, ..Options::default() }
}

fn in_directory(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).expect("a listing");
    names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn complete_part_file_replaces_its_target() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("f");
    fs::write(&path, "old").expect("a file");
    let mut host = Host::new(&path, atomic());
    assert!(matches!(host.find(), PlaceNext::Data));
    assert!(in_directory(dir.path()).iter().any(|name| is_part_name(name.as_bytes())));
    assert_eq!(fs::read(&path).ok().as_deref(), Some(&b"old"[..]));
    assert!(matches!(host.finish(b"new!"), PlaceNext::Wait));
    assert_eq!(host.file().outstanding, 0);
    assert!(host.file().place.is_placed());
    assert_eq!(in_directory(dir.path()), ["f"]);
    assert_eq!(fs::read(&path).ok().as_deref(), Some(&b"new!"[..]));
}

#[test]
fn targets_that_are_no_plain_files_are_written_in_place() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(matches!(Host::new(Path::new("/dev/null"), atomic()).find(), PlaceNext::InPlace));
    let plain = dir.path().join("f");
    assert!(matches!(Host::new(&plain, Options::default()).find(), PlaceNext::InPlace));
    let missing = dir.path().join("none").join("f");
    assert!(matches!(Host::new(&missing, atomic()).find(), PlaceNext::InPlace), "OPEN says why");
}

#[test]
fn the_file_behind_a_link_is_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let (link, file) = (dir.path().join("link"), dir.path().join("file"));
    fs::write(&file, "old").expect("a file");
    symlink("file", &link).expect("a link");
    let mut host = Host::new(&link, atomic());
    assert!(matches!(host.find(), PlaceNext::Data));
    assert!(matches!(host.finish(b"new!"), PlaceNext::Wait));
    assert_eq!(fs::read_link(&link).ok().as_deref(), Some(Path::new("file")));
    assert_eq!(fs::read(&file).ok().as_deref(), Some(&b"new!"[..]));
}

#[test]
fn a_forbidden_rename_takes_the_part_file_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut host = Host::new(&dir.path().join("f"), atomic());
    assert!(matches!(host.find(), PlaceNext::Data));
    let key = host.key;
    let denied = || Err(Fault::other("Permission denied"));
    let next = host.names().on_answer(key, PlaceStep::Rename, denied());
    assert!(matches!(next, PlaceNext::Wait));
    let file = host.file();
    assert!(file.faults.failed && file.place.barred && file.place.part.is_none());
    assert_eq!(in_directory(dir.path()), Vec::<String>::new());
    assert!(matches!(host.report.poll(), Some(Event::Notice { .. })));
}

#[test]
fn a_failure_of_the_rename_is_the_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut host = Host::new(&dir.path().join("f"), atomic());
    assert!(matches!(host.find(), PlaceNext::Data));
    let key = host.key;
    let fault = Fault { kind: crate::end::FaultKind::Lost, text: "gone".to_owned() };
    host.file().state = State::Copying(Copying::default());
    let next = host.names().on_answer(key, PlaceStep::Rename, Err(fault));
    assert!(matches!(next, PlaceNext::Failed(FailedStep::PlaceTarget, _)), "{next:?}");
}

#[test]
fn a_lost_end_is_reported_by_what_was_to_be_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut host = Host::new(&dir.path().join("f"), atomic());
    let key = host.key;
    let fault = Fault { kind: crate::end::FaultKind::Lost, text: "gone".to_owned() };
    let next = host.names().on_answer(key, PlaceStep::Target { followed: false }, Err(fault));
    assert!(matches!(next, PlaceNext::Failed(FailedStep::OpenTarget, _)), "{next:?}");
    let next = host.names().on_answer(key, PlaceStep::Owner, Ok(Done::Ok));
    assert!(matches!(next, PlaceNext::Wait), "{next:?}");
}

#[test]
fn an_open_without_answer_changes_nothing_under_the_final_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = dir.path().join("f");
    fs::write(&target, b"old").expect("a file");
    let mut host = Host::new(&target, atomic());
    let key = host.key;
    host.file().place.part = Some(b"part".to_vec());
    host.file().state = State::Opening(Opening::Part(OpeningPart::default()));
    let unanswered = || Err(Fault::unanswered(60));
    // As scp opens files, under a name that nothing else has.
    let next = host.names().on_answer(key, PlaceStep::Open, unanswered());
    assert!(matches!(next, PlaceNext::Wait), "{next:?}");
    assert_eq!(host.ends.facts.uncommon_opens, UncommonOpens::Ignored);
    let State::Opening(Opening::Part(opening)) = host.file().state else { panic!("it is opened") };
    assert!(opening.emptied && opening.random);
    let part = host.file().place.part.clone().expect("a name");
    assert!(is_part_name(part.rsplit(|&byte| byte == b'/').next().expect("a name")));
    let next = host.names().on_answer(key, PlaceStep::Open, unanswered());
    assert!(matches!(next, PlaceNext::Failed(FailedStep::OpenTarget, _)), "{next:?}");
    assert_eq!(fs::read(&target).expect("a file"), b"old");
}
