//! What the source does not have is deleted, or moved elsewhere.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::syncing::{DIRECTIONS, inodes_of, options, plan, servers, set_time, sync_with};
use common::{Ended, Faults, Setup, TempTree, bytes_of, copy_with, same_tree, stock};
use lh_testkit::Seeded;
use lh_transfer::{Direction, Keep, Options, Plan, Rule, Selection, TreeSync, Verify};

fn deleting() -> Options {
    Options { tree_sync: Some(TreeSync { delete: true, ..TreeSync::default() }), ..options() }
}

/// Last components of what was deleted.
fn deleted(ended: &Ended) -> Vec<String> {
    let name = |path: &Vec<u8>| {
        String::from_utf8_lossy(path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()).into_owned()
    };
    ended.deleted.iter().map(name).collect()
}

#[test]
fn extra_entries_of_the_target_are_deleted() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/a", 10);
            temp.file("from/sub/b", 10);
            temp.file("outside/kept", 10);
            sync_with(direction, &temp, deleting(), &mut setup).well();
            for name in ["x", "sub/y", "tree/deep/z", "tree/deep/.q.0123456789ab.lhpart.not", "tree/w"] {
                temp.file(format!("to/from/{name}"), 10);
            }
            symlink(temp.join("outside"), temp.join("to/from/tree/link")).expect("a link");
            let dry = Options { dry_run: true, ..deleting() };
            let before = inodes_of(&temp.join("to"));
            let planned = sync_with(direction, &temp, dry, &mut setup).well();
            assert_eq!(inodes_of(&temp.join("to")), before);
            let ended = sync_with(direction, &temp, deleting(), &mut setup).well();
            assert_eq!(ended.summary.deleted, 8, "{direction:?} {ended:?}");
            assert_eq!(deleted(&ended).len(), 8);
            let sorted = |mut names: Vec<String>| {
                names.sort();
                names
            };
            assert_eq!(sorted(deleted(&planned)), sorted(deleted(&ended)));
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
            assert_eq!(fs::read_dir(temp.join("outside")).expect("a directory").count(), 1);
            assert_eq!(sync_with(direction, &temp, deleting(), &mut setup).well().summary.deleted, 0);
        }
    }
}

#[test]
fn nothing_is_deleted_after_an_error() {
    for direction in DIRECTIONS {
        for (operation, path) in [("open-read", "from/a"), ("open-dir", "from/sub"), ("stat", "from/link")] {
            let temp = TempTree::new();
            temp.file("from/a", 10);
            temp.file("from/sub/b", 300_000);
            symlink("a", temp.join("from/link")).expect("a link");
            temp.file("to/from/x", 10);
            temp.file("to/from/sub/y", 10);
            if direction == Direction::Upload {
                fs::remove_file(temp.join("from/a")).expect("the link leads nowhere");
            }
            let faults = Faults::fail(operation, path, rustix::io::Errno::IO);
            let mut setup = Setup { faults, ..stock(&[]) };
            let ended = sync_with(direction, &temp, deleting(), &mut setup);
            assert!(ended.summary.failures > 0, "{direction:?} {operation}");
            assert_eq!(ended.summary.deleted, 0);
            assert!(ended.skipped.iter().any(|text| text.contains("nothing is deleted")), "{ended:?}");
            assert!(temp.join("to/from/x").exists() && temp.join("to/from/sub/y").exists());
        }
    }
}

/// Everything has arrived: what the source does not have is not needed any more.
#[test]
fn refused_modes_and_times_do_not_stop_deletions() {
    for (operations, path) in [
        (&["setstat"][..], "to/from/sub"),
        (&["setstat", "fsetstat"], "to/from/sub/old"),
        (&["setstat", "fsetstat"], "lhpart"),
    ] {
        for direction in [Direction::Upload, Direction::Relay] {
            let temp = TempTree::new();
            temp.file("from/sub/b", 300_000);
            for name in ["from/sub/old", "to/from/sub/old", "to/from/x", "to/from/sub/y"] {
                temp.file(name, 10);
            }
            let same_time = [temp.join("from/sub/old"), temp.join("to/from/sub/old")];
            same_time.iter().for_each(|file| set_time(file, 1_000_000));
            let mode = fs::Permissions::from_mode(0o640);
            fs::set_permissions(temp.join("from/sub/old"), mode).expect("a mode");
            let faults = Faults::hook(move |what, on, _| {
                let of_it = on.ends_with(path.as_bytes()) && operations.contains(&what);
                if of_it { Err(rustix::io::Errno::PERM.into()) } else { Ok(()) }
            });
            let ended = sync_with(direction, &temp, deleting(), &mut Setup { faults, ..stock(&[]) });
            let what = format!("{direction:?} {operations:?} {path}: {ended:?}");
            // What the server says of EPERM. A directory is tried once more when something in it was deleted.
            let told = |text: &String| text.contains("setstat") && text.ends_with("Permission denied");
            assert!(!ended.failures.is_empty() && ended.failures.iter().all(told), "{what}");
            assert_eq!(ended.summary.deleted, 2, "{what}");
            assert!(!temp.join("to/from/x").exists() && !temp.join("to/from/sub/y").exists(), "{what}");
            let copied = fs::read(temp.join("to/from/sub/b")).expect("it has arrived");
            assert_eq!(copied, fs::read(temp.join("from/sub/b")).expect("a file"), "{what}");
        }
    }
}

