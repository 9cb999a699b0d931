//! Descriptors: pipes with room, flags, and the standard three.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

/// What a pipe between a session and its program is enlarged to, in bytes: fewer wake-ups per megabyte. It is the
/// size an unprivileged process may ask for by default (`/proc/sys/fs/pipe-max-size`).
pub const PIPE_LEN: usize = 1 << 20;

/// A pipe (read end, write end), close-on-exec, enlarged to [`PIPE_LEN`] where the kernel allows.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // A user over his pipe budget gets the default 64 KiB, which works as well.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_LEN);
    Ok((reader, writer))
}

/// Switches non-blocking mode. It belongs to the open file, so whoever shares it is affected too.
pub fn set_nonblocking(fd: impl AsFd, on: bool) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    let wanted = if on { flags | OFlags::NONBLOCK } else { flags - OFlags::NONBLOCK };
    if wanted != flags {
        fcntl_setfl(&fd, wanted)?;
    }
    Ok(())
}

/// Closes a descriptor and says whether that went well: a network file system may tell only now that what was
/// written did not fit. Dropping an `OwnedFd` keeps such errors to itself.
#[expect(unsafe_code, reason = "close(2) with its result is offered by the C library alone")]
pub fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the number comes from an owner that gives it away here, so it is open and nobody else's.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // The descriptor is gone all the same, and nothing was lost.
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}

/// Closes every descriptor from 3 up, whoever owns it: for a process that has just split from another one which goes on
/// with all that was open, while this one starts anew with the standard descriptors. Values that owned descriptors must not
/// be used or dropped any more: end with [`std::process::exit`].
///
/// # Errors
/// The kernel (before 5.9) cannot do it.
#[expect(unsafe_code, reason = "close_range(2) is offered by the C library alone")]
pub fn close_all() -> io::Result<()> {
    // SAFETY: no memory is involved; what becomes of descriptors that others own is said above.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens `/dev/null` for both directions.
pub fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// Takes descriptors 0 and 1 over from whoever started this process, and leaves `/dev/null` in their place.
pub fn take_stdin_stdout() -> io::Result<(OwnedFd, OwnedFd)> {
    let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let stdout = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((stdin, stdout))
}

/// A copy of the descriptor that whoever started this process left open under `number`.
#[expect(unsafe_code, reason = "a number from the command line becomes a descriptor")]
pub fn inherited(number: std::os::fd::RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(rustix::io::Errno::BADF.into());
    }
    // SAFETY: the number is borrowed for the one call that copies it, which fails where nothing is open there.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}

/// Puts `/dev/null` in the place of the standard descriptors that are closed, so that no file opened later gets
/// their numbers. Called first thing in `main`.
pub fn sanitize_stdio() -> io::Result<()> {
    loop {
        let fd = null()?;
        if std::os::fd::AsRawFd::as_raw_fd(&fd) > 2 {
            return Ok(());
        }
        // The number must stay taken for the rest of the process.
        std::mem::forget(fd);
    }
}

/// Makes `file` this process's standard error, which its children inherit.
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
    fn pipes_are_large_and_can_be_nonblocking() {
        let (reader, writer) = pipe().unwrap();
        assert!(rustix::pipe::fcntl_getpipe_size(&writer).unwrap() >= 65536);
        set_nonblocking(&reader, true).unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]).unwrap_err(), rustix::io::Errno::AGAIN);
        set_nonblocking(&reader, false).unwrap();
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 9]).unwrap(), 1);
    }
}
