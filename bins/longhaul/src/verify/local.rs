//! A tree of this host against a manifest.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lh_sys::errno_text;
use lh_transfer::SumAlgorithm;
use lh_transfer::manifest_file::{Entry, EntryKind};

use super::known::Known;
use super::report::{Finding, Findings};

fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path))
}

fn finding_of(error: &io::Error) -> Finding {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Finding::Missing,
        _ => Finding::Error(errno_text(error)),
    }
}

/// Looks at one file.
pub(super) fn check(root: &Path, entry: &Entry, algorithm: SumAlgorithm, findings: &mut Findings) {
    match compare(&below(root, &entry.path), entry, algorithm) {
        Ok(None) => findings.good(entry),
        Ok(Some(finding)) => findings.add(&entry.path, Some(entry.size), &finding),
        Err(error) => findings.add(&entry.path, Some(entry.size), &finding_of(&error)),
    }
}

fn compare(path: &Path, entry: &Entry, algorithm: SumAlgorithm) -> io::Result<Option<Finding>> {
    let wanted = match &entry.kind {
        EntryKind::Link(to) => {
            if !fs::symlink_metadata(path)?.is_symlink() {
                return Ok(Some(Finding::Kind("is no symbolic link")));
            }
            let same = fs::read_link(path)?.as_os_str().as_bytes() == to;
            return Ok((!same).then_some(Finding::Content));
        }
        EntryKind::File(wanted) => wanted,
    };
    // Before it is opened: a named pipe would wait for ever.
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        return Ok(Some(Finding::Kind("is no file")));
    }
    if meta.len() != entry.size {
        return Ok(Some(Finding::Size(meta.len())));
    }
    let Some(wanted) = wanted else { return Ok(Some(Finding::Unchecked)) };
    let mut file = File::open(path)?;
    Ok((algorithm.sum_of(&mut file)? != *wanted).then_some(Finding::Content))
}

/// Tells of files below `root` that are not in the manifest.
pub(super) fn find_extra(root: &Path, known: &Known, findings: &mut Findings) {
    let mut directories = vec![known.top()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(below(root, &directory)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                findings.add(&directory, None, &Finding::Error(errno_text(&error)));
                continue;
            }
        };
        for entry in entries {
            let entry = match entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))) {
                Ok(entry) => entry,
                Err(error) => {
                    findings.add(&directory, None, &Finding::Error(errno_text(&error)));
                    continue;
                }
            };
            let path = lh_transfer::join(&directory, entry.0.as_bytes());
            if entry.1.is_dir() {
                directories.push(path);
            } else if !known.has(&path) {
                findings.add(&path, None, &Finding::Extra);
            }
        }
    }
}
