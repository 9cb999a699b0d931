//! Threads of this process: resources that one thread does not share with the others, and CPU time of each
//! thread.
#![expect(unsafe_code, reason = "unshare(2) can take away what other code relies on; sysconf(3)")]

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Gives the calling thread its own umask, root and working directory, which start as copies of the
/// process's. Further calls have no effect.
///
/// # Errors
/// The kernel refuses, as it does in some containers.
#[cfg(target_os = "linux")]
pub fn own_umask() -> io::Result<()> {
    // SAFETY: CLONE_FS separates only these properties, and only for this thread. Descriptors and memory stay
    // shared, so Rust's guarantees hold.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    Ok(())
}

/// Gives the calling thread its own table of descriptors, in which only the standard three are open, and a
/// copy of `keep`, which is returned. Programs that other threads start do not inherit descriptors that this
/// thread opens.
///
/// Call it at the start of a thread. Values that hold descriptors must not move between this thread and
/// others afterwards.
///
/// # Errors
/// The kernel refuses, as it does in some containers. The thread must then not use descriptors.
#[cfg(target_os = "linux")]
pub fn own_descriptors(keep: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the table of the other threads is unchanged, so their descriptors stay open. This thread is new
    // and owns none.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    let kept = keep.try_clone_to_owned()?;
    let number = libc::c_uint::try_from(kept.as_raw_fd()).map_err(io::Error::other)?;
    for (first, last) in [(3, number.saturating_sub(1)), (number.saturating_add(1).max(3), libc::c_uint::MAX)]
    {
        // SAFETY: closes descriptors only in this thread's table, in which the thread owns only `kept`.
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

/// A thread of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub id: u32,
    /// Name of the thread, at most 15 bytes. The first thread is called `main`, because its name is that of
    /// an executable file.
    pub name: String,
    /// CPU time used so far, user and system together. The resolution is 10 ms if the kernel reports only
    /// ticks.
    pub cpu: Duration,
}

/// The threads of this process, in the order of their ids. Threads that have ended are left out.
///
/// # Errors
/// `/proc` is missing, as on other systems than Linux.
pub fn all() -> io::Result<Vec<Thread>> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread may have ended meanwhile.
        let stat = crate::proc_file::read(&format!("/proc/self/task/{id}/stat")).unwrap_or_default();
        let (Some(name), Some(ticks)) = (name_of(&stat), ticks_of(&stat)) else { continue };
        let exact = crate::proc_file::read(&format!("/proc/self/task/{id}/schedstat")).ok();
        let exact = exact.and_then(|text| nanos_of(&text)).map(Duration::from_nanos);
        let name = if id == std::process::id() { "main" } else { name };
        threads.push(Thread { id, name: name.to_owned(), cpu: exact.unwrap_or_else(|| time_of(ticks)) });
    }
    threads.sort_by_key(|thread| thread.id);
    Ok(threads)
}

/// Returns the name in a line of `stat`. It may contain spaces and parentheses.
fn name_of(stat: &str) -> Option<&str> {
    let (before, _) = stat.rsplit_once(") ")?;
    before.split_once('(').map(|(_, name)| name)
}

/// Returns the CPU time in a line of `schedstat`, nanoseconds. Kernels that do not count it write zeros.
fn nanos_of(schedstat: &str) -> Option<u64> {
    schedstat.split(' ').next()?.parse().ok().filter(|nanos| *nanos > 0)
}

/// Returns the user and system time in a line of `stat`, ticks. The name in parentheses may contain spaces.
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
        assert_eq!(super::name_of(stat), Some("a b) c"));
        assert_eq!(super::name_of("7 (a"), None);
        assert_eq!(super::nanos_of("2200000 900 5\n"), Some(2_200_000));
        assert_eq!(super::nanos_of("0 0 0\n"), None);
        let busy = std::thread::Builder::new().name("busy one".to_owned());
        let threads = busy.spawn(|| {
            while super::own_cpu() < std::time::Duration::from_millis(50) {}
            super::all().unwrap()
        });
        let threads = threads.unwrap().join().unwrap();
        assert!(threads.is_sorted_by_key(|thread| thread.id), "{threads:?}");
        assert!(threads.iter().any(|thread| thread.name == "main" && thread.id == std::process::id()));
        let busy = threads.iter().find(|thread| thread.name == "busy one").unwrap();
        assert!(busy.cpu >= std::time::Duration::from_millis(30), "{busy:?}");
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
