//! Test data to transfer, and comparison of the copies.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lh_testkit::Seeded;

/// Parses the lines of a log or of the output of `--json`.
#[track_caller]
pub fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// Writes `size` pseudo-random bytes to `path`. They neither compress nor repeat within a block, and are
/// equal in every run.
pub fn make_blob(path: &Path, size: usize) {
    let mut noise = Seeded::new(size as u64);
    let mut file = fs::File::create(path).unwrap();
    let mut block = vec![0; 1 << 20];
    let mut left = size;
    while left > 0 {
        let take = left.min(block.len());
        noise.fill(&mut block[..take]);
        file.write_all(&block[..take]).unwrap();
        left -= take;
    }
}

/// Creates a small tree with the oddities of real trees: odd names, deep directories, empty files, a link to
/// a file.
///
/// It has no link to a directory, because OpenSSH's scp of 2022 fails on one; tests of our programs alone add
/// it with [`link_directory`].
pub fn make_tree(root: &Path, files: usize) {
    fs::create_dir_all(root).unwrap();
    let mut deep = root.to_path_buf();
    for level in 0..12 {
        deep.push(format!("level {level}"));
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), b"down here").unwrap();
    for (name, content) in [
        ("empty", &b""[..]),
        ("with space", b"1"),
        ("-leading-dash", b"2"),
        ("quote'and\"double", b"3"),
        ("dollar$HOME;and`tick`", b"4"),
        ("star*and?and[x]", b"5"),
        ("\u{fc}ml\u{e4}ut \u{65e5}\u{672c}", b"6"),
        ("back\\slash", b"7"),
        (".hidden", b"8"),
    ] {
        fs::write(root.join(name), content).unwrap();
    }
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"not-utf8-\xff\xfe")), b"9").unwrap();
    fs::create_dir_all(root.join("empty dir")).unwrap();
    std::os::unix::fs::symlink(".hidden", root.join("link to a file")).unwrap();
    let many = root.join("many");
    fs::create_dir_all(&many).unwrap();
    let mut noise = Seeded::new(42);
    for index in 0..files {
        let mut content = vec![0; (index * 37) % 5000];
        noise.fill(&mut content);
        fs::write(many.join(format!("{index:05}.dat")), content).unwrap();
    }
}

/// Adds a symbolic link to one of the directories of [`make_tree`].
pub fn link_directory(root: &Path) {
    std::os::unix::fs::symlink("level 0/level 1/level 2/level 3", root.join("link to a directory")).unwrap();
}

/// Panics with the first difference between two files.
pub fn assert_same_file(left: &Path, right: &Path) {
    let (a, b) = (fs::read(left), fs::read(right));
    let a = a.unwrap_or_else(|error| panic!("{}: {error}", left.display()));
    let b = b.unwrap_or_else(|error| panic!("{}: {error}", right.display()));
    assert_eq!(a.len(), b.len(), "sizes of {} and {}", left.display(), right.display());
    // Slices first: without optimisation, the byte that differs takes a second to find in 64 MiB.
    if a != b {
        let at = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        panic!("{} and {} differ at byte {at}", left.display(), right.display());
    }
}

/// Compares names, kinds and contents of two trees. Symbolic links are followed.
pub fn assert_same_tree(left: &Path, right: &Path) {
    let (a, b) = (listing(left), listing(right));
    let names = |tree: &BTreeMap<PathBuf, bool>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b), "names below {} and {}", left.display(), right.display());
    for (name, is_dir) in &a {
        assert_eq!(Some(is_dir), b.get(name), "kind of {}", name.display());
        if !is_dir {
            assert_same_file(&left.join(name), &right.join(name));
        }
    }
}

/// Maps each relative path to whether it is a directory.
fn listing(root: &Path) -> BTreeMap<PathBuf, bool> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let path = entry.unwrap().path();
            let meta = fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(meta.mode() != 0, "no mode");
            found.insert(path.strip_prefix(root).unwrap_or(&path).to_path_buf(), meta.is_dir());
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    found
}
