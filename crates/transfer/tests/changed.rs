//! Sources that are written to while they are copied: the copy is what was read, and that is told.

mod common;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::{Ended, Faults, Setup, TempTree, copy_with, in_part_files, plan, stock};
use lh_transfer::{Direction, Options, Verify};

const DIRECTIONS: [Direction; 3] = [Direction::Upload, Direction::Download, Direction::Relay];

/// Does `change` to the source each time data of the copy pass the server, at most `times`.
fn change_while_copied(source: &Path, times: u32, change: fn(&Path)) -> Faults {
    let (source, mut left) = (source.to_owned(), times);
    Faults::hook(move |what, _, _| {
        if matches!(what, "read" | "write") && left > 0 {
            left -= 1;
            change(&source);
        }
        Ok(())
    })
}

fn append(path: &Path) {
    fs::OpenOptions::new().append(true).open(path).expect("a file").write_all(b"more").expect("written");
}

/// Other bytes, as many, with a later time, which a server that tells whole seconds sees.
fn overwrite(path: &Path) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("a file");
    (&file).write_all(b"other").expect("written");
    file.set_modified(SystemTime::now() + Duration::from_secs(10)).expect("a time");
}

fn replace(path: &Path) {
    let new = path.with_extension("new");
    fs::write(&new, b"another file").expect("written");
    fs::rename(&new, path).expect("renamed");
}

struct Case {
    direction: Direction,
    size: usize,
    stock: bool,
    options: Options,
    channels: usize,
}

impl Case {
    fn new(direction: Direction, size: usize, stock: bool) -> Self {
        Self {
            direction,
            size,
            stock,
            options: Options { placing: in_part_files(), ..Options::default() },
            channels: 0,
        }
    }

    /// What came of a copy of `from` in a tree with other files, and the bytes that `from` began with.
    fn run(self, temp: &TempTree, times: u32, change: fn(&Path)) -> (Ended, PathBuf, Vec<u8>) {
        let source = temp.file("tree/from", self.size);
        temp.file("tree/other", 1_000);
        let before = fs::read(&source).expect("the source");
        let mut setup = if self.stock { stock(&[]) } else { Setup::default() };
        setup.faults = change_while_copied(&source, times, change);
        setup.channels = self.channels;
        let plan = plan(self.direction, &temp.join("tree"), &temp.join("to"));
        let options = Options { recursive: true, ..self.options };
        let ended = copy_with(plan, options, temp.path(), &mut setup);
        assert_eq!(ended.summary.files, 2, "{ended:?}");
        (ended, source, before)
    }
}

/// Small files are read before anything passes the server when they are uploaded.
fn sizes(direction: Direction) -> &'static [usize] {
    if direction == Direction::Upload { &[6_000_000] } else { &[100, 90_000, 200_000, 6_000_000] }
}

#[test]
fn a_file_that_grows_is_told_and_copied_as_it_was() {
    for direction in DIRECTIONS {
        for &size in sizes(direction) {
            for stock in [false, true] {
                let temp = TempTree::new();
                let case = Case::new(direction, size, stock);
                let (ended, source, before) = case.run(&temp, u32::MAX, append);
                let what = format!("{direction:?} {size} stock {stock}: {ended:?}");
                let [text] = &ended.changed[..] else { panic!("{what}") };
                let start = format!("\"{}\": file changed while it was copied: it grew", source.display());
                assert!(text.starts_with(&start), "{what}");
                assert_eq!(ended.failures, Vec::<String>::new(), "{what}");
                let copy = fs::read(temp.join("to/from")).expect("a copy");
                assert!(copy.starts_with(&before), "{what}");
                assert!(fs::read(&source).expect("the source").starts_with(&copy), "{what}");
            }
        }
    }
}

