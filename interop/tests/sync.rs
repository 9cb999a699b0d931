//! `lhscp --sync`: repeated copies of a tree, with Longhaul's server and OpenSSH's.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use lh_interop::{Inetd, Lab, Lhsshd, Ran, assert_same_tree, make_blob, our, peers, skip};

/// What `--json` says at the end: its counts.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    copied: u64,
    unchanged: u64,
}

/// One way to copy `tree` to `copy`.
struct Way<'a> {
    lab: &'a Lab,
    port: u16,
    /// Which way, and which server: for messages.
    name: String,
    from: String,
    to: String,
}

impl Way<'_> {
    fn tree(&self, name: &str) -> std::path::PathBuf {
        self.lab.path("tree").join(name)
    }

    fn copy(&self, name: &str) -> std::path::PathBuf {
        self.lab.path("copy/tree").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::create_dir_all(self.tree(name).parent().unwrap()).unwrap();
        fs::write(self.tree(name), text).unwrap();
    }

    fn ran(&self, flags: &[&str]) -> Ran {
        let mut all = self.lab.client_options();
        all.extend(["-P".to_owned(), self.port.to_string(), "--sync".to_owned()]);
        all.extend(flags.iter().map(|&flag| flag.to_owned()));
        all.extend([self.from.clone(), self.to.clone()]);
        self.lab.run(&our("lhscp"), &all)
    }

    /// Runs it, which goes well, and says what it did.
    #[track_caller]
    fn sync(&self, flags: &[&str]) -> Counts {
        let ran = self.ran(&[flags, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{}: {}", self.name, ran.err);
        counts(&ran)
    }
}

fn counts(ran: &Ran) -> Counts {
    let text = ran.text();
    let end: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(end["event"], "end");
    let count = |name: &str| end[name].as_u64().unwrap();
    Counts { copied: count("files"), unchanged: count("unchanged") }
}

/// Runs `check` on a new tree each: uploads, downloads, and between two remote hosts.
fn each_way(test: &str, check: impl Fn(&Way<'_>)) {
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let theirs = peers(test, ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    let both = [("Longhaul", Some(ours.port)), ("OpenSSH", theirs.as_ref().map(|server| server.port))];
    for (server, port) in both {
        let Some(port) = port else { continue };
        let at = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
        for (direction, from, to) in [
            ("up", lab.arg("tree"), at("copy")),
            ("down", at("tree"), lab.arg("copy")),
            ("relay", at("tree"), at("copy")),
        ] {
            for name in ["tree", "copy", "old"] {
                let _ = fs::remove_dir_all(lab.path(name));
            }
            let name = format!("{direction}, {server}");
            let way = Way { lab: &lab, port, name, from, to };
            way.put("one", "first");
            way.put("two", "second");
            way.put("sub/three", "third");
            let odd = Path::new(OsStr::from_bytes(b"odd \xff\n'*name"));
            fs::write(lab.path("tree").join(odd), "odd").unwrap();
            make_blob(&way.tree("blob"), 300_000);
            check(&way);
        }
    }
}

/// Where each file of the copy is on the disk, and when it was changed last.
fn state(way: &Way<'_>) -> Vec<(u64, i64, i64)> {
    let mut all = Vec::new();
    let mut todo = vec![way.lab.path("copy")];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        all.push((meta.ino(), meta.ctime(), meta.ctime_nsec()));
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all.sort_unstable();
    all
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Covers: lhscp --sync; lhscp --xattrs; lhscp --acls
#[test]
fn sync_mends_extended_attributes_that_alone_changed() {
    use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
    let test = "sync_mends_extended_attributes_that_alone_changed";
    // For owner, one more user, group, mask and others; each tag, its rights, and whose they are.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, 12345), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        acl.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let attributes = [("one", "user.kind", b"new".to_vec()), ("two", "system.posix_acl_access", acl)];
    each_way(test, |way| {
        let has = |name: &str, attribute: &str| {
            let mut value = vec![0; 1000];
            let len = getxattr(way.copy(name), attribute, &mut value[..]).ok()?;
            value.truncate(len);
            Some(value)
        };
        if let Err(error) = setxattr(way.tree("one"), "user.kind", b"old", XattrFlags::empty()) {
            return skip(test, &format!("the directory for temporary files has no attributes: {error}"));
        }
        let flags = ["--xattrs", "--acls"];
        assert_eq!(way.sync(&flags).copied, 5, "{}", way.name);
        let inode = || fs::metadata(way.copy("one")).unwrap().ino();
        let before = inode();
        for (name, attribute, value) in &attributes {
            setxattr(way.tree(name), *attribute, value, XattrFlags::empty()).unwrap();
        }
        assert_eq!(way.sync(&flags), Counts { copied: 0, unchanged: 5 }, "{}", way.name);
        let ours = way.name.ends_with("Longhaul");
        for (name, attribute, value) in &attributes {
            assert_eq!(has(name, attribute).as_ref() == Some(value), ours, "{}: {attribute}", way.name);
            removexattr(way.tree(name), *attribute).unwrap();
        }
        // Only where it is asked for.
        way.sync(&[]);
        assert_eq!(has("one", "user.kind").is_some(), ours, "{}", way.name);
        assert_eq!(way.sync(&flags), Counts { copied: 0, unchanged: 5 }, "{}", way.name);
        for (name, attribute, _) in &attributes {
            assert_eq!(has(name, attribute), None, "{}: {attribute}", way.name);
        }
        assert_eq!(inode(), before, "{}: it was copied", way.name);
    });
}

/// Covers: lhscp --sync
#[test]
fn a_second_sync_moves_nothing() {
    each_way("a_second_sync_moves_nothing", |way| {
        assert_eq!(way.sync(&[]), Counts { copied: 5, unchanged: 0 }, "{}", way.name);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
        let before = state(way);
        assert_eq!(way.sync(&[]), Counts { copied: 0, unchanged: 5 }, "{}", way.name);
        assert_eq!(state(way), before, "{}", way.name);
        let ran = way.ran(&["-v"]);
        assert!(ran.err.contains("0 copied, 5 unchanged, 0 deleted"), "{}: {}", way.name, ran.err);
    });
}

#[test]
fn sync_copies_what_differs() {
    each_way("sync_copies_what_differs", |way| {
        way.sync(&[]);
        way.put("one", "longer than it was");
        set_time(&way.tree("two"), 1_000_000);
        way.put("new/four", "fourth");
        fs::write(way.copy("extra"), "stays").unwrap();
        assert_eq!(way.sync(&[]), Counts { copied: 3, unchanged: 3 }, "{}", way.name);
        assert_eq!(fs::read(way.copy("extra")).unwrap(), b"stays", "{}", way.name);
        fs::remove_file(way.copy("extra")).unwrap();
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
        assert_eq!(fs::metadata(way.copy("two")).unwrap().mtime(), 1_000_000);
    });
}

#[test]
fn sync_of_a_path_with_a_slash_is_of_its_contents() {
    each_way("sync_of_a_path_with_a_slash_is_of_its_contents", |way| {
        for ending in ["/", "/."] {
            let way = Way {
                from: format!("{}{ending}", way.from),
                name: way.name.clone(),
                to: way.to.clone(),
                ..*way
            };
            way.sync(&[]);
            assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy"));
        }
    });
}

#[test]
fn sync_replaces_other_kinds_of_things() {
    each_way("sync_replaces_other_kinds_of_things", |way| {
        way.sync(&[]);
        fs::remove_file(way.tree("one")).unwrap();
        way.put("one/inside", "a directory now");
        fs::remove_file(way.tree("two")).unwrap();
        symlink("blob", way.tree("two")).unwrap();
        fs::create_dir(way.lab.path("old")).unwrap();
        fs::remove_dir_all(way.copy("sub")).unwrap();
        symlink(way.lab.path("old"), way.copy("sub")).unwrap();
        way.sync(&["--links"]);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
        assert_eq!(fs::read_link(way.copy("two")).unwrap(), Path::new("blob"));
        assert_eq!(fs::read_dir(way.lab.path("old")).unwrap().count(), 0, "{}: through a link", way.name);
        assert_eq!(way.sync(&["--links"]).copied, 0, "{}", way.name);
        // And back.
        fs::remove_file(way.tree("two")).unwrap();
        way.put("two", "a file");
        way.sync(&["--links"]);
        assert!(fs::symlink_metadata(way.copy("two")).unwrap().is_file(), "{}", way.name);
    });
}

#[test]
fn a_dry_sync_names_what_differs_and_changes_nothing() {
    each_way("a_dry_sync_names_what_differs_and_changes_nothing", |way| {
        way.ran(&["--dry-run"]).ok("before the target exists");
        assert!(!way.lab.path("copy").exists(), "{}", way.name);
        way.sync(&[]);
        way.put("one", "longer than it was");
        let before = state(way);
        let ran = way.ran(&["--dry-run"]).ok(&way.name);
        assert_eq!(ran.text().lines().count(), 1, "{}: {}", way.name, ran.text());
        assert!(ran.text().contains("/tree/one (18 bytes)"), "{}: {}", way.name, ran.text());
        assert_eq!(state(way), before, "{}", way.name);
    });
}

/// Plants what the source does not have: 6 entries.
fn plant_extras(way: &Way<'_>) {
    fs::create_dir_all(way.copy("gone/deep")).unwrap();
    for name in ["extra", "sub/extra", "gone/deep/file"] {
        fs::write(way.copy(name), "not in the source").unwrap();
    }
    fs::create_dir_all(way.lab.path("old")).unwrap();
    fs::write(way.lab.path("old/kept"), "outside").unwrap();
    symlink(way.lab.path("old"), way.copy("gone/link")).unwrap();
}

fn deleted(ran: &Ran) -> u64 {
    let text = ran.text();
    let end: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    end["deleted"].as_u64().unwrap()
}

/// Covers: lhscp --delete
#[test]
fn sync_deletes_what_the_source_does_not_have() {
    each_way("sync_deletes_what_the_source_does_not_have", |way| {
        way.sync(&["--delete"]);
        plant_extras(way);
        let before = state(way);
        let ran = way.ran(&["--delete", "--dry-run"]).ok(&way.name);
        assert_eq!(
            ran.text().lines().filter(|line| line.starts_with("delete ")).count(),
            6,
            "{}",
            ran.text()
        );
        assert_eq!(state(way), before, "{}", way.name);
        let ran = way.ran(&["--delete", "--json"]).ok(&way.name);
        assert_eq!(deleted(&ran), 6, "{}: {}", way.name, ran.text());
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
        assert_eq!(fs::read(way.lab.path("old/kept")).unwrap(), b"outside", "{}", way.name);
        let (ours, theirs) = (fs::metadata(way.tree("sub")).unwrap(), fs::metadata(way.copy("sub")).unwrap());
        assert_eq!(ours.mtime(), theirs.mtime(), "{}", way.name);
        fs::remove_file(way.tree("one")).unwrap();
        way.put("one/inside", "a directory now");
        fs::remove_dir_all(way.tree("sub")).unwrap();
        way.put("sub", "a file now");
        way.sync(&["--delete"]);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
    });
}

/// Covers: lhscp --max-delete
#[test]
fn sync_deletes_no_more_than_it_may() {
    each_way("sync_deletes_no_more_than_it_may", |way| {
        way.sync(&[]);
        plant_extras(way);
        let ran = way.ran(&["--delete", "--max-delete", "2", "--json"]);
        assert_eq!((ran.code, deleted(&ran)), (1, 2), "{}: {}", way.name, ran.err);
        assert!(ran.err.contains("--max-delete 2"), "{}: {}", way.name, ran.err);
        let ran = way.ran(&["--delete", "--max-delete", "4", "--json"]).ok(&way.name);
        assert_eq!(deleted(&ran), 4, "{}", way.name);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
    });
}

#[test]
fn sync_deletes_nothing_when_the_source_cannot_be_read() {
    each_way("sync_deletes_nothing_when_the_source_cannot_be_read", |way| {
        way.sync(&[]);
        plant_extras(way);
        // A link that leads nowhere is an error to root, too.
        symlink("nowhere", way.tree("sub/link")).unwrap();
        let unreadable = way.tree("closed");
        fs::create_dir(&unreadable).unwrap();
        fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
        let ran = way.ran(&["--delete", "--json"]);
        fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!((ran.code, deleted(&ran)), (1, 0), "{}: {}", way.name, ran.err);
        assert!(ran.text().contains("there were errors: nothing is deleted"), "{}: {}", way.name, ran.text());
        for name in ["extra", "sub/extra", "gone/deep/file", "gone/link"] {
            assert!(fs::symlink_metadata(way.copy(name)).is_ok(), "{}: {name}", way.name);
        }
    });
}

/// Covers: lhscp --checksum
#[test]
fn checksums_find_what_size_and_time_do_not() {
    each_way("checksums_find_what_size_and_time_do_not", |way| {
        set_time(&way.tree("one"), 1_000_000);
        way.sync(&[]);
        fs::write(way.copy("one"), "FIRST").unwrap();
        set_time(&way.copy("one"), 1_000_000);
        assert_eq!(way.sync(&[]), Counts { copied: 0, unchanged: 5 }, "{}", way.name);
        let before = fs::metadata(way.copy("two")).unwrap().ino();
        set_time(&way.copy("two"), 5);
        assert_eq!(way.sync(&["--checksum"]), Counts { copied: 1, unchanged: 4 }, "{}", way.name);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
        let two = fs::metadata(way.copy("two")).unwrap();
        assert_eq!((two.ino(), two.mtime()), (before, fs::metadata(way.tree("two")).unwrap().mtime()));
    });
}

/// Covers: lhscp --update
#[test]
fn an_update_leaves_newer_files_alone() {
    each_way("an_update_leaves_newer_files_alone", |way| {
        way.sync(&[]);
        fs::write(way.copy("one"), "edited there").unwrap();
        set_time(&way.copy("one"), 4_000_000_000);
        way.put("two", "longer than before");
        assert_eq!(way.sync(&["--update"]), Counts { copied: 1, unchanged: 4 }, "{}", way.name);
        assert_eq!(fs::read(way.copy("one")).unwrap(), b"edited there", "{}", way.name);
        assert_eq!(way.sync(&[]).copied, 1, "{}", way.name);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
    });
}

/// Covers: lhscp --backup-dir
#[test]
fn backups_hold_what_is_replaced_or_deleted() {
    each_way("backups_hold_what_is_replaced_or_deleted", |way| {
        way.sync(&[]);
        let old = fs::read(way.tree("blob")).unwrap();
        make_blob(&way.tree("blob"), 400_000);
        way.put("one", "longer than it was");
        fs::remove_dir_all(way.tree("sub")).unwrap();
        way.sync(&["--delete", "--backup-dir", "../old"]);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
        let kept = |name: &str| fs::read(way.lab.path("old/tree").join(name)).unwrap();
        assert_eq!(kept("one"), b"first", "{}", way.name);
        assert_eq!(kept("sub/three"), b"third", "{}", way.name);
        assert!(kept("blob") == old, "{}", way.name);
        // A file is no directory: the original stays.
        way.put("two", "longer than it was");
        let ran = way.ran(&["--backup-dir", "../tree/one"]);
        assert_eq!(ran.code, 1, "{}", way.name);
        assert!(ran.err.contains("cannot be moved to"), "{}: {}", way.name, ran.err);
        assert_eq!(fs::read(way.copy("two")).unwrap(), b"second", "{}", way.name);
    });
}

#[test]
fn a_sync_that_was_cut_off_is_finished_by_the_same_command() {
    each_way("a_sync_that_was_cut_off_is_finished_by_the_same_command", |way| {
        make_blob(&way.tree("sub/zz"), 3_000_000);
        let mut all = way.lab.client_options();
        all.extend(["-P".to_owned(), way.port.to_string(), "--sync".to_owned(), "-l40000".to_owned()]);
        all.extend([way.from.clone(), way.to.clone()]);
        let mut child = std::process::Command::new(our("lhscp"))
            .args(&all)
            .env("HOME", way.lab.path("home"))
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        lh_interop::eventually("something is there", || {
            fs::read_dir(way.copy("sub")).is_ok_and(|entries| entries.count() > 0)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        way.sync(&["-l40000"]);
        assert_same_tree(&way.lab.path("tree"), &way.lab.path("copy/tree"));
        assert_eq!(way.sync(&[]), Counts { copied: 0, unchanged: 6 }, "{}", way.name);
    });
}

#[test]
fn sync_refuses_what_it_cannot_compare() {
    let lab = Lab::new();
    for (words, said) in [
        (&["-O", "a", "h:b"][..], "-O is the protocol before it"),
        (&["-R", "g:a", "h:b"], "without -R"),
        (&["g:a", "h:b", "c"], "sources of one host"),
        (&["a", "b"], "needs a remote source or target"),
    ] {
        let ran = lab.run(&our("lhscp"), &[&["--sync"], words].concat());
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    for (words, said) in [
        (&["--delete", "a", "h:b"][..], "--delete is for copies with --sync"),
        (&["--sync", "--max-delete", "1", "a", "h:b"], "for copies with --delete"),
        (&["--sync", "--delete", "--max-delete", "x", "a", "h:b"], "bad number"),
        (&["--sync", "--delete", "--shard", "1/2", "a", "h:b"], "a --shard is a part"),
    ] {
        let ran = lab.run(&our("lhscp"), words);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}
