//! Copying only what differs: the second run of the same command.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use common::syncing::{DIRECTIONS, inodes_of, options, plan, servers, set_time, sync_with};
use common::{Setup, TempTree, bytes_of, copy_with, same_tree, stock};
use lh_transfer::{Direction, Keep, Limits, Options, Plan, TreeSync};

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
fn files_of_another_size_or_time_are_copied() {
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
            assert_eq!(planned, [Some(&b"b"[..]), Some(b"c")], "{direction:?}");
            assert_eq!(inodes_of(&temp.join("to")), before);
        }
    }
}

/// How long the path is shows in the answers: behind a jump host the kernel does not see it.
#[test]
fn contents_behind_a_tunnel_are_compared_many_at_a_time() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        for n in 0..600 {
            temp.file(format!("from/{n}"), 10 + n);
        }
        let rtt = Duration::from_millis(50);
        let mut setup = Setup { rtt, tunnelled: true, max_handles: Some(1_000), ..Setup::default() };
        sync_with(direction, &temp, options(), &mut setup).well();
        let tree_sync = Some(TreeSync { checksum: true, ..TreeSync::default() });
        let ended = sync_with(direction, &temp, Options { tree_sync, ..options() }, &mut setup).well();
        assert_eq!(ended.summary.unchanged, 600, "{direction:?}");
        assert!(ended.rounds < 40, "{direction:?}: {}", ended.rounds);
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
            for name in ["touched", "empty"] {
                set_time(&temp.join(format!("to/from/{name}")), 2_000_000);
            }
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

/// Servers exist (russh's) that stop for good with about a hundred requests in flight.
#[test]
fn comparisons_of_several_files_share_the_bound_of_requests() {
    for direction in [Direction::Upload, Direction::Download] {
        for (max_requests, most) in [(None, 64), (Some(10), 10)] {
            let temp = TempTree::new();
            for n in 0..6 {
                set_time(&temp.file(format!("from/{n}"), 3_000_000 + n), 1_000_000);
            }
            let mut setup = Setup { foreign: true, ..stock(&["limits@openssh.com"]) };
            sync_with(direction, &temp, options(), &mut setup).well();
            // One of them is copied while the others are compared.
            let path = temp.join("to/from/3");
            let mut data = fs::read(&path).expect("a file");
            data[0] ^= 1;
            fs::write(&path, data).expect("written");
            set_time(&path, 1_000_000);
            let tree_sync = Some(TreeSync { checksum: true, ..TreeSync::default() });
            let options = Options {
                tree_sync,
                limits: Limits { requests: max_requests, ..Limits::default() },
                ..options()
            };
            let ended = sync_with(direction, &temp, options, &mut setup).well();
            assert_eq!((ended.summary.files, ended.summary.unchanged), (1, 5), "{direction:?}");
            // Questions about names are few, and not counted.
            assert!(ended.most_awaited <= most + 8, "{direction:?}: {}", ended.most_awaited);
        }
    }
}
