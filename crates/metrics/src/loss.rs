//! Whether lost segments are what limits a sender.

/// With fewer segments a share of lost ones is chance.
pub const LEAST_SEGMENTS: f64 = 5000.0;
/// BBR does not slow down for loss below this part (its loss threshold, draft-ietf-ccwg-bbr, is 2 %).
const BBR_TOLERATES: f64 = 0.02;

/// True for the names of BBR's versions.
pub fn is_bbr(congestion_control: Option<&str>) -> bool {
    congestion_control.is_some_and(|name| name.starts_with("bbr"))
}

/// True where a part `lost` of the segments (of `segment` bytes, over a round trip in seconds) holds a sender to about `rate` bytes/s.
///
/// Loss limits a sender only as far as its congestion control slows down for it. For Reno that is to `MSS / RTT * 1.22 /
/// sqrt(loss)` (Mathis et al. 1997); CUBIC stays within four times of it on paths where loss is the limit. A connection that
/// is much slower than that has another limit.
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
