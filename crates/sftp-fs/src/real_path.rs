//! realpath(3) that forgives one thing: the last component need not exist (clients ask for the place where
//! they are about to make something).

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// As many symlinks as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// The absolute path without symlinks, `.` and `..`.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let missing = match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            done => return done,
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(missing) };
        let resolved = parent.canonicalize()?.join(name);
        match std::fs::read_link(&resolved) {
            // A dangling symlink: its target is resolved in turn.
            Ok(target) => path = resolved.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(resolved),
        }
    }
    Err(Errno::LOOP.into())
}
