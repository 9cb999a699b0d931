//! Copies with servers that answer what was not asked, leave out what they know, or stop: the data arrive
//! intact, or there is a message and the exit status is not 0.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lh_interop::lying::Lie;
use lh_interop::lying::copies::{self, make_sources, wrong};
use lh_interop::{Lab, Lhsshd, Ran, assert_same_file, make_blob, our};

fn liar(lab: &Lab, lies: &[Lie]) -> String {
    copies::liar(lab, env!("CARGO_BIN_EXE_lh-lying-sftp"), lies)
}

fn over_pipes(lies: &[Lie]) {
    copies::over_pipes(env!("CARGO_BIN_EXE_lh-lying-sftp"), lies);
}

/// The faults of this file.
const LIES: [Lie; 26] = [
    Lie::FullDisk,
    Lie::IdleRename,
    Lie::NoPosixRename,
    Lie::ZeroLimits,
    Lie::TinyLimits,
    Lie::EndsEarly,
    Lie::NoSizes,
    Lie::NoAttrs,
    Lie::HalfSizes,
    Lie::TwiceListed,
    Lie::ListingBreaks,
    Lie::CloseFails,
    Lie::StatusForRead,
    Lie::MoreData,
    Lie::DataForWrite,
    Lie::ExtendedForStatus,
    Lie::LongHandles,
    Lie::LongestHandles,
    Lie::EmptyHandles,
    Lie::NoRealPath,
    Lie::TwoRealPaths,
    Lie::NoMkdir,
    Lie::BadNames,
    Lie::NoExtensions,
    Lie::BareReplies,
    Lie::ListsLinkTargets,
];

/// The copy is right, or there is a word about it and the status is not 0.
fn right_or_told(what: &str, ran: &Ran, wrong: &[PathBuf]) {
    let said = format!("{what}: status {}, wrong: {wrong:?}\n{}", ran.code, ran.err);
    assert!(!ran.err.contains("panicked") && ran.code != 124, "{said}");
    assert!(ran.code != 0 || wrong.is_empty(), "{said}");
    assert!(ran.code == 0 || !ran.err.trim().is_empty(), "no word: {said}");
}

fn empty(lab: &Lab, name: &str) {
    let _ = fs::remove_dir_all(lab.path(name));
    fs::create_dir_all(lab.path(name)).unwrap();
}

#[test]
fn announced_extensions_that_fail_are_not_used() {
    over_pipes(&[Lie::IdleRename, Lie::NoPosixRename, Lie::ZeroLimits, Lie::TinyLimits]);
}

#[test]
fn replies_without_texts_and_extensions_are_enough() {
    over_pipes(&[Lie::NoExtensions, Lie::BareReplies]);
}

#[test]
fn attributes_that_are_missing_or_wrong_lose_no_data() {
    // Without any attributes the target is no directory, as for `scp`: see the other tests.
    over_pipes(&[Lie::NoSizes, Lie::HalfSizes]);
}

#[test]
fn listings_lose_no_file_silently() {
    over_pipes(&[Lie::TwiceListed, Lie::ListingBreaks, Lie::BadNames, Lie::NoMkdir]);
}

#[test]
fn replies_of_the_wrong_kind_confirm_nothing() {
    over_pipes(&[Lie::StatusForRead, Lie::MoreData, Lie::DataForWrite, Lie::ExtendedForStatus]);
}

#[test]
fn full_disks_failing_closes_and_ends_are_reported() {
    over_pipes(&[Lie::FullDisk, Lie::CloseFails, Lie::EndsEarly]);
}

#[test]
fn odd_handles_and_paths_corrupt_nothing() {
    over_pipes(&[
        Lie::LongHandles,
        Lie::LongestHandles,
        Lie::EmptyHandles,
        Lie::NoRealPath,
        Lie::TwoRealPaths,
    ]);
}

/// Covers: lhscp -3
#[test]
fn copies_between_two_servers_are_right_or_reported() {
    let lab = Lab::new();
    make_sources(&lab);
    for lie in LIES {
        let server = liar(&lab, &[lie]);
        for tree in ["small", "mixed"] {
            empty(&lab, "to");
            let (from, to) = (format!("a:{}", lab.arg(tree)), format!("b:{}", lab.arg("to")));
            let ran = lab.run(&our("lhscp"), &["-3", "-r", "-D", &server, &from, &to]);
            right_or_told(
                &format!("{lie:?} {tree}"),
                &ran,
                &wrong(&lab.path(tree), &lab.path("to").join(tree)),
            );
        }
    }
}

