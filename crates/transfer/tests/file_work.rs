//! Threads that read, write and hash files at the same time, each for as long as it likes.

mod common;

use std::fs;
use std::time::Duration;

use common::{Ended, Setup, TempTree, copy_with, in_part_files, over_channels, plan, same_tree};
use lh_testkit::Seeded;
use lh_transfer::{CopiedKind, Direction, Options, Reporting, SumAlgorithm, Verify};

const MIB: usize = 1 << 20;

/// A server with four channels, each with a thread.
fn slow(seed: u64) -> Setup {
    Setup {
        stock: true,
        rtt: Duration::from_millis(5),
        channels: 3,
        slow_files: Some(Seeded::new(seed)),
        ..Setup::default()
    }
}

fn copy(temp: &TempTree, direction: Direction, options: Options, setup: &mut Setup) -> Ended {
    copy_with(plan(direction, &temp.join("from"), &temp.join("to")), options, temp.path(), setup)
}

const BOTH: [Direction; 2] = [Direction::Upload, Direction::Download];

#[test]
fn several_threads_work_on_one_file_and_on_several() {
    for (seed, direction) in (0..2).flat_map(|seed| BOTH.map(|direction| (seed, direction))) {
        let temp = TempTree::new();
        temp.file("from/one", 20 * MIB + 1);
        for n in 0..3 {
            temp.file(format!("from/{n}"), 9 * MIB + n);
            temp.file(format!("from/small-{n}"), 20_000 * n);
        }
        let options = Options {
            recursive: true,
            preserve: true,
            placing: in_part_files(),
            verify: Verify::WhenCheap,
            reporting: Reporting { sums: Some(SumAlgorithm::Xxh3), ..Reporting::default() },
            ..over_channels(4)
        };
        let ended = copy(&temp, direction, options, &mut slow(seed)).well();
        assert!(ended.most_at_once > 1, "{direction:?}: each waited for the others");
        assert_eq!((ended.channels, ended.summary.verified), (3, 7));
        same_tree(&temp.join("from"), &temp.join("to"), true);
        for copied in &ended.copied {
            let CopiedKind::File(Some(sum)) = &copied.kind else { continue };
            let path = temp.join("to").join(String::from_utf8_lossy(&copied.path).as_ref());
            assert_eq!(*sum, SumAlgorithm::Xxh3.sum(&fs::read(path).expect("a copy")));
        }
    }
}

#[test]
fn one_channel_sums_up_all_of_a_file_while_it_passes() {
    for direction in BOTH {
        let temp = TempTree::new();
        temp.file("from", 9 * MIB + 1);
        let sums = Some(SumAlgorithm::Sha256);
        let options = Options { reporting: Reporting { sums, ..Reporting::default() }, ..over_channels(1) };
        let ended = copy(&temp, direction, options, &mut slow(7)).well();
        let sum = SumAlgorithm::Sha256.sum(&fs::read(temp.join("from")).expect("a file"));
        assert!(
            matches!(&ended.copied[0].kind, CopiedKind::File(Some(told)) if *told == sum),
            "{direction:?}"
        );
    }
}

#[test]
fn work_that_is_out_when_its_channel_dies_is_done_elsewhere() {
    for (seed, direction) in (0..3).flat_map(|seed| BOTH.map(|direction| (seed, direction))) {
        let temp = TempTree::new();
        temp.file("from", 24 * MIB);
        let options = Options { placing: in_part_files(), verify: Verify::Always, ..over_channels(4) };
        let round = 8 + 6 * seed as usize;
        let mut setup = Setup { channel_dies: Some((2, round)), ..slow(seed) };
        let ended = copy(&temp, direction, options, &mut setup).well();
        assert!(!ended.summary.lost);
        same_tree(&temp.join("from"), &temp.join("to"), false);
    }
}

#[test]
fn a_lost_server_ends_the_copy_when_the_work_is_back() {
    for (seed, direction) in (0..3).flat_map(|seed| BOTH.map(|direction| (seed, direction))) {
        let temp = TempTree::new();
        temp.file("from/a", 20 * MIB);
        temp.file("from/b", 20 * MIB);
        let options = Options { recursive: true, ..over_channels(4) };
        // Uploads have short answers.
        let after = if direction == Direction::Upload { 1_500 + 300 * seed } else { (8 + 5 * seed) << 20 };
        let mut setup = Setup { cut_after: Some(after), ..slow(seed) };
        let ended = copy(&temp, direction, options, &mut setup);
        assert!(ended.summary.lost && ended.summary.failures > 0, "{direction:?} {seed}");
    }
}

#[test]
fn zeros_are_left_out_by_several_threads() {
    for seed in 0..3 {
        let temp = TempTree::new();
        temp.file("from", 20 * MIB);
        let mut data = fs::read(temp.join("from")).expect("a file");
        for (n, part) in data.chunks_mut(150_000).enumerate() {
            if n % 3 != seed as usize % 3 {
                part.fill(0);
            }
        }
        fs::write(temp.join("from"), &data).expect("a file");
        let mut options = over_channels(4);
        options.keep.sparse = true;
        let ended = copy(&temp, Direction::Download, options, &mut slow(seed)).well();
        assert!(ended.most_at_once > 1);
        assert!(fs::read(temp.join("to")).expect("a copy") == data);
    }
}
