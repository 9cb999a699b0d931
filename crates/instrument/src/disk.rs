//! Rates of disks: of writing, with the time until the data are on them, and of reading what is not cached.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use lh_sys::errno_text;

use crate::command::quoted;
use crate::fault::Fault;
use crate::target::Remote;
use crate::task::{Shown, random};

/// A file that is written grows until it takes this long, and is read for about as long.
const DISK_TIME: f64 = 0.4;
/// Sizes of such a file, MiB.
const DISK_SIZES: [u64; 3] = [2, 16, 128];
/// Time limit of one size at the server.
const LIMIT: Duration = Duration::from_secs(30);

/// Messages of a server's programs about a full disk, or an exceeded quota.
const NO_SPACE: [&str; 3] = ["No space left on device", "quota exceeded", "Quota exceeded"];
/// Their messages about a file above the size limit. The signal SIGXFSZ ends most of them.
const TOO_LARGE: [&str; 2] = ["File too large", "File size limit exceeded"];

/// Why a disk was not measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    /// This machine's: the system's reason.
    #[error("{}", errno_text(.0))]
    Here(io::Error),
    /// The server's, or the connection to it.
    #[error(transparent)]
    There(#[from] Fault),
}

/// A disk that was written to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disk {
    pub(crate) directory: String,
    /// Bytes per second, with the time until the data are on the disk.
    pub(crate) rate: f64,
    /// Bytes per second of reading them back, where they could be taken out of the cache.
    pub(crate) read_rate: Option<f64>,
    pub(crate) bytes: f64,
    /// A larger file did not fit.
    pub(crate) full: Option<Full>,
}

/// A disk without space for a file, or beyond the user's quota.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Full {
    /// Size of the file, bytes.
    pub(crate) wanted: f64,
    /// The system's words.
    pub(crate) said: String,
    /// Bytes that are free for the user, where the system tells.
    pub(crate) free: Option<f64>,
    /// True if a size limit for one file stopped the writer, not a full disk.
    pub(crate) is_of_file: bool,
    /// That limit of the process, bytes, where the system tells.
    pub(crate) limit: Option<f64>,
}

impl Disk {
    /// Returns whether at least the smallest file was written.
    pub(crate) const fn is_measured(&self) -> bool {
        self.bytes > 0.0
    }

    /// The rate of writing, bytes/s.
    ///
    /// # Errors
    /// Not even the smallest file fits: the system's words.
    pub(crate) fn write_rate(&self) -> Result<f64, Fault> {
        match &self.full {
            Some(full) if !self.is_measured() => Err(Fault::Server(full.said.clone())),
            _ => Ok(self.rate),
        }
    }

    /// A disk of which nothing is known yet.
    fn unknown(directory: String) -> Self {
        Self { directory, rate: 0.0, read_rate: None, bytes: 0.0, full: None }
    }
}

/// Writes and reads a file of this machine. It has no name while that lasts, so nothing is left behind.
///
/// # Errors
/// It cannot be written.
pub(crate) fn disk_here(directory: &Path) -> io::Result<Disk> {
    let block = random(1 << 20);
    let mut disk = Disk::unknown(directory.display().to_string());
    let mut has_read = false;
    for size in DISK_SIZES {
        let begun = Instant::now();
        let file = match written(directory, &block, size) {
            Ok(file) => file,
            Err(error) if is_full(&error) => {
                let (wanted, said) = ((size << 20) as f64, errno_text(&error));
                let is_of_file = error.kind() == ErrorKind::FileTooLarge;
                let free = free(directory).filter(|_| !is_of_file);
                disk.full = Some(Full { wanted, said, free, is_of_file, limit: None });
                break;
            }
            Err(error) => return Err(error),
        };
        let took = begun.elapsed().as_secs_f64();
        disk.bytes = (size << 20) as f64;
        disk.rate = disk.bytes / took.max(1e-6);
        if !has_read && forget(&file) {
            let read = read_back(file)?;
            disk.read_rate = Some(disk.bytes / read.max(1e-6));
            has_read = read >= DISK_TIME;
        }
        if took >= DISK_TIME {
            break;
        }
    }
    Ok(disk)
}

