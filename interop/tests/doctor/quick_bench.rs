//! `longhaul bench --quick` over a long path, and with a server of few abilities.

use std::process::{Command, Stdio};

use lh_interop::{Inetd, Lab, TestUser, is_root, our, peers, safe_directory, skip};
use lh_link::path::Side;
use serde_json::Value;

use super::path_setup::{PathSetup, Plan, spec};

#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn quick_bench_measures_both_directions_of_a_long_path() {
    let plan = Plan { spec: spec(20, 300), ..Plan::default() };
    let Some(setup) = PathSetup::start("quick_bench_measures_both_directions_of_a_long_path", &plan) else {
        return;
    };
    let mut command = setup.wan.command(Side::Near, our("longhaul"));
    command.args(["bench", "--quick", "--json", "--local-dir", &setup.lab.arg(".")]);
    command.args(setup.lab.client_options()).args(["-P", &setup.port.to_string()]);
    command.arg(format!("{}@{}", setup.user.name, setup.host));
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

/// TinySSH ends a connection with its session, and does not answer requests that it does not know.
#[test]
#[ignore = "half a minute each; run them all with `cargo xtask test --only doctor`"]
fn quick_bench_measures_a_server_of_one_session() {
    let test = "quick_bench_measures_a_server_of_one_session";
    let Some([tinysshd, makekey]) = peers(test, ["tinysshd", "tinysshd-makekey"]) else { return };
    if !is_root() {
        return skip(test, "needs root: tinysshd reads authorized_keys from the home of the user");
    }
    let lab = Lab::new();
    let mut user = TestUser::new(&lab);
    // Only root may be able to write to directories above the home.
    let safe = safe_directory();
    user.move_home(&lab, safe.path());
    lab.run(&makekey, &[lab.arg("tiny")]).ok("tinysshd-makekey");
    let server = Inetd::start(&lab, &tinysshd, &[lab.arg("tiny")]);
    let mut command = Command::new(our("longhaul"));
    command.args(["bench", "--quick", "--json", "--local-dir", &lab.arg(".")]);
    // It makes its host key itself.
    command.args(["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]);
    command.args(lab.client_options()).args(["-P", &server.port_arg()]);
    let done = command.arg(format!("{}@127.0.0.1", user.name)).stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    for column in ["up", "down"] {
        let is_it = |row: &&Value| row["row"] == "chacha20-poly1305" && row["column"] == column;
        let row = results["rows"].as_array().unwrap().iter().find(is_it);
        assert!(row.is_some_and(|row| row["median"].as_f64().unwrap() > 0.0), "{column}: {results:#}");
    }
    let missing = results["missing"].to_string();
    assert!(missing.contains("the latency of a small message") && !missing.contains("closed"), "{missing}");
}
