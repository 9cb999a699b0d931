//! The manifest of what was copied (`--manifest-out`).
//!
//! Copied files are kept in an unlinked file until the end, so that memory holds 32 bytes for each of them.
//! They complete in any order; the manifest has them in that of their paths, so that two can be compared.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lh_sys::errno_text;
use lh_transfer::manifest_file::{End, Entry, EntryKind, Header};
use lh_transfer::{Copied, CopiedKind, SumAlgorithm, base_name, display_name};

use super::files::{replace, unnamed_file_beside};
use super::sorted::Sorter;

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

/// Files that were copied, as lines of an unlinked file. A line is that of the manifest, a space and, where
/// the sum is not known yet, what to read for it: the letter of the end on this host ([`LocalEnd::ALL`]) and
/// the path there, in hexadecimal digits.
#[derive(Debug)]
pub(super) struct Spool {
    file: BufWriter<File>,
    /// Lines written so far.
    lines: u64,
    /// Number of the last line of each path, by a hash of the path. Only that line counts.
    last: HashMap<[u8; 16], u64>,
    /// Whether a copied file is the target itself, not something below it.
    alone: bool,
    /// The end of the running copy that is on this host.
    here: LocalEnd,
}

impl Spool {
    /// Creates the file, on the file system of the manifest `path`.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(unnamed_file_beside(path)?);
        Ok(Self { file, lines: 0, last: HashMap::new(), alone: false, here: LocalEnd::Neither })
    }

    /// Notes which end of the next copy is on this host.
    pub(super) fn copy_begins(&mut self, here: LocalEnd) {
        self.here = here;
    }

    /// Adds a file or a link that was copied.
    pub(super) fn add(&mut self, copied: &Copied) -> io::Result<()> {
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
        let key = key(&path);
        let line = Entry { path, size: copied.size, modified, kind }.line();
        let letter =
            LocalEnd::ALL.iter().find(|(here, _)| *here == self.here).map_or('-', |(_, letter)| *letter);
        let read = read.map_or_else(String::new, |path| format!("{letter}{}", hex(path)));
        self.file.write_all(format!("{} {read}\n", line.trim_end()).as_bytes())?;
        self.last.insert(key, self.lines);
        self.lines += 1;
        Ok(())
    }

    /// Returns whether a copied file is the target itself, not something below it.
    pub(super) const fn is_target(&self) -> bool {
        self.alone
    }

    /// Writes the manifest, with the sums that are not known yet. `warn` gets a message for each file whose
    /// sum cannot be made.
    pub(super) fn write(
        self,
        path: &Path,
        header: &Header,
        outcome: &str,
        warn: impl Fn(&str),
    ) -> io::Result<()> {
        let mut spool = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        let (last, algorithm) = (self.last, header.algorithm);
        let mut end = End { files: 0, bytes: 0, outcome: outcome.to_owned() };
        let create = || unnamed_file_beside(path);
        replace(path, |out| {
            out.write_all(header.line().as_bytes())?;
            let mut sorter = Sorter::new(&create);
            for (number, line) in BufReader::new(spool).lines().enumerate() {
                let line = line?;
                let (entry, _) = parse(&line, algorithm)?;
                if last.get(&key(&entry.path)) == Some(&(number as u64)) {
                    sorter.add(entry.path, line)?;
                }
            }
            drop(last);
            sorter.finish(|line| {
                let (mut entry, read) = parse(line, algorithm)?;
                let source = read.starts_with('s');
                if let Some(path) = read.get(1..).and_then(unhex) {
                    let sum = sum_of(&path, &entry, algorithm, source);
                    if let Err(why) = &sum {
                        let name = display_name(&path);
                        warn(&format!("--manifest-out: no sum of {name}: {}", errno_text(why)));
                    }
                    entry.kind = EntryKind::File(sum.ok());
                }
                end.files += 1;
                end.bytes += if matches!(entry.kind, EntryKind::File(_)) { entry.size } else { 0 };
                out.write_all(entry.line().as_bytes())
            })?;
            out.write_all(end.line().as_bytes())
        })
    }
}

/// A line of the [`Spool`]: the file, and what to read for its sum.
fn parse(line: &str, algorithm: SumAlgorithm) -> io::Result<(Entry, &str)> {
    let (line, read) = line.rsplit_once(' ').unwrap_or((line, ""));
    Ok((Entry::parse(line, algorithm).ok_or(io::ErrorKind::InvalidData)?, read))
}

/// Reads a file for its sum, and checks before and after that it is the one that was copied.
fn sum_of(path: &[u8], entry: &Entry, algorithm: SumAlgorithm, source: bool) -> io::Result<Vec<u8>> {
    let mut file = File::open(std::ffi::OsStr::from_bytes(path))?;
    let same = |file: &File| {
        let meta = file.metadata()?;
        let modified = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        // A target has another time, unless times are kept.
        let same =
            meta.len() == entry.size && (!source || entry.modified.is_none_or(|time| time == modified));
        if same { Ok(()) } else { Err(io::Error::other("it has changed since it was copied")) }
    };
    same(&file)?;
    let sum = algorithm.sum_of(&mut file)?;
    same(&file)?;
    Ok(sum)
}

/// Hash of a path, which takes less memory than the path.
fn key(path: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(&SumAlgorithm::Xxh3.sum(path));
    key
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}
