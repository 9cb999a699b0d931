//! The project's performance targets, judged by the measurements of one run.

use crate::json::Json;
use crate::scenario::{DIRECT, SSH_CPU, START, WITHOUT_RESUME};
use crate::stats::{Better, shown};
use crate::table::{Role, Row, Table};

/// A target and its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// Title of the table.
    pub(crate) what: String,
    /// The requirement.
    pub(crate) target: String,
    /// The measured value; the unit is in the target.
    pub(crate) value: f64,
    pub(crate) met: bool,
}

/// Peers with a protocol engine of their own over OpenSSH's server. The targets are about suites (and mscp).
const MOVERS: &[&str] = &["rsync", "rclone", "lftp"];

/// Judges all targets that these tables cover.
pub(crate) fn judge(tables: &[Table]) -> Vec<Verdict> {
    let mut verdicts = Verdicts(Vec::new());
    for table in tables {
        match table.scenario {
            "pipe" | "copy" => verdicts.transfer(table),
            "crypto" => verdicts.workers(table),
            "setup" if table.title.contains("as the programs choose") => {
                for (name, unit) in [("ms", "wall"), ("CPU-ms", "CPU of both ends")] {
                    let best = best_peer(table, name, |row| row.name == "openssh");
                    verdicts.at_least(table, &format!("{unit}: OpenSSH's, times"), 10.0, best);
                }
            }
            "keys" => verdicts.keystrokes(table, tables),
            "forward" => verdicts.forwarded(table),
            "resume" => {
                let least = |what: &str| best_peer(table, what, |row| row.name == WITHOUT_RESUME);
                verdicts.at_least(table, "MB/s without Resume, times", 0.99, least("MB/s"));
                verdicts.at_least(table, "CPU-ms/MB without Resume, times", 0.99, least("CPU-ms/MB"));
            }
            "wan" => verdicts.path(table),
            _ => {}
        }
    }
    verdicts.0
}

struct Verdicts(Vec<Verdict>);

impl Verdicts {
    fn push(&mut self, table: &Table, target: String, value: Option<f64>, met: impl Fn(f64) -> bool) {
        if let Some(value) = value {
            let what = format!("{}: {}", table.scenario, table.title);
            self.0.push(Verdict { what, target, value, met: met(value) });
        }
    }

    fn at_least(&mut self, table: &Table, what: &str, least: f64, value: Option<f64>) {
        self.push(table, format!("{what} ≥ {least}"), value, |value| value >= least);
    }

    fn at_most(&mut self, table: &Table, what: &str, most: f64, value: Option<f64>) {
        self.push(table, format!("{what} ≤ {most}"), value, |value| value <= most);
    }

    /// Pipes and copies of one suite.
    fn transfer(&mut self, table: &Table) {
        const RATE: &str = "MB/s";
        let copy = table.scenario == "copy";
        let part = table.part_of_best_peer(SSH_CPU);
        self.at_most(table, "CPU of the SSH programs, share of the best peer's", 0.35, part);
        // The title has the suite between two commas.
        let suite = table.title.split(", ").nth(1).unwrap_or_default();
        let suites_only = |row: &Row| row.is_other_program() && !MOVERS.contains(&row.name.as_str());
        let best = best_peer(table, RATE, suites_only);
        let ceiling = |name: &str| {
            let row = table.rows.iter().find(|row| row.role == Role::Ceiling && row.name == name)?;
            table.advantage(row, RATE)
        };
        match suite {
            "aes128-gcm" => {
                self.at_least(table, "the best suite's MB/s, times", if copy { 3.0 } else { 2.0 }, best);
                let tcp = ceiling(&format!("{suite} over TCP"));
                if copy {
                    // The larger share is relative to the lower ceiling.
                    let share = tcp.into_iter().chain(ceiling("cp")).reduce(f64::max);
                    self.at_least(table, "share of the lower of suite over TCP and cp", 0.8, share);
                    let openssh = best_peer(table, "CPU-ms/MB", |row| row.name == "openssh");
                    self.at_most(
                        table,
                        "CPU-ms/MB, share of OpenSSH's",
                        0.35,
                        openssh.map(|times| 1.0 / times),
                    );
                    self.at_most(table, "peak MiB of either end", 64.0, peak(table));
                } else {
                    self.at_least(table, "share of suite over TCP", 0.75, tcp);
                }
            }
            "chacha20-poly1305" => self.at_least(table, "the best peer's MB/s, times", 2.5, best),
            _ => self.at_least(table, "the best peer's MB/s, times", 2.0, best),
        }
    }

