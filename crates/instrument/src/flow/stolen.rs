//! Processor time that a hypervisor took from a virtual machine (`steal` in `/proc/stat`, proc(5)).

/// Time of all processors together, clock ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Processors {
    /// Time in which they ran something, and time that was stolen.
    busy: u64,
    /// Part of `busy` in which the hypervisor ran something else.
    stolen: u64,
}

/// Busy time from which its parts mean something, clock ticks of 10 ms.
const LEAST: u64 = 50;

/// The first line of `/proc/stat`; the time of guests is part of that of users.
pub(super) fn processors(line: &str) -> Option<Processors> {
    let times: Vec<u64> =
        line.strip_prefix("cpu ")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _waits, interrupts, soft_interrupts, stolen, ..] = times[..] else {
        return None;
    };
    let all = [user, nice, system, interrupts, soft_interrupts, stolen];
    Some(Processors { busy: all.into_iter().fold(0, u64::saturating_add), stolen })
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
        assert_eq!(processors("cpu0 1 2 3"), None);
        assert_eq!(processors("cpu  1 2 3 4 5 6 7"), None);
    }
}
