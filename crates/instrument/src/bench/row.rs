//! Measured rows, their statistics, and the JSON they are kept in.

use serde_json::{Value, json};

use crate::stats::{median, rate, time};

/// Version of the JSON. It rises when a member is taken away or changes its meaning.
pub(crate) const VERSION: u64 = 1;
/// Spread (highest less lowest, of the median) from which a row counts as noise.
pub(crate) const NOISY: f64 = 0.3;
/// Values for a conclusion.
pub(crate) const LEAST_VALUES: usize = 3;

/// Unit of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    BytesPerSecond,
    Seconds,
    CpuMsPerMb,
    CpuMs,
    FilesPerSecond,
}

impl Unit {
    const ALL: [(Self, &'static str); 5] = [
        (Self::BytesPerSecond, "bytes_per_second"),
        (Self::Seconds, "seconds"),
        (Self::CpuMsPerMb, "cpu_ms_per_mb"),
        (Self::CpuMs, "cpu_ms"),
        (Self::FilesPerSecond, "files_per_second"),
    ];

    /// Name in the JSON.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(unit, _)| *unit == self).map_or("", |(_, name)| name)
    }

    fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, each)| *each == name).map(|(unit, _)| unit)
    }

    /// Returns whether a higher value is better.
    pub(crate) const fn more_is_better(self) -> bool {
        matches!(self, Self::BytesPerSecond | Self::FilesPerSecond)
    }

    /// A value for people.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::BytesPerSecond => rate(value),
            Self::Seconds => time(value),
            Self::CpuMsPerMb => format!("{value:.2} ms/MB"),
            Self::CpuMs => format!("{value:.1} ms CPU"),
            Self::FilesPerSecond => format!("{value:.0} files/s"),
        }
    }
}

/// One cell of a table: all values that were measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) column: String,
    pub(crate) unit: Unit,
    pub(crate) values: Vec<f64>,
    /// The value of the round that warms up, until the run ends.
    pub(super) warm_up: Option<f64>,
}

impl Row {
    pub(crate) fn median(&self) -> f64 {
        median(self.values.iter().copied()).unwrap_or(0.0)
    }

    pub(crate) fn low(&self) -> f64 {
        self.values.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    pub(crate) fn high(&self) -> f64 {
        self.values.iter().copied().reduce(f64::max).unwrap_or(0.0)
    }

    /// Highest less lowest, as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        let median = self.median();
        if median > 0.0 { (self.high() - self.low()) / median } else { 0.0 }
    }

    /// Returns whether the values allow no conclusion.
    pub(crate) fn is_noise(&self) -> bool {
        self.values.len() < LEAST_VALUES || self.spread() > NOISY
    }

    /// Median and spread for people. A row of noise has a `~`.
    pub(crate) fn show(&self) -> String {
        let mark = if self.is_noise() { "~" } else { "" };
        if self.values.len() < 2 {
            return format!("{mark}{}", self.unit.show(self.median()));
        }
        format!("{mark}{} ±{:.0}%", self.unit.show(self.median()), self.spread() * 50.0)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "table": self.table, "row": self.name, "column": self.column, "unit": self.unit.name(),
            "better": if self.unit.more_is_better() { "higher" } else { "lower" },
            "median": self.median(), "low": self.low(), "high": self.high(), "values": self.values,
            "noise": self.is_noise(),
        })
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str().map(one_line);
        let values =
            value.get("values")?.as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<_>>>()?;
        Some(Self {
            table: text("table")?,
            name: text("row")?,
            column: text("column")?,
            unit: Unit::by_name(&text("unit")?)?,
            values,
            warm_up: None,
        })
    }
}

/// Text of a file as one line that does not steer a terminal.
pub(super) fn one_line(text: &str) -> String {
    lh_client::sanitise(&text.replace(['\n', '\r', '\t'], " "))
}

/// The rows of a run, in the order in which they were first measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows(pub(crate) Vec<Row>);

impl Rows {
    pub(crate) fn add(&mut self, table: &str, name: &str, column: &str, unit: Unit, value: f64) {
        if value.is_finite() {
            self.place(table, name, column, unit).values.push(value);
        }
    }

