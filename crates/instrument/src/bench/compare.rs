//! Two runs of the same path, for use in CI.

use std::fmt::Write as _;

use super::results::Results;

/// The comparison of two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// A line for each figure that both runs have.
    pub text: String,
    /// Figures that both runs have.
    pub compared: usize,
    /// Figures that became worse than allowed, beyond the spread of both runs.
    pub worse: usize,
}

/// Compares each figure that both runs have. `fail_below` is the part of the old value that the new one must
/// reach; for times, the old one must be this part of the new one. A figure whose values overlap with the old
/// ones, or that is noise in either run, never fails.
pub fn compare(old: &Results, new: &Results, fail_below: f64) -> Comparison {
    let mut result = Comparison { text: String::new(), compared: 0, worse: 0 };
    for row in &new.rows.0 {
        let Some(before) = old.rows.find(&row.table, &row.name, &row.column) else { continue };
        if before.unit != row.unit || before.median() <= 0.0 || row.median() <= 0.0 {
            continue;
        }
        result.compared += 1;
        let ratio = row.median() / before.median();
        let part = if row.unit.more_is_better() { ratio } else { 1.0 / ratio };
        let verdict = if before.is_noise() || row.is_noise() {
            "noise"
        } else if !row.is_apart(before) {
            "no difference"
        } else if part < fail_below {
            result.worse += 1;
            "WORSE"
        } else if part < 1.0 {
            "slightly worse"
        } else {
            "better"
        };
        let _ = writeln!(
            result.text,
            "{part:>6.2}  {verdict:<14}  {}, {}, {}: {} -> {}",
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
            rounds: 3,
            rows,
            missing: Vec::new(),
        }
    }

    #[test]
    fn only_clear_losses_fail() {
        let worse = |old: &[f64], new: &[f64], unit| {
            let compared = compare(&results(old, unit), &results(new, unit), 0.9);
            assert_eq!(compared.compared, 1);
            compared.worse
        };
        let old = [100.0, 101.0, 102.0];
        assert_eq!(worse(&old, &[80.0, 81.0, 82.0], Unit::BytesPerSecond), 1);
        assert_eq!(worse(&old, &[95.0, 96.0, 97.0], Unit::BytesPerSecond), 0);
        assert_eq!(worse(&old, &[80.0, 81.0, 82.0], Unit::Seconds), 0);
        assert_eq!(worse(&old, &[130.0, 131.0, 132.0], Unit::Seconds), 1);
        // Noise and single values say nothing.
        assert_eq!(worse(&old, &[20.0, 81.0, 142.0], Unit::BytesPerSecond), 0);
        assert_eq!(worse(&old, &[20.0], Unit::BytesPerSecond), 0);
        let others = compare(&results(&[], Unit::Seconds), &results(&old, Unit::Seconds), 0.9);
        assert_eq!(others.compared, 0);
    }
}
