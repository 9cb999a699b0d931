//! Files that a copy leaves for programs: what was copied (`--manifest-out`), and what failed
//! (`--failed-out`).
//!
//! The displays of the copies hand the events on. What was copied goes to an unlinked file meanwhile, so that
//! memory holds 32 bytes for each file; the manifest is written from that when everything has ended.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lh_sys::errno_text;
use lh_transfer::manifest_file::{End, Entry, EntryKind, Header};
use lh_transfer::{Copied, CopiedKind, Event, Shard, SumAlgorithm, base_name, display_name};

use lh_cli::flags::SCP;
use lh_ssh_transfer::place::{Place, bytes};

const MANIFEST_OUT: &str = "--manifest-out";
const FAILED_OUT: &str = "--failed-out";

/// Output files that the command line asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputSettings {
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) algorithm: SumAlgorithm,
    pub(crate) failed: Option<PathBuf>,
}

/// A file for programs cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {}: {}", .path.display(), errno_text(.error))]
pub(crate) struct OutputError {
    /// The flag that names it.
    flag: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl OutputError {
    /// For `map_err`.
    pub(crate) fn of(flag: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { flag, path: path.to_owned(), error }
    }
}

/// The files of one command. Clones mean the same files.
#[derive(Debug, Clone)]
pub(crate) struct Outputs {
    wanted: OutputSettings,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The copy was not refused for what it is.
    begun: bool,
    copied: Option<Spool>,
    failed: Failed,
    /// Failures of the running copy.
    failing: Failed,
    error: Option<io::Error>,
}

/// Facts about the command that the files contain.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) id: &'a str,
    /// When it began, RFC 3339.
    pub(crate) start: &'a str,
    pub(crate) outcome: &'a str,
    pub(crate) target: &'a Place,
    /// `-P`.
    pub(crate) port: Option<u16>,
    pub(crate) shard: Option<Shard>,
}

/// Items that were not copied.
#[derive(Debug, Default)]
struct Failed {
    /// Paths from the top of their trees.
    paths: BTreeSet<Vec<u8>>,
    /// Something that the command line names.
    named: bool,
}

impl Failed {
    /// A copy did not come to its end, or failed without a path: everything is looked at again.
    fn add_everything(&mut self) {
        self.paths.insert(Vec::new());
    }

    fn merge(&mut self, other: Self) {
        self.paths.extend(other.paths);
        self.named |= other.named;
    }

    /// Returns the list in the form that `--manifest` reads.
    fn text(&self) -> Vec<u8> {
        let lines = |path: &Vec<u8>| !path.contains(&b'\n') && !path.ends_with(b"\r");
        let with_lines = self.paths.iter().all(lines);
        let mut text = Vec::new();
        if with_lines && self.named {
            text.extend_from_slice(b"# and files that the command line names, which are always copied\n");
        }
        for path in &self.paths {
            if path.is_empty() || path.starts_with(b"#") {
                text.extend_from_slice(b"./");
            }
            text.extend_from_slice(path);
            text.push(if with_lines { b'\n' } else { 0 });
        }
        text
    }
}

/// Which end of a copy is on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalEnd {
    Source,
    Target,
    /// Both ends are remote.
    Neither,
}

impl LocalEnd {
    const ALL: [(Self, char); 3] = [(Self::Source, 's'), (Self::Target, 't'), (Self::Neither, '-')];
}

/// Files that were copied, in an unlinked file: a line of the manifest, a space, and where the sum has still
/// to be made the end of the copy that is on this host ([`LocalEnd::ALL`]) and, in hexadecimal digits, its
/// path there.
#[derive(Debug)]
struct Spool {
    file: BufWriter<File>,
    /// Lines written so far.
    lines: u64,
    /// The line of each path that counts: the last.
    last: HashMap<[u8; 16], u64>,
    /// A copy is the target itself, by this name.
    alone: bool,
    here: LocalEnd,
}

