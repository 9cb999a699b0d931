//! Servers that limit how many files are open without saying so: what they refuse is tried again with fewer
//! files open, and what they refuse for another reason is reported once.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Faults, Setup, TempTree, copy_with, plan, same_tree, stock, whole_tree};
use lh_transfer::{Direction, Options, Placing, Verify};
use rustix::io::Errno;

const STATUS: u8 = 101;
const PERMISSION_DENIED: u8 = 3;

fn tree(temp: &TempTree) {
    for n in 0..150 {
        temp.file(format!("from/flat/{n}"), 5_000);
        temp.file(format!("from/{}/{}/{n}", n % 7, n % 3), 40_000);
    }
}

/// A server that has `most` handles, does not say so, and answers with `permission denied` where `denies`.
fn server(most: u64, denies: bool) -> Setup {
    let Setup { mut tamper, .. } = stock(&["limits@openssh.com"]);
    let deny = move |message: Vec<u8>| {
        let mut replies = tamper(message);
        for reply in &mut replies {
            if denies && reply[0] == STATUS && reply.windows(19).any(|text| text == b"Too many open files") {
                reply[8] = PERMISSION_DENIED;
            }
        }
        replies
    };
    Setup { tamper: Box::new(deny), max_handles: Some(most), ..Setup::default() }
}

#[test]
fn refused_files_are_opened_again_with_fewer_open() {
    let temp = TempTree::new();
    tree(&temp);
    for direction in [Direction::Upload, Direction::Download, Direction::Relay] {
        for denies in [true, false] {
            for most in [40, 20, 9, 3] {
                let target = temp.join(format!("to-{direction:?}-{denies}-{most}"));
                let plan = plan(direction, &temp.join("from"), &target);
                copy_with(plan, whole_tree(), temp.path(), &mut server(most, denies)).well();
                same_tree(&temp.join("from"), &target, true);
            }
        }
    }
}

#[test]
fn files_are_read_back_with_few_handles() {
    let temp = TempTree::new();
    tree(&temp);
    for direction in [Direction::Upload, Direction::Download, Direction::Relay] {
        let target = temp.join(format!("to-{direction:?}"));
        let options = Options { verify: Verify::Always, ..whole_tree() };
        let mut setup = Setup { foreign: true, ..server(10, true) };
        copy_with(plan(direction, &temp.join("from"), &target), options, temp.path(), &mut setup).well();
        same_tree(&temp.join("from"), &target, true);
    }
}

/// Once a limit is known it is kept: few requests are refused.
#[test]
fn a_limit_is_found_once() {
    let temp = TempTree::new();
    tree(&temp);
    let refused = Arc::new(AtomicUsize::new(0));
    let Setup { mut tamper, .. } = server(20, true);
    let counted = Arc::clone(&refused);
    let count = move |message: Vec<u8>| {
        let denied = message[0] == STATUS && message.windows(19).any(|text| text == b"Too many open files");
        counted.fetch_add(usize::from(denied), Ordering::Relaxed);
        tamper(message)
    };
    let mut setup = Setup { tamper: Box::new(count), ..server(20, true) };
    let plan = plan(Direction::Download, &temp.join("from"), &temp.join("to"));
    copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
    same_tree(&temp.join("from"), &temp.join("to"), true);
    let refused = refused.load(Ordering::Relaxed);
    assert!((1..=48).contains(&refused), "{refused}");
}

/// What may not be read is asked for twice at most, and reported once.
#[test]
fn files_that_may_not_be_opened_are_reported_once() {
    for direction in [Direction::Upload, Direction::Download] {
        let temp = TempTree::new();
        tree(&temp);
        let opens = Arc::new(AtomicUsize::new(0));
        let faults = Faults::hook({
            let opens = Arc::clone(&opens);
            move |what, path, _| {
                // In `from/flat`, of 150.
                let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                let barred = path.windows(5).any(|part| part == b"flat/") && name.contains(&b'7');
                if ["open-read", "open-write"].contains(&what) {
                    opens.fetch_add(1, Ordering::Relaxed);
                    if barred {
                        return Err(Errno::ACCESS.into());
                    }
                }
                Ok(())
            }
        });
        let mut setup = Setup { faults, ..stock(&["limits@openssh.com"]) };
        let plan = plan(direction, &temp.join("from"), &temp.join("to"));
        let options = Options { placing: Placing { atomic: false, ..Placing::default() }, ..whole_tree() };
        let ended = copy_with(plan, options, temp.path(), &mut setup);
        assert_eq!(ended.failures.len(), 24, "{direction:?} {:?}", ended.failures);
        assert!(ended.failures.iter().all(|text| text.ends_with("Permission denied")));
        assert_eq!(ended.summary.files, 300 - 24, "{direction:?}");
        // An upload tries for writing alone behind each refusal.
        let twice = if direction == Direction::Upload { 2 } else { 1 };
        let opens = opens.load(Ordering::Relaxed);
        assert!(opens <= 300 + 24 * (2 * twice - 1), "{direction:?} {opens}");
    }
}
