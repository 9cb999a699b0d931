//! What the rows say, in words; and where they say nothing.

use super::row::{LEAST_VALUES, NOISY, Row, Rows};

/// Conclusions of a run: for each column of each table the best row, if it is clearly better than the next.
pub(super) fn conclusions(rows: &Rows) -> Vec<String> {
    let mut all = Vec::new();
    let mut noise = 0;
    for table in rows.tables() {
        let (names, columns) = rows.names(table);
        for column in columns {
            let mut of: Vec<&Row> = names.iter().filter_map(|name| rows.find(table, name, column)).collect();
            noise += of.iter().filter(|row| row.is_noise()).count();
            let Some(unit) = of.first().map(|row| row.unit) else { continue };
            of.sort_by(|a, b| {
                let order = a.median().total_cmp(&b.median());
                if unit.more_is_better() { order.reverse() } else { order }
            });
            let [best, next, ..] = of[..] else { continue };
            if best.is_noise() || next.is_noise() || !best.is_apart(next) {
                continue;
            }
            let factor = (best.median() / next.median()).max(next.median() / best.median());
            if factor.is_finite() && factor >= 1.05 {
                all.push(format!(
                    "{table}, {column}: {} is best ({}), {factor:.2} times better than {} ({})",
                    best.name,
                    unit.show(best.median()),
                    next.name,
                    unit.show(next.median())
                ));
            }
        }
    }
    if noise > 0 {
        all.push(format!(
            "No conclusion from {noise} of {} figures (marked ~): fewer than {LEAST_VALUES} rounds, or rounds that differ by \
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
            rows.add("t", "a", "wall", Unit::Seconds, value);
            rows.add("t", "b", "wall", Unit::Seconds, value + 0.1);
        }
        let got = conclusions(&rows);
        assert_eq!(got.len(), 1, "{got:?}");
        assert!(got[0].starts_with("t, up: b is best (20 B/s), 2.00 times better than a"), "{got:?}");
        rows.add("t", "b", "up", Unit::BytesPerSecond, 60.0);
        let got = conclusions(&rows);
        assert!(got.len() == 1 && got[0].starts_with("No conclusion from 1 of 4"), "{got:?}");
    }
}