impl Outputs {
    pub(crate) fn new(wanted: OutputSettings) -> Self {
        Self { wanted, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which sums are wanted.
    pub(crate) fn sums(&self) -> Option<SumAlgorithm> {
        self.wanted.manifest.is_some().then_some(self.wanted.algorithm)
    }

    /// Returns true if failed items are listed (`--failed-out`).
    pub(crate) const fn list_failed(&self) -> bool {
        self.wanted.failed.is_some()
    }

    /// The flags that are given, for messages.
    pub(crate) fn flags(&self) -> Option<&'static str> {
        match (&self.wanted.manifest, &self.wanted.failed) {
            (Some(_), _) => Some(MANIFEST_OUT),
            (_, Some(_)) => Some(FAILED_OUT),
            _ => None,
        }
    }

    /// Before anything is copied: makes sure that the files can be written.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(crate) fn begin(&self) -> Result<(), OutputError> {
        if let Some(path) = &self.wanted.failed {
            spool_beside(path).map_err(OutputError::of(FAILED_OUT, path))?;
        }
        if let Some(path) = &self.wanted.manifest {
            let file = spool_beside(path).map_err(OutputError::of(MANIFEST_OUT, path))?;
            let file = BufWriter::new(file);
            self.lock().copied =
                Some(Spool { file, lines: 0, last: HashMap::new(), alone: false, here: LocalEnd::Neither });
        }
        self.lock().begun = true;
        Ok(())
    }

    /// The next copy begins.
    pub(crate) fn copy_begins(&self, here: LocalEnd) {
        if let Some(spool) = &mut self.lock().copied {
            spool.here = here;
        }
    }

    /// Something happened.
    pub(crate) fn event(&self, event: &Event) {
        match event {
            Event::Copied(copied) => {
                let mut state = self.lock();
                if let Some(spool) = &mut state.copied
                    && let Err(error) = spool.add(copied)
                {
                    state.error.get_or_insert(error);
                }
            }
            Event::Missed { path: Some(path) } => {
                self.lock().failing.paths.insert(path.clone());
            }
            Event::Missed { path: None } => self.lock().failing.named = true,
            _ => {}
        }
    }

    /// The copy is made once more: what failed in the last attempt counts no more.
    pub(crate) fn retry(&self) {
        self.lock().failing = Failed::default();
    }

    /// A copy has ended. `whole`: it was stopped or lost; `failed`: something was not copied.
    pub(crate) fn copy_ended(&self, whole: bool, failed: bool) {
        let mut state = self.lock();
        let mut failing = std::mem::take(&mut state.failing);
        if whole || (failed && failing.paths.is_empty() && !failing.named) {
            failing.add_everything();
        }
        state.failed.merge(failing);
    }

    /// Everything has ended with this status: writes the files. False where that failed; the reason has been
    /// said.
    pub(crate) fn finish(&self, run: &Run<'_>) -> bool {
        let mut state = self.lock();
        let mut good = true;
        let mut tell = |error: OutputError| {
            say(&error.to_string());
            good = false;
        };
        if let Some(path) = self.wanted.failed.as_ref().filter(|_| state.begun) {
            let text = state.failed.text();
            if let Err(error) = replace(path, |out| out.write_all(&text)) {
                tell(OutputError::of(FAILED_OUT, path)(error));
            }
        }
        if let (Some(path), Some(spool), true) = (&self.wanted.manifest, state.copied.take(), state.begun) {
            let result = match state.error.take() {
                Some(error) => Err(error),
                None => spool.write(path, run, self.wanted.algorithm),
            };
            if let Err(error) = result {
                tell(OutputError::of(MANIFEST_OUT, path)(error));
            }
        }
        good
    }
}