    /// Forwards, jumps and mux clients.
    fn forwarded(&mut self, table: &Table) {
        let openssh = |series: &str| best_peer(table, series, |row| row.name == "openssh");
        let is = |prefix: &str| table.title.starts_with(prefix);
        if table.title == START {
            self.at_most(table, "ms, share of OpenSSH's", 0.25, openssh("ms").map(|times| 1.0 / times));
        } else if is("-L") || is("-D") {
            self.at_least(table, "OpenSSH's MB/s, times", 2.0, openssh("MB/s"));
        } else if is("-J") {
            self.at_least(table, "OpenSSH's MB/s, times", 2.0, openssh("MB/s"));
            self.at_least(table, "OpenSSH's CPU-ms/MB, times", 2.0, openssh("CPU-ms/MB"));
        }
        let direct = table.rows.iter().find(|row| row.name == DIRECT);
        if is("mux client of")
            && let Some(direct) = direct
        {
            self.at_least(table, "share of a direct session", 0.9, table.advantage(direct, "MB/s"));
        }
    }

    /// Compares the rates with iperf3's, on the paths that have targets.
    fn path(&mut self, table: &Table) {
        let has = |text: &str| table.title.contains(text);
        for row in table.rows.iter().filter(|row| row.role == Role::Ours) {
            let is_this = |other: &Row| std::ptr::eq(other, row);
            let (whole, steady) =
                (median_of(table, crate::scenario::OF_IPERF, is_this), steady_share(table, is_this));
            let mut least = |what: &str, least: f64, value| {
                self.at_least(table, &format!("{}, {what}", row.name), least, value);
            };
            if has("1 % loss") && row.name == "longhaul, pipe" {
                let best = best_peer(table, "MB/s", |row| row.name.ends_with(", pipe"));
                least("the best suite's MB/s, times", 1.0, best);
            } else if has("8 Gbit/s x 100 ms") && row.name == "longhaul, pipe" {
                // Relative to the lower of iperf3 and the ceiling without a suite.
                let ceiling = steady_share(table, |row| row.name.ends_with(crate::scenario::PIPED));
                match ceiling.filter(|ceiling| *ceiling < 100.0) {
                    Some(ceiling) => {
                        let what = "steady, % of the cipher between two pipes";
                        least(what, 90.0, steady.map(|steady| steady * 100.0 / ceiling));
                    }
                    None => least(crate::scenario::STEADY_OF_IPERF, 90.0, steady),
                }
            } else if has("2 Gbit/s x 50 ms") && !has("loss") {
                match row.name.as_str() {
                    name if name.starts_with("longhaul, ") => least(crate::scenario::OF_IPERF, 95.0, whole),
                    name if name.starts_with("longhaul from openssh") => {
                        least(crate::scenario::OF_IPERF, 90.0, whole);
                    }
                    "rsync -e lhssh" => least(crate::scenario::OF_IPERF, 85.0, whole),
                    _ => {}
                }
            }
        }
    }

    /// Two workers compared with one.
    fn workers(&mut self, table: &Table) {
        if !table.title.contains("gcm") && !table.title.contains("chacha20") {
            return;
        }
        let Some(row) = table.rows.iter().find(|row| row.name == crate::scenario::workers_text(2)) else {
            return;
        };
        let median = |name| row.series(name).and_then(|series| Some(series.spread()?.median));
        let times = [crate::scenario::SEAL_TIMES, crate::scenario::OPEN_TIMES].into_iter().filter_map(median);
        self.at_least(table, "2 workers : 1, the lower of sealing and opening", 1.85, times.reduce(f64::min));
    }

    /// A keystroke beside bulk, compared with one without.
    fn keystrokes(&mut self, table: &Table, tables: &[Table]) {
        let median = |table: &Table| {
            let series = table.rows.iter().find(|row| row.role == Role::Ours)?.series("median ms")?;
            Some(series.spread()?.median)
        };
        let alone = tables.iter().find(|other| other.scenario == "keys").and_then(median);
        if let (Some(alone), Some(beside), true) = (alone, median(table), table.title.contains("bulk")) {
            self.at_most(table, "ms more than with nothing else", 5.0, Some(beside - alone));
        }
    }
}

