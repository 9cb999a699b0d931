//! Results of the scenario `scale` from any number of machines as one Markdown table.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::stats::shown;

/// Prints the table of these reports. Options after the files are left out.
///
/// # Errors
/// A file is not a report with the scenario.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    let files: Vec<&String> = args.iter().take_while(|arg| !arg.starts_with("--")).collect();
    if files.is_empty() {
        return Err("--fold needs the report.json of a run of --scenario scale".to_owned());
    }
    let mut reports = Vec::new();
    for file in files {
        let failed = |error: &dyn std::fmt::Display| format!("{file}: {error}");
        let text = std::fs::read_to_string(Path::new(file)).map_err(|error| failed(&error))?;
        let report: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        if measured(&report).next().is_none() {
            return Err(failed(&"no results of --scenario scale"));
        }
        reports.push(report);
    }
    print!("{}", table(&reports));
    Ok(())
}

/// Tables of the scenario with measured, not derived, rates.
fn measured(report: &Value) -> impl Iterator<Item = &Value> {
    let tables = report["tables"].as_array().into_iter().flatten();
    tables.filter(|table| table["scenario"] == "scale" && title(table).starts_with("one connection"))
}

fn title(table: &Value) -> &str {
    table["title"].as_str().unwrap_or_default()
}

/// The cipher in a title, between the first two commas.
fn cipher(table: &Value) -> &str {
    title(table).split(", ").nth(1).unwrap_or_default()
}

fn rows(table: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let rows = table["rows"].as_array().into_iter().flatten();
    rows.filter_map(|row| Some((row["name"].as_str()?, row)))
}

/// Returns the median of the row's series with this name.
fn median(row: &Value, name: &str) -> Option<f64> {
    let series = row["series"].as_array()?.iter().find(|series| series["name"] == name)?;
    series["median"].as_f64()
}

/// Both tables: the measured rates by machine, cipher and workers, and the derived ones.
fn table(reports: &[Value]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in reports.iter().flat_map(measured).flat_map(rows) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    columns.sort_by_key(|name| name.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0));
    let mut out = format!("| machine | cipher | {} |\n", columns.join(" | "));
    let _ = writeln!(out, "|---|---|{}", "---:|".repeat(columns.len()));
    for report in reports {
        for table in measured(report) {
            let _ = write!(out, "| {} | {} |", machine(report), cipher(table));
            for column in &columns {
                let row = rows(table).find(|(name, _)| name == column).map(|(_, row)| row);
                let rate = row.and_then(|row| median(row, "GB/s"));
                let times = row.and_then(|row| median(row, "times no workers"));
                let cell = match (rate, times) {
                    (Some(rate), Some(times)) => format!("{} ({times:.2}x)", shown(rate)),
                    (Some(rate), None) => shown(rate),
                    _ => String::new(),
                };
                let _ = write!(out, " {cell} |");
            }
            out.push('\n');
        }
    }
    derived(&mut out, reports);
    out
}

/// The rates that the reports derive for more cores.
fn derived(out: &mut String, reports: &[Value]) {
    let tables = reports.iter().flat_map(|report| {
        let tables = report["tables"].as_array().into_iter().flatten();
        tables
            .filter(|table| table["scenario"] == "scale" && title(table).starts_with("derived"))
            .map(move |table| (report, table))
    });
    for (index, (report, table)) in tables.enumerate() {
        if index == 0 {
            out.push_str(
                "\n| machine | cipher | derived for | MB/s by Amdahl | MB/s of the busiest thread |\n",
            );
            out.push_str("|---|---|---|---:|---:|\n");
        }
        for (name, row) in rows(table) {
            let cell = |series| median(row, series).map(shown).unwrap_or_default();
            let (amdahl, busiest) = (cell("MB/s by Amdahl"), cell("MB/s of the busiest thread"));
            let _ =
                writeln!(out, "| {} | {} | {name} | {amdahl} | {busiest} |", machine(report), cipher(table));
        }
    }
}

/// A machine's processor and number of CPUs.
fn machine(report: &Value) -> String {
    let cpu = report["cpu"].as_str().unwrap_or("unknown").replace('|', "/");
    format!("{cpu}, {} CPUs", report["cpus"].as_u64().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::Document;
    use crate::stats::Better;
    use crate::table::{Role, Row, Table};

    fn report(cores: usize, workers: &[(&str, f64)]) -> Value {
        let row = |&(name, rate): &(&str, f64)| {
            let mut row = Row::new(name, Role::Peer);
            row.add(&[("GB/s", Better::Higher, rate), ("times no workers", Better::Higher, rate / 2.0)]);
            row
        };
        let mut more = Row::new("4 cores, up", Role::Peer);
        more.add(&[
            ("MB/s by Amdahl", Better::Higher, 4000.0),
            ("MB/s of the busiest thread", Better::Higher, 5000.0),
        ]);
        let table = |title: &str, rows| Table { scenario: "scale", title: title.to_owned(), rows };
        let tables = [
            table("one connection, aes256-gcm, 1 GiB, 8 cores", workers.iter().map(row).collect()),
            table(
                "CPU of each thread, aes256-gcm, 1 GiB",
                vec![Row::new("no workers down, client", Role::Peer)],
            ),
            table("derived for more cores at each end, aes256-gcm, 1 GiB", vec![more]),
        ];
        let machine = Machine { cpu: "Some CPU".to_owned(), cores, ..Machine::default() };
        let document = Document { machine: &machine, command: String::new(), seconds: 1, tables: &tables };
        serde_json::from_str(&document.json()).unwrap()
    }

    #[test]
    fn reports_of_several_machines_become_one_table() {
        let small = report(2, &[("no workers", 2.0), ("1 worker", 1.5)]);
        let large = report(16, &[("no workers", 2.0), ("1 worker", 3.0), ("4 workers", 6.0)]);
        assert_eq!(
            table(&[small, large]),
            "| machine | cipher | no workers | 1 worker | 4 workers |\n\
             |---|---|---:|---:|---:|\n\
             | Some CPU, 2 CPUs | aes256-gcm | 2.00 (1.00x) | 1.50 (0.75x) |  |\n\
             | Some CPU, 16 CPUs | aes256-gcm | 2.00 (1.00x) | 3.00 (1.50x) | 6.00 (3.00x) |\n\n\
             | machine | cipher | derived for | MB/s by Amdahl | MB/s of the busiest thread |\n\
             |---|---|---|---:|---:|\n\
             | Some CPU, 2 CPUs | aes256-gcm | 4 cores, up | 4000 | 5000 |\n\
             | Some CPU, 16 CPUs | aes256-gcm | 4 cores, up | 4000 | 5000 |\n"
        );
    }

    #[test]
    fn reports_without_the_scenario_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("report.json");
        let fold = |text: &str| {
            std::fs::write(&file, text).unwrap();
            main(&[file.display().to_string()])
        };
        assert!(fold("{\"tables\": []}").unwrap_err().contains("no results of --scenario scale"));
        assert!(fold("no JSON").is_err() && main(&[]).is_err() && main(&["/nowhere".to_owned()]).is_err());
        assert_eq!(fold(&report(2, &[("no workers", 2.0)]).to_string()), Ok(()));
    }
}
