//! Checks whether any file system that the session may access can stop answering.
//!
//! Calls on a local disk end. Calls on a network file system, or on one that a program serves (FUSE), end
//! when the other side answers, which may be never. A path may lead anywhere, so the file system behind a
//! call is not known beforehand. Therefore the mount table decides for the session as a whole.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// File system types that this kernel or a disk of this machine serves. All others may hang.
const LOCAL: &[&str] = &[
    "bcachefs",
    "binfmt_misc",
    "bpf",
    "btrfs",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "erofs",
    "exfat",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "fusectl",
    "hugetlbfs",
    "iso9660",
    "jfs",
    "mqueue",
    "msdos",
    "nilfs2",
    "nsfs",
    "ntfs3",
    "overlay",
    "proc",
    "pstore",
    "ramfs",
    "reiserfs",
    "rootfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "squashfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "udf",
    "vfat",
    "xfs",
    "zfs",
];

/// Time between checks whether the mount table has changed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The mount table of this process.
pub(crate) struct Mounts {
    /// Opened before the session changes its root; `None` where there is no `/proc`.
    file: Option<File>,
    /// The last result, and when the table was last checked.
    known: Cell<Option<(bool, Instant)>>,
}

impl Mounts {
    /// Opens the table. Call before chroot(2): afterwards there may be no `/proc`.
    pub(crate) fn open() -> Self {
        Self { file: File::open("/proc/self/mountinfo").ok(), known: Cell::new(None) }
    }

    /// Returns whether every mounted file system is local. An unreadable table counts as false.
    pub(super) fn all_local(&self, now: Instant) -> bool {
        let Some(file) = &self.file else { return false };
        if let Some((local, seen)) = self.known.get() {
            if now.saturating_duration_since(seen) < LOOK_AGAIN {
                return local;
            }
            if !has_changed(file) {
                self.known.set(Some((local, now)));
                return local;
            }
        }
        let local = read(file).is_ok_and(|table| is_local(&table));
        self.known.set(Some((local, now)));
        local
    }
}

/// Returns whether a file system was mounted or unmounted: the kernel marks the open table with an
/// exceptional condition.
fn has_changed(file: &File) -> bool {
    let mut fds = [PollFd::new(file, PollFlags::PRI)];
    let changed = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    changed != Ok(0)
}

fn read(mut file: &File) -> std::io::Result<Vec<u8>> {
    file.rewind()?;
    let mut table = Vec::new();
    file.read_to_end(&mut table)?;
    Ok(table)
}

/// Returns whether all lines of a table (`mountinfo` of proc(5)) have local types.
fn is_local(table: &[u8]) -> bool {
    let mut lines = table.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.all(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        // Fields: ID, parent, device, root, mount point, options, optional fields, a hyphen, type.
        let point = words.nth(4).unwrap_or_default();
        let kind = words.skip_while(|word| *word != b"-").nth(1).unwrap_or_default();
        // systemd mounts this autofs on every host; the file system behind it is part of the kernel.
        (kind == b"autofs" && point == b"/proc/sys/fs/binfmt_misc")
            || LOCAL.iter().any(|local| local.as_bytes() == kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "21 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n";

    #[test]
    fn types_that_can_hang_are_told_from_local_ones() {
        let with =
            |line: &str| is_local(format!("{ROOT}{line}\n22 21 0:5 / /proc rw - proc proc rw\n").as_bytes());
        assert!(with("23 21 0:30 / /tmp rw - tmpfs tmpfs rw"));
        assert!(with("24 21 0:31 / /proc/sys/fs/binfmt_misc rw shared:3 - autofs systemd-1 rw"));
        assert!(!with("24 21 0:31 / /home rw shared:3 - autofs /etc/auto.home rw"));
        for kind in ["nfs", "nfs4", "cifs", "fuse", "fuse.sshfs", "fuseblk", "9p", "ceph", "virtiofs"] {
            assert!(!with(&format!("25 21 0:32 / /mnt rw - {kind} source rw")), "{kind}");
        }
        assert!(!with("26 21 0:33 / /mnt rw"), "a line without a type");
    }

    #[test]
    fn the_table_of_this_process_is_read_once_until_it_changes() {
        let mounts = Mounts::open();
        let now = Instant::now();
        let local = mounts.all_local(now);
        assert_eq!(mounts.known.get(), Some((local, now)));
        assert_eq!(mounts.all_local(now + LOOK_AGAIN), local);
        let none = Mounts { file: None, known: Cell::new(None) };
        assert!(!none.all_local(now));
    }
}
