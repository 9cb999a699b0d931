//! Tests that the reports of short runs have the contents that `docs/performance.md` describes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lh-bench");

/// Runs scenarios with tiny sizes; returns the two reports, or `None` where the suite's programs are not
/// built.
fn smoke(scenarios: &str, more: &[&str]) -> Option<(String, Value)> {
    if let Some(missing) =
        ["lhssh", "lhscp", "lhsshd"].iter().find(|name| !lh_interop::bin_dir().join(name).is_file())
    {
        lh_interop::skip("columns", &format!("{missing} is not built"));
        return None;
    }
    let out = tempfile::tempdir().unwrap();
    let without = "hpn,mscp,rsync,rclone,lftp";
    let done = Command::new(PROGRAM)
        .env("LH_BIN_DIR", lh_interop::bin_dir())
        .args(["--smoke", "--scenario", scenarios, "--without", without])
        .args(more)
        .arg("--out")
        .arg(out.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let read = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
    Some((read("report.md"), serde_json::from_str(&read("report.json")).unwrap()))
}

fn list<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    value[name].as_array().map(|list| list.iter().collect()).unwrap_or_default()
}

/// The series of a row by its name.
fn series<'a>(row: &'a Value, name: &str) -> Option<&'a Value> {
    list(row, "series").into_iter().find(|series| series["name"] == name)
}

#[test]
fn all_suites_have_the_cpu_of_ssh_programs_alone() {
    const COLUMN: &str = "SSH programs' CPU-ms/MB";
    let Some((text, report)) = smoke("pipe,copy", &["--size", "4M"]) else { return };
    let tables = list(&report, "tables");
    assert!(!tables.is_empty());
    for table in tables {
        for row in list(table, "rows") {
            let (is_ceiling, ssh) = (row["role"] == "ceiling", series(row, COLUMN));
            assert_eq!(ssh.is_none(), is_ceiling, "{row:#}");
            let (Some(ssh), Some(all)) = (ssh, series(row, "CPU-ms/MB")) else { continue };
            let (ssh_ms, all_ms) = (ssh["median"].as_f64().unwrap(), all["median"].as_f64().unwrap());
            assert!(ssh_ms > 0.0 && ssh_ms <= all_ms, "{row:#}");
            if table["scenario"] == "pipe" {
                assert!(ssh_ms < all_ms, "the command and its shell are not counted: {row:#}");
            }
            let has_peers = list(table, "rows").iter().any(|row| row["name"] == "openssh");
            if row["role"] == "ours" && has_peers {
                assert!(ssh["part_of_best_peer"].as_f64().is_some_and(|part| part > 0.0), "{row:#}");
            }
        }
    }
    assert!(text.contains(COLUMN), "{text}");
    let is_compared = list(&report, "versions").len() > 1;
    assert_eq!(text.contains(" of the best peer's)"), is_compared, "{text}");
}

#[test]
fn logins_report_rate_and_cpu_of_both_ends() {
    let Some((_, report)) = smoke("logins", &[]) else { return };
    let rows = list(list(&report, "tables")[0], "rows");
    assert_eq!(rows[0]["name"], "longhaul");
    for row in rows {
        for name in ["logins/s and core", "logins/s", "CPU-ms a login", "client CPU-ms", "server CPU-ms"] {
            let value = series(row, name).and_then(|series| series["median"].as_f64());
            assert!(value.is_some_and(|value| value > 0.0), "{name}: {row:#}");
        }
    }
}

#[test]
fn scale_reports_threads_and_folds_into_a_table() {
    let Some((_, report)) = smoke("scale", &["--size", "8M"]) else { return };
    let tables = list(&report, "tables");
    let titled = |begin: &str| {
        let found = tables.iter().filter(|table| table["title"].as_str().unwrap().starts_with(begin));
        found.copied().collect::<Vec<_>>()
    };
    let threads = titled("CPU of each thread");
    assert_eq!(threads.len(), 2, "two ciphers");
    for row in threads.iter().flat_map(|table| list(table, "rows")) {
        let of = |name| series(row, name).and_then(|series| series["median"].as_f64()).unwrap();
        assert!(of("loop µs/MB") > 0.0, "{row:#}");
        let has_workers = !row["name"].as_str().unwrap().starts_with("no workers");
        assert_eq!(of("workers µs/MB") > 0.0, has_workers, "{row:#}");
    }
    let derived = titled("derived for more cores");
    assert_eq!(derived.iter().flat_map(|table| list(table, "rows")).count(), 2 * 2 * 3);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    std::fs::write(&file, report.to_string()).unwrap();
    let table = fold(&file);
    assert!(table.starts_with("| machine | cipher | no workers | 1 worker | 2 workers |"), "{table}");
    assert!(table.contains("| aes256-gcm | 16 cores, up |"), "{table}");
}

fn fold(file: &Path) -> String {
    let done = Command::new(PROGRAM).arg("--fold").arg(file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
