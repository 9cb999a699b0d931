//! The paths of a site: a matrix of runs between hosts.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::results::Results;
use super::row::one_line;
use super::run::FILE_TABLE;
use crate::fault::{BadList, NoResults};
use crate::stats::{median, rate};

/// One path of a list.
#[derive(Debug)]
pub struct Pair {
    /// The host that measures; empty for this machine.
    pub from: String,
    /// The host that is measured.
    pub to: String,
    /// The run, or why there is none.
    pub result: Result<Results, NoResults>,
}

/// Reads a list: a host on a line, measured from here, or two, measured from the first. `#` begins a comment.
///
/// # Errors
/// The first line that is neither.
pub fn read_pairs(text: &str) -> Result<Vec<(String, String)>, BadList> {
    let mut pairs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [] => {}
            [to] => pairs.push((String::new(), to.to_owned())),
            [from, to] => pairs.push((from.to_owned(), to.to_owned())),
            _ => return Err(BadList::Line(number + 1)),
        }
    }
    if pairs.is_empty() { Err(BadList::Empty) } else { Ok(pairs) }
}

impl Pair {
    /// The pair as a line of JSON.
    pub fn json(&self) -> Value {
        let (run, error) = match &self.result {
            Ok(results) => (results.json(), Value::Null),
            Err(error) => (Value::Null, json!(error.to_string())),
        };
        json!({ "from": self.from, "to": self.to, "run": run, "error": error })
    }

    /// Reads what [`json`](Self::json) has written; `None` for other JSON.
    pub fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str().map(one_line);
        let result = match text("error") {
            Some(error) => Err(NoResults::Failed(error)),
            None => Results::from_json(value.get("run")?),
        };
        Some(Self { from: text("from")?, to: text("to")?, result })
    }

    /// Name of the host that measures, for people.
    pub(super) fn measuring_host(&self) -> &str {
        if self.from.is_empty() { "here" } else { &self.from }
    }

    /// The run, where there is one.
    pub(super) fn results(&self) -> Option<&Results> {
        self.result.as_ref().ok()
    }

    /// Highest median rates up and down, bytes/s.
    pub(super) fn rates(&self) -> Option<[f64; 2]> {
        self.rates_of_pipes().or_else(|| self.rates_of(|table| table.starts_with(FILE_TABLE)))
    }

    /// Rates without the login in them, which can be compared with those of other paths.
    fn rates_of_pipes(&self) -> Option<[f64; 2]> {
        self.rates_of(|table| !table.starts_with(FILE_TABLE))
    }

    fn rates_of(&self, is_one: impl Fn(&str) -> bool) -> Option<[f64; 2]> {
        let rows = &self.result.as_ref().ok()?.rows.0;
        let best = |column: &str| {
            let is_it = |table: &str| table.starts_with("throughput") && is_one(table);
            let of = rows.iter().filter(|row| is_it(&row.table) && row.column == column);
            of.map(super::row::Row::median).reduce(f64::max)
        };
        Some([best("up")?, best("down")?])
    }

    /// Returns whether the path is much slower than the median, where that can be told.
    pub(super) fn is_slow(&self, middle: f64) -> bool {
        self.rates_of_pipes().is_some_and(|[up, down]| up.min(down) < middle / 2.0)
    }
}

/// Median of the rates of all paths in both directions, bytes/s.
pub(super) fn middle(pairs: &[Pair]) -> f64 {
    median(pairs.iter().filter_map(Pair::rates_of_pipes).flatten()).unwrap_or(0.0)
}

/// Number of paths that are much slower than the others.
pub(super) fn summary(pairs: &[Pair]) -> String {
    if pairs.is_empty() {
        return "There is no path in this share of the list.".to_owned();
    }
    if pairs.iter().all(|pair| pair.rates().is_none()) {
        return format!("None of {} paths was measured.", pairs.len());
    }
    let middle = middle(pairs);
    let slow = pairs.iter().filter(|pair| pair.is_slow(middle)).count();
    // Paths to servers that offer SFTP alone have no rate that can be compared.
    if middle <= 0.0 {
        return format!("{} paths have rates with the login only, which are not compared.", pairs.len());
    }
    format!(
        "{slow} of {} paths have less than half the median of all ({}) in a direction.",
        pairs.len(),
        rate(middle)
    )
}

