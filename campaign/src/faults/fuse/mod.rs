//! A file system in memory with configurable faults: FUSE's protocol with the kernel, without a library.
//!
//! It supports the operations that copies need, answers one request after the other, and keeps all data until
//! it is dropped. The kernel passes its errors to programs as those of any other file system, in the calls in
//! which a disk would fail.

mod failure;
mod files;
mod wire;

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::trees::Tree;
pub(super) use failure::Failure;
use failure::LONGEST_WRITE;
use files::Files;
use wire::{Answer, Request};

/// The file system, mounted.
pub(super) struct Disk {
    at: PathBuf,
    files: Arc<Mutex<Files>>,
}

impl Disk {
    /// Mounts an empty file system, in this process's mount namespace.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub(super) fn mount(at: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("FUSE at {}: {error}", at.display());
        let device =
            OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(|error| failed(&error))?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options).map_err(|error| failed(&error))?;
        mount("longhaul-faults", at, "fuse", MountFlags::empty(), options.as_c_str())
            .map_err(|error| failed(&error))?;
        let files = Arc::new(Mutex::new(Files::default()));
        let shared = Arc::clone(&files);
        std::thread::spawn(move || serve(device, &shared));
        Ok(Self { at: at.to_owned(), files })
    }

    /// Puts a tree under a name into the top directory.
    pub(super) fn put(&self, name: &str, tree: &Tree) {
        self.with(|files| files.put(name, tree));
    }

    /// Sets the failure from now on.
    pub(super) fn fail(&self, failure: Failure) {
        self.with(|files| files.fail(Some(failure)));
    }

    /// Ends the failure.
    pub(super) fn heal(&self) {
        self.with(|files| files.fail(None));
    }

    /// Number of requests that the failure has hit.
    pub(super) fn failed(&self) -> u64 {
        self.with(|files| files.failed)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Files) -> T) -> T {
        act(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

/// Answers the kernel until the file system is unmounted.
fn serve(mut device: File, files: &Mutex<Files>) {
    let mut buffer = vec![0; LONGEST_WRITE as usize + (64 << 10)];
    loop {
        let count = match device.read(&mut buffer) {
            Ok(count) => count,
            // The request was interrupted, or a signal arrived.
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NOENT | Errno::INTR | Errno::AGAIN)
                ) =>
            {
                continue;
            }
            Err(_) => return,
        };
        let Some(request) = Request::parse(buffer.get(..count).unwrap_or_default()) else { continue };
        let answer = files.lock().unwrap_or_else(PoisonError::into_inner).answer(&request);
        let bytes = match answer {
            Answer::None => continue,
            Answer::Failed(errno) => wire::reply(request.unique, errno.raw_os_error(), &[]),
            Answer::Done(body) => wire::reply(request.unique, 0, &body),
        };
        // An interrupted request needs no reply.
        let _ = device.write(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::trees::Shape;
    use super::*;

    /// Mounts the file system and calls `run` with it; skips the test if this process may not mount.
    fn mounted(test: &str, run: impl FnOnce(&Path, &Disk)) {
        let dir = tempfile::tempdir().unwrap();
        match Disk::mount(dir.path()) {
            Ok(disk) => run(dir.path(), &disk),
            Err(why) => lh_interop::skip(test, &why),
        }
    }

    #[test]
    fn the_file_system_keeps_trees() {
        mounted("the_file_system_keeps_trees", |at, disk| {
            let tree = Tree::new(Shape::Mixed, 1, 0);
            tree.write(&at.join("written")).unwrap();
            assert_eq!(tree.equals(&at.join("written")), Ok(()));
            disk.put("put", &tree);
            assert_eq!(tree.equals(&at.join("put")), Ok(()));
            fs::rename(at.join("put/large"), at.join("put/moved")).unwrap();
            fs::rename(at.join("put/odd/.hidden"), at.join("put/odd/with space")).unwrap();
            assert!(!at.join("put/odd/.hidden").exists());
            fs::remove_dir_all(at.join("put")).unwrap();
            assert!(!at.join("put").exists());
            let file = fs::File::create(at.join("cut")).unwrap();
            file.set_len(5).unwrap();
            assert_eq!(fs::read(at.join("cut")).unwrap(), [0; 5]);
        });
    }

    #[test]
    fn the_file_system_fails_as_configured() {
        mounted("the_file_system_fails_as_configured", |at, disk| {
            let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap();
            disk.fail(Failure::Writing(Errno::DQUOT, 1000));
            fs::write(at.join("fits"), [1; 1000]).unwrap();
            assert_eq!(errno(fs::write(at.join("more"), b"x").unwrap_err()), Errno::DQUOT);
            fs::remove_file(at.join("more")).unwrap();
            disk.fail(Failure::Changing(Errno::ROFS, 0));
            assert_eq!(errno(fs::create_dir(at.join("d")).unwrap_err()), Errno::ROFS);
            assert_eq!(errno(fs::remove_file(at.join("fits")).unwrap_err()), Errno::ROFS);
            disk.fail(Failure::Reading(Errno::IO, 1));
            assert_eq!(errno(fs::read(at.join("fits")).unwrap_err()), Errno::IO);
            disk.heal();
            assert_eq!(fs::read(at.join("fits")).unwrap(), [1; 1000]);
            // The kernel may request a page twice.
            assert!(disk.failed() >= 4, "{}", disk.failed());
        });
    }
}
