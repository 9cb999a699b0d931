//! Records of uploads that are written under a temporary name, for the log of transfers. Their record waits
//! for the rename, and shows the final name.
//!
//! Several handles, of several channels, may write one temporary file. They make one record.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lh_sftp::fs::PART_SUFFIX;

use crate::usage::{Outcome, Transfer};

/// Largest number of files whose record waits; further files are recorded at once.
const MOST: usize = 4096;
/// Length of the number in our clients' temporary names, `.NAME.NUMBER.lhpart`.
const NUMBER: usize = 12;

/// The record of a temporary file so far.
#[derive(Debug)]
struct Part {
    transfer: Transfer,
    since: Instant,
}

/// The files of one connection whose records wait.
#[derive(Debug, Default)]
pub(super) struct Parts {
    waiting: HashMap<PathBuf, Part>,
    /// New names of files that were renamed while they were open.
    renamed_open: HashMap<PathBuf, PathBuf>,
}

/// Returns the final name, if `path` is a temporary name: ours (`.NAME.NUMBER.lhpart`) or WinSCP's
/// (`NAME.filepart`).
pub(super) fn final_name(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_bytes();
    let plain = match name.strip_suffix(b".filepart") {
        Some(plain) => plain,
        None => {
            let tagged = name.strip_prefix(b".")?.strip_suffix(PART_SUFFIX.as_bytes())?;
            let (plain, number) = tagged.split_at(tagged.len().checked_sub(NUMBER + 1)?);
            let number = number.strip_prefix(b".")?;
            number.iter().all(u8::is_ascii_hexdigit).then_some(plain)?
        }
    };
    (!plain.is_empty()).then(|| path.with_file_name(OsStr::from_bytes(plain)))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Parts {
    /// Records that a file was closed. Returns the record to write now; `None` while the rename is awaited.
    pub(super) fn closed(
        &mut self,
        mut transfer: Transfer,
        since: Instant,
        now: Instant,
    ) -> Option<Transfer> {
        let path = PathBuf::from(OsStr::from_bytes(&transfer.path));
        if let Some(new) = self.renamed_open.get(&path) {
            transfer.path = new.clone().into_os_string().into_vec();
            return Some(transfer);
        }
        let waits = transfer.upload && transfer.outcome == Outcome::Complete && final_name(&path).is_some();
        if !waits || (self.waiting.len() >= MOST && !self.waiting.contains_key(&path)) {
            return Some(transfer);
        }
        match self.waiting.get_mut(&path) {
            None => {
                self.waiting.insert(path, Part { transfer, since });
            }
            Some(part) => {
                part.since = part.since.min(since);
                let all = &mut part.transfer;
                all.bytes_in = all.bytes_in.saturating_add(transfer.bytes_in);
                all.bytes_out = all.bytes_out.saturating_add(transfer.bytes_out);
                all.start = all.start.min(transfer.start);
                all.micros = micros(now.saturating_duration_since(part.since));
            }
        }
        None
    }

    /// Records that a file was renamed. `size` is its length where other connections have written to it as
    /// well.
    pub(super) fn renamed(&mut self, old: &Path, new: &Path, size: Option<u64>) -> Option<Transfer> {
        let Some(Part { mut transfer, .. }) = self.waiting.remove(old) else {
            if final_name(old).is_some() && self.renamed_open.len() < MOST {
                self.renamed_open.insert(old.to_owned(), new.to_owned());
            }
            return None;
        };
        if let Some(size) = size {
            transfer.bytes_in = transfer.bytes_in.max(size.saturating_sub(transfer.start));
        }
        transfer.path = new.as_os_str().as_bytes().to_vec();
        // The new name is a temporary one too: the file is still being written.
        if final_name(new).is_some() {
            self.waiting.insert(new.to_owned(), Part { transfer, since: Instant::now() });
            return None;
        }
        Some(transfer)
    }

    /// Records that a file was removed before its rename.
    pub(super) fn removed(&mut self, path: &Path) -> Option<Transfer> {
        self.renamed_open.remove(path);
        let Part { transfer, .. } = self.waiting.remove(path)?;
        Some(Transfer { outcome: Outcome::Abandoned, ..transfer })
    }

    /// Records that a file was rejected at its rename to the final name, and removed.
    pub(super) fn rejected(&mut self, old: &Path, new: &Path) -> Option<Transfer> {
        let Part { transfer, .. } = self.waiting.remove(old)?;
        let path = new.as_os_str().as_bytes().to_vec();
        Some(Transfer { path, outcome: Outcome::Rejected, ..transfer })
    }

    /// Returns the remaining records at the end of the connection. A missing file was renamed by another
    /// connection of the session. If this connection has `joined` the session, the other one records it.
    /// Files that still exist were abandoned.
    pub(super) fn end(&mut self, joined: bool) -> Vec<Transfer> {
        let finish = |(path, Part { mut transfer, .. }): (PathBuf, Part)| {
            let there = path.symlink_metadata().is_ok();
            match final_name(&path) {
                Some(_) if joined && !there => return None,
                Some(name) if !there => transfer.path = name.into_os_string().into_vec(),
                _ => transfer.outcome = Outcome::Abandoned,
            }
            Some(transfer)
        };
        self.waiting.drain().filter_map(finish).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Kind;

    fn transfer(path: &Path, start: u64, bytes_in: u64) -> Transfer {
        Transfer {
            kind: Kind::Sftp,
            path: path.as_os_str().as_bytes().to_vec(),
            upload: true,
            bytes_in,
            bytes_out: 0,
            start,
            micros: 5,
            outcome: Outcome::Complete,
        }
    }

    #[test]
    fn names_of_files_that_grow() {
        for (path, name) in [
            ("/d/.big.0123456789ab.lhpart", Some("/d/big")),
            (".a.b.0123456789ab.lhpart", Some("a.b")),
            ("/d/name.filepart", Some("/d/name")),
            ("/d/big", None),
            ("/d/.big.lhpart", None),
            ("/d/.big.0123456789xy.lhpart", None),
            ("/d/..0123456789ab.lhpart", None),
            ("/d/.filepart", None),
            ("/d/.lhpart", None),
        ] {
            assert_eq!(final_name(path.as_ref()), name.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn one_record_under_the_final_name() {
        let (now, mut parts) = (Instant::now(), Parts::default());
        let [old, new] = ["/d/.big.0123456789ab.lhpart", "/d/big"].map(Path::new);
        let plain = transfer(new, 0, 7);
        assert_eq!(parts.closed(plain.clone(), now, now), Some(plain));
        // Two channels write to one file.
        assert_eq!(parts.closed(transfer(old, 100, 50), now, now), None);
        assert_eq!(parts.closed(transfer(old, 0, 100), now, now), None);
        let all = parts.renamed(old, new, None).unwrap();
        assert_eq!((all.path, all.start, all.bytes_in), (b"/d/big".to_vec(), 0, 150));
        assert_eq!(parts.end(false), []);
        // Other connections have written the rest of the file.
        assert_eq!(parts.closed(transfer(old, 10, 20), now, now), None);
        assert_eq!(parts.renamed(old, new, Some(1000)).unwrap().bytes_in, 990);
        // The file is renamed before it is closed.
        assert_eq!(parts.renamed(old, new, None), None);
        assert_eq!(parts.closed(transfer(old, 0, 9), now, now).unwrap().path, b"/d/big");
        assert_eq!(parts.removed(old), None);
        assert_eq!(parts.closed(transfer(old, 0, 9), now, now), None);
        assert_eq!(parts.removed(old).unwrap().outcome, Outcome::Abandoned);
        assert_eq!(parts.closed(transfer(old, 0, 9), now, now), None);
        let rejected = parts.rejected(old, new).unwrap();
        assert_eq!((rejected.outcome, rejected.bytes_in), (Outcome::Rejected, 9));
        assert_eq!(rejected.path, new.as_os_str().as_bytes());
        assert_eq!(parts.rejected(old, new), None);
        // A failed transfer does not wait.
        let failed = Transfer { outcome: Outcome::Abandoned, ..transfer(old, 0, 9) };
        assert_eq!(parts.closed(failed.clone(), now, now), Some(failed));
    }

    #[test]
    fn part_files_not_renamed_are_recorded_at_the_end() {
        let now = Instant::now();
        let directory = tempfile::tempdir().unwrap();
        let [left, gone] =
            ["left", "gone"].map(|name| directory.path().join(format!(".{name}.0123456789ab.lhpart")));
        std::fs::write(&left, "half").unwrap();
        for joined in [false, true] {
            let mut parts = Parts::default();
            parts.closed(transfer(&left, 0, 4), now, now);
            parts.closed(transfer(&gone, 0, 5), now, now);
            let mut ends: Vec<_> = parts.end(joined).into_iter().map(|one| (one.path, one.outcome)).collect();
            ends.sort_by_key(|(_, outcome)| *outcome == Outcome::Abandoned);
            let abandoned = (left.as_os_str().as_bytes().to_vec(), Outcome::Abandoned);
            let named = (directory.path().join("gone").into_os_string().into_vec(), Outcome::Complete);
            assert_eq!(ends, if joined { vec![abandoned] } else { vec![named, abandoned] });
        }
    }
}
