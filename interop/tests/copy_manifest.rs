//! Files that a copy writes for other programs: the manifest of copied files, and the list of failures.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, assert_same_tree, eventually, json_lines, make_blob, make_tree, our, peers,
};
use serde_json::Value;

fn scp(lab: &Lab, port: u16, words: &[&str]) -> Ran {
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), port.to_string(), "-q".to_owned()]);
    all.extend(words.iter().map(|&word| word.to_owned()));
    lab.run(&our("lhscp"), &all)
}

fn remote(lab: &Lab, name: &str) -> String {
    format!("127.0.0.1:{}", lab.arg(name))
}

/// What `sha256sum` and `xxh128sum` say of a file, or the former alone.
fn sha256(path: &Path) -> String {
    let ran = Command::new("sha256sum").arg("-z").arg(path).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&ran.stdout).split_whitespace().next().unwrap_or_default().to_owned()
}

/// The lines of a manifest.
fn lines(lab: &Lab, name: &str) -> Vec<Value> {
    json_lines(&lab.read(name))
}

fn path_of(line: &Value) -> Vec<u8> {
    match line["path"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => {
            let digits = line["path_hex"].as_str().unwrap().as_bytes();
            let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
            digits.chunks(2).map(byte).collect()
        }
    }
}

/// Checks each line of a manifest against the tree; returns how many files it has.
#[track_caller]
fn check(lab: &Lab, manifest: &str, source: &Path, target: &Path, exact: bool) -> usize {
    let lines = lines(lab, manifest);
    let (end, files) = lines[1..].split_last().unwrap();
    assert_eq!(lines[0]["longhaul_manifest"], 1);
    assert_eq!(lines[0]["algorithm"], "sha256");
    assert_eq!(
        (&end["end"], &end["files"], &end["outcome"]),
        (&true.into(), &files.len().into(), &"complete".into())
    );
    let mut seen = BTreeMap::new();
    for file in files {
        let path = path_of(file);
        let name = std::ffi::OsStr::from_bytes(&path);
        assert_eq!(file["sum"], sha256(&target.join(name)), "{file}");
        assert_eq!(file["size"], target.join(name).metadata().unwrap().len(), "{file}");
        let from = source.join(
            name.to_str()
                .map_or(Path::new(name), |text| Path::new(text.strip_prefix("tree/").unwrap_or(text))),
        );
        if let Ok(meta) = from.metadata() {
            // Servers other than ours tell whole seconds.
            let (seconds, nanos) = (meta.mtime() * 1_000_000_000, meta.mtime_nsec());
            let told = file["mtime_ns"].as_i64().unwrap();
            assert!(told == seconds + nanos || (told == seconds && !exact), "{file}");
        }
        assert!(seen.insert(path, ()).is_none(), "twice: {file}");
    }
    assert_eq!(end["bytes"], files.iter().map(|file| file["size"].as_u64().unwrap()).sum::<u64>());
    files.len()
}

/// Covers: lhscp --manifest-out; lhscp --manifest-sum
#[test]
fn a_manifest_lists_what_was_copied_with_sums() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_tree(&lab.path("tree"), 90);
    fs::write(lab.path("tree").join(std::ffi::OsStr::from_bytes(b"odd\xffname\n")), "odd").unwrap();
    make_blob(&lab.path("tree/big"), 9 << 20);
    let count = count_files(&lab.path("tree"));
    let up = remote(&lab, "up");
    scp(&lab, server.port, &["-r", "--manifest-out", "up.json", "tree", &up]).ok("to a new name");
    assert_eq!(check(&lab, "up.json", &lab.path("tree"), &lab.path("up"), true), count);
    let destination = lines(&lab, "up.json")[0]["destination"].as_str().unwrap().to_owned();
    assert_eq!(destination, format!("scp://127.0.0.1:{}/{}", server.port, lab.arg("up")));
    fs::create_dir(lab.path("down")).unwrap();
    let from = remote(&lab, "tree");
    scp(&lab, server.port, &["-r", "--manifest-out", "down.json", &from, "down"]).ok("into a directory");
    assert_eq!(check(&lab, "down.json", &lab.path("tree"), &lab.path("down"), true), count);
    assert_eq!(lines(&lab, "down.json")[0]["destination"], lab.arg("down"));
    let (one, other) = (remote(&lab, "tree"), remote(&lab, "third"));
    scp(&lab, server.port, &["-r", "-3", "--manifest-out", "third.json", &one, &other])
        .ok("between two servers");
    assert_eq!(check(&lab, "third.json", &lab.path("tree"), &lab.path("third"), true), count);
    // One file, by another name: the directory is the destination.
    let (big, alone) = (remote(&lab, "tree/big"), lab.arg("alone"));
    scp(&lab, server.port, &["--manifest-out", "alone.json", &big, &alone]).ok("one file");
    assert_eq!(check(&lab, "alone.json", &lab.path("tree"), lab.dir(), true), 1);
    assert_eq!(path_of(&lines(&lab, "alone.json")[1]), b"alone");
    scp(&lab, server.port, &["--manifest-out", "xxh3.json", "--manifest-sum", "xxh3", &big, &alone])
        .ok("XXH3");
    assert_eq!(lines(&lab, "xxh3.json")[0]["algorithm"], "xxh3");
    assert_eq!(lines(&lab, "xxh3.json")[1]["sum"].as_str().unwrap().len(), 32);
    let left = fs::read_dir(lab.dir())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(left.count(), 0, "temporary files");
}

