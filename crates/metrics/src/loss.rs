//! Decides whether lost segments limit a sender.

/// Number of segments below which the share of lost ones is not significant.
pub const LEAST_SEGMENTS: f64 = 5000.0;
/// Share of lost segments up to which BBR does not slow down (its loss threshold, draft-ietf-ccwg-bbr, is 2
/// %).
const BBR_TOLERATES: f64 = 0.02;

/// Share of lost segments from which a sender spends much time in timeouts (Padhye et al. 1998).
const TIMEOUTS: f64 = 0.02;

/// True for the names of BBR's versions.
pub fn is_bbr(congestion_control: Option<&str>) -> bool {
    congestion_control.is_some_and(|name| name.starts_with("bbr"))
}

/// Rate that Reno reaches where the share `lost` of the segments is lost by chance, bytes/s:
/// `MSS / RTT * 1.22 / sqrt(loss)` (Mathis et al. 1997). `segment` is in bytes, `round_trip` in seconds.
pub fn bearable_rate(lost: f64, segment: f64, round_trip: f64) -> f64 {
    segment / round_trip.max(1e-6) * 1.22 / lost.sqrt()
}

/// True if the share `lost` of lost segments limits a sender to about `rate` bytes/s. `segment` is in bytes,
/// `round_trip` in seconds.
///
/// Loss limits a sender only as far as its congestion control reacts to it. Reno slows down to
/// [`bearable_rate`], and CUBIC is not slower. A connection below half of that rate has
/// another limit. With enough loss for timeouts, which the formula omits, a quarter of the rate suffices.
pub fn limits_rate(
    lost: f64,
    segment: f64,
    round_trip: f64,
    rate: f64,
    congestion_control: Option<&str>,
) -> bool {
    let bearable = bearable_rate(lost, segment, round_trip);
    let share = if lost >= TIMEOUTS { 0.25 } else { 0.5 };
    (!is_bbr(congestion_control) || lost >= BBR_TOLERATES) && rate >= share * bearable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_limits_only_a_rate_near_what_it_allows() {
        // 1448 bytes in 10 ms, at 1 % of loss 1.77 MB/s.
        let limits = |rate, control| limits_rate(0.01, 1448.0, 0.01, rate, Some(control));
        assert!(limits(1.7e6, "cubic") && limits(1e6, "reno"));
        assert!(!limits(0.6e6, "reno"), "a third of what the loss allows");
        assert!(!limits(1.7e6, "bbr"));
        // 4 % allow 0.88 MB/s by the formula, and less with timeouts.
        assert!(limits_rate(0.04, 1448.0, 0.01, 0.3e6, Some("reno")));
        assert!(limits_rate(0.04, 1448.0, 0.01, 0.3e6, Some("bbr")));
    }
}
