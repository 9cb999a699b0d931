//! `longhaul bench --quick` over a long path.

use std::process::Stdio;

use lh_interop::our;
use lh_link::path::Side;
use serde_json::Value;

use super::site::{Plan, Site, spec};

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn quick_bench_measures_both_directions_of_a_long_path() {
    let plan = Plan { spec: spec(20, 300), ..Plan::default() };
    let Some(site) = Site::start("quick_bench_measures_both_directions_of_a_long_path", &plan) else {
        return;
    };
    let mut command = site.wan.command(Side::Near, our("longhaul"));
    command.args(["bench", "--quick", "--json", "--local-dir", &site.lab.arg(".")]);
    command.args(site.lab.client_options()).args(["-P", &site.port.to_string()]);
    command.arg(format!("{}@{}", site.user.name, site.host));
    let done = command.stdin(Stdio::null()).output().unwrap();
    let results: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let value = |table: &str, column: &str| {
        let rows = results["rows"].as_array().unwrap();
        let is_it =
            |row: &&Value| row["table"].as_str().unwrap().starts_with(table) && row["column"] == column;
        rows.iter().find(is_it).and_then(|row| row["low"].as_f64())
    };
    for direction in ["up", "down"] {
        assert!(value("throughput by cipher", direction).is_some(), "{direction}: {results:#}");
    }
    // Answers that were under way when a transfer ended are none of the messages after it.
    let alone = value("latency of a small message", "round trip").expect("a latency");
    assert!(alone >= 0.3, "{alone}: {results:#}");
}
