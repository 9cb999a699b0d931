//! Processor time goes first to clients that are known: a flood of connections must not slow their logins down.
//!
//! Where the kernel schedules by session (`kernel.sched_autogroup_enabled`, sched(7)), nice values count only among the
//! processes of a session. Each session process begins a session, so its group's value is set as well.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use lh_sys::scheduling::{self, Priority};
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// What is added to the nice value of a session process until the login, where its client is one of many. The
/// scheduler gives it about a tenth of the time of a process with the listener's own value.
const LOWER: i32 = 10;

/// What is added for each further unauthenticated connection of its source: half of the time of the one before it.
/// The connections of one source get together less than twice the time of the first.
const FURTHER: i32 = 3;

/// The largest nice value (sched(7)).
const LARGEST: i32 = 19;

/// With fewer unauthenticated connections than this, the first one of a source has the listener's priority: where
/// `MaxStartups` begins to count unless it is set.
const MANY: usize = 10;

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

/// The priority of a session process until the login. As text, `OWN,BY`, it is an argument of such processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lowered {
    /// The nice value of the listener, which the process has after the login.
    pub(crate) own: i32,
    /// What is added to it.
    by: i32,
}

impl Lowered {
    /// The priority of a connection whose source holds so many other ones that are not authenticated.
    pub(super) fn new(own: i32, held: usize) -> Self {
        let further = i32::try_from(held.saturating_sub(1)).unwrap_or(i32::MAX);
        Self { own, by: LOWER.saturating_add(further.saturating_mul(FURTHER)).min(LARGEST) }
    }
}

impl From<Lowered> for Priority {
    /// The process is displaced as soon as one with a higher priority wakes up. Processes that split off have the priority too.
    fn from(Lowered { own, by }: Lowered) -> Self {
        Self { nice: own.saturating_add(by).min(LARGEST), slice: Some(SLICE), group: by }
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.own, self.by)
    }
}

impl FromStr for Lowered {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (own, by) = text.split_once(',').ok_or("bad priority")?;
        let number = |text: &str| text.parse().map_err(|_| "bad priority");
        Ok(Self { own: number(own)?, by: number(by)? })
    }
}

/// Returns whether so many unauthenticated connections are too many for each to have the listener's priority.
/// `begin` is where `MaxStartups` begins to count.
pub(super) fn are_many(waiting: usize, begin: usize) -> bool {
    waiting >= MANY.min(begin)
}

/// Gives the calling process, and `other` of its session, back what [`own`] has returned.
pub(crate) fn restore(other: Pid, nice: i32) {
    Priority { nice, slice: None, group: 0 }.set();
    // Kernels before Linux 5.3, and some containers, know nice values only.
    if scheduling::set(Some(other), nice, None).is_err() {
        let _ = setpriority_process(Some(other), nice);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_with_more_connections_have_less_time_for_each() {
        let by = |held| Lowered::new(-5, held).by;
        assert_eq!([by(0), by(1), by(2), by(3), by(4), by(1000)], [10, 10, 13, 16, 19, 19]);
        // The kernel's weights fall to four fifths with each value.
        let weight = |held| 0.8_f64.powi(by(held));
        let first = weight(1);
        assert!((2..4).map(weight).sum::<f64>() < first);
    }

    #[test]
    fn priorities_are_read_as_they_are_written() {
        let lowered = Lowered::new(-20, 3);
        assert_eq!(lowered.to_string().parse(), Ok(lowered));
        for wrong in ["", "1", "1,", "x,1", "1,2,3"] {
            assert!(wrong.parse::<Lowered>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn many_does_not_depend_on_a_high_limit() {
        assert!(!are_many(9, 20_000));
        assert!(are_many(10, 20_000));
        assert!(are_many(3, 3));
    }
}
