//! Journals as a list: what copies are unfinished, and what is left of them.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::FlockOperation;

use super::Journal;

/// An unfinished copy, as its journal describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Path of the journal.
    pub path: PathBuf,
    /// The name of the copy for users: the journal's file name without `.journal`.
    pub id: String,
    /// The directory in which the command was started, then the program and its arguments. Empty if the
    /// journal has no such record.
    pub command: Vec<Vec<u8>>,
    /// Number of complete files.
    pub done: u64,
    /// Unfinished files.
    pub parts: Vec<SavedPart>,
    /// Whether a process still copies: it holds the journal's lock.
    pub running: bool,
    /// Time of the journal's last record.
    pub modified: SystemTime,
}

/// An unfinished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPart {
    /// Path of the finished file.
    pub target: Vec<u8>,
    /// Path of the part file, under which the file grows.
    pub name: Vec<u8>,
    /// Bytes at the beginning of the part file that the journal records as written.
    pub bytes: u64,
}

impl SavedPart {
    /// Returns true where the name is one that only a copy of ours makes: `.NAME.TAG.lhpart`.
    pub fn is_ours(&self) -> bool {
        let name = crate::base_name(&self.name);
        name.starts_with(b".") && name.ends_with(b".lhpart")
    }
}

/// Reads the journal at `path`; `None` where there is none.
pub fn read(path: &Path) -> Option<Saved> {
    let id = path.file_name()?.to_str()?.strip_suffix(".journal")?.to_owned();
    let file = File::open(path).ok()?;
    let modified = file.metadata().ok()?.modified().ok()?;
    let running = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err();
    let mut journal = Journal::empty(path, Vec::new());
    // A target on this host may have lost what was noted before the machine was started last; it is named all
    // the same.
    if !journal.load(&file, "", true) {
        return None;
    }
    let part =
        |(name, part): (Vec<u8>, super::Part)| SavedPart { target: part.target, name, bytes: part.upto };
    let mut parts: Vec<SavedPart> = journal.parts.into_iter().map(part).collect();
    parts.sort_by(|one, other| one.target.cmp(&other.target));
    let done = journal.done.len() as u64;
    Some(Saved { path: path.to_owned(), id, command: journal.command, done, parts, running, modified })
}

/// All journals of a directory, the latest first.
pub fn list(directory: &Path) -> Vec<Saved> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let ours = |path: &PathBuf| path.as_os_str().as_bytes().ends_with(b".journal");
    let mut saved: Vec<Saved> =
        entries.map(|entry| entry.path()).filter(ours).filter_map(|path| read(&path)).collect();
    saved.sort_by(|one, other| other.modified.cmp(&one.modified).then_with(|| one.id.cmp(&other.id)));
    saved
}

/// Removes a journal that no process works on.
///
/// # Errors
/// A process does, or the file cannot be removed.
pub fn remove(saved: &Saved) -> std::io::Result<()> {
    let file = File::open(&saved.path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fs::remove_file(&saved.path)
}
