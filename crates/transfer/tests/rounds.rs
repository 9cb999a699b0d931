//! What a long path costs is counted in round trips: everything that can be sent is sent, then all answers
//! come at once. ConnectionStats in seconds are these times the round trip.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Ended, Faults, Setup, TempTree, copy_with, in_part_files, plan, same_tree, stock, whole_tree};
use lh_transfer::{Direction, Options};

/// Type of the reply to STAT.
const ATTRS: u8 = 105;

/// A tree of `count` files of `size` bytes, `per_dir` in each directory.
fn tree(temp: &TempTree, count: usize, size: usize, per_dir: usize) {
    for n in 0..count {
        temp.file(format!("from/{}/{n}", n / per_dir), size);
    }
}

/// Copies the tree and compares.
fn rounds(temp: &TempTree, direction: Direction, stock: bool, options: Options) -> Ended {
    let target = temp.join(format!("to-{direction:?}-{stock}-{}", options.preserve));
    let mut setup = Setup { stock, max_handles: Some(1_000), ..Setup::default() };
    let preserved = options.preserve;
    let ended =
        copy_with(plan(direction, &temp.join("from"), &target), options, temp.path(), &mut setup).well();
    same_tree(&temp.join("from"), &target, preserved);
    ended
}

#[test]
fn small_files_take_few_round_trips_with_every_server() {
    let temp = TempTree::new();
    tree(&temp, 2_000, 4_096, 100);
    for direction in [Direction::Upload, Direction::Download] {
        for preserve in [false, true] {
            let options = Options { recursive: true, preserve, ..Options::default() };
            // At 50 ms these are 0.8 s, and 0.6 s with batches; a round trip for each file and step would be
            // minutes.
            for (stock, most) in [(true, 16), (false, 12)] {
                let ended = rounds(&temp, direction, stock, options.clone());
                assert_eq!(ended.summary.files, 2_000);
                assert!(ended.rounds <= most, "{direction:?} stock {stock} -p {preserve}: {}", ended.rounds);
            }
        }
    }
}

/// The size of a new file is asked for together with its CLOSE.
#[test]
fn sizes_of_new_files_cost_no_round_trip() {
    let temp = TempTree::new();
    tree(&temp, 1_000, 4_096, 100);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let tamper = move |message: Vec<u8>| {
        counted.fetch_add(usize::from(message.first() == Some(&ATTRS)), Ordering::Relaxed);
        vec![message]
    };
    let mut setup =
        Setup { stock: true, max_handles: Some(1_000), tamper: Box::new(tamper), ..Setup::default() };
    let options = Options { recursive: true, placing: in_part_files(), ..Options::default() };
    let target = temp.join("to");
    let plan = plan(Direction::Upload, &temp.join("from"), &target);
    let ended = copy_with(plan, options, temp.path(), &mut setup).well();
    same_tree(&temp.join("from"), &target, false);
    assert_eq!(asked.load(Ordering::Relaxed), 1_000);
    assert!(ended.rounds <= 10, "{}", ended.rounds);
}

/// Of servers that take what stands behind the first words the paths are asked about in the first flight, and
/// where nothing was the tree is in the second.
///
/// Covers: wire first-flight@longhaul
#[test]
fn first_file_waits_for_two_round_trips() {
    let temp = TempTree::new();
    tree(&temp, 300, 100, 30);
    temp.dir("there");
    let rounds = |direction, target: &str, options: Options, early| {
        let mut setup = Setup { early, ..Setup::default() };
        let target = temp.join(format!("{target}-{direction:?}-{early}"));
        let ended = copy_with(plan(direction, &temp.join("from"), &target), options, temp.path(), &mut setup);
        same_tree(&temp.join("from"), &target, false);
        ended.well().rounds
    };
    let options = || Options { recursive: true, ..Options::default() };
    // The last round has nothing to send.
    assert!(rounds(Direction::Upload, "to", options(), true) <= 3);
    assert!(rounds(Direction::Download, "to", options(), true) <= 4);
    assert!(rounds(Direction::Upload, "to", options(), false) <= 4);
    assert!(rounds(Direction::Download, "to", options(), false) <= 6);
    assert!(
        rounds(Direction::Upload, "kept", whole_tree(), true) <= 5,
        "directories get their times at the end"
    );
    assert!(rounds(Direction::Download, "kept", whole_tree(), true) <= 4);
}

/// Into a directory that is there, and beside something of that name.
#[test]
fn existing_targets_are_examined_first() {
    for early in [false, true] {
        let temp = TempTree::new();
        tree(&temp, 30, 100, 10);
        temp.file("to/from/1/old", 10);
        temp.file("to/from/2/20", 9_000);
        let mut setup = Setup { early, ..Setup::default() };
        let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
        copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
        assert_eq!(std::fs::metadata(temp.join("to/from/1/old")).expect("left alone").len(), 10);
        // Its removal gives the directory a new time, and times are compared.
        let directory = temp.join("to/from/1");
        let copied = std::fs::metadata(&directory).and_then(|metadata| metadata.modified()).expect("a time");
        std::fs::remove_file(temp.join("to/from/1/old")).expect("removed");
        let opened = std::fs::File::open(&directory).expect("a directory");
        opened.set_modified(copied).expect("set");
        same_tree(&temp.join("from"), &temp.join("to/from"), true);
    }
}

