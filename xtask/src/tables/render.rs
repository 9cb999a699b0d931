//! The page: measurements as tables of algorithms and programs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::listing::{ENTRIES, Listed};

/// All measurements.
#[derive(Default)]
pub(super) struct Collected {
    reports: BTreeMap<&'static str, Value>,
    /// Program and MB/s of transfers without SSH.
    pub(super) plain: Vec<(&'static str, f64)>,
    pub(super) listing: Vec<Listed>,
    pub(super) seconds: u64,
    /// A run with tiny sizes.
    pub(super) short: bool,
    /// Rows of Longhaul that failed.
    pub(super) failures: Vec<String>,
}

impl Collected {
    /// Creates an empty collection; `short` for a run with tiny sizes.
    pub(super) fn new(short: bool) -> Self {
        Self { short, ..Self::default() }
    }

    /// Adds the report of a run of `lh-bench`.
    pub(super) fn add(&mut self, name: &'static str, report: Value) {
        for table in tables(&report) {
            for row in rows(table).iter().filter(|row| row["role"] == "ours" && row["failure"].is_string()) {
                self.failures.push(format!("{}: {}: {}", table["title"], row["name"], row["failure"]));
            }
        }
        self.reports.insert(name, report);
    }
}

fn tables(report: &Value) -> &[Value] {
    report["tables"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A median with half the spread.
fn spread(values: &[f64]) -> Option<String> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    let median = (values.get(values.len() / 2)? + values.get((values.len() - 1) / 2)?) / 2.0;
    let digits = if median >= 100.0 {
        0
    } else if median >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{median:.digits$}");
    if values.len() < 2 || median <= 0.0 {
        return Some(text);
    }
    Some(format!("{text} ±{:.0}%", (high - low) / median * 50.0))
}

/// Returns a value of a row; a dash if it was not measured or is not offered.
fn cell(table: Option<&Value>, row: &str, series: &str) -> String {
    let find = || {
        let row = rows(table?).iter().find(|each| each["name"] == row)?;
        let series = row["series"].as_array()?.iter().find(|each| each["name"] == series)?;
        let values: Vec<f64> = series["values"].as_array()?.iter().filter_map(Value::as_f64).collect();
        spread(&values)
    };
    find().unwrap_or_else(|| "–".to_owned())
}

/// Returns a table in Markdown.
fn markdown(head: &[&str], lines: &[Vec<String>]) -> String {
    let rule: Vec<&str> =
        head.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "---:" }).collect();
    let mut text = format!("| {} |\n|{}|\n", head.join(" | "), rule.join("|"));
    for line in lines {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
    }
    text
}

/// Returns the part of a title with this index, between commas.
fn part(table: &Value, at: usize) -> &str {
    table["title"].as_str().unwrap_or_default().split(", ").nth(at).unwrap_or_default()
}

/// Returns the distinct values of the titles' part with this index, in order.
fn keys(tables: &[Value], at: usize) -> Vec<&str> {
    let mut all = Vec::new();
    for table in tables {
        let key = part(table, at);
        if !key.is_empty() && !all.contains(&key) {
            all.push(key);
        }
    }
    all
}

/// Two columns of a table, one for each direction.
struct Columns<'a> {
    name: &'a str,
    /// Tables with the values.
    tables: &'a [Value],
    row: &'a str,
    series: &'a str,
}

