//! How the scheduler divides the processor's time.
//!
//! Where the kernel schedules by session (`kernel.sched_autogroup_enabled`, sched(7)), nice values count only
//! among the processes of a session, and the group of each session has a nice value of its own.
#![expect(unsafe_code, reason = "no library wraps sched_setattr(2)")]

use std::ffi::CStr;
use std::io;
use std::io::Write as _;
use std::time::Duration;

use rustix::process::{Pid, setpriority_process};

/// `struct sched_attr` in its first version (sched_setattr(2)).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The nice value of the group of processes that the reader belongs to.
const GROUP: &CStr = c"/proc/self/autogroup";

/// Priority of a process, and of the group of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// Nice value of the process.
    pub nice: i32,
    /// Its time slice ([`set`]).
    pub slice: Option<Duration>,
    /// Nice value of the group.
    pub group: i32,
}

impl Priority {
    /// Gives the calling thread and its session's group this priority, as far as the kernel permits.
    pub fn set(self) {
        Prepared::from(self).set();
    }
}

/// A priority that can be set between fork and exec.
#[derive(Debug)]
pub(crate) struct Prepared {
    priority: Priority,
    /// Text of the group's value.
    text: [u8; 4],
    length: usize,
}

impl From<Priority> for Prepared {
    fn from(priority: Priority) -> Self {
        let mut text = [0; 4];
        let mut rest = &mut text[..];
        // Values have three characters at most (sched(7)).
        let _ = write!(rest, "{}", priority.group.clamp(-20, 19));
        let length = 4 - rest.len();
        Self { priority, text, length }
    }
}

impl Prepared {
    /// Makes async-signal-safe system calls only.
    pub(crate) fn set(&self) {
        let Priority { nice, slice, .. } = self.priority;
        // Kernels before Linux 5.3, and some containers, know nice values only.
        if set(None, nice, slice).is_err() {
            let _ = setpriority_process(None, nice);
        }
        // There is no such file without groups.
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(GROUP, flags, rustix::fs::Mode::empty()) {
            let _ = rustix::io::write(&file, self.text.get(..self.length).unwrap_or_default());
        }
    }
}

/// Leaves the policy as it is (`SCHED_FLAG_KEEP_POLICY`, Linux 5.3).
const KEEP_POLICY: u64 = 0x08;

/// Sets the nice value and the time slice of a process's main thread, or of the calling thread. The slice is
/// the time for which a thread may run before the scheduler considers another (since Linux 6.12); `None`: the
/// system's value. A thread that wakes up preempts a running one that has a longer slice and no higher
/// weight. Otherwise it waits until the running slice ends.
///
/// # Errors
/// The kernel does not know the call, or does not permit that nice value.
pub fn set(process: Option<Pid>, nice: i32, slice: Option<Duration>) -> io::Result<()> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        flags: KEEP_POLICY,
        nice,
        runtime: slice.map_or(0, |slice| u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX)),
        ..Attributes::default()
    };
    let pid = process.map_or(0, |pid| pid.as_raw_nonzero().get());
    // SAFETY: the kernel reads as many bytes of the structure as its first field states, and writes none.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const attributes, 0_u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slice of the calling thread, nanoseconds; `None` if this kernel does not report it.
    fn slice() -> Option<u64> {
        let told = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
        let line = told.lines().find(|line| line.starts_with("se.slice"))?;
        line.rsplit_once(':')?.1.trim().parse().ok()
    }

    /// Returns true if the kernel supports custom slices (Linux 6.12 or newer). Containers may forbid the
    /// call.
    fn has_slices() -> bool {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|word| word.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let is_known = version >= (6, 12) && slice().is_some() && is_permitted();
        if !is_known {
            lh_testkit::skip_unavailable("slices", "this kernel or container has none that can be set");
        }
        is_known
    }

    fn is_permitted() -> bool {
        std::thread::spawn(|| set(None, rustix::process::getpriority_process(None).unwrap(), None).is_ok())
            .join()
            .unwrap()
    }

    #[test]
    fn slices_are_set_and_given_back() {
        if !has_slices() {
            return;
        }
        let slices = std::thread::spawn(|| {
            let nice = rustix::process::getpriority_process(None).unwrap();
            let before = slice();
            set(None, nice, Some(Duration::from_millis(20))).unwrap();
            let long = slice();
            set(None, nice, None).unwrap();
            (before, long, slice())
        });
        let (before, long, after) = slices.join().unwrap();
        assert_eq!((long, after), (Some(20_000_000), before));
    }

    #[test]
    fn nice_values_are_set_for_one_thread() {
        if !is_permitted() {
            return lh_testkit::skip_unavailable("nice values", "sched_setattr(2) is forbidden here");
        }
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        // SAFETY: the call takes no pointer.
        if unsafe { libc::sched_getscheduler(0) } == libc::SCHED_IDLE {
            return lh_testkit::skip_unavailable("nice values", "they have no meaning under SCHED_IDLE");
        }
        // The largest nice value is 19, and this process may have it already.
        let lower = (before + 1).min(19);
        let lowered = std::thread::spawn(move || {
            set(None, lower, Some(Duration::from_millis(10))).unwrap();
            nice()
        });
        assert_eq!(lowered.join().unwrap(), lower);
        assert_eq!(nice(), before);
    }
}
