//! What decides an SSH process's share of the processors, besides limits: its priority, the processors that
//! it may use, and how many threads want them (proc(5), sched(7)).

use super::stolen::permitted;

/// Place of the priority among the fields of `/proc/PID/stat` behind the name, and that of the policy.
const FIELDS: (usize, usize) = (16, 38);
/// The policy `SCHED_IDLE`.
const IDLE_POLICY: i64 = 5;

/// Priority of a process, and the processors that it shares with others.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Scheduling {
    /// Nice value, from -20 to 19: others have more of a processor where it is above 0.
    pub(crate) nice: i64,
    /// It runs where no other process wants to (`SCHED_IDLE`).
    pub(crate) is_idle_policy: bool,
    /// Processors that it may use, and all of the machine.
    pub(crate) processors: Option<(u32, u32)>,
    /// Average number of threads of the machine that ran or could have; server only.
    pub(crate) runnable: Option<f64>,
}

impl Scheduling {
    /// Reads the line of `/proc/PID/stat`, what [`permitted`] reads, and what the function `S` of the looks
    /// prints.
    pub(super) fn of(stat: &str, allowed: &str, looks: &str) -> Self {
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |at: usize| {
            rest.split_whitespace().nth(at).and_then(|word| word.parse::<i64>().ok()).unwrap_or(0)
        };
        let look = |at: usize| looks.split_whitespace().nth(at).and_then(|word| word.parse::<f64>().ok());
        // The shell that looks is one of them.
        let mean = |(looks, sum): (f64, f64)| (sum / looks.max(1.0) - 1.0).max(0.0);
        let runnable = look(1).zip(look(2)).map(mean);
        Self {
            nice: field(FIELDS.0),
            is_idle_policy: field(FIELDS.1) == IDLE_POLICY,
            processors: permitted(allowed),
            runnable,
        }
    }

    /// Returns whether others of the usual priority have more of a processor.
    pub(crate) const fn is_low(self) -> bool {
        self.nice > 0 || self.is_idle_policy
    }

    /// Returns whether the process may run on every processor.
    pub(crate) fn may_use_all(self) -> bool {
        self.processors.is_some_and(|(permitted, all)| permitted >= all)
    }

    /// The part of a processor that each of the threads has where all are alike and none is limited; none
    /// where the process may not use all processors.
    pub(crate) fn fair_share(self) -> Option<f64> {
        let (_, all) = self.processors.filter(|_| self.may_use_all())?;
        Some((f64::from(all) / self.runnable?.max(1.0)).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_and_share_are_read() {
        let stat = |nice: i64, policy: i64| {
            let times = "150 25 1000 25";
            format!(
                "12 (sshd: a) b) S 1 1 1 0 -1 4194560 1 0 0 0 {times} 20 {nice} 1 0 9 {} {policy} 0",
                "0 ".repeat(18)
            )
        };
        let got = Scheduling::of(&stat(0, 0), "Cpus_allowed:\t3 2", "0 20 120");
        assert_eq!((got.is_low(), got.runnable, got.fair_share()), (false, Some(5.0), Some(0.4)), "{got:?}");
        let got = Scheduling::of(&stat(19, 0), "Cpus_allowed:\t1 2", "0 20 20");
        assert_eq!((got.nice, got.processors, got.fair_share()), (19, Some((1, 2)), None), "{got:?}");
        assert!(got.is_low() && Scheduling::of(&stat(0, 5), "", "").is_low());
        // Servers that tell nothing, or count no threads.
        assert_eq!(Scheduling::of("", "", "3 20"), Scheduling::default());
    }

    #[test]
    fn own_process_is_read() {
        let text = |file: &str| std::fs::read_to_string(file).unwrap();
        let nice = Scheduling::of(&text("/proc/self/stat"), "", "").nice;
        assert!((-20..=19).contains(&nice), "{nice}");
    }
}
