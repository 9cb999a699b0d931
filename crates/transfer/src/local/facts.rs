//! Between this crate's words for files and the kernel's.

use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{FileType, Mode, RawMode};
use rustix::io::Errno;

use crate::end::{Handle, Info, Kind, Times};

/// The descriptor of a file that is open at this end.
pub(super) fn local(handle: &Handle) -> Result<BorrowedFd<'_>, Errno> {
    match handle {
        Handle::Local(fd) => Ok(fd.as_fd()),
        Handle::LocalDir(_) | Handle::Remote(..) => Err(Errno::BADF),
    }
}

#[expect(clippy::unnecessary_cast, reason = "the fields' types differ between platforms")]
pub(crate) fn info(stat: &rustix::fs::Stat) -> Info {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    Info {
        kind,
        mode: Some(stat.st_mode as u32 & 0o7777),
        size: Some(stat.st_size as u64),
        times: Some(Times {
            access: (stat.st_atime as i64, stat.st_atime_nsec as u32),
            modification: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        }),
        ids: Some((stat.st_uid, stat.st_gid)),
        storage: Some((stat.st_blocks as u64).saturating_mul(512)),
        links: Some(stat.st_nlink as u64),
        identity: Some((stat.st_dev as u64, stat.st_ino as u64)),
        pipe_there: false,
    }
}

/// Permissions as the kernel takes them.
pub(crate) const fn mode_of(bits: u32) -> Mode {
    Mode::from_raw_mode(bits as RawMode)
}
