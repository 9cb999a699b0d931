//! Patterns, on the server's side and on ours.
//!
//! SFTP has no patterns: directories are listed and matched here, after the server where it can match.
//! Attributes come with the listing, so that what matched need not be asked for again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use lh_sftp::Attrs;
use lh_transfer::{glob_matches, has_magic, is_safe_name, join};

use crate::detail::Detail;
use crate::remote::{Answer, Fault, Remote};
use crate::words::unescape;

/// Something that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its path.
    pub path: Vec<u8>,
    /// Its attributes, a symlink's own.
    pub attrs: Attrs,
}

/// Splits a pattern into a directory to start at, and components.
fn parts(pattern: &[u8]) -> (Vec<u8>, Vec<&[u8]>) {
    let start = if pattern.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
    (start, pattern.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect())
}

/// Returns the paths of the server that match `pattern`, sorted by name, each once. A pattern without
/// wildcards matches the path that it names; one with a slash at its end matches directories, and links to
/// them.
///
/// # Errors
/// The connection is gone, or a listing has no bounds. Directories that cannot be read hold nothing that
/// matches.
pub fn remote(remote: &mut Remote, pattern: &[u8]) -> Answer<Vec<Match>> {
    let mut found = remote_unsorted(remote, pattern)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    // Some servers list a name twice: it is removed or copied once.
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

/// Like [`remote`], in the order in which the server lists its directories.
///
/// # Errors
/// As those of [`remote`].
pub fn remote_unsorted(remote: &mut Remote, pattern: &[u8]) -> Answer<Vec<Match>> {
    let mut found = Vec::new();
    let directories = pattern.ends_with(b"/");
    let (start, parts) = parts(pattern);
    let mut todo = vec![(start, 0, None)];
    while let Some((mut path, mut part, mut attrs)) = todo.pop() {
        while let Some(literal) = parts.get(part).filter(|part| !has_magic(part)) {
            path = join(&path, &unescape(literal));
            part += 1;
            attrs = None;
        }
        let Some(wanted) = parts.get(part) else {
            let known = match attrs {
                Some(attrs) => Ok(attrs),
                None => remote.attrs(&path, false),
            };
            match known {
                Ok(attrs) if !directories || attrs.is_dir() => found.push(Match { path, attrs }),
                Ok(attrs) if attrs.is_symlink() && remote.is_dir(&path)? => found.push(Match { path, attrs }),
                Ok(_) => {}
                Err(Fault::Lost) => return Err(Fault::Lost),
                Err(_) => {}
            }
            continue;
        };
        // Only directories, and links that may lead to one, have something below them.
        let last = part + 1 == parts.len();
        let first = todo.len();
        each_match(remote, &path, wanted, &mut |Match { path, attrs }| {
            if !(last || attrs.is_dir() || attrs.is_symlink() || attrs.permissions.is_none()) {
                return 0;
            }
            let kept = size_of::<Match>() + path.len();
            todo.push((path, part + 1, Some(attrs)));
            kept
        })?;
        // The last one is looked at first.
        todo[first..].reverse();
    }
    Ok(found)
}

/// Gives what matches one part of a pattern in the directory `path`, in the server's order, as it arrives;
/// `each` returns how many bytes it keeps.
///
/// # Errors
/// The connection is gone, or the listing has no bounds.
pub fn each_match(
    remote: &mut Remote,
    path: &[u8],
    wanted: &[u8],
    each: &mut dyn FnMut(Match) -> usize,
) -> Answer<()> {
    let listed = if path.is_empty() { b"." } else { path };
    let listing = remote.list(listed, wanted, Detail::Attrs, &mut |entry| {
        if is_safe_name(&entry.name) && glob_matches(wanted, &entry.name) {
            return each(Match { path: join(path, &entry.name), attrs: entry.attrs });
        }
        0
    });
    match listing {
        Err(fault @ (Fault::Lost | Fault::Refused(_) | Fault::Unread(_))) => Err(fault),
        // A directory that cannot be opened has no matches.
        Ok(()) | Err(Fault::Status(_)) => Ok(()),
    }
}

/// Splits a pattern with wildcards only in its last part into directory and last part.
pub fn last_part(pattern: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    if pattern.ends_with(b"/") {
        return None;
    }
    let (start, mut parts) = parts(pattern);
    let last = parts.pop().filter(|last| has_magic(last))?;
    let literal = !parts.iter().any(|part| has_magic(part));
    literal.then(|| (parts.iter().fold(start, |path, part| join(&path, &unescape(part))), last))
}

/// Returns the local paths that match `pattern`, sorted by name; the plain name if none does.
pub fn local(pattern: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let (start, parts) = parts(pattern);
    let mut todo = vec![(start, 0)];
    while let Some((mut path, mut part)) = todo.pop() {
        while let Some(literal) = parts.get(part).filter(|part| !has_magic(part)) {
            path = join(&path, &unescape(literal));
            part += 1;
        }
        let Some(wanted) = parts.get(part) else {
            if std::fs::symlink_metadata(OsStr::from_bytes(&path)).is_ok() {
                found.push(path);
            }
            continue;
        };
        let listed = if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(&path) };
        let Ok(entries) = std::fs::read_dir(listed) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if glob_matches(wanted, name.as_bytes()) {
                todo.push((join(&path, name.as_bytes()), part + 1));
            }
        }
    }
    if found.is_empty() {
        found.push(unescape(pattern));
    }
    found.sort();
    found
}
