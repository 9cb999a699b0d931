//! Threads of this process: what one does not share with the others, and the processor time of each.
#![expect(unsafe_code, reason = "unshare(2) can take away what other code relies on; sysconf(3)")]

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

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

/// CPU time that the calling thread has used so far, user and system together.
pub fn own_cpu() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// CPU time that each thread of this process has used so far, by its id. In ticks of 10 ms. Threads that have ended are
/// left out.
///
/// # Errors
/// `/proc` is not there.
pub fn cpu_times() -> io::Result<BTreeMap<u32, Duration>> {
    let mut times = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread may have ended meanwhile.
        let stat = crate::proc_file::read(&format!("/proc/self/task/{id}/stat")).unwrap_or_default();
        times.extend(ticks_of(&stat).map(|ticks| (id, time_of(ticks))));
    }
    Ok(times)
}

/// User and system time in a line of `stat`, where a name with spaces may stand in parentheses.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11).map(|field| field.parse::<u64>().ok());
    Some(fields.next()?? + fields.next()??)
}

fn time_of(ticks: u64) -> Duration {
    // SAFETY: sysconf(3) takes any number and touches no memory of ours.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_millis(ticks.saturating_mul(1000) / u64::try_from(a_second).unwrap_or(100).max(1))
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
    fn each_thread_has_its_processor_time() {
        let stat = "7 (a b) c) R 1 7 7 0 -1 4194304 93 0 0 0 12 30 0 0 20 0 2 0 100";
        assert_eq!(super::ticks_of(stat), Some(42));
        assert_eq!(super::ticks_of("7 (a"), None);
        let before = super::cpu_times().unwrap();
        assert!(!before.is_empty());
        while super::own_cpu() < std::time::Duration::from_millis(50) {}
        let busiest = super::cpu_times().unwrap().into_values().max().unwrap();
        assert!(busiest >= std::time::Duration::from_millis(30), "{busiest:?}");
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
