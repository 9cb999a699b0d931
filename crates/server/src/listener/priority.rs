//! CPU priority of sessions before the login: known clients go first, so that a flood of connections does not
//! slow their logins.
//!
//! Where the kernel schedules by session (`kernel.sched_autogroup_enabled`, sched(7)), nice values count only
//! among the processes of a session. Each session process begins a session, so its group's value is set as
//! well.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use lh_sys::scheduling::{self, Priority};
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// Added to the nice value of a session process until the login, when its client is one of many. The
/// scheduler then gives it about a tenth of the CPU time of a process with the listener's own value.
const LOWER: i32 = 10;

/// Added for each further unauthenticated connection of the source: each gets half of the CPU time of the one
/// before it. All connections of one source together get less than twice the time of the first.
const FURTHER: i32 = 3;

/// The largest nice value (sched(7)).
const LARGEST: i32 = 19;

/// Number of unauthenticated connections from which the first one of a source is lowered too: the default of
/// `MaxStartups`' first value.
const MANY: usize = 10;

/// Time slice of a lowered process: longer than the scheduler's default of a few milliseconds. Processes with
/// shorter slices need not wait for its end, and a login switches between processes about ten times.
const SLICE: Duration = Duration::from_millis(20);

/// File with the nice value of this process's scheduler group.
const GROUP: &str = "/proc/self/autogroup";

/// Returns the listener's nice value, which sessions restore after the login. `None` where they could not
/// restore it.
pub(super) fn own() -> Option<i32> {
    static OWN: OnceLock<Option<i32>> = OnceLock::new();
    *OWN.get_or_init(|| {
        // In containers root often lacks the right to raise a priority. Nice values belong to threads, so a
        // thread that ends makes the attempt.
        let attempt = || {
            let own = getpriority_process(None).ok()?;
            setpriority_process(None, own.saturating_add(1)).ok()?;
            setpriority_process(None, own).ok()?;
            is_group_settable().then_some(own)
        };
        std::thread::spawn(attempt).join().ok().flatten()
    })
}

/// The priority of a session process until the login. As text, `OWN,BY`, it is an argument of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lowered {
    /// The listener's nice value, which the process restores after the login.
    pub(crate) own: i32,
    /// Added to `own` until the login.
    by: i32,
}

impl Lowered {
    /// Returns the priority of a connection whose source has `held` other unauthenticated connections.
    pub(super) fn new(own: i32, held: usize) -> Self {
        let further = i32::try_from(held.saturating_sub(1)).unwrap_or(i32::MAX);
        Self { own, by: LOWER.saturating_add(further.saturating_mul(FURTHER)).min(LARGEST) }
    }
}

impl From<Lowered> for Priority {
    /// The process is displaced as soon as one with a higher priority wakes up. Processes that split off have
    /// the priority too.
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

/// Returns whether `waiting` unauthenticated connections are too many for all to have the listener's
/// priority. `begin` is the first value of `MaxStartups`.
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

/// Returns whether a group's nice value can be set at any time, or groups do not exist. Without CAP_SYS_ADMIN
/// the kernel permits only ten changes a second on the whole machine, so a session might keep its low value
/// after the login.
fn is_group_settable() -> bool {
    let Ok(shown) = fs::read_to_string(GROUP) else { return true };
    // The file contains `/autogroup-NUMBER nice VALUE`, or nothing where the feature is off.
    let Some(now) = shown.split_whitespace().last() else { return true };
    // Only the second of two writes within a tenth of a second meets the kernel's limit.
    (0..2).all(|_| fs::write(GROUP, now).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_with_more_connections_have_less_time_for_each() {
        let by = |held| Lowered::new(-5, held).by;
        assert_eq!([by(0), by(1), by(2), by(3), by(4), by(1000)], [10, 10, 13, 16, 19, 19]);
        // The kernel's weight of a process falls to four fifths with each nice value.
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