/// Covers: lhscp --manifest-out; lhscp --sync
#[test]
fn a_manifest_of_a_sync_has_unchanged_files() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_tree(&lab.path("tree"), 30);
    let count = count_files(&lab.path("tree"));
    let (up, from) = (remote(&lab, "up"), remote(&lab, "tree/."));
    for (words, copy) in [(["tree/.", &up], "up"), ([&from, "down"], "down")] {
        for changed in [false, false, true] {
            if changed {
                make_blob(&lab.path("tree/new"), 70_000);
            }
            let all = [&["--sync", "--manifest-out", "sync.json"], &words[..]].concat();
            scp(&lab, server.port, &all).ok("a sync");
            let files = check(&lab, "sync.json", &lab.path("tree"), &lab.path(copy), true);
            assert_eq!(files, count + usize::from(changed), "{words:?}");
        }
        fs::remove_file(lab.path("tree/new")).unwrap();
    }
}

fn count_files(root: &Path) -> usize {
    let entries = fs::read_dir(root).unwrap().flatten();
    entries.map(|entry| if entry.path().is_dir() { count_files(&entry.path()) } else { 1 }).sum()
}

/// Covers: lhscp --manifest-out
#[test]
fn a_resumed_copy_lists_all_of_it() {
    let Some([sshd]) = peers("a_resumed_copy_lists_all_of_it", ["sshd"]) else { return };
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let theirs = Inetd::openssh(&lab, &sshd, "");
    make_tree(&lab.path("tree"), 40);
    make_blob(&lab.path("tree/zz"), 48 << 20);
    let count = count_files(&lab.path("tree"));
    for (port, upload) in [(ours.port, true), (ours.port, false), (theirs.port, true), (theirs.port, false)] {
        let words = if upload {
            ["tree".to_owned(), remote(&lab, "copy")]
        } else {
            [remote(&lab, "tree"), lab.arg("copy")]
        };
        let mut command = Command::new(our("lhscp"));
        command.args(lab.client_options()).args(["-P", &port.to_string(), "-rq", "-l", "200000"]);
        command.args(["--manifest-out", &lab.arg("copy.json")]).args(&words).current_dir(lab.dir());
        command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("a part of the copy", || bytes_below(&lab.path("copy")) > 4 << 20);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!lab.path("copy.json").exists(), "a manifest of a copy that was killed");
        let words = ["-r", "--manifest-out", "copy.json", &words[0], &words[1]];
        scp(&lab, port, &words).ok("the rest");
        assert_eq!(check(&lab, "copy.json", &lab.path("tree"), &lab.path("copy"), port == ours.port), count);
        fs::remove_dir_all(lab.path("copy")).unwrap();
        fs::remove_file(lab.path("copy.json")).unwrap();
    }
}

fn bytes_below(root: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(root) else { return 0 };
    if !meta.is_dir() {
        return meta.len().min(meta.blocks() * 512);
    }
    fs::read_dir(root).into_iter().flatten().flatten().map(|entry| bytes_below(&entry.path())).sum()
}

