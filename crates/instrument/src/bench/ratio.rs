//! Whether two rows differ, or their rounds scatter too much to tell.
//!
//! The ratio of two rows has a rank interval: of the ratios of all values of one to all of the other, as many
//! of the lowest and highest are left out as the Mann-Whitney test permits at a level of 90 %. With three
//! rounds each, none is left out. The rows differ where 1 is outside of the interval and the medians are
//! further apart than the values of either row: the interval alone would call one pair of equal rows in ten
//! different, and a run has a hundred pairs.

use serde_json::{Value, json};

use super::row::{LEAST_VALUES, Row};

/// Rows whose ratio lies within this part of 1 are the same for a user.
const SAME: f64 = 0.05;
/// One tail of the level of 90 %, as the number of arrangements for each that may be beyond it.
const TAIL: f64 = 20.0;
/// Values of a row that are looked at. Runs of minutes have fewer; a file may say anything.
const MOST_VALUES: usize = 30;

/// Verdict about the values of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One is better.
    Differ,
    /// They are the same within 5 %.
    Same,
    /// The rounds scatter more than the rows differ.
    TooNoisy,
    /// There are fewer than three rounds of either.
    TooFewRounds,
}

impl Verdict {
    /// Name in the JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Differ => "differ",
            Self::Same => "same",
            Self::TooNoisy => "too_noisy",
            Self::TooFewRounds => "too_few_rounds",
        }
    }

    /// Words that stand in place of a ratio; `None` where there is one.
    pub(crate) const fn instead_of_ratio(self) -> Option<&'static str> {
        match self {
            Self::Differ | Self::Same => None,
            Self::TooNoisy => Some("too noisy to tell"),
            Self::TooFewRounds => Some("too few rounds to tell"),
        }
    }
}

/// Ratio of two rows, as how many times better the first is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    /// Ratio of the medians; above 1 where the first row is better.
    pub(crate) median: f64,
    /// Ends of the rank interval.
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) verdict: Verdict,
}

impl Ratio {
    /// Compares a row with another of the same unit; `None` where a median is 0.
    pub(crate) fn of(row: &Row, other: &Row) -> Option<Self> {
        let (over, under) = if row.unit.more_is_better() { (row, other) } else { (other, row) };
        if over.median() <= 0.0 || under.median() <= 0.0 {
            return None;
        }
        let median = over.median() / under.median();
        let (low, high) = interval(&over.values, &under.values);
        let is_few = row.values.len().min(other.values.len()) < LEAST_VALUES;
        let widest = (over.high() - over.low()).max(under.high() - under.low());
        let verdict = if is_few {
            Verdict::TooFewRounds
        } else if low >= 1.0 - SAME && high <= 1.0 / (1.0 - SAME) {
            Verdict::Same
        } else if (low > 1.0 || high < 1.0) && (over.median() - under.median()).abs() > widest {
            Verdict::Differ
        } else {
            Verdict::TooNoisy
        };
        Some(Self { median, low, high, verdict })
    }

    /// A factor such as `1.27`, `2.4` or `17`: no more digits than rounds of one run share with the next.
    pub(crate) fn factor(value: f64) -> String {
        let digits = if value < 1.495 {
            2
        } else if value < 9.95 {
            1
        } else {
            0
        };
        format!("{value:.digits$}")
    }

    /// Members of the JSON.
    pub(crate) fn json(&self) -> Value {
        json!({ "ratio": self.median, "ratio_low": self.low, "ratio_high": self.high,
                "verdict": self.verdict.name() })
    }
}

/// The rank interval of the ratio of two rows.
fn interval(over: &[f64], under: &[f64]) -> (f64, f64) {
    let (over, under) = (thinned(over), thinned(under));
    let all = over.iter().flat_map(|a| under.iter().map(move |b| a / b));
    let mut all: Vec<f64> = all.filter(|ratio| !ratio.is_nan()).collect();
    all.sort_by(f64::total_cmp);
    let outside = left_out(over.len(), under.len());
    let last = all.len().saturating_sub(1);
    let at = |index: usize| all.get(index.min(last)).copied().unwrap_or(1.0);
    (at(outside), at(last.saturating_sub(outside)))
}

