//! Holes and extended attributes of the host's files.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::buffer::spare_capacity;
#[cfg(target_os = "linux")]
use rustix::fs::XattrFlags;
use rustix::fs::{self, SeekFrom};
use rustix::io::Errno;

use lh_sftp::extended_attrs::{self, MAX_RANGES, Ranges, Xattrs};

/// The kernel's limits for one value, and for all names of a file.
#[cfg(target_os = "linux")]
const LONGEST: usize = 64 * 1024;

/// Returns the ranges of an open file that contain data, from `offset` on: all of it on a file system without
/// holes.
///
/// # Errors
/// The error of lseek(2).
pub fn data_ranges(file: impl AsFd, offset: u64) -> io::Result<Ranges> {
    let mut found = Ranges::default();
    let mut at = offset;
    while found.ranges.len() < MAX_RANGES {
        let from = match fs::seek(&file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(found),
            from => from?,
        };
        let to = fs::seek(&file, SeekFrom::Hole(from))?;
        if to <= from {
            // The file was truncated between the two calls.
            return Ok(found);
        }
        found.ranges.push((from, to));
        at = to;
    }
    found.next = Some(at);
    Ok(found)
}

/// Repeats the call `read` with a larger buffer until the value fits.
#[cfg(target_os = "linux")]
fn whole(read: impl Fn(&mut Vec<u8>) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut value = Vec::with_capacity(1024);
    match read(&mut value) {
        Err(Errno::RANGE) => {
            value = Vec::with_capacity(LONGEST);
            read(&mut value)?;
        }
        done => {
            done?;
        }
    }
    Ok(value)
}

/// An object with extended attributes.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are none"))]
enum Of<'a> {
    /// The file to which a path leads, following links.
    Target(&'a Path),
    /// The file or link at a path itself.
    Path(&'a Path),
    Open(BorrowedFd<'a>),
}

/// Attribute names of other systems do not have the protocol's form. So this behaves as on a file system
/// without such attributes: there are none, and none can be set.
#[cfg(not(target_os = "linux"))]
impl Of<'_> {
    fn all(&self, _: u32) -> io::Result<Xattrs> {
        Ok(Vec::new())
    }

    fn become_these(&self, wanted: u32, xattrs: &Xattrs) -> io::Result<()> {
        let is_none = !xattrs.iter().any(|(name, _)| extended_attrs::is_wanted(name, wanted));
        if is_none { Ok(()) } else { Err(Errno::OPNOTSUPP.into()) }
    }
}

#[cfg(target_os = "linux")]
impl Of<'_> {
    /// Returns the names of the `wanted` kinds.
    fn names(&self, wanted: u32) -> io::Result<Vec<Vec<u8>>> {
        let listed = whole(|list| match self {
            Self::Target(path) => fs::listxattr(*path, spare_capacity(list)),
            Self::Path(path) => fs::llistxattr(*path, spare_capacity(list)),
            Self::Open(file) => fs::flistxattr(file, spare_capacity(list)),
        });
        let listed = match listed {
            // The file system does not support extended attributes.
            Err(Errno::OPNOTSUPP) => Vec::new(),
            listed => listed?,
        };
        let names = listed.split(|&byte| byte == 0).filter(|name| extended_attrs::is_wanted(name, wanted));
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    fn get(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        whole(|value| match self {
            Self::Target(path) => fs::getxattr(*path, name, spare_capacity(value)),
            Self::Path(path) => fs::lgetxattr(*path, name, spare_capacity(value)),
            Self::Open(file) => fs::fgetxattr(file, name, spare_capacity(value)),
        })
    }

    fn set(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        let how = XattrFlags::empty();
        match self {
            Self::Target(path) => fs::setxattr(*path, name, value, how),
            Self::Path(path) => fs::lsetxattr(*path, name, value, how),
            Self::Open(file) => fs::fsetxattr(file, name, value, how),
        }
    }

    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Target(path) => fs::removexattr(*path, name),
            Self::Path(path) => fs::lremovexattr(*path, name),
            Self::Open(file) => fs::fremovexattr(file, name),
        }
    }

    fn all(&self, wanted: u32) -> io::Result<Xattrs> {
        let mut found = Vec::new();
        let mut size = 0;
        for name in self.names(wanted)? {
            let value = match self.get(&name) {
                // The attribute was removed in the meantime, or is not readable.
                Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => continue,
                value => value?,
            };
            size += name.len() + value.len() + 8;
            if size > extended_attrs::MAX_XATTRS {
                return Err(io::Error::other("more extended attributes than fit into a message"));
            }
            found.push((name, value));
        }
        Ok(found)
    }

    fn become_these(&self, wanted: u32, xattrs: &Xattrs) -> io::Result<()> {
        let mut outcome = Ok(());
        let mut note = |done: Result<(), Errno>| {
            if outcome.is_ok() {
                outcome = done;
            }
        };
        for name in self.names(wanted)? {
            if !xattrs.iter().any(|(kept, _)| *kept == name) {
                note(self.remove(&name));
            }
        }
        for (name, value) in xattrs.iter().filter(|(name, _)| extended_attrs::is_wanted(name, wanted)) {
            note(self.set(name, value));
        }
        Ok(outcome?)
    }
}

