//! Metadata that copies preserve: holes, times to the nanosecond, links, extended attributes, owners.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use lh_interop::{Inetd, Lab, Lhsshd, Ran, assert_same_file, assert_same_tree, is_root, our, peers, skip};

/// A check of one attribute: the copy's path, the attribute's name, the copy's value, the source's value.
type Check<'a> = &'a dyn Fn(&str, &str, Option<Vec<u8>>, &Vec<u8>);

/// Makes a file of 64 MiB with 12 KiB of data.
fn make_sparse(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.set_len(64 << 20).unwrap();
    for (at, byte) in [(0, 1_u8), (20 << 20, 2), (41 << 20, 3)] {
        file.write_all_at(&[byte; 4096], at).unwrap();
    }
}

fn storage(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn tool(program: &str, words: &[&str]) -> String {
    let ran = Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(ran.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Makes a tree with every kind of metadata; extended attributes only if its file system has them.
fn make_odd_tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    for name in ["plain", "sub/other", "sub/deep/third"] {
        fs::write(root.join(name), name).unwrap();
    }
    fs::set_permissions(root.join("sub/other"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(root.join("plain"), root.join("sub/same")).unwrap();
    fs::hard_link(root.join("plain"), root.join("again")).unwrap();
    symlink("sub/other", root.join("to-file")).unwrap();
    symlink("sub", root.join("to-directory")).unwrap();
    symlink("/nowhere/at all", root.join("to-nothing")).unwrap();
    make_sparse(&root.join("holes"));
    for (name, time) in [
        ("plain", "2001-02-03 04:05:06.123456789"),
        ("sub/other", "1965-01-01 00:00:00.5"),
        ("holes", "2010-01-01 00:00:00.25"),
        ("sub/deep", "2011-01-01 00:00:00.000000001"),
    ] {
        tool("touch", &["-d", time, &root.join(name).display().to_string()]);
    }
    tool("touch", &["-h", "-d", "2003-01-01 00:00:00.75", &root.join("to-nothing").display().to_string()]);
}

fn modified(path: &Path) -> (i64, i64) {
    let meta = fs::symlink_metadata(path).unwrap();
    (meta.mtime(), meta.mtime_nsec())
}

struct Host<'a> {
    lab: &'a Lab,
    port: u16,
}

impl Host<'_> {
    fn run(&self, flags: &[&str], from: &str, to: &str) -> Ran {
        let mut args = self.lab.client_options();
        args.extend(["-P".to_owned(), self.port.to_string()]);
        args.extend(flags.iter().chain(&[from, to]).map(|&word| word.to_owned()));
        self.lab.run(&our("lhscp"), &args)
    }

    fn there(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.lab.arg(name))
    }

    /// Copies up to `there` and down to `back`.
    fn both_ways(&self, flags: &[&str], what: &str) -> [Ran; 2] {
        self.lab.sh("rm -rf there back").ok("a clean start");
        let up = self.run(flags, what, &self.there("there")).ok("upload");
        let down = self.run(flags, &self.there("there"), "back").ok("download");
        [up, down]
    }
}

fn assert_links(root: &Path) {
    for (name, to) in [("to-file", "sub/other"), ("to-directory", "sub"), ("to-nothing", "/nowhere/at all")] {
        assert_eq!(fs::read_link(root.join(name)).unwrap(), Path::new(to), "{name}");
    }
}

fn assert_hard_links(root: &Path) {
    let inode = |name: &str| fs::metadata(root.join(name)).unwrap().ino();
    assert_eq!(inode("plain"), inode("sub/same"));
    assert_eq!(inode("plain"), inode("again"));
    assert_eq!(fs::metadata(root.join("plain")).unwrap().nlink(), 3);
    assert_ne!(inode("plain"), inode("sub/other"));
}

/// Covers: lhscp --preserve; lhscp -H; lhscp --links; wire full-attrs@longhaul; wire data-ranges@longhaul
#[test]
fn our_programs_preserve_all_metadata() {
    let lab = Lab::new();
    make_odd_tree(&lab.path("tree"));
    let server = Lhsshd::start(&lab, "");
    let host = Host { lab: &lab, port: server.port };
    for ran in host.both_ways(&["-r", "--preserve"], "tree") {
        assert!(!ran.err.contains("warning"), "{}", ran.err);
    }
    for copy in ["there", "back"].map(|name| lab.path(name)) {
        assert_links(&copy);
        assert_hard_links(&copy);
        assert_same_file(&lab.path("tree/holes"), &copy.join("holes"));
        assert!(storage(&copy.join("holes")) <= 128 * 1024, "{}", storage(&copy.join("holes")));
        for name in ["plain", "sub/other", "holes", "sub/deep", "to-nothing", "sub/deep/third"] {
            assert_eq!(modified(&copy.join(name)), modified(&lab.path("tree").join(name)), "{name}");
        }
        assert_eq!(fs::metadata(copy.join("sub/other")).unwrap().mode() & 0o7777, 0o640);
    }
    // Once more, over the existing copy, with equal results.
    host.run(&["-r", "--preserve"], "tree/.", &host.there("there")).ok("again");
    assert_links(&lab.path("there"));
    assert_hard_links(&lab.path("there"));
    assert!(storage(&lab.path("there/holes")) <= 128 * 1024);
}

/// Covers: lhscp --preserve; lhscp -H; lhscp --links
#[test]
fn openssh_server_preserves_what_sftp_supports() {
    let Some([sshd]) = peers("preserving with OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_odd_tree(&lab.path("tree"));
    let server = Inetd::openssh(&lab, &sshd, "");
    let host = Host { lab: &lab, port: server.port };
    let [up, down] = host.both_ways(&["-r", "--preserve"], "tree");
    // Metadata that cannot be kept are reported once per copy.
    for (ran, text) in [(&up, "extended attributes"), (&down, "extended attributes"), (&down, "hard links")] {
        assert_eq!(ran.err.matches(text).count(), 1, "{}", ran.err);
    }
    let (there, back) = (lab.path("there"), lab.path("back"));
    assert_links(&there);
    assert_links(&back);
    assert_hard_links(&there);
    assert!(storage(&there.join("holes")) <= 128 * 1024);
    for copy in [&there, &back] {
        assert_same_file(&lab.path("tree/holes"), &copy.join("holes"));
        let seconds = |path: &Path| modified(path).0;
        assert_eq!(seconds(&copy.join("plain")), seconds(&lab.path("tree/plain")));
        assert_eq!(seconds(&copy.join("to-nothing")), seconds(&lab.path("tree/to-nothing")));
    }
}

/// Covers: lhscp --sparse
/// A server without them is no reason to leave a file out, also where nothing else is asked for each file.
///
/// Covers: lhscp --xattrs; lhscp --acls
#[test]
fn files_arrive_at_servers_without_extended_attributes() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("tree/sub")).unwrap();
    for (name, size) in [("small", 10), ("sub/other", 1000), ("large", 3_000_000)] {
        lh_interop::make_blob(&lab.path("tree").join(name), size);
    }
    each_server("files_arrive_at_servers_without_extended_attributes", &lab, |host, ours| {
        for flags in [&["-r", "--xattrs"][..], &["-r", "--acls"], &["-r", "--xattrs", "-p"]] {
            for ran in host.both_ways(flags, "tree") {
                assert_eq!(ran.err.contains("no extended attributes"), !ours, "{flags:?}: {}", ran.err);
            }
            // Part files would be more than the tree has.
            assert_same_tree(&lab.path("tree"), &lab.path("there"));
            assert_same_tree(&lab.path("tree"), &lab.path("back"));
            host.lab.sh("rm -rf file").ok("a clean start");
            host.run(flags, "tree/large", &host.there("file")).ok("one file");
            assert_same_file(&lab.path("tree/large"), &lab.path("file"));
        }
    });
}