impl Spool {
    fn add(&mut self, copied: &Copied) -> io::Result<()> {
        let path = if copied.path.is_empty() {
            self.alone = true;
            base_name(&copied.target).to_vec()
        } else {
            copied.path.clone()
        };
        let (kind, read) = match &copied.kind {
            CopiedKind::Link(to) => (EntryKind::Link(to.clone()), None),
            CopiedKind::File(Some(sum)) => (EntryKind::File(Some(sum.clone())), None),
            CopiedKind::File(None) => {
                let path = match self.here {
                    LocalEnd::Source => Some(&copied.source),
                    LocalEnd::Target => Some(&copied.target),
                    LocalEnd::Neither => None,
                };
                (EntryKind::File(None), path)
            }
        };
        let modified =
            copied.modified.map(|(seconds, nanos)| i128::from(seconds) * 1_000_000_000 + i128::from(nanos));
        let mut key = [0; 16];
        key.copy_from_slice(&SumAlgorithm::Xxh3.sum(&path));
        let line = Entry { path, size: copied.size, modified, kind }.line();
        let letter =
            LocalEnd::ALL.iter().find(|(here, _)| *here == self.here).map_or('-', |(_, letter)| *letter);
        let read = read.map_or_else(String::new, |path| format!("{letter}{}", hex(path)));
        self.file.write_all(format!("{} {read}\n", line.trim_end()).as_bytes())?;
        self.last.insert(key, self.lines);
        self.lines += 1;
        Ok(())
    }

    /// Writes the manifest.
    fn write(self, path: &Path, run: &Run<'_>, algorithm: SumAlgorithm) -> io::Result<()> {
        let mut spool = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        let header = Header {
            algorithm,
            destination: destination(run.target, run.port, self.alone),
            run: run.id.to_owned(),
            time: run.start.to_owned(),
            shard: run.shard,
        };
        let last = self.last;
        let mut end = End { files: 0, bytes: 0, outcome: run.outcome.to_owned() };
        replace(path, |out| {
            out.write_all(header.line().as_bytes())?;
            for (number, line) in BufReader::new(spool).lines().enumerate() {
                let line = line?;
                let (line, read) = line.rsplit_once(' ').unwrap_or((&line, ""));
                let entry = Entry::parse(line, algorithm).ok_or(io::ErrorKind::InvalidData)?;
                let mut key = [0; 16];
                key.copy_from_slice(&SumAlgorithm::Xxh3.sum(&entry.path));
                if last.get(&key) != Some(&(number as u64)) {
                    continue;
                }
                let source = read.starts_with('s');
                let entry = match read.get(1..).and_then(unhex) {
                    Some(path) => with_sum(entry, &path, algorithm, source),
                    None => entry,
                };
                end.files += 1;
                end.bytes += if matches!(entry.kind, EntryKind::File(_)) { entry.size } else { 0 };
                out.write_all(entry.line().as_bytes())?;
            }
            out.write_all(end.line().as_bytes())
        })
    }
}

/// Reads a file of this host for its sum. One that is not what was copied any more gets none, which is said.
fn with_sum(mut entry: Entry, path: &[u8], algorithm: SumAlgorithm, source: bool) -> Entry {
    let sum = sum_of(path, &entry, algorithm, source);
    if let Err(why) = &sum {
        say(&format!("--manifest-out: no sum of {}: {}", display_name(path), errno_text(why)));
    }
    entry.kind = EntryKind::File(sum.ok());
    entry
}

fn sum_of(path: &[u8], entry: &Entry, algorithm: SumAlgorithm, source: bool) -> io::Result<Vec<u8>> {
    let mut file = File::open(std::ffi::OsStr::from_bytes(path))?;
    let same = |file: &File| {
        let meta = file.metadata()?;
        let modified = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        // The copy has times of its own, unless they are kept.
        let same =
            meta.len() == entry.size && (!source || entry.modified.is_none_or(|time| time == modified));
        if same { Ok(()) } else { Err(io::Error::other("it has changed since it was copied")) }
    };
    same(&file)?;
    let sum = algorithm.sum_of(&mut file)?;
    same(&file)?;
    Ok(sum)
}

