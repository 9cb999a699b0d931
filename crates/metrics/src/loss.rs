//! Decides whether lost segments limit a sender.

/// Segments below which the share of lost ones is not significant.
pub const LEAST_SEGMENTS: f64 = 5000.0;
/// Loss below which BBR does not slow down (its loss threshold, draft-ietf-ccwg-bbr, is 2 %).
const BBR_TOLERATES: f64 = 0.02;

/// True for the names of BBR's versions.
pub fn is_bbr(congestion_control: Option<&str>) -> bool {
    congestion_control.is_some_and(|name| name.starts_with("bbr"))
}

/// True where the loss of the part `lost` of the segments holds a sender to about `rate` bytes/s. `segment`
/// is in bytes, `round_trip` in seconds.
///
/// Loss limits a sender only as far as its congestion control slows down for it. Reno slows down to `MSS /
/// RTT * 1.22 / sqrt(loss)` (Mathis et al. 1997); CUBIC stays within four times that rate on paths where loss
/// is the limit. A connection much slower than that has another limit.
pub fn limits_rate(
    lost: f64,
    segment: f64,
    round_trip: f64,
    rate: f64,
    congestion_control: Option<&str>,
) -> bool {
    let bearable = segment / round_trip.max(1e-6) * 1.22 / lost.sqrt();
    (!is_bbr(congestion_control) || lost >= BBR_TOLERATES) && rate >= bearable / 4.0
}
