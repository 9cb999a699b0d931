//! Descriptors: pipes, flags, and standard input, output and error.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Size to which a pipe between a session and its program is enlarged when it carries much, bytes: fewer
/// wake-ups per megabyte. It is the default limit for unprivileged processes
/// (`/proc/sys/fs/pipe-max-size`).
pub const PIPE_LEN: usize = 1 << 20;

/// A pipe (read end, write end), close-on-exec, of the kernel's size: mostly 64 KiB.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// Sets or clears non-blocking mode. It belongs to the open file description, so other processes that share
/// it are affected too.
pub fn set_nonblocking(fd: impl AsFd, on: bool) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    let wanted = if on { flags | OFlags::NONBLOCK } else { flags - OFlags::NONBLOCK };
    if wanted != flags {
        fcntl_setfl(&fd, wanted)?;
    }
    Ok(())
}

/// Number of descriptors for [`reserve`] in a program that copies: a tree of small files has hundreds open.
pub const MANY: u16 = 1024;

/// Makes space for `count` descriptors in the kernel's table of them, or as many as the limit of open files
/// permits.
///
/// Linux enlarges the table of a process that has several threads only after an RCU grace period, 10 to 20 ms
/// each time it doubles. Call this before the first thread starts.
pub fn reserve(count: u16) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(RawFd::MAX, |limit| RawFd::try_from(limit).unwrap_or(RawFd::MAX));
    // Using the last number once enlarges the table. If that fails, later opens take longer and work.
    let _ = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), limit.min(count.into()) - 1);
}

/// Closes a descriptor and returns the result: a network file system may report only now that written data
/// did not fit. Dropping an `OwnedFd` ignores such errors.
#[expect(unsafe_code, reason = "close(2) with its result is offered by the C library alone")]
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the number comes from an owner that gives it up here, so it is open and has no other owner.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // The descriptor is closed all the same, and no data was lost.
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}

/// Closes every descriptor from 3 up, regardless of its owner. For a process that was just forked, while the
/// original continues to use the open descriptors and this one restarts with the standard three. Values that
/// owned descriptors must not be used or dropped afterwards: end with [`std::process::exit`].
///
/// # Errors
/// Those of [`close_inherited`].
pub fn close_all() -> io::Result<()> {
    close_inherited(&[])
}

/// Closes every descriptor from 3 up except those in `keep`. These are inherited by accident, such as the end
/// of a pipe whose reader waits until all copies are closed. Call it before any value owns a descriptor.
///
/// # Errors
/// The kernel lacks the call (Linux before 5.9, macOS), and there is no `/dev/fd` (on Linux a link into
/// `/proc`).
pub fn close_inherited(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd > 2).collect();
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep.iter().copied().chain([RawFd::MAX]) {
        if first < fd && !close_numbers(first, fd - 1) {
            return close_listed(&keep);
        }
        first = fd.saturating_add(1);
    }
    Ok(())
}

/// Closes the descriptors from `first` to `last`; returns false where the kernel lacks the call.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
#[expect(unsafe_code, reason = "descriptors that nothing in this process owns are closed by number")]
fn close_numbers(first: RawFd, last: RawFd) -> bool {
    let (first, last) = (first.cast_unsigned(), last.cast_unsigned());
    // By number on Linux: old C libraries lack the function.
    // SAFETY: no memory is involved, and as documented at `close_inherited` nothing owns these descriptors.
    #[cfg(target_os = "linux")]
    return unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 };
    // SAFETY: as above.
    #[cfg(target_os = "freebsd")]
    return unsafe { libc::close_range(first, last, 0) == 0 };
}

/// macOS has no such call.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
fn close_numbers(_: RawFd, _: RawFd) -> bool {
    false
}

/// Like [`close_inherited`], by the list in `/dev/fd`.
#[expect(unsafe_code, reason = "descriptors that nothing in this process owns are closed by number")]
fn close_listed(keep: &[RawFd]) -> io::Result<()> {
    let names = std::fs::read_dir("/dev/fd")?.flatten().map(|entry| entry.file_name());
    let numbers: Vec<RawFd> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    for fd in numbers.into_iter().filter(|fd| *fd > 2 && !keep.contains(fd)) {
        // SAFETY: as documented, no value owns it. The list's own descriptor is closed by now, so this call
        // may fail harmlessly.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Opens `/dev/null` for both directions.
pub fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// Takes over descriptors 0 and 1, inherited from the parent process, and leaves `/dev/null` in their place.
pub fn take_stdin_stdout() -> io::Result<(OwnedFd, OwnedFd)> {
    let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let stdout = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((stdin, stdout))
}

/// A duplicate of the inherited descriptor `number`, which must be at least 3.
#[expect(unsafe_code, reason = "a number from the command line becomes a descriptor")]
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(rustix::io::Errno::BADF.into());
    }
    // SAFETY: the number is borrowed only for the call that duplicates it, which fails where it is not open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}

/// Opens `/dev/null` for every standard descriptor that is closed, so that no file opened later gets its
/// number. Call it first in `main`.
pub fn sanitize_stdio() -> io::Result<()> {
    loop {
        let fd = null()?;
        if std::os::fd::AsRawFd::as_raw_fd(&fd) > 2 {
            return Ok(());
        }
        // The number must stay in use for the rest of the process.
        std::mem::forget(fd);
    }
}

/// Replaces this process's standard error, which its children inherit, by `file`.
pub fn replace_stderr(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(file)?)
}

/// Points descriptors 0 to 2 at `/dev/null`.
pub fn null_stdio() -> io::Result<()> {
    let null = null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn reserved_descriptors_have_space_in_the_table() {
        reserve(600);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        assert!(size.trim().parse::<usize>().unwrap() >= 600, "{size}");
    }

    #[test]
    fn pipes_have_a_useful_size_and_can_be_nonblocking() {
        let (reader, writer) = pipe().unwrap();
        assert!(rustix::pipe::fcntl_getpipe_size(&writer).unwrap() >= 65536);
        set_nonblocking(&reader, true).unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]).unwrap_err(), rustix::io::Errno::AGAIN);
        set_nonblocking(&reader, false).unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 9]).unwrap(), 1);
    }
}
