//! What goes wrong is told with the file's name, ends that file only, and leaves nothing that looks whole.

mod common;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use common::{Ended, Faults, Setup, TempTree, copy, copy_with, plan, same_tree, stock, whole_tree};
use lh_transfer::{Direction, Keep, Options, Placing};
use rustix::io::Errno;

const DIRECTIONS: [Direction; 3] = [Direction::Upload, Direction::Download, Direction::Relay];

/// Copies a tree of which `from/sub/bad` cannot be copied, because `operation` fails on it.
fn one_bad_file(direction: Direction, operation: &'static str, path: &'static str) -> (TempTree, Ended) {
    let temp = TempTree::new();
    for name in ["from/a", "from/sub/bad", "from/sub/good", "from/z"] {
        temp.file(name, 700_000);
    }
    let mut setup = Setup { faults: Faults::fail(operation, path, Errno::NOSPC), ..Setup::default() };
    let plan = plan(direction, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan, whole_tree(), temp.path(), &mut setup);
    for good in ["a", "sub/good", "z"] {
        same_tree(&temp.join("from").join(good), &temp.join("to").join(good), true);
    }
    (temp, ended)
}

#[test]
fn each_request_that_fails_names_its_file_and_spares_the_others() {
    let cases = [
        (Direction::Download, "open-read", "bad", "remote open \"{from}/sub/bad\": No space left on device"),
        (Direction::Download, "read", "bad", "read remote \"{from}/sub/bad\" : No space left on device"),
        (Direction::Upload, "open-write", "bad", "dest open \"{to}/sub/bad\": No space left on device"),
        (Direction::Upload, "write", "bad", "write remote \"{to}/sub/bad\": No space left on device"),
        (Direction::Upload, "setstat", "to/sub", "remote setstat \"{to}/sub\": No space left on device"),
        (Direction::Relay, "open-read", "bad", "origin open \"{from}/sub/bad\": No space left on device"),
        (Direction::Relay, "write", "to/sub/bad", "write remote \"{to}/sub/bad\": No space left on device"),
    ];
    for (direction, operation, path, expected) in cases {
        let (temp, ended) = one_bad_file(direction, operation, path);
        let at = |name| temp.join(name).display().to_string();
        let expected = expected.replace("{from}", &at("from")).replace("{to}", &at("to"));
        assert_eq!(ended.failures, [expected], "{direction:?} {operation}");
        if matches!(operation, "read" | "write") {
            let left = fs::metadata(temp.join("to/sub/bad")).map_or(0, |meta| meta.len());
            assert!(left < 700_000, "{operation} failed, yet {left} bytes look like the whole file");
        }
    }
}

#[test]
fn refused_symlink_is_reported_as_one() {
    let temp = TempTree::new();
    temp.dir("from");
    std::os::unix::fs::symlink("target", temp.join("from/link")).expect("a link");
    let faults = Faults::fail("symlink", "", Errno::ACCESS);
    let keep = Keep { links: true, ..Keep::default() };
    let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    let options = Options { keep, ..whole_tree() };
    let ended = copy_with(plan, options, temp.path(), &mut Setup { faults, ..Setup::default() });
    let expected = format!("remote symlink \"{}\": Permission denied", temp.join("to/link").display());
    assert_eq!(ended.failures, [expected]);
}

#[test]
fn attributes_refused_on_a_handle_are_set_by_path() {
    for atomic in [false, true] {
        let temp = TempTree::new();
        for n in 0..5 {
            temp.file(format!("from/{n}"), 1_000 + 300_000 * n);
            temp.mode(format!("from/{n}"), 0o640);
        }
        let faults =
            Faults::hook(|what, _, _| if what == "fsetstat" { Err(Errno::ACCESS.into()) } else { Ok(()) });
        let mut setup = Setup { faults, ..stock(&[]) };
        let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
        copy_with(
            plan,
            Options { placing: Placing { atomic, ..Placing::default() }, ..whole_tree() },
            temp.path(),
            &mut setup,
        )
        .well();
        same_tree(&temp.join("from"), &temp.join("to"), true);
    }
}

