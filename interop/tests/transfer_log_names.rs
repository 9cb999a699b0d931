//! `TransferLog` has one record for each file, under its final name, for every way of writing a file.

use lh_interop::{Lab, Lhsshd, json_lines, make_blob, our};
use serde_json::Value;

/// Size of the copied file, bytes: too large for a batch.
const SIZE: usize = 12_000_000;

/// Waits for this number of connections' records; returns the records of files.
fn files(lab: &Lab, connections: usize) -> Vec<Value> {
    let of = |event: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(lab.path("log")).unwrap_or_default();
        json_lines(&text).into_iter().filter(|record| record["event"] == event).collect()
    };
    lh_interop::eventually("connections are recorded", || of("connection").len() >= connections);
    of("file")
}

/// Covers: sshd_config TransferLog (final names); scp -j
#[test]
fn a_copy_has_one_record_under_its_final_name() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    make_blob(&lab.path("small"), 1000);
    std::fs::create_dir(lab.path("there")).unwrap();
    let config = format!("TransferLog {}\nTransferLogFormat json", lab.arg("log"));
    let server = Lhsshd::start(&lab, &config);
    let there = |name: &str| lab.arg(&format!("there/{name}"));
    let copy = |options: &[&str], from: &str, name: &str| {
        let mut args: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        args.extend(lab.client_options());
        args.extend(["-P".into(), server.port_arg(), lab.arg(from), format!("127.0.0.1:{}", there(name))]);
        lab.run(&our("lhscp"), &args).ok(name);
    };
    copy(&[], "blob", "new");
    copy(&[], "blob", "new");
    copy(&[], "small", "small");
    copy(&["--in-place"], "blob", "in place");
    copy(&["--verify"], "blob", "verified");
    lab.write("batch", &format!("put {} {}\n", lab.arg("blob"), there("sftp")));
    let mut args = vec!["-b".to_owned(), lab.arg("batch")];
    args.extend(lab.client_options());
    args.extend(["-P".into(), server.port_arg(), "127.0.0.1".into()]);
    lab.run(&our("lhsftp"), &args).ok("lhsftp");
    let expected = [("new", SIZE), ("new", SIZE), ("small", 1000), ("in place", SIZE), ("verified", SIZE)];
    let expected = [&expected[..], &[("sftp", SIZE)]].concat();
    let records = files(&lab, expected.len());
    assert_eq!(records.len(), expected.len(), "{records:?}");
    for (record, (name, size)) in records.iter().zip(&expected) {
        assert_eq!((&record["path"], &record["bytes"]), (&there(name).into(), &(*size).into()), "{record}");
        assert_eq!((&record["direction"], &record["outcome"]), (&"upload".into(), &"complete".into()));
    }
}

/// Covers: sshd_config TransferLog (final names; several connections); sshd_config LonghaulTickets
#[test]
fn a_copy_over_several_connections_has_one_record() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 4 * SIZE);
    let config = format!("TransferLog {}\nTransferLogFormat json", lab.arg("log"));
    let server = Lhsshd::start(&lab, &config);
    let mut args = vec!["-j".to_owned(), "3".to_owned()];
    args.extend(lab.client_options());
    args.extend(["-P".into(), server.port_arg(), lab.arg("blob"), format!("127.0.0.1:{}", lab.arg("new"))]);
    lab.run(&our("lhscp"), &args).ok("lhscp");
    let records = files(&lab, 2);
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((&record["path"], &record["bytes"]), (&lab.arg("new").into(), &(4 * SIZE).into()), "{record}");
}

/// Covers: sshd_config TransferLog (paths)
#[test]
fn relative_paths_are_recorded_absolute_and_plain() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    lab.write("small", "ab");
    std::fs::create_dir(lab.path("there")).unwrap();
    let config = format!(
        "TransferLog {}\nTransferLogFormat json\nTransferLogOperations yes\nSubsystem sftp internal-sftp -d {}",
        lab.arg("log"),
        lab.arg("there")
    );
    let server = Lhsshd::start(&lab, &config);
    let names = ["blob", "small"];
    for (from, to) in [("blob", ""), ("small", "."), ("small", ".//.//again")] {
        let mut args = lab.client_options();
        args.extend(["-P".into(), server.port_arg(), lab.arg(from), format!("127.0.0.1:{to}")]);
        lab.run(&our("lhscp"), &args).ok("lhscp");
    }
    let records = files(&lab, 3);
    let paths: Vec<_> = records.iter().map(|record| record["path"].as_str().unwrap()).collect();
    let expected: Vec<_> =
        names.iter().chain([&"again"]).map(|name| lab.arg(&format!("there/{name}"))).collect();
    assert_eq!(paths, expected);
    let text = lab.read("log");
    assert!(!text.contains("/./") && !text.contains("//"), "{text}");
}
