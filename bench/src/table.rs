//! A table of contestants and their measurements, and the rounds that fill it.

use crate::stats::{Better, Spread, ratio};

/// Relation of a row to Longhaul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Longhaul itself.
    Ours,
    /// Another program with the same function.
    Peer,
    /// A limit of the machine, without SSH.
    Ceiling,
}

/// One measured quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name with unit: `MB/s`.
    pub name: &'static str,
    /// Direction in which it improves.
    pub better: Better,
    /// One value per round.
    pub values: Vec<f64>,
}

impl Series {
    /// Median and bounds.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(&self.values)
    }
}

/// One value of one run: name with unit, direction of improvement, value.
pub type Measured = (&'static str, Better, f64);

/// A contestant in a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the row.
    pub name: String,
    /// Relation to Longhaul.
    pub role: Role,
    /// The measurements; the first is the table's main one.
    pub series: Vec<Series>,
    /// Why the row was excluded.
    pub failure: Option<String>,
}

impl Row {
    /// A row without measurements.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, series: Vec::new(), failure: None }
    }

    /// Adds the values of one run.
    pub fn add(&mut self, run: &[Measured]) {
        for &(name, better, value) in run {
            match self.series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.values.push(value),
                None => self.series.push(Series { name, better, values: vec![value] }),
            }
        }
    }

    /// True for a peer that is not Longhaul itself with other settings or another server.
    pub fn is_other_program(&self) -> bool {
        self.role == Role::Peer && !self.name.starts_with("longhaul")
    }

    /// The series with this name.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}

/// The result of one scenario with one set of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The scenario's name on the command line.
    pub scenario: &'static str,
    /// Description for a heading.
    pub title: String,
    /// Its rows, ours first.
    pub rows: Vec<Row>,
}

impl Table {
    /// Ratio by which Longhaul's median is better than that of `row` in the series `name`.
    pub fn advantage(&self, row: &Row, name: &str) -> Option<f64> {
        let ours = self.rows.iter().find(|row| row.role == Role::Ours)?.series(name)?;
        let theirs = row.series(name)?;
        ours.better.advantage(ours.spread()?.median, theirs.spread()?.median)
    }

    /// Longhaul's median in the series `name` as a part of the best peer's (0.35: about a third). `None`
    /// without a peer that has the series.
    pub fn part_of_best_peer(&self, name: &str) -> Option<f64> {
        let median = |row: &Row| Some((row.series(name)?.better, row.series(name)?.spread()?.median));
        let (better, ours) = self.rows.iter().find(|row| row.role == Role::Ours).and_then(median)?;
        let peers = self.rows.iter().filter(|row| row.is_other_program()).filter_map(median);
        let best = peers.map(|(_, value)| value).reduce(match better {
            Better::Higher => f64::max,
            Better::Lower => f64::min,
        })?;
        ratio(ours, best)
    }
}

/// A contestant to be measured.
pub struct Entry<'a> {
    name: String,
    role: Role,
    before: Option<Box<dyn FnMut() + 'a>>,
    run: Box<dyn FnMut() -> Result<Vec<Measured>, String> + 'a>,
}

impl<'a> Entry<'a> {
    /// A contestant and a function that runs it once.
    pub fn new(
        name: impl Into<String>,
        role: Role,
        run: impl FnMut() -> Result<Vec<Measured>, String> + 'a,
    ) -> Self {
        Self { name: name.into(), role, before: None, run: Box::new(run) }
    }

    /// Name of its row.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a preparation that runs before each run and is not measured.
    pub fn before(&mut self, prepare: impl FnMut() + 'a) {
        self.before = Some(Box::new(prepare));
    }

    /// Appends a remark to the name.
    pub fn note(&mut self, text: &str) {
        self.name = format!("{} ({text})", self.name);
    }
}

/// Runs all entries in turn, `rounds` times (A B C, A B C, …), and returns their table. A failing entry is
/// reported and excluded; the others continue.
pub fn interleave(scenario: &'static str, title: String, rounds: usize, entries: Vec<Entry<'_>>) -> Table {
    eprintln!("--- {scenario}: {title}");
    let mut rows: Vec<Row> = entries.iter().map(|entry| Row::new(&entry.name, entry.role)).collect();
    let mut entries = entries;
    for round in 1..=rounds {
        for (entry, row) in entries.iter_mut().zip(&mut rows) {
            if row.failure.is_some() {
                continue;
            }
            if let Some(prepare) = &mut entry.before {
                prepare();
            }
            match (entry.run)() {
                Ok(run) => {
                    let shown: Vec<String> =
                        run.iter().map(|(name, _, value)| format!("{value:.4} {name}")).collect();
                    eprintln!("    {round}/{rounds} {:<24} {}", entry.name, shown.join(", "));
                    row.add(&run);
                }
                Err(error) => {
                    eprintln!("    {round}/{rounds} {:<24} FAILED: {error}", entry.name);
                    row.failure = Some(error);
                }
            }
        }
    }
    Table { scenario, title, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn rounds_are_interleaved_and_failures_end_one_row_only() {
        let order = RefCell::new(String::new());
        let entry = |name: &'static str, value: f64, fails: bool| {
            let order = &order;
            Entry::new(name, if name == "a" { Role::Ours } else { Role::Peer }, move || {
                order.borrow_mut().push_str(name);
                if fails { Err("no".to_owned()) } else { Ok(vec![("s", Better::Lower, value)]) }
            })
        };
        let entries = vec![entry("a", 2.0, false), entry("b", 5.0, false), entry("c", 1.0, true)];
        let table = interleave("test", String::new(), 3, entries);
        assert_eq!(*order.borrow(), "abcabab");
        assert_eq!(table.rows[0].series("s").unwrap().values.len(), 3);
        assert_eq!(table.rows[2].failure.as_deref(), Some("no"));
        assert_eq!(table.advantage(&table.rows[1], "s"), Some(2.5));
        assert_eq!(table.advantage(&table.rows[2], "s"), None);
        assert_eq!(table.part_of_best_peer("s"), Some(0.4));
    }

    #[test]
    fn best_peer_is_the_best_other_program() {
        let row = |name: &str, role, value: f64| {
            let mut row = Row::new(name, role);
            row.add(&[("s", Better::Lower, value), ("MB/s", Better::Higher, value)]);
            row
        };
        let mut rows = vec![row("longhaul", Role::Ours, 2.0)];
        let table = |rows: &[Row]| Table { scenario: "test", title: String::new(), rows: rows.to_vec() };
        assert_eq!(table(&rows).part_of_best_peer("s"), None);
        rows.extend([row("openssh", Role::Peer, 8.0), row("hpn", Role::Peer, 5.0)]);
        rows.extend([row("longhaul, unverified", Role::Peer, 1.0), row("raw TCP", Role::Ceiling, 1.0)]);
        assert_eq!(table(&rows).part_of_best_peer("s"), Some(0.4));
        assert_eq!(table(&rows).part_of_best_peer("MB/s"), Some(0.25));
        assert_eq!(table(&rows).part_of_best_peer("other"), None);
    }
}
