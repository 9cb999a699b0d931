//! Tables for a terminal.

use std::fmt::Write as _;

use super::conclude::conclusions;
use super::results::Results;

/// The tables of a run, and its conclusions.
pub fn text(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "longhaul bench: {} ({}), {}; medians, ± half the spread\n",
        results.host,
        results.server,
        results.extent_in_words()
    );
    for table in results.rows.tables() {
        let (names, columns) = results.rows.names(table);
        let _ = writeln!(out, "{table}");
        let mut lines: Vec<Vec<String>> = vec![
            std::iter::once(String::new()).chain(columns.iter().map(|column| (*column).to_owned())).collect(),
        ];
        for name in &names {
            let cells = columns.iter().map(|column| {
                results.rows.find(table, name, column).map_or_else(|| "–".to_owned(), |row| row.show())
            });
            lines.push(std::iter::once((*name).to_owned()).chain(cells).collect());
        }
        let width =
            |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..=columns.len()).map(|at| width(at).unwrap_or(0)).collect();
        for line in &lines {
            let mut text = String::from(" ");
            for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                if at == 0 {
                    let _ = write!(text, " {cell:<width$}");
                } else {
                    let _ = write!(text, "  {cell:>width$}");
                }
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
        out.push('\n');
    }
    for conclusion in conclusions(&results.rows) {
        let _ = writeln!(out, "- {conclusion}.");
    }
    for missing in &results.missing {
        let _ = writeln!(out, "Not measured: {}.", missing.trim_end_matches(['.', ' ']));
    }
    out
}
