//! Paths of this host without symbolic links.

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use rustix::io::Errno;

/// Returns the absolute path, without symbolic links, of what `path` leads to.
///
/// On Linux the kernel follows the links, and so it refuses those that `fs.protected_symlinks` forbids:
/// another user's links in directories like `/tmp`. Reading link by link would pass them.
pub(crate) fn real_path(path: &[u8]) -> Result<Vec<u8>, Errno> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    #[cfg(target_os = "linux")]
    if let Some(real) = followed(path)? {
        return Ok(real);
    }
    let real = path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(real.into_os_string().into_vec())
}

/// The kernel's path of what it opens by `path`; `None` where /proc does not say it.
#[cfg(target_os = "linux")]
fn followed(path: &Path) -> Result<Option<Vec<u8>>, Errno> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd as _;
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let Ok(real) = rustix::fs::readlink(format!("/proc/self/fd/{}", found.as_raw_fd()), Vec::new()) else {
        return Ok(None);
    };
    let real = real.into_bytes();
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    // The path of a removed file ends with a remark, and one outside of this root is of no use.
    let same = rustix::fs::lstat(&*real).map(identity) == Ok(identity(rustix::fs::fstat(&found)?));
    Ok(same.then_some(real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_to_absolute_paths() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("d")).unwrap();
        std::fs::write(top.join("d/file"), b"").unwrap();
        std::os::unix::fs::symlink("d/../d/file", top.join("link")).unwrap();
        std::os::unix::fs::symlink("link", top.join("second")).unwrap();
        std::os::unix::fs::symlink("nowhere", top.join("broken")).unwrap();
        std::os::unix::fs::symlink("loop", top.join("loop")).unwrap();
        let real = |name: &str| real_path(top.join(name).as_os_str().as_bytes());
        let there = |name: &str| Ok(top.join(name).into_os_string().into_vec());
        assert_eq!(real("link"), there("d/file"));
        assert_eq!(real("second"), there("d/file"));
        assert_eq!(real("d/../d"), there("d"));
        assert_eq!(real("broken"), Err(Errno::NOENT));
        assert_eq!(real("loop"), Err(Errno::LOOP));
        assert_eq!(real("d/file/x"), Err(Errno::NOTDIR));
    }
}