#[test]
fn sparse_flag_turns_zeros_into_holes() {
    let Some([sshd]) = peers("holes from OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_sparse(&lab.path("holes"));
    let server = Inetd::openssh(&lab, &sshd, "");
    let host = Host { lab: &lab, port: server.port };
    host.run(&["--sparse", "--verify"], &host.there("holes"), "back").ok("download");
    assert_same_file(&lab.path("holes"), &lab.path("back"));
    assert!(storage(&lab.path("back")) <= 128 * 1024, "{}", storage(&lab.path("back")));
}

/// Under a hole no data of an older, longer or denser file remain, and holes are not transferred.
///
/// Covers: lhscp --in-place; lhscp --verify; wire data-ranges@longhaul
#[test]
fn holes_replace_older_data() {
    let lab = Lab::new();
    make_sparse(&lab.path("holes"));
    let server = Lhsshd::start(&lab, "");
    let host = Host { lab: &lab, port: server.port };
    for flags in [&["--in-place"][..], &[], &["--verify"], &["-j", "3"], &["--no-verify"]] {
        for old in [70 << 20, 30 << 20] {
            for name in ["there", "back"] {
                fs::write(lab.path(name), vec![9; old]).unwrap();
            }
            host.run(flags, "holes", &host.there("there")).ok("upload");
            assert_same_file(&lab.path("holes"), &lab.path("there"));
            host.run(flags, &host.there("holes"), "back").ok("download");
            assert_same_file(&lab.path("holes"), &lab.path("back"));
        }
    }
    lab.sh("rm -f there back").ok("a clean start");
    for (from, to) in [("holes".to_owned(), host.there("there")), (host.there("holes"), "back".to_owned())] {
        let ran = host.run(&["--json"], &from, &to).ok("copy");
        let told = ran.text();
        let end = told.lines().last().unwrap_or_default();
        assert!(end.contains("\"bytes\":12288,") && end.contains("\"verified\":1,"), "{end}");
    }
    // A file that is one hole, and one that ends with data.
    fs::File::create(lab.path("holes")).unwrap().set_len(5_000_001).unwrap();
    host.both_ways(&["-p"], "holes");
    assert_same_file(&lab.path("holes"), &lab.path("back"));
    fs::File::options().write(true).open(lab.path("holes")).unwrap().write_all_at(b"end", 4_999_998).unwrap();
    host.both_ways(&["-p"], "holes");
    assert_same_file(&lab.path("holes"), &lab.path("back"));
}

/// Encodes an access control list for the kernel: the owner may write, the user with this uid may read.
fn access_list(user: u32) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, user), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// Covers: lhscp --xattrs; lhscp --acls; wire get-xattrs@longhaul; wire set-xattrs@longhaul
#[test]
fn extended_attributes_and_access_control_lists_are_kept() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let test = "extended_attributes_and_access_control_lists_are_kept";
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    fs::write(lab.path("tree/file"), "text").unwrap();
    let given = [
        ("tree/file", "user.kind", b"odd".to_vec()),
        ("tree/file", "user.long", vec![7; 2000]),
        ("tree/file", "system.posix_acl_access", access_list(12345)),
        ("tree", "user.directory", vec![0, 255]),
        ("tree", "system.posix_acl_default", access_list(23456)),
    ];
    for (path, name, value) in &given {
        if let Err(error) = setxattr(lab.path(path), *name, value, XattrFlags::empty()) {
            return skip(test, &format!("the directory for temporary files has no {name}: {error}"));
        }
    }
    let has = |path: &str, name: &str| {
        let mut value = vec![0; 4096];
        let len = getxattr(lab.path(path), name, &mut value[..]).ok()?;
        value.truncate(len);
        Some(value)
    };
    let server = Lhsshd::start(&lab, "");
    let host = Host { lab: &lab, port: server.port };
    for ran in host.both_ways(&["-r", "--xattrs", "--acls", "-p"], "tree") {
        assert!(!ran.err.contains("warning"), "{}", ran.err);
    }
    let each = |check: Check<'_>| {
        for (path, name, value) in &given {
            for root in ["there", "back"] {
                let copy = path.replacen("tree", root, 1);
                check(&copy, name, has(&copy, name), value);
            }
        }
    };
    each(&|copy, name, found, value| assert_eq!(found.as_ref(), Some(value), "{name} of {copy}"));
    // Nothing without a flag, and each kind by its own flag.
    host.both_ways(&["-r", "--acls"], "tree");
    each(&|copy, name, found, _| {
        assert_eq!(found.is_some(), name.starts_with("system."), "{name} of {copy}");
    });
    // A default list of the directory is removed where the source has none.
    fs::write(lab.path("tree/bare"), "no list of its own").unwrap();
    rustix::fs::removexattr(lab.path("tree/bare"), "system.posix_acl_access").unwrap();
    host.both_ways(&["-r", "--preserve"], "tree");
    for copy in ["there/bare", "back/bare"] {
        assert_eq!(has(copy, "system.posix_acl_access"), None, "{copy}");
    }
}

