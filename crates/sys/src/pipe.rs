//! Pipes that grow when they are found full.
//!
//! A larger pipe needs fewer system calls and wake-ups per megabyte. But a user's pipes may have 64 MiB
//! altogether (`/proc/sys/fs/pipe-user-pages-soft`); beyond that, new pipes hold 8 KiB. So pipes that carry
//! little stay small.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fd::PIPE_LEN;

/// Size value for descriptors that are not pipes, and for pipes that do not grow any more.
const FIXED: usize = usize::MAX;

/// Factor by which a pipe grows when the program at its other end was found waiting.
const FACTOR: usize = 4;

/// The size of one pipe, and whether it may still grow.
#[derive(Debug)]
pub struct PipeGrowth(AtomicUsize);

impl PipeGrowth {
    /// Queries the size of a pipe. Other descriptors never grow.
    pub fn of(fd: impl AsFd) -> Self {
        Self(AtomicUsize::new(size(fd).unwrap_or(FIXED)))
    }

    /// Creates a value for a descriptor that is not a pipe.
    pub const fn never() -> Self {
        Self(AtomicUsize::new(FIXED))
    }

    /// True when the pipe does not grow any more.
    pub fn is_fixed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == FIXED
    }

    /// Enlarges `fd`, which was found full. `moved` is the number of bytes that one call moved, or tried to
    /// move. True when the pipe has become larger. If the kernel refuses, no further attempt is made.
    pub fn grow(&self, fd: impl AsFd, moved: usize) -> bool {
        let len = self.0.load(Ordering::Relaxed);
        if moved < len || len == FIXED {
            return false;
        }
        let wanted = len.saturating_mul(FACTOR).min(PIPE_LEN);
        let grown = wanted > len && set_size(fd, wanted);
        self.0.store(if grown { wanted } else { FIXED }, Ordering::Relaxed);
        grown
    }
}

/// The size of a pipe; `None` for other descriptors.
#[cfg(target_os = "linux")]
fn size(pipe: impl AsFd) -> Option<usize> {
    rustix::pipe::fcntl_getpipe_size(pipe).ok()
}

/// Sets the size of a pipe. True on success.
#[cfg(target_os = "linux")]
fn set_size(pipe: impl AsFd, bytes: usize) -> bool {
    rustix::pipe::fcntl_setpipe_size(pipe, bytes).is_ok()
}

/// Only Linux lets a program change the size of a pipe; macOS and FreeBSD enlarge busy pipes themselves.
#[cfg(not(target_os = "linux"))]
fn size(_: impl AsFd) -> Option<usize> {
    None
}

#[cfg(not(target_os = "linux"))]
fn set_size(_: impl AsFd, _: usize) -> bool {
    false
}

/// An end of a pipe to another program, which grows when one call empties or fills it. The end may be
/// blocking or non-blocking.
#[derive(Debug)]
pub struct GrowingPipe<F> {
    end: F,
    growth: PipeGrowth,
}

impl<F: AsFd> GrowingPipe<F> {
    /// Wraps an end without changing its size yet.
    pub fn new(end: F) -> Self {
        let growth = PipeGrowth::of(&end);
        Self { end, growth }
    }
}

impl<F: AsFd> AsFd for GrowingPipe<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl<F: Read + AsFd> Read for GrowingPipe<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.end.read(buffer)?;
        self.growth.grow(&self.end, read);
        Ok(read)
    }
}

impl<F: Write + AsFd> Write for GrowingPipe<F> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = match self.end.write(data) {
            Err(error)
                if error.kind() == ErrorKind::WouldBlock && self.growth.grow(&self.end, data.len()) =>
            {
                return self.end.write(data);
            }
            result => result?,
        };
        // A blocking end has waited for the reader if it wrote that many bytes.
        self.growth.grow(&self.end, written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn pipe() -> (File, File) {
        let (read, write) = crate::fd::pipe().unwrap();
        (read.into(), write.into())
    }

    fn size(fd: impl AsFd) -> usize {
        super::size(fd).unwrap()
    }

    /// Fills a pipe of `len` bytes completely.
    fn fill(mut to: impl Write, len: usize) {
        to.write_all(&vec![1; len]).unwrap();
    }

    #[test]
    fn small_transfers_leave_pipe_as_it_is() {
        let (read, write) = pipe();
        let before = size(&read);
        let (mut read, mut write) = (GrowingPipe::new(read), GrowingPipe::new(write));
        let mut buffer = vec![0; 2 * before];
        for _ in 0..100 {
            write.write_all(&[7; 1000]).unwrap();
            assert_eq!(read.read(&mut buffer).unwrap(), 1000);
        }
        assert_eq!(size(&read), before);
    }

    #[test]
    fn pipe_grows_when_a_read_empties_it() {
        let (read, write) = pipe();
        let before = size(&read);
        fill(&write, before);
        let mut read = GrowingPipe::new(read);
        let mut buffer = vec![0; 2 * before];
        assert_eq!(read.read(&mut buffer).unwrap(), before);
        // The kernel may refuse: a user's pipes hold 64 MiB in all.
        assert!(size(&read) > before || read.growth.is_fixed());
    }

    #[test]
    fn pipe_that_does_not_block_grows_when_it_is_full() {
        let (_read, write) = pipe();
        crate::fd::set_nonblocking(&write, true).unwrap();
        let before = size(&write);
        fill(&write, before);
        let mut write = GrowingPipe::new(write);
        match write.write(&vec![2; before]) {
            Ok(written) => assert!(written > 0 && size(&write) > before),
            Err(error) => assert!(error.kind() == ErrorKind::WouldBlock && write.growth.is_fixed()),
        }
    }

    #[test]
    fn pipe_that_blocks_grows_when_a_write_fills_it() {
        let (_read, write) = pipe();
        let before = size(&write);
        let mut write = GrowingPipe::new(write);
        fill(&mut write, before);
        assert!(size(&write) > before || write.growth.is_fixed());
    }

    #[test]
    fn pipe_stops_at_its_largest_size_and_others_never_grow() {
        let (_read, write) = pipe();
        let growth = PipeGrowth::of(&write);
        for _ in 0..8 {
            growth.grow(&write, usize::MAX - 1);
        }
        assert!(growth.is_fixed() && size(&write) <= PIPE_LEN.max(64 << 10));
        assert!(PipeGrowth::of(File::open("/dev/null").unwrap()).is_fixed());
        assert!(PipeGrowth::never().is_fixed());
    }
}