#[test]
fn a_server_that_sets_nothing_gets_all_files_and_is_told_of() {
    for direction in [Direction::Upload, Direction::Relay] {
        for (atomic, preserve) in [(false, true), (true, true), (true, false), (false, false)] {
            let temp = TempTree::new();
            for n in 0..41 {
                temp.file(format!("from/{n}"), 1_000 + 10_000 * n);
            }
            let faults = Faults::hook(|what, path, _| {
                let refused = what == "fsetstat" || (what == "setstat" && !path.ends_with(b"/to"));
                if refused { Err(Errno::ACCESS.into()) } else { Ok(()) }
            });
            let mut setup = Setup { faults, ..stock(&[]) };
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let options =
                Options { placing: Placing { atomic, ..Placing::default() }, preserve, ..whole_tree() };
            let ended = copy_with(plan, options, temp.path(), &mut setup);
            same_tree(&temp.join("from"), &temp.join("to"), false);
            let told = ended.failures.iter().filter(|text| text.contains("remote fsetstat")).count();
            assert_eq!(told, if preserve { 41 } else { 0 }, "{:?}", ended.failures);
            assert_eq!(ended.summary.files, 41);
        }
    }
}

#[test]
fn directories_that_fail_are_named_once_and_the_rest_goes_on() {
    let cases = [
        (Direction::Upload, "mkdir", "to/sub", "remote mkdir \"{to}/sub\": Permission denied"),
        (Direction::Download, "open-dir", "from/sub", "remote readdir(\"{from}/sub\"): Permission denied"),
        (Direction::Download, "readdir", "from/sub", "remote readdir(\"{from}/sub\"): Permission denied"),
    ];
    for (direction, operation, path, expected) in cases {
        let temp = TempTree::new();
        temp.file("from/sub/x", 10);
        temp.file("from/y", 10);
        let mut setup = Setup { faults: Faults::fail(operation, path, Errno::ACCESS), ..Setup::default() };
        let plan = plan(direction, &temp.join("from"), &temp.join("to"));
        let ended = copy_with(plan, whole_tree(), temp.path(), &mut setup);
        let at = |name| temp.join(name).display().to_string();
        let expected = expected.replace("{from}", &at("from")).replace("{to}", &at("to"));
        assert_eq!(ended.failures, [expected], "{operation}");
        same_tree(&temp.join("from/y"), &temp.join("to/y"), true);
    }
}

#[test]
fn a_disk_that_fills_up_leaves_a_prefix() {
    for size in [100_000, 3_000_000] {
        let temp = TempTree::new();
        let source = temp.file("from", size);
        let faults = Faults::hook(move |what, _, offset| {
            let full = what == "write" && offset >= size as u64 / 2;
            if full || (what == "write" && size < 200_000) { Err(Errno::NOSPC.into()) } else { Ok(()) }
        });
        let mut setup = Setup { faults, ..Setup::default() };
        let plan = plan(Direction::Upload, &source, &temp.join("to"));
        let ended = copy_with(plan, Options::default(), temp.path(), &mut setup);
        let text = format!("write remote \"{}\": No space left on device", temp.join("to").display());
        assert_eq!(ended.failures, [text]);
        let left = fs::read(temp.join("to")).expect("what was written");
        assert!(
            left.len() < size && fs::read(&source).expect("the source").starts_with(&left),
            "{}",
            left.len()
        );
    }
}

#[test]
fn a_local_disk_that_fills_up_is_named() {
    let temp = TempTree::new();
    temp.file("from", 300_000);
    let plan = plan(Direction::Download, &temp.join("from"), "/dev/full".as_ref());
    let ended = copy(plan, Options::default(), temp.path());
    assert_eq!(ended.failures, ["write local \"/dev/full\": No space left on device"]);
}

