//! What is told of each copy: its path below the target, and the sum of what was read of the source.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use common::{Ended, Setup, TempTree, copy, copy_with, in_part_files, over_channels, plan, whole_tree};
use lh_transfer::{CopiedKind, Direction, Keep, Options, Placing, Reporting, SumAlgorithm, TreeSync};

const DIRECTIONS: [Direction; 3] = [Direction::Upload, Direction::Download, Direction::Relay];

fn summed(algorithm: SumAlgorithm) -> Options {
    Options {
        reporting: Reporting { sums: Some(algorithm), missed: true, ..Reporting::default() },
        ..whole_tree()
    }
}

/// Checks all that was told against what is there; returns how many files had no sum.
#[track_caller]
fn check(temp: &TempTree, ended: &Ended, target: &str, algorithm: SumAlgorithm) -> usize {
    let mut without = 0;
    let mut seen = BTreeMap::new();
    for copied in &ended.copied {
        assert_eq!(seen.insert(copied.path.clone(), ()), None, "told twice");
        let mut path = temp.join(target);
        if !copied.path.is_empty() {
            path.push(std::ffi::OsStr::from_bytes(&copied.path));
        }
        if let CopiedKind::Link(to) = &copied.kind {
            assert_eq!(fs::read_link(&path).expect("a link").as_os_str().as_bytes(), to);
            continue;
        }
        let content = fs::read(&path).expect("the copy");
        assert_eq!(copied.size, content.len() as u64, "{}", path.display());
        match &copied.kind {
            CopiedKind::File(Some(sum)) => assert_eq!(*sum, algorithm.sum(&content), "{}", path.display()),
            _ => without += 1,
        }
    }
    assert_eq!(seen.len() as u64, ended.summary.files);
    without
}

#[test]
fn each_copy_is_told_with_its_path_and_sum() {
    for direction in DIRECTIONS {
        for (stock, links) in [(false, false), (true, true), (false, true)] {
            for (algorithm, existing) in [(SumAlgorithm::Sha256, false), (SumAlgorithm::Xxh3, true)] {
                let temp = TempTree::new();
                let source = temp.odd("from");
                let target = if existing { temp.dir("to") } else { temp.join("to") };
                let keep = Keep { links, hard_links: links, ..Keep::default() };
                let options = Options { keep, ..summed(algorithm) };
                let mut setup = Setup { stock, ..Setup::default() };
                let ended =
                    copy_with(plan(direction, &source, &target), options, temp.path(), &mut setup).well();
                assert_eq!(check(&temp, &ended, "to", algorithm), 0, "{direction:?}");
                assert_eq!(ended.copied.iter().all(|copied| copied.path.starts_with(b"from/")), existing);
                assert!(ended.missed.is_empty());
            }
        }
    }
}

#[test]
fn holes_count_as_zeros_in_sums() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let big = temp.file("from/big", 3 << 20);
        let file = fs::OpenOptions::new().write(true).open(&big).expect("the file");
        file.set_len(9 << 20).expect("a hole behind it");
        temp.file("from/blank", 0);
        let blank = fs::OpenOptions::new().write(true).open(temp.join("from/blank")).expect("the file");
        blank.set_len(5 << 20).expect("a hole");
        let plan = plan(direction, &temp.join("from"), &temp.join("to"));
        let ended = copy(plan, summed(SumAlgorithm::Xxh3), temp.path()).well();
        assert_eq!(check(&temp, &ended, "to", SumAlgorithm::Xxh3), 0, "{direction:?}");
    }
}

#[test]
fn data_out_of_order_have_the_right_sum_or_none() {
    for direction in DIRECTIONS {
        for (window, piece, reverse) in [(300_001, 1_009, false), (2 << 20, 32 * 1024, true)] {
            let temp = TempTree::new();
            temp.file("from/a", 40 << 20);
            temp.file("from/b", 3_000_001);
            let mut setup = Setup { window, piece, reverse, channels: 3, ..Setup::default() };
            let options = Options { limits: over_channels(4).limits, ..summed(SumAlgorithm::Xxh3) };
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy_with(plan, options, temp.path(), &mut setup).well();
            let without = check(&temp, &ended, "to", SumAlgorithm::Xxh3);
            assert!(direction != Direction::Relay || without == 0, "between two servers each has one");
        }
    }
}

#[test]
fn files_of_earlier_attempts_keep_their_sums() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        for n in 0..40 {
            temp.file(format!("from/{n}"), 10_000 + n);
        }
        temp.file("from/zz-big", 9 << 20);
        let options = Options {
            placing: Placing {
                atomic: true,
                journal: Some(temp.join("state/journal")),
                ..Placing::default()
            },
            ..summed(SumAlgorithm::Sha256)
        };
        let plan = plan(direction, &temp.join("from"), &temp.join("to"));
        let mut setup = Setup { kill_after: Some(5 << 20), ..Setup::default() };
        let killed = copy_with(plan.clone(), options.clone(), temp.path(), &mut setup);
        let ended = copy(plan, options, temp.path()).well();
        let without = check(&temp, &ended, "to", SumAlgorithm::Sha256);
        let unfinished = if direction == Direction::Relay { 0 } else { 1 };
        assert!(without <= unfinished, "{direction:?}: {without} without, {:?}", killed.summary);
        assert_eq!(ended.copied.len(), 41);
    }
}

#[test]
fn unchanged_files_are_told_like_copies() {
    for direction in DIRECTIONS {
        for (stock, links) in [(false, false), (false, true), (true, true)] {
            let temp = TempTree::new();
            temp.odd("from");
            let keep = Keep { links, hard_links: links, ..Keep::default() };
            let options = Options {
                keep,
                preserve: true,
                placing: in_part_files(),
                tree_sync: Some(TreeSync::default()),
                ..summed(SumAlgorithm::Xxh3)
            };
            let plan = plan(direction, &temp.join("from/."), &temp.join("to"));
            let run = || {
                let mut setup = Setup { stock, ..Setup::default() };
                copy_with(plan.clone(), options.clone(), temp.path(), &mut setup).well()
            };
            let told = |ended: &Ended| -> BTreeMap<_, _> {
                let each = ended.copied.iter().map(|copied| {
                    let link = match &copied.kind {
                        CopiedKind::Link(to) => Some(to.clone()),
                        CopiedKind::File(_) => None,
                    };
                    (copied.path.clone(), (copied.size, copied.modified, link))
                });
                each.collect()
            };
            let (first, again) = (run(), run());
            assert_eq!((again.summary.files, again.summary.unchanged), (0, first.summary.files));
            assert_eq!(told(&again), told(&first), "{direction:?} stock: {stock} links: {links}");
            assert_eq!(again.copied.len(), first.copied.len());
        }
    }
}

#[test]
fn failures_are_named_from_the_top_of_their_tree() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("from/good", 10);
        temp.file("from/sub/blocked", 10);
        temp.file("from/dir/inside", 10);
        temp.dir("to/sub/blocked/full");
        temp.file("to/dir", 5);
        let plan = plan(direction, &temp.join("from/."), &temp.join("to"));
        let mut ended = copy(plan, summed(SumAlgorithm::Xxh3), temp.path());
        ended.missed.sort();
        ended.missed.dedup();
        let missed: Vec<_> = ended.missed.into_iter().flatten().collect();
        assert!(missed.contains(&b"sub/blocked".to_vec()) && missed.contains(&b"dir".to_vec()), "{missed:?}");
        assert!(!missed.contains(&b"good".to_vec()) && !missed.contains(&Vec::new()), "{missed:?}");
    }
}