/// Covers: lhscp --manifest-out; lhscp --failed-out
#[test]
fn files_that_cannot_be_written_stop_a_copy_at_once() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 1_000);
    let target = remote(&lab, "copy");
    fs::create_dir(lab.path("directory")).unwrap();
    for flag in ["--manifest-out", "--failed-out"] {
        for (file, said) in
            [("none/such", "No such file or directory"), ("directory", "irectory"), ("/dev/null", "regular")]
        {
            let ran = scp(&lab, server.port, &[flag, file, "blob", &target]);
            assert_eq!(ran.code, 1, "{flag} {file}");
            assert!(ran.err.contains(&format!("{flag} {file}: ")) && ran.err.contains(said), "{}", ran.err);
        }
        for words in [
            &["-O", "blob", &target][..],
            &["--dry-run", "blob", &target],
            &["-R", &target, "127.0.0.1:/x"],
            &["blob", "other"],
        ] {
            let ran = scp(&lab, server.port, &[&[flag, "out"], words].concat());
            assert_eq!(ran.code, 1, "{flag} {words:?}");
            assert!(ran.err.contains(flag), "{}", ran.err);
        }
    }
    assert!(!lab.path("copy").exists() && !lab.path("out").exists() && !lab.path("other").exists());
    let same = scp(&lab, server.port, &["--manifest-out", "out", "--failed-out", "out", "blob", &target]);
    assert!(same.code == 1 && same.err.contains("name the same file"), "{}", same.err);
    let sum = scp(&lab, server.port, &["--manifest-sum", "md5", "--manifest-out", "out", "blob", &target]);
    assert!(sum.code == 1 && sum.err.contains("bad sum"), "{}", sum.err);
}

/// Covers: lhscp --failed-out; lhscp --manifest
#[test]
fn a_list_of_failures_is_fed_back_in() {
    let Some([sshd]) = peers("a_list_of_failures_is_fed_back_in", ["sshd"]) else { return };
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let theirs = Inetd::openssh(&lab, &sshd, "");
    for port in [ours.port, theirs.port] {
        let (tree, copy) = (lab.path("tree"), lab.path("copy"));
        make_tree(&tree, 40);
        fs::create_dir_all(tree.join("sub/#odd\nname")).unwrap();
        fs::write(tree.join("sub/#odd\nname/file"), "1").unwrap();
        fs::write(tree.join("#hash"), "2").unwrap();
        // A directory is in the way of a file, and a file in that of a directory.
        fs::create_dir_all(copy.join("#hash/full")).unwrap();
        fs::create_dir_all(copy.join("sub")).unwrap();
        fs::write(copy.join("sub/#odd\nname"), "in the way").unwrap();
        let words = ["-r", "--failed-out", "failed", "tree/.", &remote(&lab, "copy")];
        let ran = scp(&lab, port, &words);
        assert_eq!(ran.code, 1, "{}", ran.err);
        let failed = lab.read("failed");
        let mut names: Vec<_> = failed.split('\0').filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        assert_eq!(names, ["./#hash", "sub/#odd\nname"]);
        fs::remove_dir_all(copy.join("#hash")).unwrap();
        fs::remove_file(copy.join("sub/#odd\nname")).unwrap();
        fs::write(tree.join("unrelated"), "must not be copied by a list").unwrap();
        scp(&lab, port, &[&["--manifest", "failed"], &words[..]].concat()).ok("the rest");
        assert_eq!(lab.read("failed"), "", "nothing is left");
        fs::remove_file(tree.join("unrelated")).unwrap();
        assert_same_tree(&tree, &copy);
        fs::remove_dir_all(&tree).unwrap();
        fs::remove_dir_all(&copy).unwrap();
    }
}

/// Covers: lhscp --failed-out
#[test]
fn a_copy_without_connection_lists_all_as_failed() {
    let lab = Lab::new();
    make_tree(&lab.path("tree"), 3);
    let port = lh_interop::tunnel::free_port();
    let ran =
        scp(&lab, port, &["-r", "--failed-out", "failed", "--manifest-out", "m", "tree", "127.0.0.1:/x"]);
    assert_eq!(ran.code, 255);
    assert_eq!(lab.read("failed"), "./\n");
    let lines = lines(&lab, "m");
    assert_eq!((lines.len(), &lines[1]["outcome"]), (2, &"no_connection".into()));
}