#[test]
fn no_more_is_deleted_than_may_be() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/a", 10);
            for name in ["p", "q", "tree/r", "tree/s"] {
                temp.file(format!("to/from/{name}"), 10);
            }
            for (most, left) in [(0, 5), (2, 3), (2, 1)] {
                let tree_sync =
                    Some(TreeSync { delete: true, max_delete: Some(most), ..TreeSync::default() });
                let ended = sync_with(direction, &temp, Options { tree_sync, ..options() }, &mut setup);
                assert_eq!(ended.summary.deleted, most);
                assert!(ended.failures[0].contains("--max-delete"), "{:?}", ended.failures);
                assert_eq!(inodes_of(&temp.join("to/from")).len() - 2, left, "{direction:?}");
            }
            let tree_sync = Some(TreeSync { delete: true, max_delete: Some(1), ..TreeSync::default() });
            sync_with(direction, &temp, Options { tree_sync, ..options() }, &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
        }
    }
}

#[test]
fn excluded_and_unfinished_files_are_not_deleted() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("from/a", 10);
        for name in ["x", "y.keep", "tree/z", "tree/w.keep", "parts/.f.0123456789ab.lhpart", "kept/v"] {
            temp.file(format!("to/from/{name}"), 10);
        }
        let rules = [b"*.keep".as_slice(), b"/kept/"].map(|pattern| Rule::new(false, pattern)).to_vec();
        let select = Selection { rules, ..Selection::default() };
        let options = Options { select, ..deleting() };
        let ended = sync_with(direction, &temp, options, &mut Setup::default()).well();
        let mut names = deleted(&ended);
        names.sort();
        assert_eq!(names, ["x", "z"], "{direction:?}");
        assert_eq!(ended.skipped.len(), 2, "{:?}", ended.skipped);
        for name in ["y.keep", "tree/w.keep", "parts/.f.0123456789ab.lhpart", "kept/v"] {
            assert!(temp.join("to/from").join(name).exists(), "{name}");
        }
    }
}

#[test]
fn a_directory_in_the_way_is_deleted_when_all_else_is_copied() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/sub/was_dir", 10);
            temp.file("from/sub/z", 300_000);
            temp.file("to/from/sub/was_dir/deep/x", 10);
            temp.mode("from/sub", 0o750);
            let ended = sync_with(direction, &temp, deleting(), &mut setup).well();
            assert_eq!((ended.summary.files, ended.summary.deleted), (2, 3), "{direction:?}");
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
        }
    }
}

/// What was in the way of a file is gone, and the copy is read back, before all else is deleted.
#[test]
fn deletions_go_on_while_a_replaced_file_is_read_back() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/was_dir", 300_000);
            temp.file("to/from/was_dir/x", 10);
            for n in 0..1000 {
                temp.file(format!("to/from/old{n}"), 1);
            }
            let options = Options { verify: Verify::Always, ..deleting() };
            setup.slow_files = Some(Seeded::new(1));
            let ended = sync_with(direction, &temp, options, &mut setup).well();
            assert_eq!((ended.summary.files, ended.summary.deleted), (1, 1002), "{direction:?}");
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
        }
    }
}