/// Ratio by which ours is better than the best peer that `counts`.
fn best_peer(table: &Table, series: &str, counts: impl Fn(&Row) -> bool) -> Option<f64> {
    let peers = table.rows.iter().filter(|row| row.role == Role::Peer && counts(row));
    peers.filter_map(|row| table.advantage(row, series)).reduce(f64::min)
}

/// Median of a series of the first row that `counts`.
fn median_of(table: &Table, series: &str, counts: impl Fn(&Row) -> bool) -> Option<f64> {
    let row = table.rows.iter().find(|row| counts(row))?;
    Some(row.series(series)?.spread()?.median)
}

/// Rate of a row of a path in its second half, percent of iperf3.
fn steady_share(table: &Table, counts: impl Fn(&Row) -> bool) -> Option<f64> {
    median_of(table, crate::scenario::STEADY_OF_IPERF, counts)
}

/// Peak memory of our largest process at either end, in any round.
fn peak(table: &Table) -> Option<f64> {
    let ours = table.rows.iter().find(|row| row.role == Role::Ours)?;
    let peaks = ours
        .series
        .iter()
        .filter(|series| series.name.ends_with("peak MiB") && series.better == Better::Lower);
    peaks.filter_map(|series| Some(series.spread()?.max)).reduce(f64::max)
}

/// The section of the Markdown report.
pub(crate) fn markdown(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    if verdicts.is_empty() {
        return out;
    }
    let met = verdicts.iter().filter(|verdict| verdict.met).count();
    out.push_str(&format!(
        "\n## targets: {met} of {} met\n\n| | target | measured | |\n|---|---|---:|---|\n",
        verdicts.len()
    ));
    for Verdict { what, target, value, met } in verdicts {
        let met = if *met { "met" } else { "**not met**" };
        out.push_str(&format!("| {what} | {target} | {} | {met} |\n", shown(*value)));
    }
    out
}