    /// Returns the row, which gets its place in the order with the first call.
    pub(crate) fn place(&mut self, table: &str, name: &str, column: &str, unit: Unit) -> &mut Row {
        let known =
            self.0.iter().position(|row| row.table == table && row.name == name && row.column == column);
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Row {
                table: table.to_owned(),
                name: name.to_owned(),
                column: column.to_owned(),
                unit,
                values: Vec::new(),
                warm_up: None,
            });
        }
        &mut self.0[index]
    }

    /// Keeps a value of the round that warms up, for a row that gets no other.
    pub(crate) fn warm_up(&mut self, table: &str, name: &str, column: &str, unit: Unit, value: f64) {
        let row = self.place(table, name, column, unit);
        if value.is_finite() {
            row.warm_up.get_or_insert(value);
        }
    }

    /// Gives rows without a counted value that of the round that warmed up: there was no time for another.
    pub(crate) fn use_warm_up(&mut self) {
        for row in &mut self.0 {
            let warm_up = row.warm_up.take();
            if row.values.is_empty() {
                row.values.extend(warm_up);
            }
        }
    }

    /// Removes rows that have a place and no value.
    pub(crate) fn remove_empty(&mut self) {
        self.0.retain(|row| !row.values.is_empty());
    }

    /// Names of the tables, in order.
    pub(crate) fn tables(&self) -> Vec<&str> {
        unique(self.0.iter().map(|row| row.table.as_str()))
    }

    /// Rows and columns of a table, in order.
    pub(crate) fn names(&self, table: &str) -> (Vec<&str>, Vec<&str>) {
        let of = || self.0.iter().filter(|row| row.table == table);
        (unique(of().map(|row| row.name.as_str())), unique(of().map(|row| row.column.as_str())))
    }

    pub(crate) fn find(&self, table: &str, name: &str, column: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.table == table && row.name == name && row.column == column)
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
impl Row {
    /// A row of rates.
    pub(super) fn of_rates(values: &[f64]) -> Self {
        Self {
            table: "t".into(),
            name: "r".into(),
            column: "c".into(),
            unit: Unit::BytesPerSecond,
            values: values.to_vec(),
            warm_up: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_or_few_values_are_noise() {
        assert!(Row::of_rates(&[1.0, 1.0]).is_noise());
        assert!(Row::of_rates(&[1.0, 2.0, 1.5]).is_noise());
        assert!(!Row::of_rates(&[1.0, 1.1, 1.05]).is_noise());
        assert!(Row::of_rates(&[1.0, 2.0, 1.5]).show().starts_with('~'));
    }

    #[test]
    fn rows_keep_the_order_of_their_places() {
        let mut rows = Rows::default();
        for name in ["a", "b", "c"] {
            rows.place("t", name, "up", Unit::BytesPerSecond);
        }
        // A round that goes backwards, in which one fails.
        rows.add("t", "c", "up", Unit::BytesPerSecond, 1.0);
        rows.add("t", "a", "up", Unit::BytesPerSecond, 1.0);
        rows.remove_empty();
        assert_eq!(rows.names("t").0, ["a", "c"]);
    }

    #[test]
    fn warm_up_counts_only_for_rows_without_another_round() {
        let mut rows = Rows::default();
        for name in ["a", "b"] {
            rows.warm_up("t", name, "up", Unit::BytesPerSecond, 1.0);
        }
        rows.add("t", "b", "up", Unit::BytesPerSecond, 3.0);
        rows.use_warm_up();
        let values = |name: &str| rows.find("t", name, "up").unwrap().values.clone();
        assert_eq!((values("a"), values("b")), (vec![1.0], vec![3.0]));
    }

    #[test]
    fn rows_survive_their_json() {
        let row = Row::of_rates(&[1e6, 2e6, 1.5e6]);
        assert_eq!(Row::from_json(&row.json()), Some(row));
        assert_eq!(Row::from_json(&json!({ "table": "t" })), None);
    }
}
