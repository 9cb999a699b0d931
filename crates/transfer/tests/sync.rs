//! Copying only what differs: the second run of the same command.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{Ended, Faults, Setup, TempTree, bytes_of, copy_with, same_tree, stock, whole_tree};
use lh_transfer::{Direction, Keep, Options, Plan, Rule, Selection, TreeSync};

const DIRECTIONS: [Direction; 3] = [Direction::Upload, Direction::Download, Direction::Relay];

fn options() -> Options {
    Options { tree_sync: Some(TreeSync::default()), atomic: true, ..whole_tree() }
}

fn plan(direction: Direction, source: &Path, target: &Path) -> Plan {
    Plan { direction, sources: vec![bytes_of(source)], target: bytes_of(target), target_must_be_dir: true }
}

/// A server of ours, and one of another make.
fn servers() -> [Setup; 2] {
    [Setup::default(), stock(&[])]
}

fn sync_with(direction: Direction, temp: &TempTree, options: Options, setup: &mut Setup) -> Ended {
    copy_with(plan(direction, &temp.join("from"), &temp.join("to")), options, temp.path(), setup)
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).expect("a file").set_modified(time).expect("its time");
}

#[test]
fn a_second_run_finds_everything_unchanged() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.odd("from");
            let first = sync_with(direction, &temp, options(), &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
            let inodes = inodes_of(&temp.join("to"));
            let again = sync_with(direction, &temp, options(), &mut setup).well();
            assert_eq!((again.summary.files, again.summary.bytes), (0, 0), "{direction:?}");
            assert_eq!(again.summary.unchanged, first.summary.files);
            assert!(again.done.is_empty());
            assert_eq!(inodes_of(&temp.join("to")), inodes);
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
        }
    }
}

fn inodes_of(path: &Path) -> Vec<(String, u64, i64, i64)> {
    let mut all = Vec::new();
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).expect("an entry");
        all.push((path.display().to_string(), meta.ino(), meta.ctime(), meta.ctime_nsec()));
        if meta.is_dir() {
            todo.extend(
                fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()),
            );
        }
    }
    all.sort();
    all
}

#[test]
fn an_unchanged_tree_costs_no_request_for_a_file() {
    for direction in [Direction::Upload, Direction::Download] {
        let moved = |files: usize| {
            let temp = TempTree::new();
            for n in 0..files {
                temp.file(format!("from/d/{n:06}"), 10);
            }
            sync_with(direction, &temp, options(), &mut Setup::default()).well();
            let ended = sync_with(direction, &temp, options(), &mut Setup::default()).well();
            assert_eq!(ended.summary.unchanged as usize, files);
            ended.moved
        };
        // An entry of a listing has less than this.
        assert!(moved(1_100) - moved(100) < 1_000 * 150, "{direction:?}");
    }
}

#[test]
fn what_differs_in_size_or_time_is_copied() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            for name in ["same", "longer", "touched", "sub/same", "sub/other"] {
                set_time(&temp.file(format!("from/{name}"), 1_000), 1_000_000);
            }
            temp.file("from/big", 300_000);
            sync_with(direction, &temp, options(), &mut setup).well();
            let same = fs::metadata(temp.join("to/from/same")).expect("a file").ino();
            set_time(&temp.file("from/longer", 2_000), 1_000_000);
            set_time(&temp.file("from/touched", 1_000), 1_000_001);
            set_time(&temp.file("from/big", 300_000), 77);
            temp.file("from/sub/new", 70_000);
            temp.file("to/from/extra", 10);
            let again = sync_with(direction, &temp, options(), &mut setup).well();
            assert_eq!((again.summary.files, again.summary.unchanged), (4, 3), "{direction:?} {again:?}");
            assert_eq!(fs::metadata(temp.join("to/from/same")).expect("a file").ino(), same);
            fs::remove_file(temp.join("to/from/extra")).expect("what is only there stays");
            // Removing it has changed the directory's time.
            sync_with(direction, &temp, options(), &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
        }
    }
}

#[test]
fn contents_go_into_the_target_after_a_slash() {
    for direction in DIRECTIONS {
        for ending in ["/", "/."] {
            let temp = TempTree::new();
            temp.file("from/a/b", 10);
            let mut plan = plan(direction, &temp.join("from"), &temp.join("to"));
            plan.sources[0].extend_from_slice(ending.as_bytes());
            for unchanged in [0, 1] {
                let ended = copy_with(plan.clone(), options(), temp.path(), &mut Setup::default()).well();
                assert_eq!(ended.summary.unchanged, unchanged);
                same_tree(&temp.join("from"), &temp.join("to"), true);
            }
        }
    }
}