#[test]
fn sources_of_one_target_do_not_delete_each_other() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("a/x", 10);
        temp.file("b/y", 10);
        temp.file("to/old", 10);
        temp.file("to/b/old", 10);
        let mut sources = vec![bytes_of(&temp.join("a")), bytes_of(&temp.join("b"))];
        sources[0].push(b'/');
        let target = bytes_of(&temp.join("to"));
        let mut plan = Plan { direction, sources, target, target_must_be_dir: true };
        let ended = copy_with(plan.clone(), deleting(), temp.path(), &mut Setup::default()).well();
        assert_eq!(ended.summary.deleted, 2, "{direction:?}");
        assert!(temp.join("to/x").exists() && temp.join("to/b/y").exists());
        plan.sources[1].push(b'/');
        temp.file("to/old", 10);
        let ended = copy_with(plan, deleting(), temp.path(), &mut Setup::default());
        assert!(ended.failures[0].contains("several sources"), "{:?}", ended.failures);
        assert!(temp.join("to/old").exists() && ended.summary.deleted == 0);
    }
}

fn backing_up(directory: &str) -> Options {
    let backup_dir = Some(directory.as_bytes().to_vec());
    let tree_sync = Some(TreeSync { delete: true, backup_dir, ..TreeSync::default() });
    Options { tree_sync, keep: Keep { links: true, ..Keep::default() }, ..options() }
}

#[test]
fn replaced_and_deleted_files_go_to_the_backup() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/small", 10);
            temp.file("from/sub/large", 300_000);
            temp.file("from/was_link", 10);
            temp.file("from/same", 10);
            sync_with(direction, &temp, backing_up("old"), &mut setup).well();
            assert!(!temp.join("to/old").exists());
            fs::write(temp.join("to/from/small"), "before").expect("a file");
            fs::write(temp.join("to/from/sub/large"), "large before").expect("a file");
            fs::remove_file(temp.join("to/from/was_link")).expect("gone");
            symlink("target", temp.join("to/from/was_link")).expect("a link");
            temp.file("to/from/gone/deep", 10);
            for (path, expected) in [("small", "before"), ("sub/large", "large before")] {
                let ended = sync_with(direction, &temp, backing_up("old"), &mut setup).well();
                same_tree(&temp.join("from"), &temp.join("to/from"), true);
                let kept = fs::read(temp.join("to/old/from").join(path)).expect("a backup");
                assert_eq!(String::from_utf8_lossy(&kept), expected, "{direction:?}");
                assert!(ended.summary.files == 3 || ended.summary.files == 0, "{ended:?}");
            }
            let link = fs::read_link(temp.join("to/old/from/was_link")).expect("a backup");
            assert_eq!(link, Path::new("target"));
            assert_eq!(fs::metadata(temp.join("to/old/from/gone/deep")).expect("a backup").len(), 10);
            assert!(!temp.join("to/old/from/same").exists());
        }
    }
}

#[test]
fn backups_inside_the_tree_stay() {
    let temp = TempTree::new();
    temp.file("from/a", 10);
    temp.file("to/b", 10);
    let mut plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    plan.sources[0].push(b'/');
    for _ in 0..2 {
        copy_with(plan.clone(), backing_up("./kept//old/"), temp.path(), &mut Setup::default()).well();
        assert_eq!(fs::metadata(temp.join("to/kept/old/b")).expect("a backup").len(), 10);
        assert!(temp.join("to/a").exists());
    }
}

#[test]
fn without_a_backup_the_original_stays() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/a", 10);
            temp.write_in("to/from", "a", b"before");
            temp.file("file", 1);
            let ended = sync_with(direction, &temp, backing_up("../file"), &mut setup);
            assert_eq!(ended.failures.len(), 1, "{:?}", ended.failures);
            assert!(ended.failures[0].contains("cannot be moved to"), "{:?}", ended.failures);
            assert_eq!(fs::read(temp.join("to/from/a")).expect("the original"), b"before");
        }
    }
}

#[test]
fn a_lost_connection_leaves_nothing_waiting() {
    for direction in DIRECTIONS {
        for cut in [60, 700, 3_000, 9_000, 15_000, 30_000] {
            let temp = TempTree::new();
            temp.odd("from");
            sync_with(direction, &temp, options(), &mut Setup::default()).well();
            temp.file("from/more", 10);
            for n in 0..200 {
                temp.file(format!("to/from/extra/{n}/{n}"), 1);
            }
            let mut setup = Setup { cut_after: Some(cut), piece: 100, ..Setup::default() };
            let ended = sync_with(direction, &temp, deleting(), &mut setup);
            assert!(ended.summary.lost || ended.summary.failures == 0, "{direction:?} {cut}");
        }
    }
}