/// Covers: lhscp --sync; lhscp --delete
#[test]
fn synchronized_trees_are_right_or_reported() {
    let lab = Lab::new();
    make_sources(&lab);
    for lie in LIES {
        let server = liar(&lab, &[lie]);
        for upload in [true, false] {
            empty(&lab, "to/mixed/sub");
            // One is right already, one is other, and one is too much.
            fs::copy(lab.path("mixed/file4"), lab.path("to/mixed/file4")).unwrap();
            make_blob(&lab.path("to/mixed/sub/file0"), 1_000);
            make_blob(&lab.path("to/mixed/extra"), 1_000);
            let (from, to) = (lab.arg("mixed"), lab.arg("to"));
            let (from, to) = if upload { (from, format!("h:{to}")) } else { (format!("h:{from}"), to) };
            let ran = lab.run(&our("lhscp"), &["--sync", "--delete", "-D", &server, &from, &to]);
            let wrong = wrong(&lab.path("mixed"), &lab.path("to/mixed"));
            right_or_told(&format!("{lie:?} {upload}"), &ran, &wrong);
            // What the source has is never deleted for want of a word about it.
            let there = |name: &str| lab.path("to/mixed").join(name).exists();
            assert!(there("file4") && there("sub/file0"), "{lie:?} {upload}: {}", ran.err);
        }
    }
}

/// Covers: sftp get; sftp put; sftp reget; sftp reput
#[test]
fn commands_of_lhsftp_are_right_or_reported() {
    let lab = Lab::new();
    make_sources(&lab);
    make_blob(&lab.path("whole"), 300_000);
    let whole = fs::read(lab.path("whole")).unwrap();
    let same = |path: &Path| fs::read(path).is_ok_and(|data| data == whole);
    for lie in LIES {
        let server = liar(&lab, &[lie]);
        let (here, there) = (lab.arg("here"), lab.arg("there"));
        for (command, upload) in [("put", true), ("reput", true), ("get", false), ("reget", false)] {
            empty(&lab, "here");
            empty(&lab, "there");
            let target = lab.path(if upload { "there/whole" } else { "here/whole" });
            if command.starts_with("re") {
                fs::write(&target, &whole[..100_000]).unwrap();
            }
            let source = lab.arg("whole");
            let target_dir = if upload { &there } else { &here };
            lab.write("batch", &format!("{command} {source} {target_dir}/whole\n"));
            let ran = lab.run(&our("lhsftp"), &["-b", &lab.arg("batch"), "-D", &server]);
            let wrong = if same(&target) { vec![] } else { vec![target] };
            right_or_told(&format!("{lie:?} {command}"), &ran, &wrong);
        }
        empty(&lab, "here");
        lab.write("batch", &format!("get {}/small/* {here}\n", lab.dir().display()));
        let ran = lab.run(&our("lhsftp"), &["-b", &lab.arg("batch"), "-D", &server]);
        right_or_told(&format!("{lie:?} get *"), &ran, &wrong(&lab.path("small"), &lab.path("here")));
    }
}

/// Each entry is copied, removed and synchronized once.
///
/// Covers: sftp rm
#[test]
fn names_listed_twice_are_taken_once() {
    let lab = Lab::new();
    make_sources(&lab);
    let (server, small, here) = (liar(&lab, &[Lie::TwiceListed]), lab.arg("small"), lab.arg("here"));
    let from = format!("h:{small}/*");
    for flags in [&["-D", &server][..], &["-r", "-D", &server], &["--sync", "-D", &server]] {
        empty(&lab, "here");
        // `--sync` compares the directories themselves.
        let sync = flags.contains(&"--sync");
        let words = if sync { [format!("h:{small}/"), here.clone()] } else { [from.clone(), here.clone()] };
        let ran = lab.run(&our("lhscp"), &[flags, &[&words[0], &words[1]]].concat()).ok("lhscp");
        assert_eq!((wrong(&lab.path("small"), &lab.path("here")), &*ran.err), (vec![], ""), "{flags:?}");
    }
    empty(&lab, "here");
    lab.write("batch", &format!("get {small}/* {here}\nget -R {} {here}\nrm {small}/*\n", lab.arg("mixed")));
    let ran = lab.run(&our("lhsftp"), &["-b", &lab.arg("batch"), "-D", &server]).ok("lhsftp");
    assert_eq!(ran.err, "", "{}", ran.text());
    assert_eq!(wrong(&lab.path("mixed"), &lab.path("here/mixed")), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(lab.path("small")).unwrap().count(), 0);
}