/// Sorts the values; of many, returns some at equal distances.
fn thinned(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let most = values.len().min(MOST_VALUES);
    let step = |index: usize| index * (values.len() - 1) / (most - 1).max(1);
    (0..most).filter_map(|index| values.get(step(index)).copied()).collect()
}

/// Returns how many of the lowest ratios lie outside of the interval, for these numbers of values.
fn left_out(first: usize, second: usize) -> usize {
    let counts = arrangements(first, second);
    let most = counts.iter().sum::<f64>() / TAIL;
    let mut below = 0.0;
    let beyond = counts.iter().take_while(|count| {
        below += **count;
        below <= most * (1.0 + 1e-9)
    });
    beyond.count().saturating_sub(1)
}

/// Counts the arrangements of two rows without a difference in which `u` pairs are in the wrong order: the
/// distribution of Mann and Whitney's U, by the Gaussian binomial coefficients.
fn arrangements(first: usize, second: usize) -> Vec<f64> {
    let mut counts = vec![0.0; first * second + 1];
    counts[0] = 1.0;
    for part in 1..=first {
        for at in (second + part..counts.len()).rev() {
            counts[at] -= counts[at - second - part];
        }
        for at in part..counts.len() {
            counts[at] += counts[at - part];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::row::Unit;
    use super::*;

    fn verdict(a: &[f64], b: &[f64]) -> Verdict {
        Ratio::of(&Row::of_rates(a), &Row::of_rates(b)).unwrap().verdict
    }

    #[test]
    fn distribution_is_mann_and_whitneys() {
        assert_eq!(arrangements(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(arrangements(3, 3).iter().sum::<f64>(), 20.0);
        assert_eq!(arrangements(4, 5).iter().sum::<f64>(), 126.0);
        // Critical values of published tables at 5 % in one tail.
        assert_eq!([(3, 3), (4, 4), (5, 5), (10, 10)].map(|(a, b)| left_out(a, b)), [0, 1, 4, 27]);
    }

    #[test]
    fn spread_larger_than_difference_has_no_winner() {
        assert_eq!(verdict(&[100.0, 101.0, 102.0], &[80.0, 81.0, 82.0]), Verdict::Differ);
        assert_eq!(verdict(&[100.0, 101.0, 102.0], &[99.0, 101.0, 103.0]), Verdict::Same);
        // Overlapping, and apart by less than the rounds scatter.
        assert_eq!(verdict(&[100.0, 140.0, 180.0], &[90.0, 120.0, 150.0]), Verdict::TooNoisy);
        assert_eq!(verdict(&[100.0, 101.0, 102.0], &[10.0, 71.0, 72.0]), Verdict::TooNoisy);
        assert_eq!(verdict(&[100.0, 101.0], &[10.0, 11.0]), Verdict::TooFewRounds);
        // A large difference needs no quiet path.
        assert_eq!(verdict(&[100.0, 140.0, 180.0], &[10.0, 12.0, 18.0]), Verdict::Differ);
    }

    #[test]
    fn less_time_is_better() {
        let seconds = |values: &[f64]| Row { unit: Unit::Seconds, ..Row::of_rates(values) };
        let ratio = Ratio::of(&seconds(&[1.0, 1.1, 1.2]), &seconds(&[2.0, 2.2, 2.4])).unwrap();
        assert_eq!((ratio.median, ratio.verdict), (2.0, Verdict::Differ));
        assert!(ratio.low > 1.6 && ratio.high < 2.5, "{ratio:?}");
    }

    #[test]
    fn factors_have_two_digits() {
        assert_eq!([0.7049, 1.274, 1.75, 16.73].map(Ratio::factor), ["0.70", "1.27", "1.8", "17"]);
    }

    #[test]
    fn endless_files_take_no_endless_time() {
        let many: Vec<f64> = (0..100_000).map(|at| f64::from(at) + 1.0).collect();
        assert_eq!(verdict(&many, &many), Verdict::TooNoisy);
        assert!(Ratio::of(&Row::of_rates(&[0.0, 0.0, 1.0]), &Row::of_rates(&[1.0, 1.0, 1.0])).is_none());
    }
}
