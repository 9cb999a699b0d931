//! Whether a name refers to the file that is open. In a directory that others may write to, another user can
//! put a different file under the name of one that is being written.
//!
//! A file is known by its device and inode number. Some file systems give a file another number when it is
//! renamed: there, attributes that agree have to do. Elsewhere they prove nothing, since another file of the
//! same user, of equal size, can be renamed over the open one.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags, Stat};

/// Returns true if `named`, the result of lstat(2), describes the file that is open as `file`. `open` is the
/// result of an earlier fstat(2) of it.
pub fn is_same_file(named: &Stat, file: impl AsFd, open: &Stat) -> bool {
    let file = file.as_fd();
    has_same_inode(named, open)
        || fs::fstat(file).is_ok_and(|now| is_alike(named, &now) && renumbers_files(file))
}

/// Returns true if the file system of the open file `file` may give a file another inode number while it is
/// in use.
pub fn renumbers_files(file: impl AsFd) -> bool {
    fs::fstatfs(file).is_ok_and(|stat| renumbering(&stat))
}

/// Like [`renumbers_files`], for the file system of the file `path`, which must be the one that has this
/// number as `st_dev`. Follows no link: its target can be on a file system of another user's making.
pub fn renumbers_files_at(path: &Path, device: u64) -> bool {
    #[allow(clippy::unnecessary_cast, reason = "other systems have another type")]
    let on_device = |stat: Stat| stat.st_dev as u64 == device;
    fs::open(path, UNREAD | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .is_ok_and(|file| fs::fstat(&file).is_ok_and(on_device) && renumbers_files(&file))
}

/// Opens a file that the process need not be able to read, where the system has a way to.
#[cfg(target_os = "linux")]
const UNREAD: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const UNREAD: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

fn has_same_inode(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Returns true if both may be the same file under two inode numbers. A file that is open and has lost its
/// name is not the one that is named now, unless its file system counts no links.
fn is_alike(named: &Stat, open: &Stat) -> bool {
    let kind = |stat: &Stat| (stat.st_dev, stat.st_mode, stat.st_uid, stat.st_size);
    kind(named) == kind(open) && (open.st_nlink > 0 || named.st_nlink == 0)
}

/// File systems by their magic numbers: those that a program serves, clients of SMB, which number files
/// themselves with `noserverino`, and FAT and exFAT, which store no numbers.
#[cfg(target_os = "linux")]
fn renumbering(stat: &fs::StatFs) -> bool {
    const FUSE: u32 = 0x6573_5546;
    const V9FS: u32 = 0x0102_1997;
    const VBOXSF: u32 = 0x786f_4256;
    const CIFS: u32 = 0xff53_4d42;
    const SMB2: u32 = 0xfe53_4d42;
    const FAT: u32 = 0x4d44;
    const EXFAT: u32 = 0x2011_bab0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers have 32 bits")]
    let kind = stat.f_type as u32;
    [FUSE, V9FS, VBOXSF, CIFS, SMB2, FAT, EXFAT].contains(&kind)
}

#[cfg(not(target_os = "linux"))]
fn renumbering(stat: &fs::StatFs) -> bool {
    #[expect(clippy::cast_sign_loss, reason = "they are bytes")]
    let name: Vec<u8> = stat.f_fstypename.iter().map(|byte| *byte as u8).collect();
    let has = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
    [&b"fuse"[..], b"smbfs", b"msdos", b"exfat"].into_iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two files of equal sizes and modes, the first one open.
    fn twins(dir: &Path) -> (std::fs::File, [std::path::PathBuf; 2]) {
        let names = ["open", "other"].map(|name| dir.join(name));
        names.iter().for_each(|name| std::fs::write(name, "equal").unwrap());
        (std::fs::File::open(&names[0]).unwrap(), names)
    }

    #[test]
    fn equal_attributes_do_not_make_a_file_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (file, [name, other]) = twins(dir.path());
        let open = fs::fstat(&file).unwrap();
        let is_same = |path: &Path| is_same_file(&fs::lstat(path).unwrap(), &file, &open);
        assert!(is_same(&name));
        assert_eq!(is_same(&other), renumbers_files(&file));
        std::fs::rename(&other, &name).unwrap();
        assert!(!is_same(&name), "another file has the name");
    }

    #[test]
    fn numbers_may_change_while_the_file_has_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let (file, [name, other]) = twins(dir.path());
        let alike = |path: &Path| is_alike(&fs::lstat(path).unwrap(), &fs::fstat(&file).unwrap());
        assert!(alike(&other));
        std::fs::rename(&other, &name).unwrap();
        assert!(!alike(&name), "the open file has lost its name");
        let mut uncounted = fs::lstat(&name).unwrap();
        uncounted.st_nlink = 0;
        assert!(is_alike(&uncounted, &fs::fstat(&file).unwrap()), "no links are counted");
        std::fs::write(&name, "longer").unwrap();
        assert!(!alike(&name));
    }

    #[test]
    fn kind_of_file_system_is_that_of_the_file_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (file, [name, _]) = twins(dir.path());
        let device = fs::fstat(&file).unwrap().st_dev;
        assert_eq!(renumbers_files(&file), renumbers_files_at(&name, device));
        assert!(!renumbers_files_at(&name, device + 1));
        assert!(!renumbers_files_at(&dir.path().join("missing"), device));
    }
}
