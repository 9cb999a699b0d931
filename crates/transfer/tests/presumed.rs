//! What goes into a directory that is being made does not wait for the answer; when there is another answer
//! than expected, nothing is told twice, nothing is lost, and nothing is put where it should not be.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Faults, Setup, TempTree, copy_with, plan, same_tree, whole_tree};
use lh_transfer::Direction;
use rustix::io::Errno;

fn tree(temp: &TempTree) {
    for n in 0..40 {
        temp.file(format!("from/a/b/{n}"), 100);
        temp.file(format!("from/c/{n}"), 100);
    }
    temp.file("from/a/large", 700_000);
}

#[test]
fn failed_directories_are_reported_without_their_entries() {
    let temp = TempTree::new();
    tree(&temp);
    let mut setup = Setup { faults: Faults::fail("mkdir", "to/a", Errno::ACCESS), ..Setup::default() };
    let ended = copy_with(
        plan(Direction::Upload, &temp.join("from"), &temp.join("to")),
        whole_tree(),
        temp.path(),
        &mut setup,
    );
    let at = temp.join("to/a").display().to_string();
    assert_eq!(ended.failures, [format!("remote mkdir \"{at}\": Permission denied")]);
    assert_eq!(ended.summary.files, 40);
    same_tree(&temp.join("from/c"), &temp.join("to/c"), true);
}

/// As when the shards of a job array make the same tree.
#[test]
fn directories_made_by_another_process_get_their_files() {
    let temp = TempTree::new();
    tree(&temp);
    let (root, made) = (temp.join("to/a"), Arc::new(AtomicBool::new(false)));
    let faults = Faults::hook({
        let made = Arc::clone(&made);
        move |what, path, _| {
            if what == "mkdir" && path.ends_with(b"to/a") && !made.swap(true, Ordering::Relaxed) {
                std::fs::create_dir(&root)?;
            }
            Ok(())
        }
    });
    let mut setup = Setup { faults, ..Setup::default() };
    let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
    assert!(made.load(Ordering::Relaxed));
    same_tree(&temp.join("from"), &temp.join("to"), true);
}

/// And one of its files fails for a reason of its own.
#[test]
fn a_failure_in_such_a_directory_is_told() {
    let temp = TempTree::new();
    tree(&temp);
    let root = temp.join("to/c");
    let faults = Faults::hook(move |what, path, _| match what {
        "mkdir" if path.ends_with(b"to/c") && !root.exists() => std::fs::create_dir(&root),
        "open-write" if path.windows(5).any(|part| part == b"to/c/") && path.ends_with(b"17") => {
            Err(Errno::NOSPC.into())
        }
        // Under the name of an unfinished file.
        "open-write" if path.windows(8).any(|part| part == b"to/c/.17") => Err(Errno::NOSPC.into()),
        _ => Ok(()),
    });
    let mut setup = Setup { faults, ..Setup::default() };
    let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan, whole_tree(), temp.path(), &mut setup);
    assert_eq!(ended.failures.len(), 1, "{:?}", ended.failures);
    assert!(ended.failures[0].contains("to/c/17"), "{:?}", ended.failures);
    assert_eq!(ended.summary.files, 80);
}

/// As with scp: the directory that the link is to lead to is made, and nothing was sent before that failed.
#[test]
fn a_link_to_nothing_leads_to_the_copy() {
    for (early, rtt, to) in
        [(false, 0, "to"), (true, 0, "to"), (false, 50, "to"), (true, 50, "to"), (true, 50, "to//")]
    {
        let temp = TempTree::new();
        tree(&temp);
        std::os::unix::fs::symlink("elsewhere", temp.join("to")).expect("a link");
        let mut setup = Setup { early, rtt: Duration::from_millis(rtt), ..Setup::default() };
        let plan = plan(Direction::Upload, &temp.join("from"), &temp.join(to));
        copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
        same_tree(&temp.join("from"), &temp.join("elsewhere"), true);
        assert!(temp.join("to").is_symlink());
    }
}

/// Nothing can be made where these links lead. That is told once, and the links stay.
#[test]
fn links_that_lead_nowhere_are_reported() {
    for leads_to in ["no/where", "to"] {
        let temp = TempTree::new();
        tree(&temp);
        std::os::unix::fs::symlink(leads_to, temp.join("to")).expect("a link");
        let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
        let ended = copy_with(plan, whole_tree(), temp.path(), &mut Setup::default());
        let to = temp.join("to").display().to_string();
        assert_eq!(ended.failures, [format!("remote mkdir \"{to}\": File exists")], "{leads_to}");
        assert!(temp.join("to").is_symlink() && !temp.join("no").exists());
    }
}

/// A link in the place of a directory that was not there: with the links of the source kept nothing is
/// written through it.
#[test]
fn nothing_is_presumed_where_links_are_not_followed() {
    use lh_transfer::{Keep, Options};
    let temp = TempTree::new();
    tree(&temp);
    let elsewhere = temp.dir("elsewhere");
    let root = temp.join("to/a");
    let faults = Faults::hook(move |what, path, _| {
        if what == "mkdir" && path.ends_with(b"to/a") && std::fs::symlink_metadata(&root).is_err() {
            std::os::unix::fs::symlink(&elsewhere, &root)?;
        }
        Ok(())
    });
    let mut setup = Setup { faults, ..Setup::default() };
    let options = Options { keep: Keep { links: true, ..Keep::default() }, ..whole_tree() };
    let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan, options, temp.path(), &mut setup);
    assert_eq!(ended.failures.len(), 1, "{:?}", ended.failures);
    assert_eq!(std::fs::read_dir(temp.join("elsewhere")).expect("a directory").count(), 0);
}
