//! Resolves symbolic links in a path, and checks every step of the way.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// Largest number of symbolic links in one path, as in Linux.
const MAX_LINKS: usize = 40;

/// Why a path is not used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused<E> {
    /// The check's reason.
    Check(E),
    /// The entry at this path cannot be read; the text is the error.
    System(PathBuf, String),
}

/// Returns an absolute path without symbolic links. Calls `check` for the root, each directory and each link
/// on the way, with its `lstat(2)` result. The last argument is true for the last entry.
pub(super) fn resolve<E>(
    path: &Path,
    check: impl Fn(&Path, &Metadata, bool) -> Result<(), E>,
) -> Result<PathBuf, Refused<E>> {
    let failed = |path: &Path, error: &io::Error| {
        Refused::System(path.to_owned(), lh_sys::errno_text(error).to_string())
    };
    let entry = |path: &Path| std::fs::symlink_metadata(path).map_err(|error| failed(path, &error));
    let mut resolved = PathBuf::from("/");
    let mut rest: Vec<OsString> = names(path);
    let mut links = 0;
    check(&resolved, &entry(&resolved)?, rest.is_empty()).map_err(Refused::Check)?;
    while let Some(name) = rest.pop() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&name);
        let metadata = entry(&next)?;
        let last = rest.is_empty() && !metadata.is_symlink();
        check(&next, &metadata, last).map_err(Refused::Check)?;
        if !metadata.is_symlink() {
            resolved = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(failed(&next, &Errno::LOOP.into()));
        }
        let target = std::fs::read_link(&next).map_err(|error| failed(&next, &error))?;
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        rest.extend(names(&target));
    }
    Ok(resolved)
}

/// Returns the names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(is_name).map(|part| part.as_os_str().to_owned()).collect()
}
