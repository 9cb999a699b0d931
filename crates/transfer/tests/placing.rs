//! Files appear under their names when they are complete, and wrong ones are noticed.

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use common::{Count, Faults, Setup, TempTree, copy, copy_with, in_part_files, plan, same_tree, stock};

use lh_testkit::leftovers;
use lh_transfer::{Direction, Options, Placing, Verify};
use rustix::io::Errno;

const DIRECTIONS: [Direction; 3] = [Direction::Upload, Direction::Download, Direction::Relay];

/// Options of a copy that survives, with its journal beside the trees.
fn durable(temp: &TempTree) -> Options {
    let journal = Some(temp.join("state/journal"));
    Options {
        recursive: true,
        placing: Placing { atomic: true, journal, ..Placing::default() },
        verify: Verify::WhenCheap,
        ..Options::default()
    }
}

#[test]
fn a_tree_arrives_whole_and_nothing_else_is_left() {
    for direction in DIRECTIONS {
        for setup in [Setup::default(), stock(&[]), stock(&["posix-rename@openssh.com"])] {
            let temp = TempTree::new();
            let from = temp.odd("from");
            let mut setup = setup;
            for _ in 0..2 {
                // The second time over what is there.
                let options = Options { preserve: true, ..durable(&temp) };
                let plan = plan(direction, &from.join("."), &temp.join("to"));
                copy_with(plan, options, temp.path(), &mut setup).well();
                same_tree(&from, &temp.join("to"), true);
            }
            assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
            assert!(!temp.join("state/journal").exists(), "nothing is left to go on with");
        }
    }
}

#[test]
fn the_old_file_is_whole_until_the_new_one_is() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let from = temp.file("from", 2_000_000);
        let to = temp.write("to", b"what was there");
        temp.mode("to", 0o604);
        let (seen, watched) = (Count::default(), to.clone());
        let count = seen.clone();
        let mut setup = Setup {
            faults: Faults::hook(move |what, _, _| {
                if matches!(what, "read" | "write") {
                    assert_eq!(fs::read(&watched).expect("the old file"), b"what was there");
                    count.set(count.get() + 1);
                }
                Ok(())
            }),
            ..Setup::default()
        };
        let options = Options { placing: in_part_files(), ..Options::default() };
        copy_with(plan(direction, &from, &to), options, temp.path(), &mut setup).well();
        assert!(seen.get() > 1);
        same_tree(&from, &to, false);
        assert_eq!(fs::metadata(&to).expect("it").mode() & 0o777, 0o604, "the mode of what was there stays");
    }
}

#[test]
fn links_and_what_is_no_plain_file_stay_what_they_are() {
    for direction in [Direction::Upload, Direction::Download] {
        let temp = TempTree::new();
        let from = temp.file("from", 300_000);
        temp.write("real", b"old");
        symlink("real", temp.join("link")).expect("a link");
        symlink("nowhere yet", temp.join("dangling")).expect("a link");
        for name in ["link", "dangling"] {
            copy(plan(direction, &from, &temp.join(name)), durable(&temp), temp.path()).well();
            assert!(fs::symlink_metadata(temp.join(name)).expect("it").is_symlink(), "{direction:?} {name}");
            same_tree(&from, &temp.join(name), false);
        }
    }
    let temp = TempTree::new();
    let from = temp.file("from", 300_000);
    temp.write("one", b"old");
    fs::hard_link(temp.join("one"), temp.join("two")).expect("a second name");
    copy(plan(Direction::Download, &from, &temp.join("one")), durable(&temp), temp.path()).well();
    same_tree(&from, &temp.join("two"), false);
    let null = Path::new("/dev/null");
    copy(plan(Direction::Download, &from, null), durable(&temp), temp.path()).well();
    assert!(!fs::metadata(null).expect("it").is_file());
}

