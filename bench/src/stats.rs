//! Medians, spreads and ratios.

/// Minimum, median and maximum of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Minimum.
    pub min: f64,
    /// Median; the mean of the two middle values if their number is even.
    pub median: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`; `None` without any. NaN and infinite values are left out.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self { min, median: middle(&sorted), max })
    }
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    if sorted.len().is_multiple_of(2) { f64::midpoint(at(half.wrapping_sub(1)), at(half)) } else { at(half) }
}

/// The value below which the share `q` (0 to 1) of the values is, by the nearest rank.
pub fn percentile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let rank = (q.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// A number with three significant digits.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `a / b`; `None` where it is not meaningful.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    let ratio = a / b;
    (b > 0.0 && ratio.is_finite()).then_some(ratio)
}

/// Direction in which a measure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Higher is better: MB/s.
    Higher,
    /// Lower is better: seconds, CPU, memory.
    Lower,
}

impl Better {
    /// Ratio by which `ours` is better than `theirs`; below 1 it is worse.
    pub fn advantage(self, ours: f64, theirs: f64) -> Option<f64> {
        match self {
            Self::Higher => ratio(ours, theirs),
            Self::Lower => ratio(theirs, ours),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), Some(Spread { min: 1.0, median: 2.5, max: 4.0 }));
        assert_eq!(Spread::of(&[7.0]), Some(Spread { min: 7.0, median: 7.0, max: 7.0 }));
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
    }

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), Some(99.0));
        assert_eq!(percentile(&values, 0.5), Some(50.0));
        assert_eq!(percentile(&values, 1.0), Some(100.0));
        assert_eq!(percentile(&[5.0], 0.99), Some(5.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn advantage_is_above_one_for_the_better_value() {
        assert_eq!(Better::Higher.advantage(200.0, 100.0), Some(2.0));
        assert_eq!(Better::Lower.advantage(1.0, 4.0), Some(4.0));
        assert_eq!(Better::Higher.advantage(1.0, 0.0), None);
        assert_eq!(Better::Lower.advantage(0.0, 1.0), None);
    }
}
