//! What is copied arrives, in every direction, under any name and in pieces of any size.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;

use common::{Faults, Setup, TempTree, bytes_of, copy, copy_with, plan, same_tree, whole_tree};
use lh_transfer::{Direction, Limits, Options, Plan};

const DIRECTIONS: [Direction; 3] = [Direction::Upload, Direction::Download, Direction::Relay];

#[test]
fn an_odd_tree_arrives_whole_with_modes_and_times() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.odd("from");
        let target = temp.join("to");
        copy(plan(direction, &source, &target), whole_tree(), temp.path()).well();
        same_tree(&source, &target, true);
    }
}

#[test]
fn into_an_existing_directory_the_tree_keeps_its_name() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.odd("from");
        let target = temp.dir("to");
        copy(plan(direction, &source, &target), whole_tree(), temp.path()).well();
        same_tree(&source, &target.join("from"), true);
        // A second time over what is there already.
        copy(plan(direction, &source, &target), whole_tree(), temp.path()).well();
        same_tree(&source, &target.join("from"), true);
    }
}

#[test]
fn five_thousand_small_files_arrive() {
    let temp = TempTree::new();
    for n in 0..5_000 {
        temp.file(format!("from/{}/{n}", n % 50), n % 700);
    }
    for direction in DIRECTIONS {
        let target = temp.join(format!("to-{direction:?}"));
        let ended = copy(plan(direction, &temp.join("from"), &target), whole_tree(), temp.path()).well();
        assert_eq!(ended.summary.files, 5_000);
        same_tree(&temp.join("from"), &target, true);
    }
}

#[test]
fn a_narrow_and_choppy_connection_changes_nothing() {
    for direction in DIRECTIONS {
        for (window, piece) in [(300, 7), (24_576, 1_000), (100_000, 33)] {
            let temp = TempTree::new();
            let big = temp.file("from/big", 700_001);
            temp.file("from/small", 100);
            temp.file("from/sub/other", 40_000);
            let mut setup = Setup { window, piece, ..Setup::default() };
            let plan = plan(direction, big.parent().expect("a parent"), &temp.join("to"));
            copy_with(plan, whole_tree(), temp.path(), &mut setup).well();
            same_tree(&temp.join("from"), &temp.join("to"), true);
        }
    }
}

#[test]
fn short_reads_are_asked_for_again() {
    for direction in [Direction::Download, Direction::Relay] {
        for longest_read in [1_000, 65_536, 65_537] {
            let temp = TempTree::new();
            let big = temp.file("big", 1_500_000);
            let faults = Faults { longest_read: Some(longest_read), ..Faults::default() };
            let mut setup = Setup { faults, ..Setup::default() };
            copy_with(plan(direction, &big, &temp.join("to")), whole_tree(), temp.path(), &mut setup).well();
            same_tree(&big, &temp.join("to"), true);
        }
    }
}

#[test]
fn replies_may_come_in_any_order() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.odd("from");
        temp.file("from/big", 5_000_000);
        let mut setup = Setup { reverse: true, ..Setup::default() };
        copy_with(plan(direction, &source, &temp.join("to")), whole_tree(), temp.path(), &mut setup).well();
        same_tree(&source, &temp.join("to"), true);
    }
}

#[test]
fn a_longer_target_is_cut_and_keeps_its_inode() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.file("short", 1_000);
        let target = temp.file("long", 300_000);
        let inode = fs::metadata(&target).expect("a file").ino();
        copy(plan(direction, &source, &target), Options::default(), temp.path()).well();
        same_tree(&source, &target, false);
        assert_eq!(fs::metadata(&target).expect("a file").ino(), inode);
    }
}

#[test]
fn a_file_copied_onto_itself_survives() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.file("file", 600_000);
        let before = fs::read(&source).expect("a file");
        copy(plan(direction, &source, &source), Options::default(), temp.path()).well();
        assert!(fs::read(&source).expect("a file") == before);
    }
}

#[test]
fn files_without_a_size_are_read_to_their_end() {
    let status = std::path::Path::new("/proc/self/limits");
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        copy(plan(direction, status, &temp.join("to")), Options::default(), temp.path()).well();
        let text = fs::read_to_string(temp.join("to")).expect("a file");
        assert!(text.contains("Max open files"), "{text}");
        assert_eq!(text, fs::read_to_string(status).expect("a file"));
    }
}

#[test]
fn new_files_get_the_time_of_now_and_the_mode_of_the_source() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.odd("from");
        let options = Options { recursive: true, ..Options::default() };
        copy(plan(direction, &source, &temp.join("to")), options, temp.path()).well();
        same_tree(&source, &temp.join("to"), false);
        let made = fs::metadata(temp.join("to/plain.txt")).expect("a file");
        assert_eq!(made.mode() & 0o777, 0o640);
        assert!(made.mtime() > 1_700_000_000);
        assert_eq!(fs::metadata(temp.join("to/read-only")).expect("a directory").mode() & 0o777, 0o500);
    }
}

