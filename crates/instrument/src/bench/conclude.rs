//! Conclusions from the rows, in words; none where the rows do not permit one.

use serde_json::{Value, json};

use super::ratio::{Ratio, Verdict};
use super::row::{LEAST_VALUES, NOISY, Row, Rows};

/// Smallest ratio that is worth a sentence.
const WORTH: f64 = 1.05;

/// The best two rows of a column.
pub(super) struct Contest<'a> {
    best: &'a Row,
    next: &'a Row,
    ratio: Ratio,
}

impl Contest<'_> {
    /// The comparison as a member of the JSON's `comparisons`.
    pub(super) fn json(&self) -> Value {
        let mut value = self.ratio.json();
        if let Some(members) = value.as_object_mut() {
            for (name, text) in [
                ("table", &self.best.table),
                ("column", &self.best.column),
                ("best", &self.best.name),
                ("next", &self.next.name),
            ] {
                members.insert(name.to_owned(), json!(text));
            }
        }
        value
    }

    fn words(&self) -> String {
        let Self { best, next, ratio } = self;
        format!(
            "{}, {}: {} is best ({}), {} times better than {} ({})",
            best.table,
            best.column,
            best.name,
            best.unit.show(best.median()),
            Ratio::factor(ratio.median),
            next.name,
            next.unit.show(next.median())
        )
    }
}

/// Tables whose rows are no alternatives: a disk is no better than a cipher.
const WITHOUT_CONTEST: [&str; 2] = ["ceilings", "latency of a small message"];

/// Compares the best row of each column of each table with the next best one, where a user could choose
/// between them.
pub(super) fn contests(rows: &Rows) -> Vec<Contest<'_>> {
    let mut all = Vec::new();
    for table in rows.tables().into_iter().filter(|table| !WITHOUT_CONTEST.contains(table)) {
        let (names, columns) = rows.names(table);
        for column in columns {
            let mut of: Vec<&Row> = names.iter().filter_map(|name| rows.find(table, name, column)).collect();
            let Some(unit) = of.first().map(|row| row.unit) else { continue };
            of.sort_by(|a, b| {
                let order = a.median().total_cmp(&b.median());
                if unit.more_is_better() { order.reverse() } else { order }
            });
            let [best, next, ..] = of[..] else { continue };
            if best.unit == next.unit
                && let Some(ratio) = Ratio::of(best, next)
            {
                all.push(Contest { best, next, ratio });
            }
        }
    }
    all
}

/// Conclusions of a run: the best row of each column where it is clearly better than the next, and the
/// columns whose rounds scatter too much to name one.
pub(super) fn conclusions(rows: &Rows) -> Vec<String> {
    let contests = contests(rows);
    let is_winner =
        |contest: &&Contest<'_>| contest.ratio.verdict == Verdict::Differ && contest.ratio.median >= WORTH;
    let mut all: Vec<String> = contests.iter().filter(is_winner).map(Contest::words).collect();
    for verdict in [Verdict::TooNoisy, Verdict::TooFewRounds] {
        let Some(words) = verdict.instead_of_ratio() else { continue };
        let of: Vec<&Contest<'_>> =
            contests.iter().filter(|contest| contest.ratio.verdict == verdict).collect();
        for table in rows.tables() {
            let columns = of.iter().filter(|contest| contest.best.table == table);
            let columns: Vec<&str> = columns.map(|contest| contest.best.column.as_str()).collect();
            if !columns.is_empty() {
                all.push(format!("{table}, {}: {words} which is best", columns.join(", ")));
            }
        }
    }
    let noise = rows.0.iter().filter(|row| row.is_noise()).count();
    if noise > 0 {
        all.push(format!(
            "{noise} of {} figures are marked ~: fewer than {LEAST_VALUES} rounds, or rounds that differ by \
             more than {:.0} %",
            rows.0.len(),
            NOISY * 100.0
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::row::Unit;
    use super::*;

    #[test]
    fn only_rows_that_are_apart_are_ranked() {
        let mut rows = Rows::default();
        for value in [10.0, 10.5, 10.2] {
            rows.add("t", "a", "up", Unit::BytesPerSecond, value);
            rows.add("t", "b", "up", Unit::BytesPerSecond, value * 2.0);
            rows.add("t", "a", "wall", Unit::Seconds, value * value);
            rows.add("t", "b", "wall", Unit::Seconds, value * value + 1.0);
        }
        let got = conclusions(&rows);
        assert_eq!(got.len(), 2, "{got:?}");
        assert!(got[0].starts_with("t, up: b is best (20 B/s), 2.0 times better than a"), "{got:?}");
        // Rounds that scatter by a tenth hide a difference of a hundredth.
        assert_eq!(got[1], "t, wall: too noisy to tell which is best");
        rows.add("ceilings", "disk", "alone", Unit::BytesPerSecond, 1.0);
        rows.add("ceilings", "cipher", "alone", Unit::BytesPerSecond, 60.0);
        rows.add("t", "b", "up", Unit::BytesPerSecond, 60.0);
        let got = conclusions(&rows);
        assert_eq!(got[0], "t, up, wall: too noisy to tell which is best", "{got:?}");
        assert!(got.len() == 2 && got[1].starts_with("3 of 6 figures are marked ~"), "{got:?}");
        let verdicts: Vec<Value> = contests(&rows).iter().map(Contest::json).collect();
        assert_eq!(verdicts[0]["verdict"], "too_noisy", "{verdicts:?}");
        assert_eq!((&verdicts[0]["best"], &verdicts[0]["next"]), (&json!("b"), &json!("a")));
    }
}
