//! Two copies of one source to one target at the same time: the final name never has half a file.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Ended, Faults, Setup, TempTree, copy_with, plan, same_tree, stock};
use lh_testkit::leftovers;
use lh_transfer::{Direction, Options, Placing, Plan, Verify};

const SIZE: usize = 3_000_000;

/// What the second copy comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    Ends,
    IsKilled,
}

fn options(root: &Path, journal: &str) -> Options {
    let journal = Some(root.join(journal));
    Options {
        placing: Placing { atomic: true, journal, ..Placing::default() },
        verify: Verify::WhenCheap,
        ..Options::default()
    }
}

fn second_copy(plan: Plan, root: &Path, second: Second, mut setup: Setup) {
    if second == Second::IsKilled {
        let after = Some(SIZE as u64 / 3);
        match plan.direction {
            Direction::Download => setup.cut_after = after,
            _ => setup.kill_after = after,
        }
        setup.window = 256 * 1024;
    }
    copy_with(plan, options(root, "second/journal"), root, &mut setup);
}

/// Copies `from` to `to`; after two thirds of it, a second command does the same.
fn two_copies(direction: Direction, second: Second, setup: fn() -> Setup) -> (TempTree, Ended) {
    let temp = TempTree::new();
    temp.file("from", SIZE);
    let plan = plan(direction, &temp.join("from"), &temp.join("to"));
    let ran = Arc::new(AtomicBool::new(false));
    let (told, root, of_second) = (Arc::clone(&ran), temp.path().to_owned(), plan.clone());
    let wanted = if direction == Direction::Download { "read" } else { "write" };
    let faults = Faults::hook(move |what, _, offset| {
        if what == wanted && offset > SIZE as u64 / 3 * 2 && !told.swap(true, Ordering::SeqCst) {
            second_copy(of_second.clone(), &root, second, setup());
        }
        Ok(())
    });
    let mut first = Setup { faults, window: 256 * 1024, ..setup() };
    let ended = copy_with(plan, options(temp.path(), "first/journal"), temp.path(), &mut first);
    assert!(ran.load(Ordering::SeqCst), "a second copy ran");
    (temp, ended)
}

fn named(temp: &TempTree) -> Option<PathBuf> {
    Some(temp.join("to")).filter(|to| to.exists())
}

#[test]
fn downloads_do_not_empty_each_others_files() {
    for setup in [|| stock(&[]), Setup::default] {
        for second in [Second::Ends, Second::IsKilled] {
            let (temp, ended) = two_copies(Direction::Download, second, setup);
            ended.well();
            same_tree(&temp.join("from"), &temp.join("to"), false);
            if second == Second::Ends {
                assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
            }
        }
    }
}

#[test]
fn the_next_attempt_removes_what_a_second_copy_left() {
    let (temp, ended) = two_copies(Direction::Download, Second::IsKilled, || stock(&[]));
    ended.well();
    fs::remove_file(temp.join("to")).expect("the copy");
    let plan = plan(Direction::Download, &temp.join("from"), &temp.join("to"));
    second_copy(plan, temp.path(), Second::Ends, stock(&[]));
    same_tree(&temp.join("from"), &temp.join("to"), false);
    assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
}

#[test]
fn an_upload_is_whole_or_fails_beside_another_one() {
    const WITHOUT_RENAME: &[&str] = &["posix-rename@openssh.com"];
    for setup in [|| stock(&[]), || stock(WITHOUT_RENAME), Setup::default] {
        for second in [Second::Ends, Second::IsKilled] {
            let (temp, ended) = two_copies(Direction::Upload, second, setup);
            let to = named(&temp);
            if let Some(to) = &to {
                same_tree(&temp.join("from"), to, false);
            }
            if ended.failures.is_empty() || second == Second::Ends {
                assert!(to.is_some(), "{second:?}: {:?}", ended.failures);
            }
        }
    }
}

/// The connection is lost twice, at every pair of moments: after an answer of the server each.
#[test]
fn lost_connections_leave_no_part_files() {
    // More than the server sends in a copy of one small file.
    const LAST: usize = 1_400;
    const STEP: usize = 36;
    let mut whole = 0;
    for first in (0..LAST).step_by(STEP) {
        for second in (0..LAST).step_by(STEP) {
            let temp = TempTree::new();
            temp.file("from", 20_000);
            let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
            for cut in [Some(first), Some(second), None] {
                let mut setup = Setup { cut_after: cut.map(|at| at as u64), ..stock(&[]) };
                let ended = copy_with(plan.clone(), options(temp.path(), "journal"), temp.path(), &mut setup);
                whole += usize::from(cut.is_some() && ended.failures.is_empty() && !ended.summary.lost);
            }
            same_tree(&temp.join("from"), &temp.join("to"), false);
            assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new(), "cut after {first}, {second} bytes");
        }
    }
    assert!(whole > 0, "the last moments are after the copy");
}
