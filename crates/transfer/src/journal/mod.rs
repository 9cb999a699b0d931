//! The journal of a copy: what is complete, and how far the unfinished files have come, on disk at every
//! moment.
//!
//! A copy that is killed, loses its connection or its machine leaves two things: unfinished files under names
//! of ours at the target, and this file at the client. The same command again reads it and goes on. What it
//! says is believed only for the very source it was written about (path, size and time of modification are in
//! every entry's tag), and never alone: the target is looked at too, and compared, by digests where the
//! server has them ([`crate::Placing::atomic`]).
//!
//! Lines of text, appended; a line that was cut off by a crash is left out. A file belongs to one process at
//! a time (a lock); a second one that does the same copy works without. It is removed when the copy has come
//! to its end; if a part failed, the records that resuming needs are kept.
//!
//! | line | meaning |
//! |---|---|
//! | `longhaul-journal 1` | first line |
//! | `boot ID` | the lines behind it were written since this start of this machine |
//! | `command DIRECTORY PROGRAM ARGUMENT...` | where and how the copy was started, all escaped |
//! | `new TARGET` | what the command line names as target did not exist: it is to become the copy, not to get it |
//! | `part TARGET NAME` | the target grows under this name; both escaped |
//! | `open TARGET` | an unfinished file beside the target is about to be opened |
//! | `upto BYTES NAME` | all bytes before this one have been taken by the end that has the file |
//! | `sum TAG ALGORITHM SUM` | the sum of the content of the file of this tag, before its `done` |
//! | `done TAG` | the file of this tag is in its place |
//! | `gone NAME` | nothing is under this name any more |

mod place;
mod saved;
mod text;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lh_crypto::Hash;

use crate::content::SumAlgorithm;

pub(crate) use place::is_journal;
pub use place::{directory, file_for};
pub use saved::{Saved, SavedPart, list, read, remove};
pub(crate) use text::{Tag, hex, unhex};
use text::{escaped, unescaped};

/// The first line.
const HEADER: &str = "longhaul-journal 1";

/// Journals that were not written for this long are ignored: the files that they name may be others by now.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);

/// The tag of `source` with this size and time of modification, as the origin of `target`.
pub(crate) fn tag(source: &[u8], target: &[u8], size: u64, modified: (i64, u32)) -> Tag {
    let mut hash = Hash::Sha256.start();
    for path in [source, target] {
        // `a/./b` is `a/b`: what exists already decides which of the two a copy says.
        let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        hash.update(&[u8::from(path.starts_with(b"/"))]);
        parts.by_ref().for_each(|part| {
            hash.update(part);
            hash.update(b"/");
        });
        hash.update(b"/");
    }
    hash.update(&size.to_be_bytes());
    hash.update(&modified.0.to_be_bytes());
    hash.update(&modified.1.to_be_bytes());
    let mut tag = Tag::default();
    tag.copy_from_slice(&hash.finish().as_ref()[..16]);
    tag
}

/// An unfinished file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    target: Vec<u8>,
    upto: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Option<File>,
    /// Lines that wait for [`Journal::flush`].
    pending: Vec<u8>,
    done: HashSet<Tag>,
    parts: HashMap<Vec<u8>, Part>,
    /// The names in `parts`, by their targets: a copy that goes on asks about each of its files.
    names: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Which sums are wanted, and those of files that earlier attempts have copied.
    algorithm: Option<SumAlgorithm>,
    /// The directory, the program and the arguments that started the copy.
    command: Vec<Vec<u8>>,
    sums: HashMap<Tag, Vec<u8>>,
    new: HashSet<Vec<u8>>,
    /// Targets beside which earlier attempts may have left an unfinished file.
    left: HashSet<Vec<u8>>,
    /// Journals of other shards of the same copy: read, and removed with this one.
    others: Vec<PathBuf>,
}

