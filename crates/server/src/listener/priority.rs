//! Processor time goes first to clients that are known: a flood of connections must not slow their logins down.
//!
//! Where the kernel schedules by session (`kernel.sched_autogroup_enabled`, sched(7)), nice values count only among the
//! processes of a session. Each session process begins a session, so its group's value is set as well.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use lh_sys::scheduling;
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// What is added to the nice value of a session process until the login, where its client is one of many. The
/// scheduler gives it about a tenth of the time of a process with the listener's own value.
const LOWER: i32 = 10;

/// The largest nice value (sched(7)).
const LARGEST: i32 = 19;

/// The time slice of such a process: longer than the scheduler's own, a few milliseconds. Processes with shorter ones
/// need not wait for its end, and a login passes ten times from a process to one that has to wake up.
const SLICE: Duration = Duration::from_millis(20);

/// The nice value of the group of processes that this process belongs to.
const GROUP: &str = "/proc/self/autogroup";

/// The nice value of the listener, which sessions have after the login. `None` where it could not be given back.
pub(super) fn own() -> Option<i32> {
    static OWN: OnceLock<Option<i32>> = OnceLock::new();
    *OWN.get_or_init(|| {
        // Containers often keep the right to raise a priority from root. Nice values belong to threads, so the attempt
        // is a thread's that ends.
        let attempt = || {
            let own = getpriority_process(None).ok()?;
            setpriority_process(None, own.saturating_add(1)).ok()?;
            setpriority_process(None, own).ok()?;
            is_group_settable().then_some(own)
        };
        std::thread::spawn(attempt).join().ok().flatten()
    })
}

/// Lowers the priority of the calling process, which has begun a session, below that of processes with this nice
/// value, and has it displaced as soon as one of those wakes up. Processes that split off have it too.
pub(crate) fn lower(nice: i32) {
    set(None, nice.saturating_add(LOWER).min(LARGEST), Some(SLICE));
    set_group(LOWER);
}

/// Gives the calling process, and `other` of its session, back what [`own`] has returned.
pub(crate) fn restore(other: Pid, nice: i32) {
    set(None, nice, None);
    set(Some(other), nice, None);
    set_group(0);
}

fn set(process: Option<Pid>, nice: i32, slice: Option<Duration>) {
    // Kernels before Linux 5.3, and some containers, know nice values only.
    if scheduling::set(process, nice, slice).is_err() {
        let _ = setpriority_process(process, nice);
    }
}

/// Returns whether the values of groups can be set at any time, or do not exist. Without CAP_SYS_ADMIN the kernel
/// permits it to the whole machine ten times a second only: a session might keep its low value after the login.
fn is_group_settable() -> bool {
    let Ok(shown) = fs::read_to_string(GROUP) else { return true };
    // The file reads `/autogroup-NUMBER nice VALUE`, or nothing where the feature is off.
    let Some(now) = shown.split_whitespace().last() else { return true };
    // Only the second of two attempts within a tenth of a second meets that limit.
    (0..2).all(|_| fs::write(GROUP, now).is_ok())
}

/// Sets the nice value of the group that the scheduler has made of this process's session.
fn set_group(nice: i32) {
    // There is no such file without that feature.
    let _ = fs::write(GROUP, nice.to_string());
}
