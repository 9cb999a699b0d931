//! Numbers that several processes share: atomic words in a mapped file.
#![expect(unsafe_code, reason = "memory that the kernel maps, and references into it")]

use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Words that every process with the same file mapped reads and writes. They stay mapped after the file is
/// closed or removed, after a change of ids and of the root directory, and in forked processes; a program
/// that a process executes does not inherit them.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only accessed through atomic words.
unsafe impl Send for SharedWords {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedWords {}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl SharedWords {
    /// Maps the first `count` words of a file that is open for reading and writing. The file must keep its
    /// size: access to a word behind its end would kill the process.
    ///
    /// # Errors
    /// The file is too short, or cannot be mapped.
    pub fn map(file: &File, count: usize) -> io::Result<Self> {
        let length = length(count)?;
        if file.metadata()?.len() < length as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too short"));
        }
        // SAFETY: the kernel chooses the address, so the new mapping overlaps no memory in use.
        let start = unsafe { mmap(null_mut(), length, READ_WRITE, MapFlags::SHARED, file, 0) }?;
        Self::at(start.cast(), count)
    }

    /// Returns `count` words with the value 0 that only this process and its forks have.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn private(count: usize) -> io::Result<Self> {
        // SAFETY: as in `map`.
        let start = unsafe { mmap_anonymous(null_mut(), length(count)?, READ_WRITE, MapFlags::SHARED) }?;
        Self::at(start.cast(), count)
    }

    fn at(start: *mut AtomicU64, count: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count })
    }

    /// Returns the word with this index; `None` behind the last one.
    pub fn get(&self, index: usize) -> Option<&AtomicU64> {
        // SAFETY: the index is inside the mapping, which starts at a page, so the word is aligned; it lives
        // as long as `self`, and every access to it by Rust code is atomic.
        (index < self.count).then(|| unsafe { self.start.add(index).as_ref() })
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let Ok(length) = length(self.count) else { return };
        // SAFETY: the mapping is this object's, and no reference into it outlives the object. An error means
        // that nothing was unmapped, which costs a page.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), length) };
    }
}

/// Length of `count` words, bytes.
fn length(count: usize) -> io::Result<usize> {
    count.checked_mul(size_of::<AtomicU64>()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn maps_of_one_file_share_words() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(SharedWords::map(&file, 2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        file.set_len(16).unwrap();
        let [one, other] = [(), ()].map(|()| SharedWords::map(&file, 2).unwrap());
        drop(file);
        one.get(1).unwrap().store(7, Relaxed);
        assert_eq!([0, 1].map(|index| other.get(index).unwrap().load(Relaxed)), [0, 7]);
        assert!(other.get(2).is_none());
        drop(one);
        assert_eq!(other.get(1).unwrap().load(Relaxed), 7);
    }

    #[test]
    fn private_words_are_not_shared() {
        let [one, other] = [(), ()].map(|()| SharedWords::private(1).unwrap());
        one.get(0).unwrap().store(7, Relaxed);
        assert_eq!(other.get(0).unwrap().load(Relaxed), 0);
        assert!(SharedWords::private(usize::MAX).is_err());
    }
}
