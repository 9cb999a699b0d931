//! Processor time that a hypervisor took from a virtual machine (`steal` in `/proc/stat`, proc(5)), and the
//! time in which processors had nothing to do.

/// Time of all processors together, clock ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Processors {
    /// Time in which they ran something, and time that was stolen.
    busy: u64,
    /// Part of `busy` in which the hypervisor ran something else.
    stolen: u64,
    /// Time in which they had nothing to do, or waited for a disk.
    idle: u64,
}

/// Busy time from which its parts mean something, clock ticks of 10 ms.
const LEAST: u64 = 50;

/// The first line of `/proc/stat`; the time of guests is part of that of users.
pub(super) fn processors(line: &str) -> Option<Processors> {
    let times: Vec<u64> =
        line.strip_prefix("cpu ")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, waits, interrupts, soft_interrupts, stolen, ..] = times[..] else {
        return None;
    };
    let all = [user, nice, system, interrupts, soft_interrupts, stolen];
    let busy = all.into_iter().fold(0, u64::saturating_add);
    Some(Processors { busy, stolen, idle: idle.saturating_add(waits) })
}

/// Returns the processor times of this machine.
pub(super) fn processors_here() -> Option<Processors> {
    processors(std::fs::read_to_string("/proc/stat").ok()?.lines().next()?)
}

/// Part of the busy time between two looks that was stolen; `None` where the processors were idle.
pub(super) fn stolen(before: Processors, after: Processors) -> Option<f64> {
    let busy = after.busy.checked_sub(before.busy).filter(|busy| *busy >= LEAST)?;
    Some(after.stolen.checked_sub(before.stolen)? as f64 / busy as f64)
}

/// Part of the time of all processors between two looks in which they had nothing to do.
pub(super) fn idle(before: Processors, after: Processors) -> Option<f64> {
    let idle = after.idle.checked_sub(before.idle)?;
    let all = idle.saturating_add(after.busy.checked_sub(before.busy)?);
    (all >= LEAST).then(|| idle as f64 / all as f64)
}

/// The processors on which a process may run, and all of them. `text` is the line `Cpus_allowed` of its
/// `/proc/PID/status` and the number of processors.
pub(super) fn permitted(text: &str) -> Option<(u32, u32)> {
    let mut words = text.split_whitespace().rev();
    let (all, mask) = (words.next()?.parse().ok()?, words.next()?);
    let permitted = mask.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum();
    (all > 0).then_some((permitted, all))
}

/// The text of [`permitted`] for this process.
pub(super) fn allowed_here() -> String {
    let text = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let (status, processors) = (text("/proc/self/status"), text("/proc/stat"));
    let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let count = processors.lines().filter(is_one).count();
    let mask = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
    mask.map_or_else(String::new, |mask| format!("{mask} {count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_part_of_the_busy_time() {
        // Two processors for four seconds, of which a neighbour had a third where they were busy.
        let before = processors("cpu  39797 0 10279 32180 762 0 163 58 0 0").unwrap();
        let after = processors("cpu  39997 0 10379 32480 762 0 173 213 0 0").unwrap();
        let part = stolen(before, after).unwrap();
        assert!((part - 155.0 / 465.0).abs() < 1e-9, "{part}");
        assert_eq!(stolen(before, before), None);
        let part = idle(before, after).unwrap();
        assert!((part - 300.0 / 765.0).abs() < 1e-9, "{part}");
        assert_eq!(idle(before, before), None);
        assert_eq!(processors("cpu0 1 2 3"), None);
        assert_eq!(processors("cpu  1 2 3 4 5 6 7"), None);
    }

    #[test]
    fn processors_of_a_process_are_counted() {
        assert_eq!(permitted("Cpus_allowed:\t3 2"), Some((2, 2)));
        assert_eq!(permitted("Cpus_allowed:\tff,ffffffff 40"), Some((40, 40)));
        // More are possible than there are.
        assert_eq!(permitted("Cpus_allowed:\tffff 2"), Some((16, 2)));
        assert_eq!(permitted("Cpus_allowed:\t1 2"), Some((1, 2)));
        assert_eq!((permitted(" 2"), permitted(""), permitted("Cpus_allowed:\t1 0")), (None, None, None));
    }
}