/// The section of the JSON report.
pub(crate) fn json(verdicts: &[Verdict]) -> Json {
    let verdict = |verdict: &Verdict| {
        Json::Object(vec![
            ("what", Json::text(&verdict.what)),
            ("target", Json::text(&verdict.target)),
            ("measured", Json::Number(verdict.value)),
            ("met", Json::Bool(verdict.met)),
        ])
    };
    Json::List(verdicts.iter().map(verdict).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, role: Role, rate: f64, cpu: f64) -> Row {
        let mut row = Row::new(name, role);
        row.add(&[("MB/s", Better::Higher, rate), ("CPU-ms/MB", Better::Lower, cpu)]);
        row.add(&[("client peak MiB", Better::Lower, 7.0), ("server peak MiB", Better::Lower, 70.0)]);
        row
    }

    fn copy() -> Table {
        let rows = vec![
            row("longhaul", Role::Ours, 1000.0, 1.0),
            row("longhaul, unverified", Role::Peer, 1050.0, 1.0),
            row("openssh", Role::Peer, 300.0, 4.0),
            row("rsync", Role::Peer, 900.0, 4.0),
            row("hpn", Role::Peer, 400.0, 1.0),
            row("raw TCP", Role::Ceiling, 4000.0, 0.5),
            row("aes128-gcm over TCP", Role::Ceiling, 3000.0, 0.5),
            row("cp", Role::Ceiling, 1100.0, 0.5),
        ];
        Table { scenario: "copy", title: "file copy up, aes128-gcm, 512 MiB".to_owned(), rows }
    }

    #[test]
    fn resume_may_cost_one_percent() {
        let judged = |rate: f64, cpu: f64| {
            let rows = vec![
                row("longhaul, Resume yes", Role::Ours, rate, cpu),
                row(WITHOUT_RESUME, Role::Peer, 1000.0, 1.0),
            ];
            let title = "exec pipe up with Resume, aes128-gcm, 512 MiB".to_owned();
            judge(&[Table { scenario: "resume", title, rows }]).iter().map(|verdict| verdict.met).collect()
        };
        let met: [Vec<bool>; 3] = [judged(995.0, 1.0), judged(980.0, 1.0), judged(1000.0, 1.02)];
        assert_eq!(met, [vec![true, true], vec![false, true], vec![true, false]]);
    }

    #[test]
    fn copies_are_judged_by_rate_ceiling_cpu_and_memory() {
        let verdicts = judge(&[copy()]);
        let found: Vec<(f64, bool)> = verdicts.iter().map(|verdict| (verdict.value, verdict.met)).collect();
        assert_eq!(found, [(2.5, false), (1000.0 / 1100.0, true), (0.25, true), (70.0, false)]);
        let text = markdown(&verdicts);
        assert!(text.contains("targets: 2 of 4 met"), "{text}");
        assert!(
            text.contains("≥ 3 | 2.50 | **not met** |") && text.contains("≥ 0.8 | 0.909 | met |"),
            "{text}"
        );
    }

    #[test]
    fn workers_are_judged_by_the_worse_direction() {
        let mut two = Row::new(crate::scenario::workers_text(2), Role::Peer);
        two.add(&[
            (crate::scenario::SEAL_TIMES, Better::Higher, 1.9),
            (crate::scenario::OPEN_TIMES, Better::Higher, 1.8),
        ]);
        let table =
            |title: &str| Table { scenario: "crypto", title: title.to_owned(), rows: vec![two.clone()] };
        let verdicts = judge(&[table("aes128-gcm"), table("aes128-ctr+umac-64")]);
        assert_eq!(verdicts.len(), 1);
        assert_eq!((verdicts[0].value, verdicts[0].met), (1.8, false));
    }

    #[test]
    fn paths_are_judged_by_their_rows() {
        let row = |name: &str, share: f64| {
            let mut row = row(name, Role::Ours, share, 1.0);
            row.add(&[(crate::scenario::OF_IPERF, Better::Higher, share)]);
            row
        };
        let rows = vec![
            row("longhaul, pipe", 97.0),
            row("longhaul from openssh's sshd, file of 4.8 GB", 91.0),
            row("longhaul to openssh's sshd, pipe", 16.0),
            row("rsync -e lhssh", 80.0),
        ];
        let title = |path: &str| format!("down, aes128-gcm, {path}, cubic, 20 s");
        let table = Table { scenario: "wan", title: title("2 Gbit/s x 50 ms"), rows };
        let met = |table: &Table| {
            judge(std::slice::from_ref(table)).iter().map(|each| each.met).collect::<Vec<_>>()
        };
        assert_eq!(met(&table), [true, true, false]);
        let steady = |name: &str, role, share: f64| {
            let mut row = Row::new(name, role);
            row.add(&[(crate::scenario::STEADY_OF_IPERF, Better::Higher, share)]);
            row
        };
        let title = |path: &str| format!("down, aes128-gcm, {path}, cubic, 20 s");
        let fast = |ours: f64, ceiling: f64| Table {
            scenario: "wan",
            title: title("8 Gbit/s x 100 ms"),
            rows: vec![
                steady("longhaul, pipe", Role::Ours, ours),
                steady("aes128-gcm over TCP, pipe to pipe", Role::Ceiling, ceiling),
            ],
        };
        assert_eq!(met(&fast(85.0, 100.5)), [false], "nine tenths of iperf3");
        assert_eq!(met(&fast(85.0, 94.0)), [true], "or of the ceiling without a suite");
        assert_eq!(met(&fast(80.0, 94.0)), [false]);
        let elsewhere = Table { title: title("1 Gbit/s x 10 ms"), ..table };
        assert!(met(&elsewhere).is_empty(), "no target is about that");
    }

    #[test]
    fn cpu_of_ssh_programs_is_judged_for_every_suite() {
        let mut table = copy();
        table.title = "exec pipe up, aes128-ctr+umac-64-etm, 512 MiB".to_owned();
        table.scenario = "pipe";
        for (row, ms) in table.rows.iter_mut().zip([1.0, 0.5, 3.0, 9.0, 4.0]) {
            row.add(&[(SSH_CPU, Better::Lower, ms)]);
        }
        let verdicts = judge(&[table]);
        let cpu = verdicts.iter().find(|verdict| verdict.target.starts_with("CPU of the SSH")).unwrap();
        assert_eq!((cpu.value, cpu.met), (1.0 / 3.0, true), "a third of OpenSSH's");
    }

    #[test]
    fn missing_measurements_are_not_judged() {
        let mut alone = copy();
        alone.rows.truncate(1);
        assert_eq!(judge(&[alone]).len(), 1, "memory needs nobody else");
        assert!(judge(&[]).is_empty());
        assert_eq!(markdown(&[]), "");
    }
}
