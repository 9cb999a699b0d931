//! The reports: Markdown for readers, JSON with every single value for programs.

use std::fmt::Write as _;

use crate::json::Json;
use crate::machine::Machine;
use crate::scenario::SSH_CPU;
use crate::stats::{Better, Spread, shown};
use crate::table::{Role, Row, Series, Table};
use crate::targets;

/// Contents of a report.
pub(crate) struct Document<'a> {
    pub(crate) machine: &'a Machine,
    /// Command that reproduces the report.
    pub(crate) command: String,
    /// Duration of the measurement, seconds.
    pub(crate) seconds: u64,
    pub(crate) tables: &'a [Table],
}

/// The command that reproduces a run, quoted for a shell.
pub(crate) fn command_line(args: &[String]) -> String {
    let mut line = "cargo xtask bench".to_owned();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        // The output path does not affect the measurement.
        if arg == "--out" {
            args.next();
            continue;
        }
        let plain = arg.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=+,./:@".contains(&b));
        let _ =
            if plain { write!(line, " {arg}") } else { write!(line, " '{}'", arg.replace('\'', "'\\''")) };
    }
    line
}

/// Failure of one of our own rows, if there is one.
pub(crate) fn our_failure(table: &Table) -> Option<String> {
    let row = table.rows.iter().find(|row| row.role != Role::Peer && row.failure.is_some())?;
    Some(format!("{}: {}: {}: {}", table.scenario, table.title, row.name, row.failure.as_deref()?))
}

impl Document<'_> {
    pub(crate) fn markdown(&self) -> String {
        let machine = self.machine;
        let mut out = String::from("# Longhaul measured\n\n");
        let _ = writeln!(out, "`{}`, {}, {} s\n", self.command, machine.date, self.seconds);
        let _ = writeln!(
            out,
            "{} ({} CPUs), {:.0} GiB, Linux {}, commit {}; load before {}, after {}{}",
            machine.cpu,
            machine.cores,
            machine.memory_gib,
            machine.kernel,
            machine.commit,
            machine.load,
            machine.load_after,
            if machine.is_quiet() { "." } else { ": **not quiet, other work was running**." }
        );
        let _ = writeln!(out, "{}\n", machine.user);
        for (name, version) in &machine.versions {
            let _ = writeln!(out, "- {name}: {version}");
        }
        out.push_str(
            "\nMedians over the rounds, smallest to largest in brackets. *Longhaul is*: how many times better than that row \
             (for a ceiling: the share of it that Longhaul reaches).\n",
        );
        out.push_str(&targets::markdown(&targets::judge(self.tables)));
        let mut scenario = "";
        for table in self.tables {
            if table.scenario != scenario {
                scenario = table.scenario;
                let _ = write!(out, "\n## {scenario}\n");
            }
            let _ = write!(out, "\n### {}\n\n", table.title);
            markdown_table(&mut out, table);
        }
        out
    }

    pub(crate) fn json(&self) -> String {
        let machine = self.machine;
        let versions = machine.versions.iter().map(|(name, version)| {
            Json::Object(vec![("name", Json::text(name)), ("version", Json::text(version))])
        });
        let value = Json::Object(vec![
            ("command", Json::text(&self.command)),
            ("date", Json::text(&machine.date)),
            ("commit", Json::text(&machine.commit)),
            ("seconds", Json::Number(self.seconds as f64)),
            ("cpu", Json::text(&machine.cpu)),
            ("cpus", Json::Number(machine.cores as f64)),
            ("memory_gib", Json::Number(machine.memory_gib)),
            ("kernel", Json::text(&machine.kernel)),
            ("load_before", Json::text(&machine.load)),
            ("load_after", Json::text(&machine.load_after)),
            ("user", Json::text(machine.user)),
            ("versions", Json::List(versions.collect())),
            ("targets", targets::json(&targets::judge(self.tables))),
            ("tables", Json::List(self.tables.iter().map(json_table).collect())),
        ]);
        let mut out = String::new();
        value.write(&mut out, 0);
        out.push('\n');
        out
    }
}

/// Names of all series of a table, in the order of their first appearance.
fn columns(table: &Table) -> Vec<&'static str> {
    let mut names = Vec::new();
    for series in table.rows.iter().flat_map(|row| &row.series) {
        if !names.contains(&series.name) {
            names.push(series.name);
        }
    }
    names
}

fn markdown_table(out: &mut String, table: &Table) {
    let columns = columns(table);
    let ours = table.rows.iter().any(|row| row.role == Role::Ours);
    let compares = ours && table.rows.len() > 1;
    let mut head = "| |".to_owned();
    let mut rule = "|---|".to_owned();
    for (index, name) in columns.iter().enumerate() {
        let _ = write!(head, " {name} |");
        rule.push_str("---:|");
        if index == 0 && compares {
            head.push_str(" Longhaul is |");
            rule.push_str("---:|");
        }
    }
    let _ = writeln!(out, "{head}\n{rule}");
    for row in &table.rows {
        let _ = write!(out, "| {} |", row.name);
        if let Some(failure) = &row.failure {
            let _ = write!(out, " failed: {} |", failure.replace('|', "/").replace('\n', " "));
        } else {
            for (index, name) in columns.iter().enumerate() {
                let mut cell = row.series(name).map(|series| cell(series, index == 0)).unwrap_or_default();
                if *name == SSH_CPU
                    && row.role == Role::Ours
                    && let Some(part) = table.part_of_best_peer(name)
                {
                    let _ = write!(cell, " ({part:.2} of the best peer's)");
                }
                let _ = write!(out, " {cell} |");
                if index == 0 && compares {
                    let _ = write!(out, " {} |", comparison(table, row, name));
                }
            }
        }
        out.push('\n');
    }
}