#[test]
fn a_directory_that_takes_no_new_names_is_written_in_place() {
    let temp = TempTree::new();
    let from = temp.file("from", 300_000);
    temp.write("to", b"old");
    let faults = Faults::fail("open-write", ".lhpart", Errno::ACCESS);
    let mut setup = Setup { faults, ..Setup::default() };
    let plan_ = plan(Direction::Upload, &from, &temp.join("to"));
    copy_with(plan_.clone(), durable(&temp), temp.path(), &mut setup).well();
    same_tree(&from, &temp.join("to"), false);
    // A full disk is no reason to destroy what is there.
    fs::write(temp.join("to"), b"old").expect("a file");
    setup.faults = Faults::fail("open-write", ".lhpart", Errno::NOSPC);
    let ended = copy_with(plan_, durable(&temp), temp.path(), &mut setup);
    assert_eq!(ended.failures.len(), 1);
    assert_eq!(fs::read(temp.join("to")).expect("it"), b"old");
}

/// The server offers `posix-rename@openssh.com` and does not replace, as request servers of Go's pkg/sftp
/// may.
#[test]
fn files_are_replaced_where_rename_refuses_names_that_exist() {
    let temp = TempTree::new();
    let from = temp.odd("from");
    let faults = Faults::hook(|what, path, _| {
        let taken = what == "rename" && Path::new(std::ffi::OsStr::from_bytes(path)).exists();
        if taken { Err(Errno::EXIST.into()) } else { Ok(()) }
    });
    let mut setup = Setup { faults, ..stock(&[]) };
    for _ in 0..2 {
        let options = Options { preserve: true, ..durable(&temp) };
        let plan = plan(Direction::Upload, &from.join("."), &temp.join("to"));
        copy_with(plan, options, temp.path(), &mut setup).well();
        same_tree(&from, &temp.join("to"), true);
        temp.write("from/changed", b"another length");
    }
    assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
}

#[test]
fn small_files_whose_writes_fail_keep_the_old_version() {
    for without in [&[][..], &["posix-rename@openssh.com"]] {
        let temp = TempTree::new();
        temp.file("from/small", 3_000);
        let old = temp.file("to/small", 1_000);
        let before = fs::read(&old).expect("the old version");
        let faults = Faults::fail("write", ".lhpart", Errno::NOSPC);
        let mut setup = Setup { faults, ..stock(without) };
        let plan = plan(Direction::Upload, &temp.join("from/."), &temp.join("to"));
        let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup);
        assert_eq!(ended.failures.len(), 1, "{:?}", ended.failures);
        assert!(fs::read(&old).expect("it") == before, "the old version is whole");
        assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_lying_server_is_noticed_once_and_the_file_sent_again() {
    let temp = TempTree::new();
    temp.file("from", 3_000_000);
    let mut setup = Setup::default();
    setup.faults.wrong_writes.set(1);
    let plan_ = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan_.clone(), durable(&temp), temp.path(), &mut setup).well();
    assert_eq!(ended.skipped.len(), 1);
    assert!(
        ended.skipped[0].ends_with("what was written is not what was sent; copying it again"),
        "{ended:?}"
    );
    assert_eq!((ended.summary.verified, ended.summary.files), (1, 1));
    same_tree(&temp.join("from"), &temp.join("to"), false);
    // So is one that can only be read from, when that is asked for.
    let mut stock = stock(&[]);
    stock.faults.wrong_writes.set(1);
    let options = Options { verify: Verify::Always, ..durable(&temp) };
    let ended = copy_with(plan_.clone(), options, temp.path(), &mut stock).well();
    assert_eq!((ended.skipped.len(), ended.summary.verified), (1, 1), "{ended:?}");
    same_tree(&temp.join("from"), &temp.join("to"), false);
    // Samples are of the ends of what is written; who asks for it has all of it read back.
    let mut setup_ = Setup::default();
    setup_.faults.wrong_writes.set(1);
    setup_.faults.wrong_at = 10_000;
    let options = Options { verify: Verify::Always, ..durable(&temp) };
    let ended = copy_with(plan_.clone(), options, temp.path(), &mut setup_).well();
    assert_eq!((ended.skipped.len(), ended.summary.verified), (1, 1), "{ended:?}");
    same_tree(&temp.join("from"), &temp.join("to"), false);
    // One that never stops lying gets nothing into its place.
    setup.faults.wrong_writes.set(u32::MAX);
    fs::write(temp.join("to"), b"old").expect("it");
    let ended = copy_with(plan_, durable(&temp), temp.path(), &mut setup);
    assert_eq!(ended.failures.len(), 1);
    assert!(ended.failures[0].starts_with("verify \""), "{ended:?}");
    assert_eq!(fs::read(temp.join("to")).expect("it"), b"old");
    assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
}

