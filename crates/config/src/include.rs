//! Finds and reads the files that an `Include` line names.

use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::pattern::wildcard;

/// Deepest nesting of included files (OpenSSH's limit).
pub const MAX_DEPTH: usize = 16;

/// Largest configuration file, bytes. OpenSSH has no limit, but a device or an endless file must not exhaust
/// memory.
pub const MAX_FILE: u64 = 16 << 20;

/// Initial buffer size, bytes: the usual file fits.
const USUAL_FILE: usize = 8 << 10;

/// Largest number of files that one `Include` pattern may match.
const MAX_MATCHES: usize = 4096;

/// What [`glob`] has found.
#[derive(Debug)]
pub struct Matches {
    /// The files, sorted by name.
    pub paths: Vec<PathBuf>,
    /// Directories that could not be read, and why.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Returns the files that match `pattern` (an absolute path with `*`, `?` and `[…]` in its components),
/// sorted by name. A pattern without wildcards yields the path itself if it exists. Hidden files only match a
/// pattern that starts with a dot.
///
/// Directories that cannot be read are passed over, as by glob(3).
pub fn glob(pattern: &str) -> Matches {
    let mut failed = Vec::new();
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "." })];
    for component in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for base in &found {
            if !component.contains(['*', '?', '[']) {
                let path = base.join(component);
                match path.symlink_metadata() {
                    Ok(_) => next.push(path),
                    Err(error) if is_absence(&error) => {}
                    Err(error) => failed.push((path, error)),
                }
                continue;
            }
            let entries = match std::fs::read_dir(base) {
                Ok(entries) => entries,
                Err(error) if is_absence(&error) => continue,
                Err(error) => {
                    failed.push((base.clone(), error));
                    continue;
                }
            };
            let mut names: Vec<_> = entries
                .flatten()
                .map(|entry| entry.file_name())
                .filter(|name| {
                    let bytes = name.as_encoded_bytes();
                    (component.starts_with('.') || !bytes.starts_with(b"."))
                        && matches_component(bytes, component.as_bytes())
                })
                .collect();
            names.sort();
            next.extend(names.into_iter().map(|name| base.join(name)));
            if next.len() > MAX_MATCHES {
                next.truncate(MAX_MATCHES);
                break;
            }
        }
        found = next;
    }
    Matches { paths: found, failed }
}

/// Returns whether an error means that there is no such file.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Like [`wildcard`], but also supports `[abc]`, `[a-z]` and `[!…]`.
fn matches_component(name: &[u8], pattern: &[u8]) -> bool {
    if !pattern.contains(&b'[') {
        return wildcard(name, pattern);
    }
    // A row of a dynamic programming table: `at[i]` is true if the pattern so far matches the first i bytes.
    let mut at = vec![false; name.len() + 1];
    at[0] = true;
    let mut p = 0;
    while p < pattern.len() {
        let mut next = vec![false; name.len() + 1];
        match pattern[p] {
            b'*' => {
                let mut reached = false;
                for i in 0..=name.len() {
                    reached |= at[i];
                    next[i] = reached;
                }
                p += 1;
            }
            c => {
                let class = if c == b'[' { class_end(pattern, p) } else { None };
                for i in 0..name.len() {
                    let hit = match (c, class) {
                        (_, Some(end)) => in_class(name[i], &pattern[p + 1..end]),
                        (b'?', _) => true,
                        _ => c == name[i],
                    };
                    next[i + 1] = at[i] && hit;
                }
                p = class.map_or(p + 1, |end| end + 1);
            }
        }
        at = next;
    }
    at[name.len()]
}

fn class_end(pattern: &[u8], open: usize) -> Option<usize> {
    // A bracket that directly follows the opening one (or its `!`) belongs to the class.
    let mut first = open + 1;
    if matches!(pattern.get(first), Some(b'!' | b'^')) {
        first += 1;
    }
    pattern.iter().skip(first + 1).position(|c| *c == b']').map(|at| first + 1 + at)
}

fn in_class(c: u8, class: &[u8]) -> bool {
    let (negated, class) = match class {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut hit = false;
    let mut i = 0;
    while i < class.len() {
        if class.get(i + 1) == Some(&b'-') && i + 2 < class.len() {
            hit |= (class[i]..=class[i + 2]).contains(&c);
            i += 3;
        } else {
            hit |= class[i] == c;
            i += 1;
        }
    }
    hit != negated
}

/// Time limit for each read from a pipe or terminal in place of a file. OpenSSH waits without limit: a pipe
/// that matches `Include conf.d/*` would hang the program without a message.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a configuration file as text; bytes that are not UTF-8 become replacement characters. Also accepts a
/// pipe (`-F <(…)`) that is written within the time limit.
///
/// # Errors
/// I/O errors, `FileTooLarge` past [`MAX_FILE`], and `TimedOut` for a pipe without data for ten seconds.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    read_with_timeout(path, READ_TIMEOUT)
}

fn read_with_timeout(path: &Path, timeout: Duration) -> std::io::Result<String> {
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    let mut bytes = Vec::new();
    // Without the flag, the open itself would wait for the pipe's writer.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        // `Include conf.d/*` may match a directory; it counts as an empty file.
        return Ok(String::new());
    }
    if kind.is_file() {
        // Avoids the standard library's first reads of 32 bytes for files of unknown size.
        bytes.reserve(USUAL_FILE);
        file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    } else if kind.is_fifo() || kind.is_char_device() {
        read_stream(&file, timeout, &mut bytes)?;
    } else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    if bytes.len() as u64 > MAX_FILE {
        return Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Reads a stream to its end; each wait is at most `timeout`.
fn read_stream(mut file: &std::fs::File, timeout: Duration, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut buffer = [0; 16 << 10];
    let timeout = Timespec::try_from(timeout).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    while bytes.len() as u64 <= MAX_FILE {
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(std::io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(directory: &tempfile::TempDir) -> PathBuf {
        let path = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .expect("a pipe");
        path
    }

    #[test]
    fn pipe_is_read_to_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = pipe(&directory);
        let there = path.clone();
        let writer = std::thread::spawn(move || std::fs::write(there, "Port 7\n".repeat(20_000)));
        assert_eq!(read_text(&path).expect("reads").len(), 140_000);
        writer.join().expect("joins").expect("written");
    }

    #[test]
    fn silent_pipe_and_endless_file_are_errors() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = read_with_timeout(&pipe(&directory), Duration::from_millis(20)).expect_err("a time-out");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let error = read_text(Path::new("/dev/zero")).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_text(Path::new("/dev/null")).expect("reads"), "");
        assert_eq!(read_text(directory.path()).expect("reads"), "");
    }
}
