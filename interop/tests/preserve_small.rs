//! Many small files with all their metadata: in batches with Longhaul's server, and preserved with every
//! server.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use lh_interop::{Inetd, Lab, Lhsshd, Ran, assert_same_tree, is_root, our, peers, skip};

/// Extended attributes that the test's files may have.
const NAMES: [&str; 3] = ["user.number", "user.long", "system.posix_acl_access"];

/// Returns a file's extended attributes and access control lists.
fn attributes(path: &Path) -> Vec<Option<Vec<u8>>> {
    let of = |name| {
        let mut value = vec![0; 4096];
        let len = getxattr(path, name, &mut value[..]).ok()?;
        value.truncate(len);
        Some(value)
    };
    NAMES.into_iter().map(of).collect()
}

/// Returns a file's metadata: mode, owner, group, time, attributes.
fn all_of(path: &Path) -> (u32, u32, u32, i64, i64, Vec<Option<Vec<u8>>>) {
    let meta = fs::symlink_metadata(path).unwrap();
    (meta.mode(), meta.uid(), meta.gid(), meta.mtime(), meta.mtime_nsec(), attributes(path))
}

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes three hundred files of 1 to 3,000 bytes, each with its own mode and time. Every fifth has an
/// attribute, one more than a batch message can hold; as root some have other owners and special bits.
/// Returns false where the file system has no attributes.
fn make_tree(root: &Path) -> bool {
    fs::create_dir(root).unwrap();
    for n in 0..300_u32 {
        let path = root.join(format!("file-{n:03}"));
        fs::write(&path, vec![n as u8; (n * 31) as usize % 3_000]).unwrap();
        if is_root() && n % 7 == 0 {
            chown(&path, Some(12_000 + n), Some(23_000 + n)).unwrap();
        }
        let mode = if n % 21 == 0 { 0o4750 } else { [0o644, 0o600, 0o755, 0o440][n as usize % 4] };
        let number = (n % 5 == 0).then(|| (NAMES[0], n.to_string().into_bytes()));
        let long = (n == 30).then(|| (NAMES[1], vec![1; 1500]));
        for (name, value) in number.into_iter().chain(long) {
            if let Err(error) = setxattr(&path, name, &value, XattrFlags::empty()) {
                eprintln!("{}: {error}", path.display());
                return false;
            }
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(u64::from(n) * 1_000_003, n * 1_000 + 7);
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
    true
}

/// Copies up to `there` and down to `back`.
fn both_ways(lab: &Lab, port: u16) -> [Ran; 2] {
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let copy = |from: &str, to: &str| {
        let mut args = lab.client_options();
        let port = port.to_string();
        args.extend(["-P", &port, "-r", "--preserve", from, to].map(str::to_owned));
        lab.run(&our("lhscp"), &args).ok(&format!("{from} to {to}"))
    };
    lab.sh("rm -rf there back").ok("a clean start");
    [copy("tree", &there), copy(&there, "back")]
}

/// Counts the requests with this name in the server's log.
fn requests(log: &str, name: &str) -> usize {
    log.lines().filter(|line| line.trim_end().ends_with(&format!(": {name}"))).count()
}

/// Covers: lhscp --preserve; wire put-kept@longhaul; wire get-kept@longhaul
#[test]
fn metadata_of_small_files_is_kept_in_batches() {
    let lab = Lab::new();
    if !make_tree(&lab.path("tree")) {
        return skip("small files with attributes", "the directory for temporary files has none");
    }
    // A small file that is one hole.
    fs::File::create(lab.path("tree/hole")).unwrap().set_len(40_000).unwrap();
    let storage = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -l DEBUG1\n");
    for ran in both_ways(&lab, server.port) {
        assert!(!ran.err.contains("warning"), "{}", ran.err);
    }
    for copy in ["there", "back"] {
        let hole = Path::new(copy).join("hole");
        assert_eq!(storage(&lab.dir().join(hole)), storage(&lab.path("tree/hole")), "{copy}");
        assert_same_tree(&lab.path("tree"), &lab.path(copy));
        for name in names(&lab.path("tree")) {
            let (from, to) = (lab.path("tree").join(&name), lab.path(copy).join(&name));
            assert_eq!(all_of(&from), all_of(&to), "{copy}/{name}");
        }
    }
    let log = server.log();
    assert!(requests(&log, "put-files") >= 2 && requests(&log, "get-files") >= 2);
    // One file has more than a batch can hold, one has a hole; the directory gets requests of its own.
    for name in ["open", "write", "get-xattrs", "set-xattrs"] {
        assert!(requests(&log, name) <= 4, "{} × {name}", requests(&log, name));
    }
    // Over the existing files, once more, both ways.
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let inside = format!("{there}/.");
    for (from, to) in [("tree/.", &*there), (&inside, "back")] {
        let mut args = lab.client_options();
        args.extend(["-P", &server.port_arg(), "-r", "--preserve", from, to].map(str::to_owned));
        lab.run(&our("lhscp"), &args).ok("again");
    }
    for copy in ["there", "back"] {
        for name in names(&lab.path("tree")) {
            let (from, to) = (lab.path("tree").join(&name), lab.path(copy).join(&name));
            assert_eq!(all_of(&from), all_of(&to), "{copy}/{name}");
        }
        assert_eq!(names(&lab.path(copy)), names(&lab.path("tree")), "nothing else is left there");
    }
}

/// A server that does not announce the extension, as our older ones.
///
/// Covers: lhscp --preserve; sftp-server -P
#[test]
fn without_batches_attributes_are_set_file_by_file() {
    let lab = Lab::new();
    if !make_tree(&lab.path("tree")) {
        return skip("small files with attributes", "the directory for temporary files has none");
    }
    let server = Lhsshd::start(&lab, "Subsystem sftp internal-sftp -P put-kept,get-kept\n");
    for ran in both_ways(&lab, server.port) {
        assert!(!ran.err.contains("warning"), "{}", ran.err);
    }
    for name in names(&lab.path("tree")) {
        for copy in ["there", "back"] {
            assert_eq!(all_of(&lab.path("tree").join(&name)), all_of(&lab.path(copy).join(&name)), "{name}");
        }
    }
}

/// Covers: lhscp --preserve
#[test]
fn stock_servers_keep_what_the_protocol_supports() {
    let Some([sshd]) = peers("small files with attributes at OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    if !make_tree(&lab.path("tree")) {
        return skip("small files with attributes", "the directory for temporary files has none");
    }
    let server = Inetd::openssh(&lab, &sshd, "");
    for ran in both_ways(&lab, server.port) {
        assert_eq!(ran.err.matches("extended attributes").count(), 1, "{}", ran.err);
    }
    for copy in ["there", "back"] {
        assert_same_tree(&lab.path("tree"), &lab.path(copy));
        for name in names(&lab.path("tree")) {
            let (from, to) = (all_of(&lab.path("tree").join(&name)), all_of(&lab.path(copy).join(&name)));
            assert_eq!((from.0, from.1, from.2, from.3), (to.0, to.1, to.2, to.3), "{copy}/{name}");
        }
    }
}