#[test]
fn copies_between_two_servers_are_verified_in_any_pieces() {
    for direction in [Direction::Upload, Direction::Download] {
        for (window, piece, longest_read) in [(2 << 20, 32 * 1024, None), (3_000, 700, Some(1_000))] {
            let temp = TempTree::new();
            let from = temp.odd("from");
            let faults = Faults { longest_read, ..Faults::default() };
            let mut setup = Setup { window, piece, faults, ..Setup::default() };
            let plan = plan(direction, &from, &temp.join("to"));
            let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup).well();
            assert_eq!(ended.summary.verified, ended.summary.files, "{direction:?} {window}");
            same_tree(&from, &temp.join("to"), false);
        }
    }
}

#[test]
fn a_failed_rename_names_the_file_and_keeps_what_was_there() {
    let temp = TempTree::new();
    temp.file("from", 100_000);
    temp.write("to", b"old");
    let faults = Faults::fail("rename", "to", Errno::IO);
    let mut setup = Setup { faults, ..Setup::default() };
    let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup);
    let to = temp.join("to");
    assert_eq!(ended.failures, [format!("remote rename to \"{}\": Input/output error", to.display())]);
    assert_eq!(fs::read(&to).expect("it"), b"old");
}

#[test]
fn a_dry_run_tells_everything_and_changes_nothing() {
    for direction in DIRECTIONS {
        let temp = TempTree::new();
        let from = temp.odd("from");
        let options = Options { dry_run: true, preserve: true, ..durable(&temp) };
        let ended = copy(plan(direction, &from, &temp.join("to")), options, temp.path()).well();
        assert!(!temp.join("to").exists());
        let mut planned = ended.planned;
        copy(plan(direction, &from, &temp.join("to")), durable(&temp), temp.path()).well();
        planned.sort();
        let mut there = Vec::new();
        files_below(&temp.join("to"), &mut there);
        there.sort();
        assert_eq!(planned, there, "{direction:?}");
    }
}

fn files_below(root: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(root).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files_below(&path, found) } else { found.push(common::bytes_of(&path)) }
    }
}

#[test]
fn shards_together_are_the_tree_and_none_copies_anothers_file() {
    let temp = TempTree::new();
    for n in 0..90 {
        temp.file(format!("from/{}/{n}", n % 4), 100 + n);
    }
    temp.dir("to");
    let mut files = 0;
    for number in 0..3 {
        let shard = Some(lh_transfer::Shard { number, of: 3 });
        let select = lh_transfer::Selection { shard, ..Default::default() };
        let options = Options { select, ..durable(&temp) };
        let ended =
            copy(plan(Direction::Upload, &temp.join("from/."), &temp.join("to")), options, temp.path());
        let ended = ended.well();
        assert!(ended.summary.files > 10, "{ended:?}");
        files += ended.summary.files;
    }
    assert_eq!(files, 90);
    same_tree(&temp.join("from"), &temp.join("to"), false);
}

#[test]
fn excluded_directories_are_not_even_listed() {
    let temp = TempTree::new();
    for name in ["from/keep/a", "from/keep/b.tmp", "from/skip/c", "from/d.tmp"] {
        temp.file(name, 100);
    }
    let rules = ["*.tmp", "skip/"].map(|pattern| lh_transfer::Rule::new(false, pattern.as_bytes())).to_vec();
    let select = lh_transfer::Selection { rules, ..Default::default() };
    let options = Options { select, ..durable(&temp) };
    let mut setup = Setup {
        faults: Faults::hook(|what, path, _| {
            assert!(!(what == "open-dir" && path.ends_with(b"skip")), "listed all the same");
            Ok(())
        }),
        ..Setup::default()
    };
    let plan = plan(Direction::Download, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan, options, temp.path(), &mut setup).well();
    assert_eq!(ended.done, ["a"]);
    assert!(temp.join("to/keep/a").exists() && !temp.join("to/skip").exists());
}