impl Journal {
    /// Opens the journal at `path`, with what it and its siblings (other shards of the copy) say. With
    /// `survives`, what was written before the machine was started last counts too: right for targets on
    /// other machines.
    ///
    /// `None` when it cannot be had: another process has it, or there is no place for it. The copy goes on
    /// without.
    pub(crate) fn open(path: &Path, survives: bool, sums: Option<SumAlgorithm>) -> Option<Self> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).ok()?;
        }
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).ok()?;
        lock(&file)?;
        let mut journal = Self::empty(path, place::siblings(path));
        journal.algorithm = sums;
        let boot = boot();
        let fresh = |file: &File| {
            let age = file.metadata().and_then(|meta| meta.modified()).ok()?.elapsed().unwrap_or_default();
            Some(age < OLD)
        };
        for other in journal.others.clone() {
            if let Ok(other) = File::open(&other)
                && fresh(&other) == Some(true)
            {
                journal.load(&other, &boot, survives);
            }
        }
        let mut whole = false;
        if fresh(&file) == Some(true) {
            whole = journal.load(&file, &boot, survives);
        }
        if !whole {
            file.set_len(0).ok()?;
            let _ = writeln!(journal.pending, "{HEADER}");
        }
        let _ = writeln!(journal.pending, "boot {boot}");
        journal.file = Some(file);
        Some(journal)
    }

    fn empty(path: &Path, others: Vec<PathBuf>) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            pending: Vec::new(),
            done: HashSet::new(),
            parts: HashMap::new(),
            names: HashMap::new(),
            algorithm: None,
            command: Vec::new(),
            sums: HashMap::new(),
            new: HashSet::new(),
            left: HashSet::new(),
            others,
        }
    }

    /// Takes over what a file says; whether it is a journal that can be appended to.
    fn load(&mut self, file: impl Read, boot: &str, survives: bool) -> bool {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>| {
            line.clear();
            // Longer than any path: no journal of ours.
            let read = Read::take(&mut reader, 64 * 1024).read_until(b'\n', line);
            matches!(read, Ok(1..)) && line.pop() == Some(b'\n')
        };
        if !next(&mut line) || line != HEADER.as_bytes() {
            return false;
        }
        let mut counts = false;
        while next(&mut line) {
            let mut words = line.split(|&byte| byte == b' ');
            let (word, first, second) = (words.next().unwrap_or_default(), words.next(), words.next());
            match (word, first, second) {
                (b"boot", Some(id), None) => counts = survives || id == boot.as_bytes(),
                _ if !counts => {}
                (b"done", Some(tag), None) => {
                    self.done.extend(text::tag(tag));
                }
                (b"sum", Some(tag), Some(algorithm)) => {
                    let wanted = self.algorithm.filter(|wanted| wanted.name().as_bytes() == algorithm);
                    let sum = words.next().and_then(text::unhex);
                    if let (Some(wanted), Some(tag), Some(sum)) = (wanted, text::tag(tag), sum)
                        && sum.len() == wanted.output_len()
                    {
                        self.sums.insert(tag, sum);
                    }
                }
                (b"command", Some(_), _) => {
                    let words = line.split(|&byte| byte == b' ').skip(1);
                    self.command = words.map(unescaped).collect::<Option<_>>().unwrap_or_default();
                }
                (b"part", Some(target), Some(name)) => {
                    if let (Some(target), Some(name)) = (unescaped(target), unescaped(name)) {
                        self.left.insert(target.clone());
                        self.insert_part(name, target);
                    }
                }
                (b"open", Some(target), None) => self.left.extend(unescaped(target)),
                (b"upto", Some(bytes), Some(name)) => {
                    let bytes = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
                    if let (Some(bytes), Some(name)) = (bytes, unescaped(name))
                        && let Some(part) = self.parts.get_mut(&name)
                    {
                        part.upto = bytes;
                    }
                }
                (b"new", Some(target), None) => self.new.extend(unescaped(target)),
                (b"gone", Some(name), None) => {
                    if let Some(part) = unescaped(name).and_then(|name| self.remove_part(&name)) {
                        self.left.remove(&part.target);
                    }
                }
                // A later version's.
                _ => {}
            }
        }
        // Ended by a line without its end: what follows must begin a new one.
        if !line.is_empty() {
            self.pending.push(b'\n');
        }
        true
    }

    /// Notes how the copy is started, so that it can be started again.
    pub(crate) fn note_command(&mut self, command: &[Vec<u8>]) {
        if self.command != command
            && let Some(line) = text::command_line(command)
        {
            self.command = command.to_vec();
            self.pending.extend_from_slice(line.as_bytes());
        }
    }

    /// Returns true when the file of this tag is in its place.
    pub(crate) fn is_done(&self, tag: &Tag) -> bool {
        self.done.contains(tag)
    }

    /// Returns true when an earlier attempt has found nothing under this name, which is the command line's
    /// target.
    pub(crate) fn was_new(&self, target: &[u8]) -> bool {
        self.new.contains(target)
    }

    /// There is nothing under this name.
    pub(crate) fn note_new(&mut self, target: &[u8]) {
        if self.new.insert(target.to_vec()) {
            let _ = writeln!(self.pending, "new {}", escaped(target));
        }
    }

    /// Returns the number of bytes from the start that are known to be under this name.
    pub(crate) fn upto(&self, name: &[u8]) -> u64 {
        self.parts.get(name).map_or(0, |part| part.upto)
    }

    /// Returns true when a copy was growing under this name.
    pub(crate) fn knows(&self, name: &[u8]) -> bool {
        self.parts.contains_key(name)
    }

    /// Other names under which `target` was growing: of a source that has changed since.
    pub(crate) fn outdated(&self, target: &[u8], name: &[u8]) -> Vec<Vec<u8>> {
        let names = self.names.get(target).into_iter().flatten();
        names.filter(|other| *other != name).cloned().collect()
    }

    /// `target` grows under `name`, of which nothing is known yet.
    fn insert_part(&mut self, name: Vec<u8>, target: Vec<u8>) {
        self.remove_part(&name);
        self.names.entry(target.clone()).or_default().push(name.clone());
        self.parts.insert(name, Part { target, upto: 0 });
    }

    fn remove_part(&mut self, name: &[u8]) -> Option<Part> {
        let part = self.parts.remove(name)?;
        if let Some(names) = self.names.get_mut(&part.target) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.names.remove(&part.target);
            }
        }
        Some(part)
    }

    /// An unfinished file beside `target` is about to be opened: until [`Journal::begin`] it may be there or
    /// not.
    pub(crate) fn note_opening(&mut self, target: &[u8]) {
        let _ = writeln!(self.pending, "open {}", escaped(target));
    }

    /// Returns true when an earlier attempt may have left an unfinished file beside `target`.
    pub(crate) fn may_have_left(&self, target: &[u8]) -> bool {
        self.left.contains(target)
    }

    /// The target grows under `name` from now on.
    pub(crate) fn begin(&mut self, target: &[u8], name: &[u8]) {
        if !self.parts.contains_key(name) {
            self.insert_part(name.to_vec(), target.to_vec());
            let _ = writeln!(self.pending, "part {} {}", escaped(target), escaped(name));
        }
    }

    /// `bytes` from the start are there.
    pub(crate) fn advance(&mut self, name: &[u8], bytes: u64) {
        if let Some(part) = self.parts.get_mut(name) {
            part.upto = bytes;
            let _ = writeln!(self.pending, "upto {bytes} {}", escaped(name));
        }
    }

    /// Returns true where attempts before this one have put files in their places.
    pub(crate) fn goes_on(&self) -> bool {
        !self.done.is_empty()
    }

    /// The file is in its place: for attempts after this one, which does not come to it again.
    pub(crate) fn finish(&mut self, tag: &Tag, name: &[u8]) {
        self.pending.extend_from_slice(b"done ");
        text::put_hex(tag, &mut self.pending);
        self.pending.push(b'\n');
        self.forget(name);
    }

    /// The content of the file of this tag has this sum, of the algorithm that is wanted.
    pub(crate) fn note_sum(&mut self, tag: &Tag, sum: &[u8]) {
        if let Some(algorithm) = self.algorithm {
            self.pending.extend_from_slice(b"sum ");
            text::put_hex(tag, &mut self.pending);
            let _ = write!(self.pending, " {} ", algorithm.name());
            text::put_hex(sum, &mut self.pending);
            self.pending.push(b'\n');
        }
    }

    /// The sum of the content of a file that an earlier attempt has copied.
    pub(crate) fn sum(&self, tag: &Tag) -> Option<Vec<u8>> {
        self.sums.get(tag).cloned()
    }

    /// Nothing is under this name any more.
    pub(crate) fn forget(&mut self, name: &[u8]) {
        if self.remove_part(name).is_some() {
            let _ = writeln!(self.pending, "gone {}", escaped(name));
        }
    }

    /// Writes what has been noted since the last time. A disk that is full costs the journal, not the copy.
    pub(crate) fn flush(&mut self) {
        if !self.pending.is_empty()
            && let Some(file) = &mut self.file
        {
            if file.write_all(&self.pending).is_err() {
                self.file = None;
            }
            self.pending.clear();
        }
    }

    /// The copy has not begun: leaves nothing behind that was not there.
    pub(crate) fn leave(self) {
        if self.done.is_empty() && self.parts.is_empty() && self.new.is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// The copy has come to its end, but some of it failed. The same command again means the same target, and
    /// goes on with unfinished files; everything else is copied anew, as what is complete may have been
    /// changed until then. `made`: the target is there now.
    pub(crate) fn keep_failed(mut self, made: bool) {
        if self.parts.is_empty() && (self.new.is_empty() || !made) {
            return self.remove();
        }
        let text = self.unfinished();
        let written = self.file.take().is_some_and(|mut file| {
            // Half a list would be believed, half a line is not.
            file.set_len(0).and_then(|()| file.write_all(&text)).is_ok()
        });
        if !written {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// The text of a journal that knows of nothing complete.
    fn unfinished(&self) -> Vec<u8> {
        let mut text = format!("{HEADER}\nboot {}\n", boot()).into_bytes();
        text.extend(text::command_line(&self.command).unwrap_or_default().into_bytes());
        for target in &self.new {
            let _ = writeln!(text, "new {}", escaped(target));
        }
        for (name, Part { target, upto }) in &self.parts {
            let name = escaped(name);
            let _ = writeln!(text, "part {} {name}\nupto {upto} {name}", escaped(target));
        }
        text
    }

    /// The copy is complete: nothing is left to resume.
    pub(crate) fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
        for other in self.others {
            let _ = std::fs::remove_file(other);
        }
    }
}

/// For the fuzz targets: reads a journal; what is written of it can be read again, and says the same.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    let mut journal = Journal::empty(Path::new(""), Vec::new());
    journal.load(bytes, "boot", true);
    let text = journal.unfinished();
    let mut again = Journal::empty(Path::new(""), Vec::new());
    assert!(again.load(&text[..], "boot", true), "what was written can be read");
    assert_eq!(again.parts, journal.parts);
    assert_eq!(again.new, journal.new);
    assert!(again.done.is_empty());
    for (name, part) in &journal.parts {
        assert_eq!(again.upto(name), part.upto);
        assert!(!again.outdated(&part.target, name).contains(name));
    }
}

/// Locks it, with a little patience for a process that is just ending.
fn lock(file: &File) -> Option<()> {
    for _ in 0..20 {
        match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            done => return done.ok(),
        }
    }
    None
}

/// Identifies the present start of the machine; empty where the kernel does not.
fn boot() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
