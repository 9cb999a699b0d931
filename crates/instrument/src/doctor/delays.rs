//! From when on a delay counts as slow, by how often it was measured; and the slow stages of logins.

use super::facts::Logins;
use crate::stage::Stage;
use crate::stats::{lowest, time};

/// A delay that counts although it was measured only twice, seconds.
pub(super) const SLOW: f64 = 0.4;
/// A delay that counts where it was measured often and is alike each time, seconds. People notice less than
/// that, and busy machines add as much.
pub(super) const NOTICEABLE: f64 = 0.15;
/// Measurements for that verdict.
pub(super) const OFTEN: usize = 4;
/// How many times longer than the shortest one all of them may be: what a busy machine adds varies more.
const ALIKE: f64 = 1.6;

/// The shortest of these delays, seconds, where they were measured often and are alike.
pub(super) fn steady(delays: &[f64]) -> Option<f64> {
    let least = lowest(delays.iter().copied()).filter(|least| *least >= NOTICEABLE)?;
    let is_alike = delays.iter().all(|delay| *delay <= ALIKE * least);
    (delays.len() >= OFTEN && is_alike).then_some(least)
}

/// A stage that is slow in every login: seconds that it takes, and those of them beyond its round trips.
#[derive(Debug, Clone)]
pub(super) struct Slow {
    pub(super) stage: Stage,
    pub(super) took: f64,
    pub(super) excess: f64,
}

/// The evidence of a slow stage.
pub(super) fn took(logins: &Logins, slow: &Slow) -> String {
    format!(
        "{} took {} (median of {} logins; a whole login {})",
        slow.stage.words(),
        time(slow.took),
        logins.timed.len(),
        time(logins.median().unwrap_or(slow.took))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_delays_count_where_they_are_alike() {
        assert_eq!(steady(&[0.25, 0.31, 0.27, 0.26]), Some(0.25));
        // Too few, too short, and what varies as on a busy machine.
        assert_eq!(steady(&[0.25, 0.31, 0.27]), None);
        assert_eq!(steady(&[0.1, 0.11, 0.12, 0.1]), None);
        assert_eq!(steady(&[0.16, 0.31, 0.27, 0.2]), None);
    }
}
