//! Load of the processors during a step. A step that leaves them idle mostly waits, and may run beside
//! another.

use std::fs;

/// Time of all processors together since the machine started, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    all: u64,
    /// Ticks without work, or waiting for a disk.
    idle: u64,
    /// Ticks in which work was runnable but another virtual machine ran.
    stolen: u64,
}

impl Ticks {
    /// Returns the kernel's counters; `None` if it reports none.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, and two
    /// that are included in user and nice (proc(5)).
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some(Self { all: ticks.iter().sum(), idle, stolen: ticks.get(7).copied().unwrap_or(0) })
    }

    /// Returns the load of the processors since `before` as text: "82 % busy". Stolen time is included from
    /// one per cent on.
    pub(crate) fn since(self, before: Self) -> String {
        let (Some(busy), Some(stolen)) =
            (self.busy_since(before), self.share(before, self.stolen, before.stolen))
        else {
            return "too short to tell".to_owned();
        };
        match stolen {
            0 => format!("{busy} % busy"),
            stolen => format!("{busy} % busy, {stolen} % of it stolen"),
        }
    }

    /// Returns the load of the processors since `before`, per cent; `None` if no tick has passed.
    pub(crate) fn busy_since(self, before: Self) -> Option<u64> {
        self.share(before, self.idle, before.idle).map(|idle| 100_u64.saturating_sub(idle))
    }

    /// Returns the growth of a number of ticks, in per cent of all ticks since `before`.
    fn share(self, before: Self, now: u64, then: u64) -> Option<u64> {
        let all = self.all.saturating_sub(before.all);
        (now.saturating_sub(then) * 100).checked_div(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_time_between() {
        let parse = |text| Ticks::parse(text).unwrap();
        let before = parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n");
        let after = parse("cpu  150 5 65 820 60 0 0 0 0 0\n");
        assert_eq!(after.since(before), "70 % busy");
        assert_eq!((after.busy_since(before), before.busy_since(before)), (Some(70), None));
        let stolen = parse("cpu  150 5 65 820 60 0 0 25 0 0\n");
        assert_eq!(stolen.since(before), "76 % busy, 20 % of it stolen");
        assert_eq!(before.since(before), "too short to tell");
        assert_eq!(Ticks::parse("intr 1 2"), None);
    }
}
