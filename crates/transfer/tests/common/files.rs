//! Trees of files, made and compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use lh_testkit::Seeded;

/// A path as the engine takes it.
pub fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// A temporary directory.
pub struct TempTree {
    dir: tempfile::TempDir,
}

impl TempTree {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file with contents that depend on the name, so that mixed-up blocks show.
    pub fn file(&self, name: impl AsRef<Path>, size: usize) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        let seed = path
            .as_os_str()
            .as_bytes()
            .iter()
            .fold(7_u64, |sum, &byte| sum.wrapping_mul(31) ^ u64::from(byte));
        fs::write(&path, Seeded::new(seed).bytes(size)).expect("a file");
        path
    }

    pub fn write(&self, name: impl AsRef<Path>, text: &[u8]) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// A file in a directory that is made when it is not there.
    pub fn write_in(&self, directory: &str, name: &str, text: &[u8]) {
        let directory = self.dir(directory);
        fs::write(directory.join(name), text).expect("a file");
    }

    pub fn dir(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    pub fn mode(&self, name: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
    }

    pub fn link(&self, name: impl AsRef<Path>, to: &str) {
        symlink(to, self.join(name)).expect("a symlink");
    }

    /// A tree with everything that has ever been forgotten.
    pub fn odd(&self, name: &str) -> PathBuf {
        let at = |path: &str| format!("{name}/{path}");
        self.dir(name);
        self.file(at("plain.txt"), 1_000);
        self.file(at("empty"), 0);
        self.file(at("one"), 1);
        self.file(at("exactly-32k"), 32 * 1024);
        self.file(at("exactly-one-request"), 261_120);
        self.file(at("several-requests"), 1_000_003);
        self.file(at("with space and 'quotes' and \"more\""), 10);
        self.file(at("new\nline"), 11);
        self.file(at("-rf"), 12);
        self.file(at("*?[x]"), 13);
        self.file(at("back\\slash"), 14);
        self.file(at("ü-漢字-🦀"), 15);
        self.file(at(".hidden"), 16);
        self.file(at("..."), 17);
        self.file(at("host:file"), 18);
        let raw = std::ffi::OsStr::from_bytes(b"not-utf8-\xff\xfe");
        self.file(Path::new(name).join(raw), 19);
        self.dir(at("empty dir"));
        let mut deep = at("deep");
        for level in 0..60 {
            deep = format!("{deep}/l{level}");
        }
        self.file(format!("{deep}/bottom"), 2_000);
        self.link(at("link-to-file"), "plain.txt");
        self.link(at("link-to-dir"), "deep/l0/l1");
        self.file(at("read-only/inside"), 20);
        self.mode(at("read-only/inside"), 0o400);
        self.mode(at("read-only"), 0o500);
        self.mode(at("plain.txt"), 0o640);
        for (path, seconds) in [("plain.txt", 1_000_000_000), ("empty dir", 1_100_000_000)] {
            let file = fs::File::open(self.join(at(path))).expect("a file");
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).expect("times");
        }
        self.join(name)
    }
}

impl Drop for TempTree {
    fn drop(&mut self) {
        // Directories without write permission would stay behind.
        let _ = std::process::Command::new("chmod").arg("-R").arg("u+rwx").arg(self.path()).status();
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Entry {
    Dir { mode: u32, time: i64 },
    File { mode: u32, time: i64, data: Vec<u8> },
}

fn walk(root: &Path, relative: &Path, preserved: bool, out: &mut BTreeMap<PathBuf, Entry>) {
    // An empty join would append a slash, which a file must not have.
    let path = if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) };
    // Links are followed when copying, so they are when comparing.
    let meta = fs::metadata(&path).expect("something to look at");
    let (mode, time) = if preserved { (meta.mode() & 0o7777, meta.mtime()) } else { (0, 0) };
    if meta.is_dir() {
        for entry in fs::read_dir(&path).expect("a listing") {
            walk(root, &relative.join(entry.expect("an entry").file_name()), preserved, out);
        }
        out.insert(relative.to_owned(), Entry::Dir { mode, time });
    } else {
        let data = fs::read(&path).expect("a file");
        out.insert(relative.to_owned(), Entry::File { mode, time, data });
    }
}

/// Fails unless both trees hold the same, with modes and times when `preserved`.
#[track_caller]
pub fn same_tree(one: &Path, other: &Path, preserved: bool) {
    let (mut left, mut right) = (BTreeMap::new(), BTreeMap::new());
    walk(one, Path::new(""), preserved, &mut left);
    walk(other, Path::new(""), preserved, &mut right);
    for (path, entry) in &left {
        let twin = right.get(path);
        let show = |entry: &Entry| match entry {
            Entry::Dir { mode, time } => format!("directory {mode:o} {time}"),
            Entry::File { mode, time, data } => format!("file {mode:o} {time} {} bytes", data.len()),
        };
        assert!(twin == Some(entry), "{path:?}: {} became {:?}", show(entry), twin.map(show));
    }
    assert_eq!(left.len(), right.len(), "something appeared from nowhere");
}