/// A file of this many blocks.
fn written(directory: &Path, block: &[u8], blocks: u64) -> io::Result<File> {
    let mut file = nameless(directory)?;
    for _ in 0..blocks {
        file.write_all(block)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Bytes that a user may still write in this directory.
fn free(directory: &Path) -> Option<f64> {
    let of = rustix::fs::statvfs(directory).ok()?;
    Some(of.f_bavail as f64 * of.f_frsize as f64)
}

/// Creates a file in this directory that is gone when it is closed, however this process ends.
fn nameless(directory: &Path) -> io::Result<File> {
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!(".longhaul-doctor-{}-{}", std::process::id(), stamp.as_nanos());
    let path = directory.join(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Seconds that it takes to read a file.
fn read_back(mut file: File) -> io::Result<f64> {
    let mut space = vec![0; 1 << 20];
    let begun = Instant::now();
    file.rewind()?;
    while file.read(&mut space)? > 0 {}
    Ok(begun.elapsed().as_secs_f64())
}

/// Takes a file out of the cache; false where the system cannot, or the file is nowhere else.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn forget(file: &File) -> bool {
    !is_in_memory(file) && rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).is_ok()
}

/// Returns whether the file is on a file system in memory: `TMPFS_MAGIC` and `RAMFS_MAGIC` of statfs(2).
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_in_memory(file: &File) -> bool {
    const KINDS: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    rustix::fs::fstatfs(file).is_ok_and(|of| KINDS.contains(&(of.f_type as u32)))
}

#[cfg(target_os = "freebsd")]
const fn is_in_memory(_: &File) -> bool {
    false
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const fn forget(_: &File) -> bool {
    false
}

/// Writes and reads a file of the server, which has no name while that lasts.
///
/// # Errors
/// It cannot be written: the server's words.
pub(crate) fn disk_there(remote: &mut Remote, directory: &str) -> Result<Disk, Fault> {
    let quoted = quoted(directory);
    let mut disk = Disk::unknown(String::new());
    let mut reads = true;
    for size in DISK_SIZES {
        // What is in memory alone has no disk. `iflag=nocache` of GNU takes the file out of the cache; other
        // dd refuse it.
        let read = if reads {
            "[ \"$(stat -f -c %T . 2>/dev/null)\" != tmpfs ] && dd iflag=nocache count=0 <&4 2>/dev/null && echo from && dd bs=1048576 <&4 >/dev/null 2>&1 && echo until"
        } else {
            ":"
        };
        let script = format!(
            "LC_ALL=C; export LC_ALL; cd {quoted} || exit 1; f=.longhaul-doctor-$$; umask 077; set -C\n\
             l() {{ exec 3>&- 4<&-; pwd; d=$(df -Pk . 2>/dev/null | tail -n 1); set -- $d; echo \"free=$4\"; echo \"most=$(ulimit -f)\"; exit 1; }}\n\
             ( : >$f ) && rm -f $f || l; exec 3>$f 4<$f || l; rm -f $f\n\
             echo begin; e=$(dd if=/dev/zero bs=1048576 count={size} conv=fsync 2>&1 >&3) && echo end || \
             {{ echo \"$e\" | head -n 1 >&2; l; }}\n{read}; pwd"
        );
        let shown: Shown = remote.script(&script, LIMIT);
        let at = |word: &[u8]| {
            let has = |piece: &[u8]| piece.windows(word.len()).any(|part| part == word);
            shown.pieces.iter().find(|(_, piece)| has(piece)).map(|(at, _)| *at)
        };
        let between = |from: &[u8], until: &[u8]| Some((at(until)? - at(from)?).max(1e-3));
        let Some(took) = between(b"begin\n", b"end\n") else {
            let said = lh_client::sanitise(shown.err_text().trim());
            let says = |all: &[&str]| all.iter().any(|words| said.contains(words));
            let is_of_file = says(&TOO_LARGE);
            if is_of_file || says(&NO_SPACE) {
                let text = shown.text();
                let mut lines = text.lines().filter(|line| *line != "begin");
                disk.directory = lines.next().map(lh_client::sanitise).unwrap_or_default();
                let free = lines.find_map(|line| line.strip_prefix("free=")?.parse::<f64>().ok());
                let blocks = lines.find_map(|line| line.strip_prefix("most=")?.parse::<f64>().ok());
                let wanted = (size << 20) as f64;
                let free = free.map(|kilobytes| kilobytes * 1024.0).filter(|_| !is_of_file);
                // POSIX counts blocks of 512 bytes.
                let limit = blocks.map(|blocks| blocks * 512.0).filter(|_| is_of_file);
                disk.full = Some(Full { wanted, said, free, is_of_file, limit });
                return Ok(disk);
            }
            return Err(Fault::Server(match shown.failure {
                Some(failure) => failure,
                None if said.is_empty() => "nothing can be written".to_owned(),
                None => said,
            }));
        };
        disk.bytes = (size << 20) as f64;
        disk.rate = disk.bytes / took;
        disk.directory = shown.text().lines().last().map(lh_client::sanitise).unwrap_or_default();
        if let Some(read) = between(b"from\n", b"until\n") {
            disk.read_rate = Some(disk.bytes / read);
            reads = read < DISK_TIME;
        }
        if took >= DISK_TIME {
            break;
        }
    }
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_disk_is_measured_and_left_clean() {
        // Temporary files may be in memory, which is not read from a disk.
        let program = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let disk = disk_here(directory.path()).unwrap();
        assert!(disk.rate > 0.0 && disk.bytes >= 1e6, "{disk:?}");
        let can_forget = cfg!(any(target_os = "linux", target_os = "android", target_os = "freebsd"));
        assert_eq!(disk.read_rate.is_some(), can_forget, "{disk:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(disk_here(&directory.path().join("missing")).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_no_disk_to_read_from() {
        let kind = std::process::Command::new("stat").args(["-f", "-c", "%T", "/dev/shm"]).output().unwrap();
        // Elsewhere, no file system is known to be in memory.
        if kind.stdout.starts_with(b"tmpfs") {
            assert!(!forget(&nameless(Path::new("/dev/shm")).unwrap()));
        }
        assert!(!is_in_memory(&File::open("/proc/self/stat").unwrap()));
    }

    #[test]
    fn file_that_is_measured_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = nameless(directory.path()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        file.write_all(b"data").unwrap();
        assert!(read_back(file).unwrap() >= 0.0);
    }
}
