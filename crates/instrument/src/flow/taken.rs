//! What the command of an upload has read.

/// A moment: the system's uptime, seconds, and the bytes that the command had read.
type Look = (f64, f64);

/// The rate at which the command of an upload reads its input, bytes/s, of the lines `C=` that it reports: a
/// look at its `/proc/PID/io` each, behind this part of their time. `None` where there are too few, or the
/// system does not count what it reads.
pub(super) fn rate_of_looks(text: &str, warm_up: f64) -> Option<f64> {
    let looks: Vec<Look> = text.lines().filter_map(look).collect();
    let (first, last) = (looks.first()?, looks.last()?);
    let from = first.0 + (last.0 - first.0) * warm_up;
    let counted: Vec<&Look> = looks.iter().filter(|look| look.0 >= from).collect();
    let (first, last) = (counted.first()?, counted.last()?);
    let rate = (last.1 - first.1) / (last.0 - first.0);
    (counted.len() >= LEAST_LOOKS && rate.is_finite() && rate > 0.0).then_some(rate)
}

/// Looks for a rate.
const LEAST_LOOKS: usize = 6;

fn look(line: &str) -> Option<Look> {
    let (uptime, bytes) = line.strip_prefix("C=")?.split_once(' ')?;
    Some((uptime.parse().ok()?, bytes.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_behind_the_warm_up() {
        // Four megabytes at once, then one each second.
        let looks = |count: u32| {
            let bytes = |at: u32| if at == 0 { 0 } else { 4_000_000 + 200_000 * at };
            (0..count)
                .map(|at| format!("C={:.2} {}\n", 7.0 + 0.2 * f64::from(at), bytes(at)))
                .collect::<String>()
        };
        let rate = rate_of_looks(&format!("ready\n{}U=0 8\n", looks(20)), 0.3).unwrap();
        assert!((rate - 1e6).abs() < 1.0, "{rate}");
        assert_eq!(rate_of_looks(&looks(6), 0.3), None, "few looks");
        assert_eq!(rate_of_looks("C=1 5\n".repeat(30).as_str(), 0.0), None, "nothing is counted");
        assert_eq!(rate_of_looks("", 0.3), None);
    }
}