#[test]
fn a_verified_copy_of_a_file_that_grows_is_a_failure() {
    for direction in DIRECTIONS {
        for &size in sizes(direction) {
            for stock in [false, true] {
                let temp = TempTree::new();
                let mut case = Case::new(direction, size, stock);
                case.options.verify = Verify::Always;
                let (ended, _, before) = case.run(&temp, u32::MAX, append);
                let what = format!("{direction:?} {size} stock {stock}: {ended:?}");
                assert!(ended.changed.is_empty(), "{what}");
                assert_eq!(ended.failures.len(), 1, "{what}");
                assert!(ended.failures[0].contains("tree/from\": file changed"), "{what}");
                // The other file is.
                assert_eq!(ended.summary.verified, 1, "{what}");
                assert!(fs::read(temp.join("to/from")).expect("a copy").starts_with(&before), "{what}");
            }
        }
    }
}

#[test]
fn changed_source_is_not_verified_where_sums_agree() {
    for direction in [Direction::Upload, Direction::Download] {
        let temp = TempTree::new();
        let mut case = Case::new(direction, 6_000_000, false);
        case.options.verify = Verify::WhenCheap;
        let (ended, ..) = case.run(&temp, u32::MAX, append);
        assert_eq!((ended.changed.len(), ended.failures.len()), (1, 0), "{ended:?}");
        assert_eq!(ended.summary.verified, 1, "{ended:?}");
    }
}

#[test]
fn a_file_that_is_overwritten_is_told() {
    for direction in DIRECTIONS {
        for stock in [false, true] {
            let temp = TempTree::new();
            let (ended, ..) = Case::new(direction, 6_000_000, stock).run(&temp, 1, overwrite);
            assert_eq!(ended.changed.len(), 1, "{direction:?} stock {stock}: {ended:?}");
            assert!(ended.changed[0].contains("older than others"), "{ended:?}");
        }
    }
}

#[test]
fn a_file_that_is_replaced_is_told_where_its_end_knows() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let (ended, _, before) = Case::new(direction, 6_000_000, false).run(&temp, 1, replace);
        assert_eq!(ended.changed.len(), 1, "{direction:?}: {ended:?}");
        assert!(ended.changed[0].contains("replaced"), "{ended:?}");
        assert!(fs::read(temp.join("to/from")).expect("a copy") == before, "{direction:?}");
    }
}

#[test]
fn changes_show_over_several_channels() {
    for direction in [Direction::Upload, Direction::Download] {
        for stock in [false, true] {
            let temp = TempTree::new();
            let mut case = Case::new(direction, 24_000_000, stock);
            (case.channels, case.options.limits.channels) = (2, Some(3));
            let (ended, ..) = case.run(&temp, u32::MAX, append);
            assert_eq!(ended.changed.len(), 1, "{direction:?} stock {stock}: {ended:?}");
            assert_eq!(ended.channels, 2);
        }
    }
}

/// What is listed at one size and read at another has not changed while it was copied.
#[test]
fn small_files_that_grew_before_are_copied_whole_without_a_word() {
    for size in [1, 100, 60_000] {
        let temp = TempTree::new();
        let (ended, source, _) = Case::new(Direction::Download, size, false).run(&temp, 1, append);
        assert_eq!((ended.changed.len(), ended.failures.len()), (0, 0), "{ended:?}");
        let copy = fs::read(temp.join("to/from")).expect("a copy");
        assert!(copy == fs::read(source).expect("the source"), "{size}");
    }
}

#[test]
fn short_reads_are_followed_by_another_look() {
    let temp = TempTree::new();
    let source = temp.file("from", 50_000);
    let mut setup = stock(&[]);
    setup.faults = Faults { longest_read: Some(1_000), ..change_while_copied(&source, u32::MAX, append) };
    let plan = plan(Direction::Download, &source, &temp.join("to"));
    let ended = copy_with(plan, Options::default(), temp.path(), &mut setup);
    assert_eq!(ended.changed.len(), 1, "{ended:?}");
    assert!(ended.changed[0].contains("the copy has the first 50000"), "{ended:?}");
    // The last READ, too, was before the last look.
    let now = format!("grew to {} bytes", fs::metadata(&source).expect("the source").len());
    assert!(ended.changed[0].contains(&now), "{now}: {ended:?}");
}
