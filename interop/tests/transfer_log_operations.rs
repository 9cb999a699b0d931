//! `TransferLogOperations`: requests over SFTP that change something or are denied, in the transfer log.

use lh_interop::{Lab, ServerSetup, eventually, json_lines, me};
use serde_json::Value;

/// Returns the records of a JSON log.
fn records(lab: &Lab) -> Vec<Value> {
    let text = std::fs::read_to_string(lab.path("log")).unwrap_or_default();
    json_lines(&text)
}

/// Waits for the record of the connection, which is the last one, and returns it.
#[track_caller]
fn connection(lab: &Lab) -> Value {
    let last = || records(lab).into_iter().find(|record| record["event"] == "connection");
    eventually("the connection is recorded", || last().is_some());
    last().expect("a record")
}

/// Covers: sshd_config TransferLogOperations; sshd_config TransferLog (operations)
#[test]
fn transfer_log_has_a_record_per_operation() {
    let Some(setup) = ServerSetup::new(
        "transfer_log_has_a_record_per_operation",
        "TransferLog {lab}/log\nTransferLogFormat json\nTransferLogOperations yes\n\
         Subsystem sftp internal-sftp -P readlink,hardlink",
    ) else {
        return;
    };
    let lab = &setup.lab;
    lab.write("a", "text");
    let path = |name: &str| lab.arg(name);
    let (a, b, c, d, link) = (path("a"), path("b"), path("c"), path("d"), path("link"));
    let batch = format!(
        "rename \"{a}\" \"{b}\"\nmkdir \"{d}\"\nchmod 0640 \"{b}\"\nsymlink b \"{link}\"\n-ln \"{b}\" \"{c}\"\n\
         -rename /nonexistent/x \"{c}\"\nls -l \"{d}\"\nrm \"{b}\"\nrmdir \"{d}\"\n-rm \"{c}\"\n"
    );
    setup.sftp(&batch).ok("sftp");
    let connection = connection(lab);
    let all: Vec<Value> = records(lab).into_iter().filter(|record| record["event"] == "operation").collect();
    for record in &all {
        for field in ["session", "pid", "user", "remote", "port"] {
            assert_eq!(record[field], connection[field], "{field} in {record}");
        }
        assert_eq!(record["protocol"], "sftp");
    }
    assert!(connection["session"].as_str().is_some_and(|session| session.len() > 10), "{connection}");
    let said = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let told: Vec<[String; 5]> = all
        .iter()
        .map(|record| ["operation", "path", "new_path", "target", "reason"].map(|field| said(record, field)))
        .collect();
    let row = |texts: [&str; 5]| texts.map(str::to_owned);
    assert_eq!(
        told,
        [
            row(["posix-rename", &a, &b, "", ""]),
            row(["mkdir", &d, "", "", ""]),
            row(["setstat", &b, "", "", ""]),
            row(["symlink", &link, "", "b", ""]),
            row(["posix-rename", "/nonexistent/x", &c, "", "No such file"]),
            row(["remove", &b, "", "", ""]),
            row(["rmdir", &d, "", "", ""]),
            row(["remove", &c, "", "", "No such file"]),
        ]
    );
    assert_eq!(all[2]["attributes"], "mode=0640");
    for record in &all {
        let failed = record["reason"].is_string();
        assert_eq!(record["outcome"], if failed { "failed" } else { "complete" }, "{record}");
    }
}

/// Covers: sshd_config TransferLogOperations (requests that are denied); sshd_config Match TransferLogOperations
#[test]
fn denied_requests_are_in_the_transfer_log() {
    let lab = Lab::new();
    lab.write("rules", &format!("Match User {}\n TransferLogOperations yes\n", me()));
    let config =
        "TransferLog {lab}/log\nTransferLogFormat json\nSubsystem sftp internal-sftp -R\nInclude {lab}/rules";
    let Some(setup) = ServerSetup::with_lab("denied_requests_are_in_the_transfer_log", lab, config) else {
        return;
    };
    let lab = &setup.lab;
    lab.write("a", "text");
    let (a, b) = (lab.arg("a"), lab.arg("b"));
    setup
        .sftp(&format!("-put \"{a}\" \"{b}\"\n-rm \"{a}\"\n-mkdir \"{b}\"\n-chmod 0600 \"{a}\"\n"))
        .ok("sftp");
    connection(lab);
    let denied: Vec<(String, String)> = records(lab)
        .into_iter()
        .filter(|record| record["reason"] == "Permission denied")
        .map(|record| {
            let what = if record["event"] == "operation" { &record["operation"] } else { &record["event"] };
            (
                what.as_str().unwrap_or_default().to_owned(),
                record["path"].as_str().unwrap_or_default().to_owned(),
            )
        })
        .collect();
    let row = |what: &str, path: &str| (what.to_owned(), path.to_owned());
    assert_eq!(denied, [row("file", &b), row("remove", &a), row("mkdir", &b), row("setstat", &a)]);
    assert!(lab.path("a").exists() && !lab.path("b").exists());
}

/// Covers: sshd_config TransferLogOperations (off by default)
#[test]
fn operations_are_not_logged_by_default() {
    let Some(setup) = ServerSetup::new(
        "operations_are_not_logged_by_default",
        "TransferLog {lab}/log\nTransferLogFormat json",
    ) else {
        return;
    };
    setup.sftp(&format!("mkdir \"{}\"\n", setup.lab.arg("d"))).ok("sftp");
    connection(&setup.lab);
    assert!(records(&setup.lab).iter().all(|record| record["event"] == "connection"));
}

/// Covers: sshd_config TransferLogRate; sshd_config Match TransferLogRate
#[test]
fn records_beyond_a_rate_are_counted() {
    let lab = Lab::new();
    lab.write("rules", &format!("Match User {}\n TransferLogRate 5/1h\n", me()));
    let config =
        "TransferLog {lab}/log\nTransferLogFormat json\nTransferLogOperations yes\nInclude {lab}/rules";
    let Some(setup) = ServerSetup::with_lab("records_beyond_a_rate_are_counted", lab, config) else { return };
    let lab = &setup.lab;
    let batch: String = (0..40).map(|n| format!("mkdir \"{}\"\n", lab.arg(&format!("d{n}")))).collect();
    setup.sftp(&batch).ok("sftp");
    let connection = connection(lab);
    let all = records(lab);
    let count = |event: &str| all.iter().filter(|record| record["event"] == event).count();
    assert_eq!((count("operation"), count("left_out"), count("connection")), (5, 1, 1), "{all:?}");
    let left_out = all.iter().find(|record| record["event"] == "left_out").expect("a record");
    assert_eq!(left_out["records"], 35);
    for field in ["session", "pid", "user", "remote", "port"] {
        assert_eq!(left_out[field], connection[field], "{field} in {left_out}");
    }
}