/// A pattern matches all of a directory, or it is reported that not all of it could be read.
#[test]
fn patterns_lose_no_file_silently() {
    let lab = Lab::new();
    make_sources(&lab);
    for lie in LIES {
        let server = liar(&lab, &[lie]);
        empty(&lab, "here");
        let from = format!("h:{}/*", lab.arg("small"));
        let ran = lab.run(&our("lhscp"), &["-D", &server, &from, &lab.arg("here")]);
        right_or_told(&format!("{lie:?}"), &ran, &wrong(&lab.path("small"), &lab.path("here")));
        if lie == Lie::ListingBreaks {
            assert!(ran.code == 1 && ran.err.contains("remote readdir("), "{}", ran.err);
        }
    }
}

/// What something else has left is compared before it is opened for writing: some servers empty it then.
///
/// Covers: lhscp -Z
#[test]
fn other_contents_stay_where_a_copy_fails() {
    let lab = Lab::new();
    make_blob(&lab.path("source"), 400_000);
    make_blob(&lab.path("other"), 100_001);
    fs::create_dir_all(lab.path("to")).unwrap();
    let target = lab.path("to/source");
    for lies in [&[Lie::NoSeeks, Lie::FullDisk][..], &[Lie::FullDisk]] {
        fs::copy(lab.path("other"), &target).unwrap();
        let to = format!("h:{}", lab.arg("to"));
        let ran = lab.run(&our("lhscp"), &["-Z", "-D", &liar(&lab, lies), &lab.arg("source"), &to]);
        assert!(ran.code == 1 && ran.err.contains("No space left"), "{lies:?}: {} {}", ran.code, ran.err);
        assert!(fs::read(&target).unwrap() == fs::read(lab.path("other")).unwrap(), "{lies:?}: {}", ran.err);
    }
    // The beginning of the source is continued, or copied again where opening it for writing empties it.
    for lies in [&[Lie::NoSeeks][..], &[Lie::SizeEmpties], &[]] {
        // Without the part file of an attempt before.
        empty(&lab, "to");
        let begin = &fs::read(lab.path("source")).unwrap()[..250_000];
        fs::write(&target, begin).unwrap();
        let to = format!("h:{}", lab.arg("to"));
        let ran = lab.run(&our("lhscp"), &["-Z", "-D", &liar(&lab, lies), &lab.arg("source"), &to]);
        assert_eq!(ran.code, 0, "{lies:?}: {}", ran.err);
        assert!(fs::read(&target).unwrap() == fs::read(lab.path("source")).unwrap(), "{lies:?}");
        assert!(!ran.err.contains("READ of a handle that writes"), "{lies:?}: {}", ran.err);
    }
}

/// Covers: sftp reput
#[test]
fn resumed_files_are_checked_through_another_handle() {
    let lab = Lab::new();
    make_blob(&lab.path("source"), 300_000);
    let whole = fs::read(lab.path("source")).unwrap();
    for (lies, begin) in [
        (&[Lie::NoSeeks][..], whole[..100_000].to_vec()),
        (&[Lie::NoSeeks], vec![7; 100_000]),
        (&[Lie::CutsWriteOnly], whole[..100_000].to_vec()),
        (&[], vec![7; 100_000]),
    ] {
        fs::write(lab.path("target"), begin).unwrap();
        lab.write("batch", &format!("reput {} {}\n", lab.arg("source"), lab.arg("target")));
        let ran = lab.run(&our("lhsftp"), &["-b", &lab.arg("batch"), "-D", &liar(&lab, lies)]);
        assert_eq!(ran.code, 0, "{lies:?}: {}", ran.err);
        assert!(fs::read(lab.path("target")).unwrap() == whole, "{lies:?}: {}", ran.err);
        assert!(!ran.err.contains("READ of a handle that writes"), "{lies:?}: {}", ran.err);
    }
}

