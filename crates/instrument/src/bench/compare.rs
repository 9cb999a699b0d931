//! Two runs of the same path, for use in CI.

use std::fmt::Write as _;

use super::ratio::{Ratio, Verdict};
use super::results::Results;
use super::row::Row;

/// The comparison of two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// A line for each figure that both runs have.
    pub text: String,
    /// Figures that both runs have.
    pub compared: usize,
    /// Figures that are below the limit, with the whole rank interval of their ratio.
    pub worse: usize,
    /// Figures that only the old run has.
    pub gone: usize,
    /// Figures that may be below the limit or above it: their rounds scatter too much, or are too few.
    pub undecided: usize,
}

/// Compares each figure that both runs have. `fail_below` is the part of the old value that the new one must
/// reach; for times, the old one must be this part of the new one. 0 is no limit.
pub fn compare(old: &Results, new: &Results, fail_below: f64) -> Comparison {
    let mut result = Comparison { text: String::new(), compared: 0, worse: 0, gone: 0, undecided: 0 };
    let is_gone = |row: &&Row| new.rows.find(&row.table, &row.name, &row.column).is_none();
    result.gone = old.rows.0.iter().filter(is_gone).count();
    for row in &new.rows.0 {
        let Some(before) = old.rows.find(&row.table, &row.name, &row.column) else { continue };
        if before.unit != row.unit {
            continue;
        }
        let Some(ratio) = Ratio::of(row, before) else { continue };
        result.compared += 1;
        let is_open = |ratio: &Ratio| ratio.verdict == Verdict::TooFewRounds || ratio.low < fail_below;
        let instead = ratio.verdict.instead_of_ratio();
        let verdict = if ratio.verdict == Verdict::Differ && ratio.high < fail_below {
            result.worse += 1;
            "WORSE"
        } else if fail_below > 0.0 && is_open(&ratio) {
            result.undecided += 1;
            instead.unwrap_or("at the limit")
        } else if let Some(words) = instead {
            // The limit is below all that the ratio may be.
            if fail_below > 0.0 { "within the limit" } else { words }
        } else if ratio.verdict == Verdict::Same {
            "same"
        } else if ratio.median < 1.0 {
            // Without a limit, nothing says that it is little.
            if fail_below > 0.0 { "slightly worse" } else { "worse" }
        } else {
            "better"
        };
        let shown = if instead.is_some() { "–".to_owned() } else { Ratio::factor(ratio.median) };
        let _ = writeln!(
            result.text,
            "{shown:>6}  {verdict:<22}  {}, {}, {}: {} -> {}",
            row.table,
            row.name,
            row.column,
            before.unit.show(before.median()),
            row.unit.show(row.median())
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::row::{Rows, Unit};
    use super::*;

    fn results(values: &[f64], unit: Unit) -> Results {
        let mut rows = Rows::default();
        values.iter().for_each(|value| rows.add("t", "r", "c", unit, *value));
        Results {
            host: String::new(),
            server: String::new(),
            time: String::new(),
            seconds: 1.0,
            limit: None,
            rounds: 3,
            rows,
            missing: Vec::new(),
            leftover: None,
        }
    }

    #[test]
    fn only_clear_losses_fail() {
        let of = |old: &[f64], new: &[f64], unit| {
            let compared = compare(&results(old, unit), &results(new, unit), 0.9);
            assert_eq!(compared.compared, 1);
            (compared.worse, compared.undecided)
        };
        let old = [100.0, 101.0, 102.0];
        assert_eq!(of(&old, &[80.0, 81.0, 82.0], Unit::BytesPerSecond), (1, 0));
        assert_eq!(of(&old, &[95.0, 96.0, 97.0], Unit::BytesPerSecond), (0, 0));
        assert_eq!(of(&old, &[80.0, 81.0, 82.0], Unit::Seconds), (0, 0));
        let words = |new: &[f64], fail_below| {
            let unit = Unit::BytesPerSecond;
            let text = compare(&results(&[100.0; 5], unit), &results(new, unit), fail_below).text;
            text.split("  ").filter(|part| !part.is_empty()).nth(1).unwrap_or_default().trim().to_owned()
        };
        // A third is a slight loss by no measure; a limit says what is slight.
        assert_eq!(
            (words(&[33.0; 5], 0.0), words(&[93.0; 5], 0.9)),
            ("worse".into(), "slightly worse".into())
        );
        assert_eq!(of(&old, &[130.0, 131.0, 132.0], Unit::Seconds), (1, 0));
        // What may be a loss is neither one nor none: noise, few rounds, a ratio at the limit.
        assert_eq!(of(&old, &[20.0, 81.0, 142.0], Unit::BytesPerSecond), (0, 1));
        assert_eq!(of(&old, &[20.0], Unit::BytesPerSecond), (0, 1));
        assert_eq!(of(&old, &[90.0, 91.0, 92.0], Unit::BytesPerSecond), (0, 1));
        // Noise above the limit is no loss.
        assert_eq!(of(&old, &[95.0, 120.0, 180.0], Unit::BytesPerSecond), (0, 0));
        let others = compare(&results(&[], Unit::Seconds), &results(&old, Unit::Seconds), 0.9);
        assert_eq!((others.compared, others.gone), (0, 0));
        let less = compare(&results(&old, Unit::Seconds), &results(&[], Unit::Seconds), 0.9);
        assert_eq!((less.compared, less.gone), (0, 1));
    }

    #[test]
    fn noise_has_words_in_place_of_a_ratio() {
        let text = |new: &[f64], limit| {
            let [old, new] = [&[100.0, 101.0, 102.0], new].map(|values| results(values, Unit::Seconds));
            compare(&old, &new, limit).text
        };
        let noisy = text(&[60.0, 101.0, 150.0], 0.0);
        assert!(noisy.trim_start().starts_with("–  too noisy to tell "), "{noisy}");
        let few = text(&[101.0], 0.0);
        assert!(few.trim_start().starts_with("–  too few rounds to tell "), "{few}");
        let clear = text(&[50.0, 51.0, 52.0], 0.0);
        assert!(clear.trim_start().starts_with("2.0  better "), "{clear}");
    }
}