#[test]
fn open_failures_are_reported_in_the_words_of_scp() {
    let temp = TempTree::new();
    temp.file("file", 10);
    temp.dir("dir");
    let case = |direction, from: &str, to: &str, expected: &str| {
        let plan = plan(direction, &temp.join(from), &temp.join(to));
        let ended = copy(plan, Options::default(), temp.path());
        let expected = expected.replace("{t}", &temp.path().display().to_string());
        assert_eq!(ended.failures, [expected], "{direction:?} {from} {to}");
    };
    use Direction::{Download, Relay, Upload};
    case(Upload, "none", "x", "stat local \"{t}/none\": No such file or directory");
    case(Upload, "dir", "x", "local \"{t}/dir\" is not a regular file");
    case(Upload, "file", "no/x", "dest open \"{t}/no/x\": No such file or directory");
    case(Download, "none", "x", "{t}/none: No such file or directory");
    case(Download, "none*", "x", "{t}/none*: No such file or directory");
    case(Download, "dir", "x", "download {t}/dir: not a regular file");
    case(Download, "file", "no/x", "open local \"{t}/no/x\": No such file or directory");
    case(Relay, "file", "no/x", "dest open \"{t}/no/x\": No such file or directory");
    assert!(!temp.join("x").exists(), "a target was made for a source that cannot be opened");
}

#[test]
fn a_source_that_cannot_be_opened_leaves_the_target_alone() {
    for direction in [Direction::Download, Direction::Relay] {
        let temp = TempTree::new();
        let source = temp.file("from", 5_000);
        let target = temp.file("to", 9_000);
        let before = fs::read(&target).expect("a file");
        let faults = Faults::fail("open-read", "from", Errno::ACCESS);
        let mut setup = Setup { faults, ..Setup::default() };
        let ended = copy_with(plan(direction, &source, &target), Options::default(), temp.path(), &mut setup);
        assert_eq!(ended.failures.len(), 1);
        assert!(ended.failures[0].ends_with("Permission denied"));
        assert!(fs::read(&target).expect("a file") == before);
    }
}

#[test]
fn a_file_in_the_way_of_a_directory_is_named() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("from/sub/x", 10);
        temp.dir("to");
        temp.file("to/sub", 10);
        let ended = copy(plan(direction, &temp.join("from/."), &temp.join("to")), whole_tree(), temp.path());
        let text = format!("\"{}\" exists but is not a directory", temp.join("to/./sub").display());
        assert_eq!(ended.failures, [text], "{direction:?}");
    }
}

#[test]
fn a_source_that_shrinks_is_an_error_and_never_padded() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let source = temp.file("from", 2_000_000);
        let before = fs::read(&source).expect("a file");
        let shrinking = source.clone();
        // Cut once data have begun to move.
        let faults = Faults::hook(move |what, _, _| {
            if matches!(what, "read" | "write") {
                let file = fs::File::options().write(true).open(&shrinking)?;
                if file.metadata()?.len() == 2_000_000 {
                    file.set_len(900_000)?;
                }
            }
            Ok(())
        });
        // A small window, so that an upload has not read everything before the first WRITE is served.
        let mut setup = Setup { faults, window: 100_000, ..Setup::default() };
        let ended =
            copy_with(plan(direction, &source, &temp.join("to")), whole_tree(), temp.path(), &mut setup);
        assert_eq!(ended.failures.len(), 1, "{direction:?}: {:?}", ended.failures);
        assert!(
            ended.failures[0].contains("from\"") && ended.failures[0].contains("file shrank"),
            "{:?}",
            ended.failures
        );
        let left = fs::read(temp.join("to")).expect("what was copied");
        assert!(left.len() <= 900_000 && before.starts_with(&left), "{} bytes", left.len());
    }
}

