//! What a thread does not share with the others of its process.
#![expect(unsafe_code, reason = "unshare(2) can take away what other code relies on")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread a umask, a root and a working directory of its own, which begin as the process's are. Further calls
/// change nothing.
///
/// # Errors
/// The kernel refuses, as it does in some containers.
pub fn own_umask() -> io::Result<()> {
    // SAFETY: CLONE_FS separates only what is named above, and only for this thread: no descriptor and no memory goes, so
    // nothing that Rust's types promise changes.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    Ok(())
}

/// Gives the calling thread a table of descriptors of its own, in which only the standard three are open, and a copy of `keep`,
/// which is returned. Programs that other threads start inherit nothing of what it opens.
///
/// Meant for the beginning of a thread: values that hold descriptors must not move between it and others any more.
///
/// # Errors
/// The kernel refuses, as it does in some containers; then the thread is good for nothing that has to do with descriptors.
pub fn own_descriptors(keep: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the table of the other threads stays as it is, so what they own stays open; this thread is new and owns nothing.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    let kept = keep.try_clone_to_owned()?;
    let number = libc::c_uint::try_from(kept.as_raw_fd()).map_err(io::Error::other)?;
    for (first, last) in [(3, number.saturating_sub(1)), (number.saturating_add(1).max(3), libc::c_uint::MAX)]
    {
        // SAFETY: closes only in the table of this thread, which owns nothing in it but `kept`.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd as _, AsRawFd as _};

    use rustix::fs::Mode;
    use rustix::process::umask;

    #[test]
    fn descriptors_of_a_thread_are_not_seen_by_others() {
        let (kept, closed) = (File::open("/proc/self/stat").unwrap(), File::open("/dev/null").unwrap());
        let number = closed.as_raw_fd();
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let mine = File::from(super::own_descriptors(kept.as_fd())?);
                assert!(mine.metadata().is_ok(), "what is kept is there");
                let there = std::fs::read_link(format!("/proc/thread-self/fd/{number}"));
                assert!(there.is_err(), "{there:?}");
                Ok::<_, std::io::Error>(())
            });
            thread.join().unwrap()
        });
        match outcome {
            Ok(()) => assert!(closed.metadata().is_ok(), "it is open here"),
            Err(problem) => eprintln!("skipped: a thread cannot have a table of its own here: {problem}"),
        }
    }

    #[test]
    fn a_thread_of_its_own_umask_leaves_others_alone() {
        let before = umask(Mode::from_raw_mode(0o022));
        let changed = std::thread::spawn(|| {
            let own = super::own_umask();
            own.is_ok().then(|| umask(Mode::from_raw_mode(0o077)))
        });
        match changed.join().unwrap() {
            Some(inherited) => assert_eq!(inherited, Mode::from_raw_mode(0o022)),
            None => eprintln!("skipped: unshare(2) is refused here"),
        }
        assert_eq!(umask(before), Mode::from_raw_mode(0o022));
    }
}