#[test]
fn a_small_file_that_arrives_wrong_gets_no_name() {
    let temp = TempTree::new();
    temp.file("from", 1_000);
    temp.write("to", b"old");
    let mut setup = Setup::default();
    setup.faults.wrong_writes.set(1);
    let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
    let ended = copy_with(plan.clone(), durable(&temp), temp.path(), &mut setup);
    assert_eq!(ended.failures.len(), 1);
    assert!(ended.failures[0].ends_with("what was written is not what was sent"), "{ended:?}");
    assert_eq!(fs::read(temp.join("to")).expect("it"), b"old");
    copy(plan, durable(&temp), temp.path()).well();
    assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
}

/// Requests that fail, each for names that end so.
fn forbidding(what: &'static [(&'static str, &'static str)]) -> Faults {
    Faults::hook(move |asked, on, _| {
        let forbidden = what.iter().any(|&(request, end)| request == asked && on.ends_with(end.as_bytes()));
        if forbidden { Err(Errno::ACCESS.into()) } else { Ok(()) }
    })
}

#[test]
fn servers_without_rename_get_files_in_place() {
    for (forbidden, found_out_before) in [
        // Renaming is refused; or removing; or setting attributes.
        (&[("rename", "")][..], true),
        (&[("rename", ""), ("remove", ""), ("fsetstat", ""), ("setstat", "")], true),
        // Only this file may not be renamed.
        (&[("rename", "/to")], false),
        (&[("rename", "/to"), ("remove", "/to")], false),
        // No name but its own can be made, or looked at.
        (&[("open-write", ".lhpart")], false),
        (&[("stat", "")], false),
    ] {
        for old in [None, Some(&b"what was there"[..])] {
            for setup in
                [Setup { stock: true, ..Setup::default() }, stock(&[]), stock(&["posix-rename@openssh.com"])]
            {
                let temp = TempTree::new();
                temp.file("from", 3_000_001);
                if let Some(old) = old {
                    temp.write("to", old);
                }
                let written = Count::default();
                let (count, refuse) = (written.clone(), forbidding(forbidden));
                let faults = Faults::hook(move |what, on, offset| {
                    if what == "write" {
                        count.set(count.get() + 1);
                    }
                    (refuse.hook.as_ref().expect("a hook").lock().unwrap())(what, on, offset)
                });
                let plan = plan(Direction::Upload, &temp.join("from"), &temp.join("to"));
                let mut setup = Setup { faults, ..setup };
                let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup).well();
                same_tree(&temp.join("from"), &temp.join("to"), false);
                assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new(), "{forbidden:?}");
                assert_eq!(ended.summary.files, 1);
                if found_out_before {
                    let told = ended.notices.iter().filter(|text| text.contains("permits no rename")).count();
                    assert_eq!(told, 1, "{:?}", ended.notices);
                    let once = 3_000_001_u64.div_ceil(32 * 1024);
                    assert!(
                        u64::from(written.get()) <= once,
                        "{forbidden:?}: written {} times",
                        written.get()
                    );
                }
            }
        }
    }
}

/// A session of a killed client, or a host with the same file system, writes the same part file, and renames
/// it first.
#[test]
fn a_part_file_that_another_copy_renamed_is_written_again() {
    for direction in [Direction::Upload, Direction::Relay] {
        for size in [100, 2_000_000] {
            let temp = TempTree::new();
            let from = temp.file("from", size);
            let (renames, count) = (Count::default(), Count::default());
            let (seen, directory) = (renames.clone(), temp.path().to_owned());
            let mut setup = stock(&[]);
            setup.faults = Faults::hook(move |what, _, _| {
                // The server is first asked to rename what does not exist.
                if what == "rename"
                    && count.get() < 1
                    && let Some(part) = leftovers(&directory).pop()
                {
                    count.set(1);
                    fs::write(directory.join("to"), "of another").expect("written");
                    fs::remove_file(part).expect("removed");
                }
                seen.set(seen.get() + u32::from(what == "rename"));
                Ok(())
            });
            let plan = plan(direction, &from, &temp.join("to"));
            let ended = copy_with(plan, durable(&temp), temp.path(), &mut setup).well();
            assert!(renames.get() >= 2, "{ended:?}");
            assert!(
                ended.notices.iter().any(|text| text.contains("was renamed by another copy")),
                "{ended:?}"
            );
            assert!(fs::read(temp.join("to")).unwrap() == fs::read(&from).unwrap());
            assert_eq!(leftovers(temp.path()), Vec::<PathBuf>::new());
            assert!(!temp.join("state/journal").exists());
        }
    }
}