#[test]
fn named_files_go_into_the_target_and_are_compared() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            let sources = vec![bytes_of(&temp.file("one", 10)), bytes_of(&temp.file("two", 300_000))];
            let target = bytes_of(&temp.join("to"));
            let plan = Plan { direction, sources, target, target_must_be_dir: true };
            for expected in [(2, 0), (0, 2)] {
                let ended = copy_with(plan.clone(), options(), temp.path(), &mut setup).well();
                assert_eq!((ended.summary.files, ended.summary.unchanged), expected, "{direction:?}");
            }
            same_tree(&temp.join("two"), &temp.join("to/two"), true);
        }
    }
}

#[test]
fn links_are_compared_and_never_written_through() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/file", 100);
            temp.file("from/elif", 100);
            temp.file("outside", 7);
            symlink("file", temp.join("from/link")).expect("a link");
            let options = Options { keep: Keep { links: true, ..Keep::default() }, ..options() };
            sync_with(direction, &temp, options.clone(), &mut setup).well();
            let again = sync_with(direction, &temp, options.clone(), &mut setup).well();
            assert_eq!((again.summary.files, again.summary.unchanged), (0, 3), "{direction:?}");
            // A link of the same length to something else, and a link where a file was.
            fs::remove_file(temp.join("from/link")).expect("gone");
            symlink("elif", temp.join("from/link")).expect("a link");
            fs::remove_file(temp.join("to/from/file")).expect("gone");
            symlink(temp.join("outside"), temp.join("to/from/file")).expect("a link");
            let last = sync_with(direction, &temp, options, &mut setup).well();
            let link = fs::read_link(temp.join("to/from/link")).expect("a link");
            assert_eq!(link, Path::new("elif"), "{direction:?} {last:?}");
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
            assert_eq!(fs::metadata(temp.join("outside")).expect("a file").len(), 7);
            assert!(!fs::symlink_metadata(temp.join("to/from/file")).expect("a file").is_symlink());
        }
    }
}

#[test]
fn followed_links_are_compared_with_what_they_lead_to() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("elsewhere/file", 100);
        temp.file("from/a", 5);
        symlink("../elsewhere", temp.join("from/dir")).expect("a link");
        symlink("a", temp.join("from/b")).expect("a link");
        let first = sync_with(direction, &temp, options(), &mut Setup::default()).well();
        assert_eq!(first.summary.files, 3);
        let again = sync_with(direction, &temp, options(), &mut Setup::default()).well();
        assert_eq!((again.summary.files, again.summary.unchanged), (0, 3), "{direction:?}");
    }
}

#[test]
fn other_kinds_of_things_are_replaced() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/was_dir", 10);
            temp.file("from/was_file/x", 10);
            temp.file("from/was_link/x", 10);
            temp.file("outside/kept", 10);
            fs::create_dir_all(temp.join("to/from/was_dir")).expect("a directory");
            temp.file("to/from/was_file", 10);
            symlink(temp.join("outside"), temp.join("to/from/was_link")).expect("a link");
            sync_with(direction, &temp, options(), &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
            assert_eq!(fs::read_dir(temp.join("outside")).expect("a directory").count(), 1);
            // A directory with something in it stays.
            fs::remove_file(temp.join("to/from/was_dir")).expect("gone");
            temp.file("to/from/was_dir/x", 10);
            let again = sync_with(direction, &temp, options(), &mut setup);
            assert_eq!(again.failures.len(), 1, "{:?}", again.failures);
            assert!(again.failures[0].contains("in the way"), "{:?}", again.failures);
            assert!(temp.join("to/from/was_dir/x").exists());
        }
    }
}

#[test]
fn modes_of_unchanged_files_are_mended() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            let file = temp.file("from/file", 10);
            sync_with(direction, &temp, options(), &mut setup).well();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).expect("a mode");
            let again = sync_with(direction, &temp, options(), &mut setup).well();
            assert_eq!((again.summary.files, again.summary.unchanged), (0, 1));
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
        }
    }
}

#[test]
fn other_names_of_a_replaced_file_keep_what_they_have() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            for name in ["small", "large"] {
                temp.file(format!("from/{name}"), if name == "small" { 10 } else { 300_000 });
                temp.file(format!("to/from/{name}"), 5);
                let snapshot = temp.join(format!("snapshot-{name}"));
                fs::hard_link(temp.join(format!("to/from/{name}")), snapshot).expect("a link");
            }
            sync_with(direction, &temp, options(), &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
            for name in ["small", "large"] {
                let snapshot = fs::metadata(temp.join(format!("snapshot-{name}"))).expect("a file");
                assert_eq!((snapshot.len(), snapshot.nlink()), (5, 1), "{direction:?}");
            }
        }
    }
}

