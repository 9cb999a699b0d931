//! The tree of a nightly job, what changes in it, and comparing it with its copy.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lh_interop::json_lines;

/// Files in a directory.
const EACH: u64 = 100;

/// The source.
pub(super) struct Tree {
    root: PathBuf,
    pub(super) files: u64,
    bytes: u64,
}

/// What [`Tree::change`] has done.
pub(super) struct Changes {
    /// Files of the source that are new or have other contents.
    pub(super) written: u64,
    /// Files that the source has no more.
    pub(super) removed: u64,
    /// Files and directories that only the target has.
    pub(super) deleted: u64,
}

impl Tree {
    /// Makes `files` files of up to 4 KiB.
    pub(super) fn make(root: &Path, files: u64) -> io::Result<Self> {
        let mut tree = Self { root: root.to_owned(), files, bytes: 0 };
        for number in 0..files {
            let path = tree.path(number);
            if number % EACH == 0 {
                fs::create_dir_all(path.parent().unwrap_or(root))?;
            }
            let content = vec![number as u8; (number * 31 % 4097) as usize];
            tree.bytes += content.len() as u64;
            fs::write(path, content)?;
        }
        Ok(tree)
    }

    /// Rate at which the contents take so long, bytes/s.
    pub(super) fn rate_for(&self, time: Duration) -> u32 {
        u32::try_from(self.bytes / time.as_secs().max(1)).unwrap_or(u32::MAX).max(1)
    }

    fn path(&self, number: u64) -> PathBuf {
        let directory = number / EACH;
        self.root.join(format!("d{:03}/s{directory}/f{number}", directory % 100))
    }

    /// Changes one file in a hundred, removes another one, and puts one that the source does not have beside
    /// each of them below `copy`.
    pub(super) fn change(&self, copy: &Path) -> io::Result<Changes> {
        let mut changes = Changes { written: 0, removed: 0, deleted: 0 };
        for number in (0..self.files.saturating_sub(2)).step_by(EACH as usize) {
            let changed = self.path(number);
            fs::write(&changed, format!("changed: {number}, and longer or shorter than before\n"))?;
            fs::remove_file(self.path(number + 1))?;
            let beside = changed.strip_prefix(&self.root).map_err(io::Error::other)?;
            let extra = copy.join(beside).with_file_name("extra");
            fs::create_dir_all(&extra)?;
            fs::write(extra.join("file"), "of yesterday")?;
            changes.written += 1;
            changes.removed += 1;
            changes.deleted += 3;
        }
        Ok(changes)
    }
}

/// Size of a file and its time of modification, seconds and nanoseconds.
type Facts = (u64, i64, i64);

/// Names below a directory, in order; directories have no facts.
fn listing(root: &Path) -> io::Result<Vec<(PathBuf, Option<Facts>)>> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let meta = fs::symlink_metadata(&path)?;
            let facts = meta.is_file().then(|| (meta.len(), meta.mtime(), meta.mtime_nsec()));
            if meta.is_dir() {
                todo.push(path.clone());
            }
            found.push((path.strip_prefix(root).map_err(io::Error::other)?.to_owned(), facts));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the number of files below a directory that have their names; unfinished ones do not count.
pub(super) fn count_files(root: &Path) -> u64 {
    let has_name = |path: &Path| path.extension().is_none_or(|extension| extension != "lhpart");
    // Files appear and go meanwhile.
    listing(root).map_or(0, |found| {
        found.iter().filter(|(path, facts)| facts.is_some() && has_name(path)).count() as u64
    })
}

/// Compares names, sizes, times and contents.
pub(super) fn compare(source: &Path, copy: &Path) -> Result<(), String> {
    let list = |root: &Path| listing(root).map_err(|error| format!("{}: {error}", root.display()));
    let (ours, theirs) = (list(source)?, list(copy)?);
    if let Some((ours, theirs)) = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
        return Err(format!("the trees differ: {ours:?} is {theirs:?}"));
    }
    if ours.len() != theirs.len() {
        return Err(format!("the trees differ: {} names are {}", ours.len(), theirs.len()));
    }
    for (path, _) in ours.iter().filter(|(_, facts)| facts.is_some()) {
        let read = |root: &Path| fs::read(root.join(path)).map_err(|error| error.to_string());
        if read(source)? != read(copy)? {
            return Err(format!("{}: other contents", path.display()));
        }
    }
    Ok(())
}

/// Checks that a manifest has so many files, in the order of their paths.
pub(super) fn check_manifest(text: &str, files: u64) -> Result<(), String> {
    let lines = json_lines(text);
    let paths: Vec<_> = lines.iter().filter_map(|line| line["path"].as_str()).collect();
    let whole = lines.last().is_some_and(|line| line["files"] == files && line["outcome"] == "complete");
    match paths.len() as u64 == files && whole && paths.is_sorted() {
        true => Ok(()),
        false => Err(format!("the manifest has {} files, and ends with {:?}", paths.len(), lines.last())),
    }
}