#[test]
fn lost_connection_names_the_files_in_flight() {
    for direction in DIRECTIONS {
        // Batches are answered with a few bytes for all of them.
        for (stock, cut_after) in [(true, 0), (true, 1_000), (true, 20_000), (false, 700), (false, 800)] {
            let temp = TempTree::new();
            for n in 0..300 {
                temp.file(format!("from/{n}"), 20_000);
            }
            let mut setup = Setup { cut_after: Some(cut_after), stock, ..Setup::default() };
            let plan = plan(direction, &temp.join("from"), &temp.join("to"));
            let ended = copy_with(plan, whole_tree(), temp.path(), &mut setup);
            assert!(ended.summary.lost, "{direction:?} stock {stock} after {cut_after}");
            assert!(!ended.failures.is_empty());
            assert!(ended.failures.len() <= 6, "a few are named: {:?}", ended.failures);
            assert!(
                ended.failures.iter().all(|text| text.ends_with("Connection closed")),
                "{:?}",
                ended.failures
            );
            for name in &ended.done {
                same_tree(&temp.join("from").join(name), &temp.join("to").join(name), false);
            }
        }
    }
}

#[test]
fn a_lost_download_is_cut_to_what_came() {
    let temp = TempTree::new();
    let source = temp.file("from", 3_000_000);
    let target = temp.file("to", 4_000_000);
    let mut setup = Setup { cut_after: Some(1_200_000), ..Setup::default() };
    let plan = plan(Direction::Download, &source, &target);
    let ended = copy_with(plan, Options::default(), temp.path(), &mut setup);
    let text = format!("read remote \"{}\" : Connection closed", source.display());
    assert_eq!(ended.failures[0], text);
    let left = fs::read(&target).expect("a file");
    assert!(
        left.len() < 3_000_000 && fs::read(&source).expect("a file").starts_with(&left),
        "{}",
        left.len()
    );
}

#[test]
fn special_files_are_left_out_with_a_word() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        temp.file("from/x", 10);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            temp.join("from/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("a pipe");
        temp.link("from/to-pipe", "pipe");
        temp.link("from/dangling", "nowhere");
        let ended = copy(plan(direction, &temp.join("from"), &temp.join("to")), whole_tree(), temp.path());
        assert_eq!(ended.skipped.len(), 2, "{:?}", ended.skipped);
        assert!(ended.skipped.iter().all(|text| text.ends_with("not a regular file")));
        assert_eq!(ended.failures.len(), 1);
        assert!(ended.failures[0].ends_with("from/dangling\": No such file or directory"));
        assert_eq!(ended.summary.files, 1);
    }
}

#[test]
fn a_tree_without_write_permission_is_filled_and_then_closed() {
    let temp = TempTree::new();
    temp.file("from/x", 10);
    fs::set_permissions(temp.join("from"), fs::Permissions::from_mode(0o500)).expect("a mode");
    for direction in DIRECTIONS {
        let target = temp.join(format!("to-{direction:?}"));
        let options = Options { recursive: true, ..Options::default() };
        copy(plan(direction, &temp.join("from"), &target), options, temp.path()).well();
        assert_eq!(fs::metadata(&target).expect("a directory").permissions().mode() & 0o777, 0o500);
    }
}

#[test]
fn hooks_see_reads_in_order() {
    let temp = TempTree::new();
    let source = temp.file("from", 5_000_000);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&seen);
    let faults = Faults::hook(move |what, _, offset| {
        if what == "read" {
            log.lock().unwrap().push(offset);
        }
        io::Result::Ok(())
    });
    let mut setup = Setup { faults, ..Setup::default() };
    copy_with(
        plan(Direction::Download, &source, &temp.join("to")),
        Options::default(),
        temp.path(),
        &mut setup,
    )
    .well();
    let seen = seen.lock().unwrap();
    assert!(seen.len() >= 20 && seen.is_sorted(), "requests go out in order: {seen:?}");
}