#[test]
fn many_directories_are_under_way_at_once() {
    let temp = TempTree::new();
    tree(&temp, 1_000, 100, 2);
    for direction in [Direction::Upload, Direction::Download] {
        for stock in [true, false] {
            let ended = rounds(&temp, direction, stock, whole_tree());
            assert_eq!(ended.summary.directories, 501);
            assert!(ended.rounds <= 40, "{direction:?} stock {stock}: {}", ended.rounds);
        }
    }
}

#[test]
fn a_pattern_in_a_large_directory_takes_few_round_trips() {
    let temp = TempTree::new();
    for n in 0..20_000 {
        temp.write_in("from", &format!("f{n}"), b"");
    }
    for (stock, most) in [(true, 14), (false, 7)] {
        let target = temp.dir(format!("to-{stock}"));
        let mut setup = Setup { stock, max_handles: Some(1_000), ..Setup::default() };
        let ended = copy_with(
            plan(Direction::Download, &temp.join("from/*77"), &target),
            Options::default(),
            temp.path(),
            &mut setup,
        )
        .well();
        assert_eq!(ended.summary.files, 200);
        assert!(ended.rounds <= most, "stock {stock}: {}", ended.rounds);
    }
}

#[test]
fn batches_hold_every_size_that_is_small_and_none_that_is_not() {
    let temp = TempTree::new();
    for size in [0, 1, 4_095, 65_535, 65_536, 65_537, 70_000, 300_000] {
        for n in 0..7 {
            temp.file(format!("from/{size}-{n}"), size);
        }
    }
    for direction in [Direction::Upload, Direction::Download] {
        for stock in [true, false] {
            rounds(&temp, direction, stock, whole_tree());
        }
    }
}

#[test]
fn a_batch_overwrites_in_place_and_cuts_what_was_longer() {
    for direction in [Direction::Upload, Direction::Download] {
        let temp = TempTree::new();
        temp.file("from/a", 1_000);
        temp.file("from/b", 0);
        temp.file("to/from/a", 9_000);
        temp.file("to/from/b", 10);
        std::fs::hard_link(temp.join("to/from/a"), temp.join("other-name")).expect("a link");
        let mut setup = Setup::default();
        let plan = plan(direction, &temp.join("from"), &temp.join("to"));
        copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
        same_tree(&temp.join("from"), &temp.join("to/from"), true);
        same_tree(&temp.join("from/a"), &temp.join("other-name"), true);
    }
}

#[test]
fn files_of_unknown_length_come_whole_in_a_batch_or_without() {
    let temp = TempTree::new();
    let target = temp.dir("to");
    let mut plan = plan(Direction::Download, std::path::Path::new("/proc/version"), &target);
    plan.sources.push(b"/proc/self/environ".to_vec());
    // Longer than what a batch asks of a file that says it has no bytes.
    plan.sources.push(b"/proc/crypto".to_vec());
    copy_with(plan, Options::default(), temp.path(), &mut Setup::default()).well();
    for name in ["version", "environ", "crypto"] {
        let there = std::path::Path::new(if name == "environ" { "/proc/self" } else { "/proc" }).join(name);
        assert_eq!(
            std::fs::read(target.join(name)).expect("a copy"),
            std::fs::read(there).expect("the original"),
            "{name}"
        );
    }
}

#[test]
fn a_server_with_few_handles_is_not_asked_for_more() {
    let temp = TempTree::new();
    tree(&temp, 300, 10, 50);
    let open = Arc::new(AtomicUsize::new(0));
    for direction in [Direction::Upload, Direction::Download] {
        let counted = Arc::clone(&open);
        let faults = Faults::hook(move |what, _, _| {
            if what.starts_with("open-") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let target = temp.join(format!("to-{direction:?}"));
        let mut setup = Setup { stock: true, max_handles: Some(20), faults, ..Setup::default() };
        copy_with(plan(direction, &temp.join("from"), &target), whole_tree(), temp.path(), &mut setup).well();
        same_tree(&temp.join("from"), &target, true);
    }
    assert!(open.load(Ordering::Relaxed) >= 600);
}

/// Without a word about it, Maverick Synergy has fifty.
#[test]
fn unknown_servers_get_few_open_files() {
    let temp = TempTree::new();
    tree(&temp, 300, 10, 5_000);
    for direction in [Direction::Upload, Direction::Download] {
        let target = temp.join(format!("to-{direction:?}"));
        let mut setup = Setup { max_handles: Some(50), ..stock(&["limits@openssh.com"]) };
        copy_with(plan(direction, &temp.join("from"), &target), whole_tree(), temp.path(), &mut setup).well();
        same_tree(&temp.join("from"), &target, true);
    }
}

#[test]
fn unknown_servers_get_one_message_in_a_packet() {
    for direction in [Direction::Upload, Direction::Download, Direction::Relay] {
        // A short window ends in the middle of messages; only INIT and VERSION are whole then.
        for window in [2 << 20, 100_000] {
            let temp = TempTree::new();
            for n in 0..200 {
                temp.file(format!("from/{n}"), 1_500 + 97 * n);
            }
            temp.file("from/large", 3_000_000);
            let mut setup = Setup { one_per_packet: true, window, ..stock(&["limits@openssh.com"]) };
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to"), true);
        }
    }
}