/// Returns the columns of several programs from the same tables.
fn columns<'a>(tables: &'a [Value], all: &[(&'a str, &'a str, &'a str)]) -> Vec<Columns<'a>> {
    all.iter().map(|&(name, row, series)| Columns { name, tables, row, series }).collect()
}

/// Rows of algorithms, columns of programs and directions.
fn by_algorithm(tables: &[Value], first: &str, ways: [&str; 2], columns: &[Columns<'_>]) -> String {
    let mut head = vec![first.to_owned()];
    for column in columns {
        head.extend(["up", "down"].map(|way| format!("{} {way}", column.name)));
    }
    let lines: Vec<Vec<String>> = keys(tables, 1)
        .into_iter()
        .map(|key| {
            let mut line = vec![format!("`{key}`")];
            for column in columns {
                for way in ways {
                    let has = |table: &&Value| part(table, 1) == key && part(table, 0) == way;
                    line.push(cell(column.tables.iter().find(has), column.row, column.series));
                }
            }
            line
        })
        .collect();
    markdown(&head.iter().map(String::as_str).collect::<Vec<_>>(), &lines)
}

/// The whole page.
pub(super) fn document(all: &Collected) -> String {
    let none = Value::Null;
    let report = |name: &str| all.reports.get(name).unwrap_or(&none);
    let setup = report("setup");
    let text = |name: &str| setup[name].as_str().unwrap_or("?").to_owned();
    let load = |when: &str| {
        let of = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // Passes after the first one see the load of those before.
        let first = ["wan", "mac"].into_iter().find_map(|name| all.reports.get(name)).unwrap_or(&none);
        of(if when == "before" { &first["load_before"] } else { &setup["load_after"] })
    };
    let versions = match &setup["versions"] {
        Value::Array(all) => all.iter().filter_map(|each| each["version"].as_str()).collect(),
        _ => vec![],
    }
    .join("; ");
    let busy = load("before").split([' ', ',', '[']).find_map(|word| word.parse::<f64>().ok());
    let quiet = match busy {
        _ if all.short => {
            " **A short run (`--smoke`): it shows that everything works, and its figures say nothing.**"
        }
        Some(load) if load > 1.0 => {
            " **Other work ran on the machine: only the order of the figures can be relied on.**"
        }
        _ => "",
    };
    let mut out = format!(
        "# The tables of the field\n\n\
         For people who choose algorithms, or who know the figures that are cited about SSH and want today's. After this page you\n\
         have them for Longhaul and Debian's OpenSSH, measured in the same run, beside historical ones. `cargo xtask tables` writes\n\
         it anew on any machine, in less than a quarter of an hour; do not edit it.\n\n\
         Measured {} on {} ({} CPUs), Linux {}, commit {}, in {} s; load {} before and {} after.{quiet}\n\
         {versions}.\n\n\
         Figures are medians of interleaved rounds, with half the spread. A dash: not offered, or not measured on this machine.\n",
        text("date"),
        text("cpu"),
        setup["cpus"],
        text("kernel"),
        text("commit"),
        all.seconds,
        load("before"),
        load("after"),
    );
    out.push_str("\n## Throughput by cipher over 2 Gb/s and 50 ms\n\nMB/s through a pipe, with the login, over the emulated path. Longhaul's window grows; with\n`HPNDisabled yes` at both ends it is fixed at 2 MiB (one round), as OpenSSH's is.\n\n");
    if report("wan").is_null() {
        out.push_str("Not measured: an emulated path needs root.\n");
    } else {
        let grown = tables(report("wan"));
        let stock = tables(report("wan-stock"));
        let rest = [("OpenSSH", "openssh, pipe", "MB/s"), ("iperf3", "iperf3", "MB/s")];
        let mut all = columns(grown, &[("Longhaul", "longhaul, pipe", "MB/s")]);
        all.extend(columns(stock, &[("window of 2 MiB", "longhaul, pipe", "MB/s")]));
        all.extend(columns(grown, &rest));
        out.push_str(&by_algorithm(grown, "cipher", ["up", "down"], &all));
    }
    out.push_str("\nBefore, of the same question: OpenSSH's window was 128 KiB until 2007 and has been 2 MiB since. [1] Divided by a round trip\nof 50 ms that is 2.6 and 41.9 MB/s at most.\n");
    out.push_str("\n## Throughput by MAC, loopback\n\nMB/s through a pipe with AES-128-CTR, beside TCP without SSH.\n\n");
    let pipes = ["exec pipe up", "exec pipe down"];
    let programs =
        [("Longhaul", "longhaul", "MB/s"), ("OpenSSH", "openssh", "MB/s"), ("raw TCP", "raw TCP", "MB/s")];
    let macs = tables(report("mac"));
    out.push_str(&by_algorithm(macs, "cipher and MAC", pipes, &columns(macs, &programs)));
    for program in ["netcat", "iperf3"] {
        let values: Vec<f64> =
            all.plain.iter().filter(|(name, _)| *name == program).map(|(_, rate)| *rate).collect();
        let shown = spread(&values).map_or_else(
            || "not installed, or it failed".to_owned(),
            |shown| format!("{shown} MB/s in {} runs between the others", values.len()),
        );
        out.push_str(&format!("\n{program}: {shown}.\n"));
    }
    out.push_str(
        "\nBefore: 2.4 GHz Xeon, 1 Gb/s, 2007, OpenSSH 4.6p1 and snapshots, `cat` of 2 GB with arcfour256: netcat 51 MB/s, iperf 115 MB/s,\n\
         standard 31.0, with the faster MAC code 38.9, with umac-64 38.3, HPN-SSH 34.1 MB/s. [1] Xeon E5-2643 v3, loopback, 2017, OpenSSH 6.7p1,\n\
         `scp` of 664 MiB in MiB/s: aes128-ctr 510, aes256-ctr 488, aes128-gcm 536, aes256-gcm 552, chacha20-poly1305 210. [2]\n",
    );
    out.push_str("\n## Processor time of a file copy\n\nCPU milliseconds for each MB, loopback, 128 MiB in memory; copies compared at both ends are the default of `lhscp`.\n\n");
    let copies = ["file copy up", "file copy down"];
    let programs = [
        ("Longhaul client", "longhaul", "client CPU-ms/MB"),
        ("Longhaul server", "longhaul", "server CPU-ms/MB"),
        ("OpenSSH client", "openssh", "client CPU-ms/MB"),
        ("OpenSSH server", "openssh", "server CPU-ms/MB"),
    ];
    let copied = tables(report("copy"));
    out.push_str(&by_algorithm(copied, "cipher and MAC", copies, &columns(copied, &programs)));
    out.push_str("\n## Cost of a session\n\nConnect, key exchange, login with a key, `true`, end: loopback. Keys are Ed25519 where none is named.\nKey exchanges by groups of the server's choice (`group-exchange`) are also measured with groups of one size. No program\nhere has diffie-hellman-group15 or -group17.\n\n");
    let head =
        ["", "Longhaul ms", "client CPU-ms", "server CPU-ms", "OpenSSH ms", "client CPU-ms", "server CPU-ms"];
    let lines: Vec<Vec<String>> = tables(setup)
        .iter()
        .map(|table| {
            let mut line = vec![part(table, 1).to_owned()];
            for who in ["longhaul", "openssh"] {
                line.extend(
                    ["ms", "client CPU-ms", "server CPU-ms"].map(|series| cell(Some(table), who, series)),
                );
            }
            line
        })
        .collect();
    out.push_str(&markdown(&head, &lines));
    out.push_str(&format!(
        "\n## A wildcard in a large directory\n\nSeconds of `sftp` with the login, {} of {ENTRIES} names, loopback. `ls -1` needs no attributes, `ls -l` does.\n\n",
        ENTRIES / 10
    ));
    let mut names: Vec<&str> = Vec::new();
    for (_, name, _) in &all.listing {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let seconds = |command: &str, name: &str| {
        let found = all.listing.iter().find(|(of, who, _)| *of == command && *who == name);
        found.and_then(|(_, _, values)| spread(values)).unwrap_or_else(|| "–".to_owned())
    };
    let lines: Vec<Vec<String>> = names
        .iter()
        .map(|name| vec![(*name).to_owned(), seconds("ls -1", name), seconds("ls -l", name)])
        .collect();
    out.push_str(&markdown(&["", "`ls -1`", "`ls -l`"], &lines));
    out.push_str(
        "\n## Sources of the historical figures\n\n\
         1. C. Rapier, \"Recent MAC improvements: Test Results\", openssh-unix-dev, 13 June 2007\n   \
         (lists.mindrot.org/pipermail/openssh-unix-dev/2007-June/025442.html); it also tells of the window's growth to 2 MB from 128 KB.\n\
         2. P. J. Holzer, \"scp performance\", 2017 (www.hjp.at/zettel/s/scp-performance.rxml).\n\n\
         They were measured on other machines and with other programs; they show orders of magnitude.\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table(title: &str, series: &str, values: &[f64]) -> Value {
        json!({ "title": title, "rows": [
            { "name": "longhaul", "role": "ours", "failure": null, "series": [{ "name": series, "values": values }] },
            { "name": "openssh", "role": "peer", "failure": "no", "series": [] },
        ]})
    }

    #[test]
    fn page_has_a_line_for_each_algorithm() {
        let mut all = Collected::default();
        all.add(
            "mac",
            json!({ "load_before": "7.5 1 1", "tables": [table("exec pipe up, aes128-ctr+umac-64, 4 MiB", "MB/s", &[100.0, 110.0, 120.0]),
                               table("exec pipe down, aes128-ctr+umac-64, 4 MiB", "MB/s", &[9.0])] }),
        );
        all.add(
            "setup",
            json!({ "cpus": 2, "tables": [
            table("session set-up (`true`), key exchange x", "ms", &[5.0])] }),
        );
        all.plain = vec![("netcat", 900.0), ("netcat", 1100.0)];
        all.listing = vec![("ls -1", "Longhaul", vec![0.5]), ("ls -l", "Longhaul", vec![1.5])];
        let page = document(&all);
        for line in [
            "| `aes128-ctr+umac-64` | 110 ±9% | 9.00 | – | – | – | – |",
            "| key exchange x | 5.00 | – | – | – | – | – |",
            "netcat: 1000 ±10% MB/s in 2 runs between the others.",
            "iperf3: not installed, or it failed.",
            "| Longhaul | 0.50 | 1.50 |",
            "Other work ran on the machine",
            "Not measured: an emulated path needs root.",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        assert!(all.failures.is_empty());
        let failed = json!({ "tables": [{ "title": "t", "rows": [
            { "name": "longhaul", "role": "ours", "failure": "refused", "series": [] }] }] });
        all.add("copy", failed);
        assert_eq!(all.failures.len(), 1);
    }
}
