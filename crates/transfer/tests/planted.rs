//! What others have put under the names that unfinished copies have is not written to, and does not become
//! the copy.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use common::{Count, Faults, Setup, TempTree, copy_with, in_part_files, plan, same_tree, stock};
use lh_testkit::leftovers;
use lh_transfer::{Direction, Options, Placing, Verify};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;

const SIZE: usize = 3_000_000;

fn durable(temp: &TempTree) -> Options {
    let journal = Some(temp.join("state/journal"));
    Options {
        placing: Placing { atomic: true, journal, ..Placing::default() },
        verify: Verify::WhenCheap,
        ..Options::default()
    }
}

/// Leaves an unfinished copy, lets `plant` put something in its place, and copies once more.
fn after_planting(direction: Direction, ours: bool, plant: &dyn Fn(&Path, &TempTree)) -> TempTree {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    // What the planted name leads to: the beginning of the source is right.
    let begin = fs::read(temp.join("from")).expect("the source");
    temp.write("victim", &begin[..SIZE / 2]);
    let setup = || if ours { Setup::default() } else { stock(&[]) };
    let plan = plan(direction, &temp.join("from"), &temp.join("to"));
    let after = Some(SIZE as u64 / 3);
    let mut first = match direction {
        Direction::Download => Setup { cut_after: after, ..setup() },
        _ => Setup { kill_after: after, window: 256 * 1024, ..setup() },
    };
    copy_with(plan.clone(), durable(&temp), temp.path(), &mut first);
    let [part] = &leftovers(temp.path())[..] else { panic!("one unfinished copy") };
    plant(part, &temp);
    copy_with(plan, durable(&temp), temp.path(), &mut setup()).well();
    same_tree(&temp.join("from"), &temp.join("to"), false);
    let copy = fs::symlink_metadata(temp.join("to")).expect("the copy");
    assert!(copy.is_file() && copy.nlink() == 1, "{direction:?} ours {ours}: {copy:?}");
    assert_eq!(copy.uid(), fs::metadata(temp.join("from")).expect("the source").uid());
    assert_eq!(
        fs::read(temp.join("victim")).expect("the victim"),
        &begin[..SIZE / 2],
        "{direction:?} ours {ours}"
    );
    temp
}

fn everywhere(plant: &dyn Fn(&Path, &TempTree)) {
    for direction in [Direction::Download, Direction::Upload] {
        for ours in [true, false] {
            let temp = after_planting(direction, ours, plant);
            assert_eq!(leftovers(temp.path()).len(), 0, "{direction:?} ours {ours}");
        }
    }
}

#[test]
fn a_hard_link_under_a_part_name_is_not_written_to() {
    for direction in [Direction::Download, Direction::Upload] {
        // Other servers do not say how many names a file has: there its content counts.
        let ours = true;
        after_planting(direction, ours, &|part, temp| {
            fs::remove_file(part).expect("the part");
            fs::hard_link(temp.join("victim"), part).expect("a second name");
        });
    }
}

#[test]
fn symlinks_and_pipes_under_part_names_are_removed() {
    everywhere(&|part, temp| {
        fs::remove_file(part).expect("the part");
        symlink(temp.join("victim"), part).expect("a link");
    });
    everywhere(&|part, _| {
        fs::remove_file(part).expect("the part");
        mknodat(CWD, part, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
    });
}

#[test]
fn another_users_file_under_a_part_name_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return lh_testkit::skip("planted files of another user", "giving files away needs root");
    }
    everywhere(&|part, temp| {
        fs::remove_file(part).expect("the part");
        fs::copy(temp.join("victim"), part).expect("a copy");
        std::os::unix::fs::chown(part, Some(12345), Some(12345)).expect("an owner");
    });
}

#[test]
fn a_part_name_that_cannot_be_freed_is_not_used() {
    let temp = TempTree::new();
    let from = temp.file("from", SIZE);
    let plan = plan(Direction::Upload, &from, &temp.join("to"));
    let mut first = Setup { kill_after: Some(SIZE as u64 / 3), window: 256 * 1024, ..stock(&[]) };
    copy_with(plan.clone(), durable(&temp), temp.path(), &mut first);
    let [part] = &leftovers(temp.path())[..] else { panic!("one unfinished copy") };
    fs::remove_file(part).expect("the part");
    symlink("victim", part).expect("a link");
    let stuck = part.clone();
    let faults = Faults::hook(move |what, path, _| {
        let denied = what == "remove" && path == common::bytes_of(&stuck);
        if denied { Err(Errno::PERM.into()) } else { Ok(()) }
    });
    let ended = copy_with(plan, durable(&temp), temp.path(), &mut Setup { faults, ..stock(&[]) }).well();
    same_tree(&from, &temp.join("to"), false);
    assert!(!temp.join("victim").exists());
    assert!(!ended.notices.iter().any(|text| text.contains("in place")), "{:?}", ended.notices);
}

#[test]
fn parts_that_cannot_be_removed_are_reported() {
    let temp = TempTree::new();
    let from = temp.file("from", SIZE);
    let faults =
        Faults { wrong_writes: Count::of(u32::MAX), ..Faults::fail("remove", ".lhpart", Errno::ACCESS) };
    let options = Options { placing: in_part_files(), verify: Verify::Always, ..Options::default() };
    let plan = plan(Direction::Upload, &from, &temp.join("to"));
    let ended = copy_with(plan, options, temp.path(), &mut Setup { faults, ..stock(&[]) });
    assert_eq!(ended.failures.len(), 1, "{:?}", ended.failures);
    let left = leftovers(temp.path());
    assert!(!left.is_empty());
    for part in left {
        let told =
            |text: &String| text.contains(&part.display().to_string()) && text.contains("is left there");
        assert!(ended.skipped.iter().any(told), "{part:?}: {:?}", ended.skipped);
    }
}