/// The directory that paths begin at, as a command line names it.
fn destination(target: &Place, port: Option<u16>, alone: bool) -> Vec<u8> {
    let directory = |path: &[u8]| {
        if !alone {
            return path.to_vec();
        }
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |end| end + 1);
        let path = path.get(..end).unwrap_or_default();
        match path.iter().rposition(|&byte| byte == b'/') {
            None => b".".to_vec(),
            Some(0) => b"/".to_vec(),
            Some(slash) => path.get(..slash).unwrap_or_default().to_vec(),
        }
    };
    match target {
        Place::Local(path) => {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&directory(&bytes(path))));
            bytes(std::path::absolute(&path).unwrap_or(path).as_os_str())
        }
        Place::Remote { host, path } => match host.port.or(port) {
            None => bytes(&host.spelled(&directory(path))),
            Some(port) => {
                let user = host.user.as_deref().map_or_else(String::new, |user| format!("{user}@"));
                let name =
                    if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
                let mut uri = format!("scp://{user}{name}:{port}/").into_bytes();
                for &byte in &directory(path) {
                    match byte {
                        b'%' | 0x80.. | 0..=b' ' => uri.extend_from_slice(format!("%{byte:02x}").as_bytes()),
                        _ => uri.push(byte),
                    }
                }
                uri
            }
        },
    }
}

/// A new file of another name in the directory of `path`.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("is not a regular file")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for number in 0..100 {
        let mut other = std::ffi::OsString::from(".");
        other.push(name);
        other.push(format!(".{}-{number}.tmp", std::process::id()));
        let other = path.with_file_name(other);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(&other) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return file.map(|file| (other, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A file without a name on the file system that `path` is to be on.
fn spool_beside(path: &Path) -> io::Result<File> {
    let (name, file) = create_beside(path)?;
    fs::remove_file(name)?;
    Ok(file)
}

/// Writes `path` under another name first: it is complete or as it was.
fn replace(path: &Path, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    let (name, file) = create_beside(path)?;
    let written = (|| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        fs::rename(&name, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&name);
    }
    written
}

/// A message of the program.
fn say(text: &str) {
    eprintln!("{}: {text}", SCP.called());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_ssh_transfer::place::Host;

    #[test]
    fn lists_of_failures_are_manifests() {
        let mut failed = Failed::default();
        assert_eq!(failed.text(), b"");
        failed.paths.extend([b"a b".to_vec(), b"#c".to_vec(), Vec::new()]);
        assert_eq!(failed.text(), b"./\n./#c\na b\n");
        failed.named = true;
        assert!(failed.text().starts_with(b"# "));
        failed.paths.insert(b"with\nline".to_vec());
        assert_eq!(failed.text(), b"./\0./#c\0a b\0with\nline\0");
    }

    #[test]
    fn destinations_can_be_given_to_a_program_again() {
        let host = |port| Host { user: Some("u".into()), name: "h".into(), port };
        let remote = |path: &str, port| Place::Remote { host: host(port), path: path.into() };
        for (path, in_uri, flag, alone, expected) in [
            ("/a/b", None, None, false, "u@h:/a/b"),
            ("/a/b", None, None, true, "u@h:/a"),
            ("b", None, None, true, "u@h:."),
            ("", None, None, false, "u@h:."),
            ("/b/", None, None, true, "u@h:/"),
            ("/a b", Some(22), None, false, "scp://u@h:22//a%20b"),
            ("a", None, Some(2222), false, "scp://u@h:2222/a"),
        ] {
            let got = destination(&remote(path, in_uri), flag, alone);
            assert_eq!(String::from_utf8(got).as_deref(), Ok(expected));
        }
        assert_eq!(destination(&Place::Local("/x/y".into()), None, true), b"/x");
    }
}