/// Covers: lhscp --owner; lhscp --group
#[test]
fn owner_and_group_flags_keep_owners_and_set_id_bits() {
    if !is_root() {
        return skip("owner_and_group_flags_keep_owners_and_set_id_bits", "needs root");
    }
    let lab = Lab::new();
    fs::create_dir(lab.path("tree")).unwrap();
    fs::write(lab.path("tree/file"), "text").unwrap();
    std::os::unix::fs::chown(lab.path("tree/file"), Some(12345), Some(23456)).unwrap();
    std::os::unix::fs::chown(lab.path("tree"), Some(12346), Some(23457)).unwrap();
    fs::set_permissions(lab.path("tree/file"), fs::Permissions::from_mode(0o4755)).unwrap();
    let ours = Lhsshd::start(&lab, "");
    let mut ports = vec![ours.port];
    let theirs = peers("owners with OpenSSH's sshd", ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    ports.extend(theirs.as_ref().map(|server| server.port));
    for port in ports {
        let host = Host { lab: &lab, port };
        host.both_ways(&["-r", "-p", "--owner", "--group"], "tree");
        for name in ["there", "back"] {
            let owner = |meta: fs::Metadata| (meta.uid(), meta.gid(), meta.mode() & 0o7777);
            assert_eq!(owner(fs::metadata(lab.path(name)).unwrap()).0, 12346, "{name}");
            let file = lab.path(name).join("file");
            assert_eq!(owner(fs::metadata(file).unwrap()), (12345, 23456, 0o4755), "{name}");
        }
        // A set-user-id file that changed its owner would grant another user's rights.
        host.both_ways(&["-r", "-p"], "tree");
        assert_eq!(fs::metadata(lab.path("there/file")).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(fs::metadata(lab.path("there/file")).unwrap().uid(), 0);
    }
}

/// Covers: lhscp --links
#[test]
fn preserved_links_are_never_written_through() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let host = Host { lab: &lab, port: server.port };
    lab.sh("mkdir -p tree/dir safe back/tree && echo new >tree/file && echo new >tree/dir/inner && echo old >safe/file")
        .ok("a tree");
    // The target's links of these names lead elsewhere.
    symlink(lab.path("safe/file"), lab.path("back/tree/file")).unwrap();
    symlink(lab.path("safe"), lab.path("back/tree/dir")).unwrap();
    for flags in [&["-r", "--links"][..], &["-r", "--links", "--in-place"]] {
        let ran = host.run(flags, &host.there("tree"), "back");
        assert_ne!(ran.code, 0);
        assert!(ran.err.contains("exists but is not a directory"), "{}", ran.err);
        assert_eq!(lab.read("safe/file"), "old\n");
        assert!(!lab.path("safe/inner").exists());
        assert_eq!(lab.read("back/tree/file"), "new\n");
        fs::remove_file(lab.path("back/tree/file")).unwrap();
        symlink(lab.path("safe/file"), lab.path("back/tree/file")).unwrap();
    }
    // As scp does: the files that the links lead to are copied.
    symlink("file", lab.path("tree/link")).unwrap();
    host.run(&["-r"], &host.there("tree"), "followed").ok("download");
    assert!(fs::symlink_metadata(lab.path("followed/link")).unwrap().is_file());
    lab.sh("rm -rf up && cp -a tree up").ok("a copy");
    assert_same_tree(&lab.path("tree"), &lab.path("up"));
}

/// Runs `check` with our server, and with OpenSSH's where it is installed.
fn each_server(test: &str, lab: &Lab, check: impl Fn(&Host<'_>, bool)) {
    let ours = Lhsshd::start(lab, "");
    check(&Host { lab, port: ours.port }, true);
    if let Some([sshd]) = peers(test, ["sshd"]) {
        let theirs = Inetd::openssh(lab, &sshd, "");
        check(&Host { lab, port: theirs.port }, false);
    }
}

/// Covers: scp -p
#[test]
fn copies_to_a_device_leave_the_device() {
    let lab = Lab::new();
    lh_interop::make_blob(&lab.path("blob"), 3_000_001);
    lab.write("small", "little");
    // A node of our own instead of /dev/null: -p sets modes, and root may.
    let null = lab.path("null");
    if !is_root() || !Command::new("mknod").arg(&null).args(["c", "1", "3"]).status().unwrap().success() {
        return skip("copies_to_a_device_leave_the_device", "no device can be made here");
    }
    each_server("copies to a device", &lab, |host, _| {
        for flags in [&[][..], &["-p"], &["--in-place"], &["-j", "2"], &["--preserve"]] {
            for name in ["blob", "small"] {
                let ran = host.run(flags, name, &host.there("null"));
                // A file system may forbid devices.
                assert!(ran.code == 0 || ran.err.contains("Permission denied"), "{flags:?}: {}", ran.err);
                let kind = fs::symlink_metadata(&null).unwrap().file_type();
                assert!(!kind.is_file(), "{flags:?}");
            }
        }
    });
}

/// Targets with several hard links behave as documented.
///
/// Covers: lhscp --in-place
#[test]
fn hard_linked_targets_keep_their_links_if_possible() {
    let lab = Lab::new();
    lh_interop::make_blob(&lab.path("blob"), 300_001);
    lab.write("small", "little");
    each_server("copies over hard links", &lab, |host, ours| {
        for (flags, kept) in [(&[][..], ours), (&["--in-place"], true)] {
            for source in ["blob", "small"] {
                lab.sh("rm -f one two; echo old >one; ln one two").ok("two names");
                host.run(flags, source, &host.there("one")).ok("upload");
                assert_same_file(&lab.path(source), &lab.path("one"));
                let same = |name: &str| fs::metadata(lab.path(name)).unwrap().ino();
                assert_eq!(same("one") == same("two"), kept, "{flags:?} {source} ours: {ours}");
                if !kept {
                    assert_eq!(lab.read("two"), "old\n");
                }
            }
        }
    });
}

/// Returns a number from the last line of `--json`.
fn told(ran: &Ran, name: &str) -> f64 {
    let text = ran.text();
    let end: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap();
    end[name].as_f64().unwrap_or_else(|| panic!("{name} in {end}"))
}

/// Covers: lhscp --pace; lhscp --json
#[test]
fn pace_limits_both_directions() {
    let lab = Lab::new();
    lh_interop::make_blob(&lab.path("blob"), 10_000_000);
    each_server("--pace", &lab, |host, _| {
        for (from, to) in [("blob".to_owned(), host.there("there")), (host.there("blob"), "back".to_owned())]
        {
            let ran = host.run(&["--json", "--pace", "80M"], &from, &to).ok("copy");
            // One second, less the allowed first burst.
            let seconds = told(&ran, "seconds");
            assert!(seconds > 0.7, "{}", ran.text());
            // On a machine that is slower than the pace something else is the limit.
            assert!(seconds > 1.2 || ran.text().contains("\"limited_by\":\"request\""), "{}", ran.text());
        }
    });
}

#[test]
fn unsupported_preserve_flags_fail_before_the_copy() {
    let lab = Lab::new();
    for flags in [&["-O", "--xattrs"][..], &["-R", "-H"]] {
        let words = [flags, &["h:a", "g:b"]].concat();
        let ran = lab.run(&our("lhscp"), &words);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("nothing else"), "{}", ran.err);
    }
}