/// The matrix, and the paths that are much slower than the others.
pub fn matrix(pairs: &[Pair]) -> String {
    let mut out = String::new();
    let middle = middle(pairs);
    let width = pairs.iter().map(|pair| pair.from.len().max(4)).max().unwrap_or(4);
    let to = pairs.iter().map(|pair| pair.to.len()).max().unwrap_or(4).max(4);
    let _ = writeln!(out, "{:<width$}  {:<to$}  {:>12}  {:>12}", "from", "to", "up", "down");
    for pair in pairs {
        let from = pair.measuring_host();
        match (pair.rates(), &pair.result) {
            (Some([up, down]), _) => {
                let mark = if pair.is_slow(middle) { "  slow" } else { "" };
                let _ = writeln!(
                    out,
                    "{from:<width$}  {:<to$}  {:>12}  {:>12}{mark}",
                    pair.to,
                    rate(up),
                    rate(down)
                );
            }
            (None, Err(why)) => {
                let _ = writeln!(out, "{from:<width$}  {:<to$}  {why}", pair.to);
            }
            (None, Ok(_)) => {
                let _ = writeln!(out, "{from:<width$}  {:<to$}  nothing was measured", pair.to);
            }
        }
    }
    let _ = writeln!(out, "\n{}", summary(pairs));
    out
}

#[cfg(test)]
mod tests {
    use super::super::row::{Rows, Unit};
    use super::*;

    /// A measured path, two measured paths of which one is slow, and one without a result, after a turn as
    /// JSON.
    fn pairs() -> Vec<Pair> {
        let pair = |to: &str, up: f64| {
            let mut rows = Rows::default();
            rows.add("throughput by cipher", "a", "up", Unit::BytesPerSecond, up);
            rows.add("throughput by cipher", "a", "down", Unit::BytesPerSecond, 100e6);
            let results = Results {
                host: format!("{to}.example"),
                server: String::new(),
                time: String::new(),
                seconds: 1.0,
                limit: None,
                rounds: 1,
                rows,
                missing: Vec::new(),
                leftover: None,
            };
            Pair { from: String::new(), to: to.to_owned(), result: Ok(results) }
        };
        let lost = Pair {
            from: "a".to_owned(),
            to: "<c>".to_owned(),
            result: Err(NoResults::Failed("refused".to_owned())),
        };
        let pairs = [pair("b1", 90e6), pair("b2", 10e6), lost];
        pairs.iter().map(|pair| Pair::from_json(&pair.json()).unwrap()).collect()
    }

    #[test]
    fn slow_paths_are_marked() {
        let text = matrix(&pairs());
        assert!(text.lines().any(|line| line.contains("b2") && line.ends_with("slow")), "{text}");
        assert!(text.lines().any(|line| line.contains("b1") && !line.ends_with("slow")), "{text}");
        assert!(text.contains("refused") && text.contains("1 of 3 paths"), "{text}");
        // A job array may have more jobs than the list has paths.
        assert!(matrix(&[]).ends_with("\n\nThere is no path in this share of the list.\n"));
    }

    #[test]
    fn rates_with_the_login_are_shown_and_not_compared() {
        let mut pairs = pairs();
        if let Ok(results) = &mut pairs[1].result {
            results.rows.0.iter_mut().for_each(|row| row.table = FILE_TABLE.to_owned());
        }
        let text = matrix(&pairs);
        assert!(text.lines().any(|line| line.contains("b2") && line.ends_with("100 MB/s")), "{text}");
        assert!(text.contains("0 of 3 paths"), "{text}");
        assert!(summary(&pairs[1..]).contains("rates with the login only"), "{}", summary(&pairs[1..]));
    }

    #[test]
    fn page_of_a_site_is_a_grid_of_its_hosts() {
        let page = super::super::html::matrix_page(&pairs());
        assert!(page.contains("1 of 3 paths") && !page.contains("<c>"), "{page}");
        let grid =
            page.split("<caption>paths").nth(1).and_then(|rest| rest.split("</table>").next()).unwrap();
        let rows: Vec<&str> = grid.split("<tr").skip(1).collect();
        assert_eq!(rows.len(), 3, "a heading and two hosts that measure: {grid}");
        for (row, host, cells) in [
            (rows[1], ">here<", ["data-up=\"90000000\"", "<strong>slow</strong>", ">–<"]),
            (rows[2], ">a<", [">–<", ">–<", "refused"]),
        ] {
            let parts: Vec<&str> = row.split("<td").collect();
            assert_eq!(parts.len(), 4, "{row}");
            assert!(parts[0].contains(host), "{row}");
            for (part, cell) in parts[1..].iter().zip(cells) {
                assert!(part.contains(cell), "{cell}: {part}");
            }
        }
        assert_eq!(grid.matches("slow").count(), 1, "{grid}");
        // The tables of the paths that were measured follow.
        assert!(
            page.contains("throughput by cipher") && page.contains("2: here to b2 (b2.example)"),
            "{page}"
        );
        assert!(!page.contains("Beside run 1"), "{page}");
    }

    #[test]
    fn lists_have_one_host_or_two_on_a_line() {
        let got = read_pairs("a # here\n\nb  c\n").unwrap();
        assert_eq!(got, [(String::new(), "a".to_owned()), ("b".to_owned(), "c".to_owned())]);
        assert_eq!(read_pairs("a b c").unwrap_err(), BadList::Line(1));
        assert!(read_pairs("# nothing").is_err());
    }
}