/// The median, with the spread for the first column; the JSON has the ratios of the other columns.
fn cell(series: &Series, with_spread: bool) -> String {
    let Some(Spread { min, median, max }) = series.spread() else { return String::new() };
    if with_spread && series.values.len() > 1 {
        format!("{} ({} – {})", shown(median), shown(min), shown(max))
    } else {
        shown(median)
    }
}

fn comparison(table: &Table, row: &Row, name: &str) -> String {
    match (row.role, table.advantage(row, name)) {
        (Role::Peer, Some(advantage)) => format!("{advantage:.2}x"),
        (Role::Ceiling, Some(share)) => format!("{:.0} %", share * 100.0),
        _ => String::new(),
    }
}

fn json_table(table: &Table) -> Json {
    let rows = table.rows.iter().map(|row| {
        let part = |name| (row.role == Role::Ours).then(|| table.part_of_best_peer(name)).flatten();
        let series = row.series.iter().map(|series| {
            let spread = series.spread();
            let better = if series.better == Better::Higher { "higher" } else { "lower" };
            Json::Object(vec![
                ("name", Json::text(series.name)),
                ("better", Json::text(better)),
                ("min", Json::number(spread.map(|spread| spread.min))),
                ("median", Json::number(spread.map(|spread| spread.median))),
                ("max", Json::number(spread.map(|spread| spread.max))),
                ("longhaul_is_times_better", Json::number(table.advantage(row, series.name))),
                ("part_of_best_peer", Json::number(part(series.name))),
                ("values", Json::List(series.values.iter().map(|&value| Json::Number(value)).collect())),
            ])
        });
        let role = match row.role {
            Role::Ours => "ours",
            Role::Peer => "peer",
            Role::Ceiling => "ceiling",
        };
        Json::Object(vec![
            ("name", Json::text(&row.name)),
            ("role", Json::text(role)),
            ("failure", row.failure.as_ref().map_or(Json::Null, Json::text)),
            ("series", Json::List(series.collect())),
        ])
    });
    Json::Object(vec![
        ("scenario", Json::text(table.scenario)),
        ("title", Json::text(&table.title)),
        ("rows", Json::List(rows.collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |name: &str, role, values: &[f64]| {
            let mut row = Row::new(name, role);
            for &value in values {
                row.add(&[("MB/s", Better::Higher, value), ("CPU-ms/MB", Better::Lower, 1.0)]);
            }
            row
        };
        let mut broken = Row::new("broken", Role::Peer);
        broken.failure = Some("a | b".to_owned());
        let rows = vec![
            row("longhaul", Role::Ours, &[900.0, 1000.0, 1100.0]),
            row("openssh", Role::Peer, &[500.0]),
            row("raw TCP", Role::Ceiling, &[4000.0]),
            broken,
        ];
        Table { scenario: "pipe", title: "down".to_owned(), rows }
    }

    #[test]
    fn tables_show_median_spread_ratio_and_share() {
        let mut out = String::new();
        markdown_table(&mut out, &table());
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "| | MB/s | Longhaul is | CPU-ms/MB |");
        assert_eq!(lines[2], "| longhaul | 1000 (900 – 1100) |  | 1.00 |");
        assert_eq!(lines[3], "| openssh | 500 | 2.00x | 1.00 |");
        assert_eq!(lines[4], "| raw TCP | 4000 | 25 % | 1.00 |");
        assert_eq!(lines[5], "| broken | failed: a / b |");
    }

    #[test]
    fn cpu_of_the_ssh_programs_is_beside_the_best_peers() {
        let row = |name: &str, role, value: f64| {
            let mut row = Row::new(name, role);
            row.add(&[("MB/s", Better::Higher, 1.0), (SSH_CPU, Better::Lower, value)]);
            row
        };
        let rows = vec![row("longhaul", Role::Ours, 1.0), row("openssh", Role::Peer, 4.0)];
        let table = Table { scenario: "pipe", title: "down".to_owned(), rows };
        let mut out = String::new();
        markdown_table(&mut out, &table);
        assert!(out.contains("| 1.00 (0.25 of the best peer's) |"), "{out}");
        assert_eq!(out.matches("best peer").count(), 1, "{out}");
        let mut json = String::new();
        json_table(&table).write(&mut json, 0);
        assert!(json.contains("\"part_of_best_peer\": 0.25"), "{json}");
    }

    #[test]
    fn both_reports_are_complete() {
        let machine = Machine::default();
        let tables = [table()];
        let document =
            Document { machine: &machine, command: command_line(&[]), seconds: 1, tables: &tables };
        assert!(document.markdown().contains("## pipe\n\n### down"));
        let json = document.json();
        assert!(
            json.contains("\"longhaul_is_times_better\": 2") && json.contains("[900, 1000, 1100]"),
            "{json}"
        );
        assert_eq!(our_failure(&tables[0]), None);
    }

    #[test]
    fn command_is_quoted_for_a_shell() {
        let args = ["--server-prefix", "ip netns exec far", "--out", "x", "--smoke"].map(str::to_owned);
        assert_eq!(command_line(&args), "cargo xtask bench --server-prefix 'ip netns exec far' --smoke");
    }
}