#[test]
fn hard_links_stay_links_when_some_names_are_new() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("from/b", 100);
        fs::hard_link(temp.join("from/b"), temp.join("from/d")).expect("a link");
        let options = Options { keep: Keep { hard_links: true, ..Keep::default() }, ..options() };
        let setup = &mut Setup::default();
        sync_with(direction, &temp, options.clone(), setup).well();
        let again = sync_with(direction, &temp, options.clone(), setup).well();
        assert_eq!((again.summary.files, again.summary.unchanged), (0, 2), "{direction:?}");
        for name in ["a", "c", "e"] {
            fs::hard_link(temp.join("from/b"), temp.join(format!("from/{name}"))).expect("a link");
        }
        sync_with(direction, &temp, options, setup).well();
        let inode = |name: &str| fs::metadata(temp.join("to/from").join(name)).expect("a file").ino();
        assert!(["b", "c", "d", "e"].iter().all(|name| inode(name) == inode("a")), "{direction:?}");
    }
}

#[test]
fn a_dry_run_names_only_what_differs() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            temp.file("from/a", 10);
            temp.file("from/d/b", 10);
            let dry = Options { dry_run: true, ..options() };
            let first = sync_with(direction, &temp, dry.clone(), &mut setup).well();
            assert_eq!(first.planned.len(), 2);
            assert!(!temp.join("to").exists());
            sync_with(direction, &temp, options(), &mut setup).well();
            temp.file("from/d/b", 20);
            temp.file("from/new/c", 20);
            let before = inodes_of(&temp.join("to"));
            let ended = sync_with(direction, &temp, dry, &mut setup).well();
            let planned: Vec<_> =
                ended.planned.iter().map(|path| path.rsplit(|b| *b == b'/').next()).collect();
            assert_eq!(planned, [Some(&b"c"[..]), Some(b"b")], "{direction:?}");
            assert_eq!(inodes_of(&temp.join("to")), before);
        }
    }
}

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
fn what_the_source_does_not_have_is_deleted() {
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
fn what_is_left_out_and_unfinished_files_are_not_deleted() {
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

#[test]
fn only_checksums_find_other_contents_of_the_same_size_and_time() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            for (name, size) in
                [("small", 1_000), ("large", 3_000_000), ("same", 70_000), ("touched", 5_000), ("empty", 0)]
            {
                set_time(&temp.file(format!("from/{name}"), size), 1_000_000);
            }
            sync_with(direction, &temp, options(), &mut setup).well();
            for name in ["small", "large"] {
                let path = temp.join(format!("to/from/{name}"));
                let mut data = fs::read(&path).expect("a file");
                let last = data.len() - 1;
                data[last] ^= 1;
                fs::write(&path, data).expect("written");
                set_time(&path, 1_000_000);
            }
            let again = sync_with(direction, &temp, options(), &mut setup).well();
            assert_eq!((again.summary.files, again.summary.unchanged), (0, 5), "{direction:?}");
            set_time(&temp.join("to/from/touched"), 2_000_000);
            let tree_sync = Some(TreeSync { checksum: true, ..TreeSync::default() });
            let options = Options { tree_sync, ..options() };
            let ended = sync_with(direction, &temp, options.clone(), &mut setup).well();
            assert_eq!((ended.summary.files, ended.summary.unchanged), (2, 3), "{direction:?}");
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
            let ended = sync_with(direction, &temp, options, &mut setup).well();
            assert_eq!((ended.summary.files, ended.summary.unchanged), (0, 5), "{direction:?}");
        }
    }
}

#[test]
fn newer_files_are_left_alone_where_that_is_asked_for() {
    for direction in DIRECTIONS {
        for mut setup in servers() {
            let temp = TempTree::new();
            for name in ["older", "newer"] {
                set_time(&temp.file(format!("from/{name}"), 100), 1_000_000);
            }
            set_time(&temp.file("to/from/newer", 50), 1_000_001);
            set_time(&temp.file("to/from/older", 50), 999_999);
            let tree_sync = Some(TreeSync { keep_newer: true, ..TreeSync::default() });
            let ended = sync_with(direction, &temp, Options { tree_sync, ..options() }, &mut setup).well();
            assert_eq!((ended.summary.files, ended.summary.unchanged), (1, 1), "{direction:?}");
            assert_eq!(fs::metadata(temp.join("to/from/newer")).expect("a file").len(), 50);
            sync_with(direction, &temp, options(), &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to/from"), true);
        }
    }
}

fn backing_up(directory: &str) -> Options {
    let backup_dir = Some(directory.as_bytes().to_vec());
    let tree_sync = Some(TreeSync { delete: true, backup_dir, ..TreeSync::default() });
    Options { tree_sync, keep: Keep { links: true, ..Keep::default() }, ..options() }
}

#[test]
fn what_is_replaced_or_deleted_is_kept_elsewhere() {
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