/// Returns the extended attributes of `path` (links are followed) of the `wanted` kinds (bits of
/// [`extended_attrs`]).
///
/// # Errors
/// The kernel's error; or the attributes do not fit into a message.
pub fn xattrs(path: &Path, wanted: u32) -> io::Result<Xattrs> {
    Of::Target(path).all(wanted)
}

/// Like [`xattrs`], for an open file.
///
/// # Errors
/// Those of [`xattrs`].
pub fn xattrs_of_open(file: impl AsFd, wanted: u32) -> io::Result<Xattrs> {
    Of::Open(file.as_fd()).all(wanted)
}

/// Replaces the extended attributes of `path` (of a link itself) of the `wanted` kinds by `xattrs`. After an
/// error the remaining ones are still set.
///
/// # Errors
/// The kernel's first error.
pub fn set_xattrs(path: &Path, wanted: u32, xattrs: &Xattrs) -> io::Result<()> {
    Of::Path(path).become_these(wanted, xattrs)
}

/// Like [`set_xattrs`], for an open file.
///
/// # Errors
/// Those of [`set_xattrs`].
pub fn set_xattrs_of_open(file: impl AsFd, wanted: u32, xattrs: &Xattrs) -> io::Result<()> {
    Of::Open(file.as_fd()).become_these(wanted, xattrs)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn holes_are_found_where_the_file_system_has_them() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        let all = |file: &std::fs::File| data_ranges(file, 0).unwrap();
        if !all(&file).ranges.is_empty() {
            return eprintln!("this file system has no holes");
        }
        file.write_all_at(b"data", 2 << 20).unwrap();
        file.write_all_at(b"data", 5 << 20).unwrap();
        let found = all(&file);
        assert_eq!(found.next, None);
        let inside = |at: u64| found.ranges.iter().any(|&(from, to)| (from..to).contains(&at));
        assert!(inside(2 << 20) && inside(5 << 20), "{found:?}");
        assert!(!inside(0) && !inside(4 << 20) && !inside(7 << 20), "{found:?}");
        assert_eq!(data_ranges(&file, 3 << 20).unwrap().ranges, found.ranges[1..]);
    }

    #[test]
    fn extended_attributes_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let first = vec![(b"user.one".to_vec(), b"1".to_vec()), (b"user.two".to_vec(), vec![7; 3000])];
        match set_xattrs(&path, extended_attrs::XATTRS, &first) {
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                return eprintln!("this file system has no extended attributes");
            }
            done => done.unwrap(),
        }
        let mut found = xattrs(&path, extended_attrs::XATTRS).unwrap();
        found.sort();
        assert_eq!(found, first);
        assert_eq!(xattrs(&path, extended_attrs::ACLS).unwrap(), []);
        // Kinds that are not wanted stay unchanged.
        set_xattrs(&path, extended_attrs::ACLS, &Vec::new()).unwrap();
        let second = vec![(b"user.two".to_vec(), b"2".to_vec())];
        set_xattrs(&path, extended_attrs::XATTRS, &second).unwrap();
        assert_eq!(xattrs(&path, extended_attrs::XATTRS).unwrap(), second);
    }
}
