//! Temporary files of the step `tests` in memory.
//!
//! Its tests create some hundred thousand files and delete them again. On a disk, six of them at a time spent
//! most of their time in the file system: the uploads of small files alone took 27 s of CPU time and minutes,
//! in memory 5 s. What a disk does to data is left to the steps `faults`, `cuts`, `nightly` and `packages`.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Limit of the files together, bytes. The tests have at most a quarter of it at once.
const SIZE: u64 = 8 << 30;
/// Memory that must be available, bytes: that of the files, and of the programs beside them.
const NEEDED: u64 = 12 << 30;

/// A file system in memory, mounted on a new directory in `/tmp` until it is dropped.
pub(crate) struct Memory(TempDir);

impl Memory {
    /// Mounts one; `None` where that is not possible or memory is short. Only to be called in a mount
    /// namespace that ends with this process.
    pub(crate) fn mounted() -> Option<Self> {
        lh_sys::memory::available().filter(|available| *available >= NEEDED)?;
        // A short name: the path of a socket has at most 107 bytes.
        let directory = tempfile::Builder::new().prefix("lh").rand_bytes(4).tempdir_in("/tmp").ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("mode=1777,size={SIZE}"), "tmpfs"]).arg(directory.path());
        mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()).then_some(Self(directory))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Lazily: a server that a failed test left behind may have files open. The namespace ends anyway.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
