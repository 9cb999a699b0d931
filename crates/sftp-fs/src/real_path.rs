//! realpath(3), except that the last component need not exist: clients use it for a path that they are about
//! to create.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Limit of symlinks in one path, as in Linux.
const MAX_LINKS: usize = 40;

/// Returns the absolute path without symlinks, `.` and `..`.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let missing = match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return walk(&path),
            done => return done,
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(missing) };
        let resolved = parent.canonicalize()?.join(name);
        match std::fs::read_link(&resolved) {
            // A dangling symlink: its target is resolved next.
            Ok(target) => path = resolved.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(resolved),
        }
    }
    Err(Errno::LOOP.into())
}

/// Resolves component by component: OpenSSH's server accepts `file/..` and `file/.`, the kernel does not.
fn walk(path: &Path) -> io::Result<PathBuf> {
    let mut resolved = PathBuf::from("/");
    let mut rest: Vec<PathBuf> = components(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name.as_os_str() == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&name);
        match next.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = next.read_link()?;
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                rest.extend(components(&target));
            }
            Ok(_) => resolved = next,
            Err(error) if error.kind() == io::ErrorKind::NotFound && rest.is_empty() => resolved = next,
            Err(error) => return Err(error),
        }
    }
    Ok(resolved)
}

/// Returns the components of a path, the last one first.
fn components(path: &Path) -> Vec<PathBuf> {
    use std::path::Component;
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(named).map(|part| PathBuf::from(part.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_through_files_are_resolved_as_by_openssh() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        std::fs::create_dir(root.join("d")).expect("a directory");
        std::fs::write(root.join("d/f"), b"x").expect("a file");
        std::os::unix::fs::symlink("d/f", root.join("link")).expect("a link");
        for (path, expected) in [
            ("d/f/..", "d"),
            ("d/f/.", "d/f"),
            ("d/f/../f", "d/f"),
            ("link/..", "d"),
            ("d/f/../new", "d/new"),
        ] {
            assert_eq!(resolve(&root.join(path)).expect(path), root.join(expected), "{path}");
        }
        assert!(resolve(&root.join("d/f/x")).is_err());
        assert!(resolve(&root.join("d/f/../none/x")).is_err());
    }
}
