//! A window of SSH that has one size throughout.

use lh_metrics::Point;

use crate::stats::lowest;

/// Send credit below which the peer's window counts as closed, bytes: one packet.
pub(super) const CLOSED: u64 = 32_768;
/// Parts of a flow whose windows are compared.
const PARTS: usize = 3;

/// The window of the peer's channels, bytes, where the samples in which it was used up show one size from the
/// first to the last: what TCP has not delivered yet, and the credit that is left.
pub(super) fn constant_window(points: &[&Point]) -> Option<f64> {
    let window = |point: &&Point| {
        let credit = point.sample.ssh("send_credit")?;
        let under_way = point.sample.ssh("bytes_out")?.checked_sub(point.sample.tcp("bytes_acked")?)?;
        (credit < CLOSED).then_some((under_way + credit) as f64)
    };
    let part = points.len().div_ceil(PARTS).max(1);
    let largest = |points: &[&Point]| points.iter().filter_map(window).reduce(f64::max);
    let parts: Vec<f64> = points.chunks(part).map(largest).collect::<Option<_>>()?;
    let (least, most) = (lowest(parts.iter().copied())?, parts.iter().copied().reduce(f64::max)?);
    (most <= 1.2 * least).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of a sender that has sent this much more than TCP has delivered, with this credit left.
    fn under_way(windows: &[(u64, u64)]) -> Option<f64> {
        let point = |(index, (under_way, credit)): (usize, &(u64, u64))| {
            let acked = index as u64 * 500_000;
            let ssh = vec![("bytes_out", acked + under_way), ("send_credit", *credit)];
            let sample = lh_metrics::Sample { ssh, tcp: vec![("bytes_acked", acked)], ..Default::default() };
            Point { seconds: index as f64, sample }
        };
        let points: Vec<Point> = windows.iter().enumerate().map(point).collect();
        constant_window(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn window_is_constant_where_its_size_never_changes() {
        let size = 262_144;
        assert_eq!(under_way(&[(size, 0), (size - 9000, 8000), (size, 0), (size - 5, 0)]), Some(262_144.0));
        // It grew; it was not used up at the end; there is no sample.
        assert_eq!(under_way(&[(size, 0), (2 * size, 0), (4 * size, 0)]), None);
        assert_eq!(under_way(&[(size, 0), (size, 0), (size - 100_000, 100_000)]), None);
        assert_eq!(under_way(&[]), None);
    }
}