/// A server that answers OPEN only with the flags that scp uses: files are opened so, and only the first
/// waits.
#[test]
fn files_are_opened_as_scp_does_where_nothing_else_is_answered() {
    for flags in [&[][..], &["--in-place"], &["-p", "--verify"]] {
        let lab = Lab::new();
        make_sources(&lab);
        let server = liar(&lab, &[Lie::IgnoresOddOpens]);
        // A longer file is in the way of the first.
        fs::create_dir_all(lab.path("to/mixed")).unwrap();
        make_blob(&lab.path("to/mixed/file0"), 700_000);
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let before = inode(&lab.path("to/mixed/file0"));
        let (from, to) = (lab.arg("mixed"), format!("h:{}", lab.arg("to")));
        let tuned = ["-r", "-v", "-X", "answer-timeout=1", "-D", &server];
        let ran = lab.run(&our("lhscp"), &[&tuned[..], flags, &[&from, &to]].concat());
        let what = format!("{flags:?}: {} {}", ran.code, ran.err);
        assert_eq!((ran.code, wrong(&lab.path("mixed"), &lab.path("to/mixed"))), (0, Vec::new()), "{what}");
        // What was there is replaced when its copy is complete.
        let replaced = inode(&lab.path("to/mixed/file0")) != before;
        assert_eq!(replaced, !flags.contains(&"--in-place"), "{what}");
        // Those that were asked for together with the first, and no more.
        assert_eq!(ran.err.matches("the server has not answered").count(), 1, "{what}");
    }
}

/// Message about a server that does not answer its first message.
const SILENT: &str = "the server has not answered INIT in 1 s";

/// Writes a program that never answers anything. From its start number `well` on it serves.
fn silent_server(lab: &Lab, well: usize) -> String {
    let serves = env!("CARGO_BIN_EXE_lh-lying-sftp");
    let starts = lab.arg("starts");
    let script = format!(
        "#!/bin/sh\necho >>'{starts}'\n[ $(wc -l <'{starts}') -ge {well} ] && exec {serves}\n\
         cat >/dev/null\necho the end\n"
    );
    lab.write("silent", &script);
    lab.sh("chmod 755 silent; : >starts").ok("chmod");
    lab.arg("silent")
}

/// The login works, and the SFTP server does not answer its first message.
///
/// Covers: lhscp --retries; lhscp -X
#[test]
fn silent_server_is_retried_where_retries_are_asked_for() {
    let lab = Lab::new();
    make_blob(&lab.path("from"), 100_000);
    // Where the server serves in the end, it may also be too slow for that second before.
    for (flags, well, silences, code) in [
        (&[][..], 9, 1..=1, 255),
        (&["--retries", "0"], 9, 1..=1, 255),
        (&["--retries", "1"], 9, 2..=2, 255),
        (&["--retries", "30"], 2, 1..=30, 0),
        (&["--retry-for", "1h"], 2, 1..=usize::MAX, 0),
    ] {
        let server = Lhsshd::start(&lab, &format!("Subsystem sftp {}\n", silent_server(&lab, well)));
        let mut args = lab.client_options();
        args.extend(["-X", "first-answer=1", "-P", &server.port_arg()].map(str::to_owned));
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        args.extend([lab.arg("from"), format!("127.0.0.1:{}", lab.arg("to"))]);
        let ran = lab.run(&our("lhscp"), &args);
        let what = format!("{flags:?}: {} {}", ran.code, ran.err);
        assert!(ran.code == code && silences.contains(&ran.err.matches(SILENT).count()), "{what}");
        // The line about the old protocol is for hosts without SFTP.
        assert!(!ran.err.contains("-O"), "{what}");
        if code == 0 {
            assert_same_file(&lab.path("from"), &lab.path("to"));
            fs::remove_file(lab.path("to")).unwrap();
        }
        assert!(!lab.path("to").exists(), "{what}");
    }
}

/// The program is a script, whose child keeps its pipes open and outlives it.
///
/// Covers: lhscp -D
#[test]
fn silent_program_of_a_wrapper_is_given_up() {
    let lab = Lab::new();
    make_blob(&lab.path("from"), 100_000);
    let server = silent_server(&lab, 9);
    for flags in [&[][..], &["--retries", "3"]] {
        let (from, to) = (lab.arg("from"), format!("h:{}", lab.arg("to")));
        let args = [&["-X", "first-answer=1", "-D", &server][..], flags, &[&from, &to]].concat();
        let ran = lab.run(&our("lhscp"), &args);
        let what = format!("{flags:?}: {} {}", ran.code, ran.err);
        assert_eq!((ran.code, ran.err.matches(SILENT).count()), (255, 1), "{what}");
        assert!(!lab.path("to").exists(), "{what}");
    }
}