#[test]
fn patterns_are_matched_on_the_server() {
    let temp = TempTree::new();
    for name in ["a1.txt", "a2.txt", "b1.txt", ".a3.txt", "sub1/x.c", "sub2/x.c", "sub2/y.c", "we[ird"] {
        temp.file(format!("from/{name}"), 50);
    }
    let get = |pattern: &str, target: &str| {
        let plan = Plan {
            direction: Direction::Download,
            sources: vec![pattern.into()],
            target: bytes_of(&temp.dir(target)),
            target_must_be_dir: false,
        };
        let mut done = copy(plan, Options::default(), temp.path()).well().done;
        done.sort();
        done
    };
    assert_eq!(get("from/a*.txt", "t1"), ["a1.txt", "a2.txt"]);
    assert_eq!(get("from/[!a]1.txt", "t2"), ["b1.txt"]);
    assert_eq!(get("from/sub?/x.c", "t3"), ["x.c", "x.c"]);
    assert_eq!(get("from/.a*", "t4"), [".a3.txt"]);
    // Magic that matches nothing stands for itself, and a backslash takes the magic away.
    assert_eq!(get("from/we[ird", "t5"), ["we[ird"]);
    assert_eq!(get("from/we\\[ird", "t6"), ["we[ird"]);
    assert_eq!(get(&format!("{}/f*/a1.txt", temp.path().display()), "t7"), ["a1.txt"]);
}

#[test]
fn several_matches_need_a_directory_and_make_one() {
    let temp = TempTree::new();
    temp.file("from/a", 5);
    temp.file("from/b", 6);
    let file = temp.file("file", 7);
    let mut plan = plan(Direction::Download, &temp.join("from/*"), &temp.join("new"));
    copy(plan.clone(), Options::default(), temp.path()).well();
    same_tree(&temp.join("from"), &temp.join("new"), false);
    plan.target = bytes_of(&file);
    let ended = copy(plan, Options::default(), temp.path());
    let text =
        format!("Multiple files match pattern, but destination \"{}\" is not a directory", file.display());
    assert_eq!(ended.failures, [text]);
}

#[test]
fn tilde_is_the_login_directory() {
    let temp = TempTree::new();
    temp.file("home/x", 5);
    for source in ["~/x", "x", "~//x"] {
        let target = temp.join(format!("got{}", source.len()));
        let mut plan = plan(Direction::Download, source.as_ref(), &target);
        copy(plan.clone(), Options::default(), &temp.join("home")).well();
        same_tree(&temp.join("home/x"), &target, false);
        plan.sources = vec![bytes_of(&target)];
        plan.direction = Direction::Upload;
        plan.target = b"~".to_vec();
        copy(plan, Options::default(), &temp.join("home")).well();
        assert!(temp.join("home").join(target.file_name().expect("a name")).exists());
    }
}

#[test]
fn the_rate_limit_is_kept() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.file("file", 2_000_000);
        let options = Options {
            limits: Limits { bits_per_second: Some(1_000_000), ..Limits::default() },
            ..Options::default()
        };
        let ended = copy(plan(direction, &source, &temp.join("to")), options, temp.path()).well();
        same_tree(&source, &temp.join("to"), false);
        let seconds = ended.took.as_secs_f64();
        assert!((15.0..16.5).contains(&seconds), "2 MB at 1 Mbit/s took {seconds} s");
    }
}

#[test]
fn a_link_that_leads_back_does_not_go_on_for_ever() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("from/sub/file", 9);
        temp.link("from/sub/up", "..");
        temp.link("from/self", ".");
        let ended = copy(plan(direction, &temp.join("from"), &temp.join("to")), whole_tree(), temp.path());
        assert_eq!(ended.failures.len(), 2, "{:?}", ended.failures);
        assert!(ended.failures.iter().all(|text| text.ends_with("directory loop, not copied")));
        assert!(temp.join("to/sub/file").exists());
    }
}

#[test]
fn hard_link_names_are_kept_within_a_bound_until_the_last() {
    for (most, warned) in [(None, false), (Some(1), true)] {
        for direction in [Direction::Upload, Direction::Download] {
            let temp = TempTree::new();
            for file in 0..4 {
                let name = temp.file(format!("from/a/{file}"), 1_000 + file);
                temp.file(format!("from/b/other-{file}"), 3);
                std::fs::hard_link(&name, temp.join(format!("from/b/{file}"))).expect("a link");
            }
            let keep = lh_transfer::Keep { hard_links: true, ..lh_transfer::Keep::default() };
            let options = Options {
                recursive: true,
                keep,
                limits: Limits { shared_files: most, ..Limits::default() },
                ..Options::default()
            };
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy(plan, options, temp.path()).well();
            same_tree(&temp.join("from"), &temp.join("to"), false);
            let told = ended.skipped.iter().filter(|text| text.contains("too many files")).count();
            assert_eq!(told, usize::from(warned), "{:?}", ended.skipped);
            let same = (0..4)
                .filter(|file| {
                    use std::os::unix::fs::MetadataExt as _;
                    let inode = |name: String| std::fs::metadata(temp.join(name)).expect("a copy").ino();
                    inode(format!("to/a/{file}")) == inode(format!("to/b/{file}"))
                })
                .count();
            assert!(if warned { (1..4).contains(&same) } else { same == 4 }, "{same}");
        }
    }
}
