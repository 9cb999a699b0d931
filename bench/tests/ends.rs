//! Tests that the supervisors count every process of their end, even one that leaves its parent, and no other
//! process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use lh_bench::end::Report;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lh-bench");

fn client(dir: &Path, words: &[&str]) -> Result<Report, String> {
    let report = dir.join("client");
    let out = Command::new(PROGRAM)
        .args(["end-client", "--report"])
        .arg(&report)
        .arg("--")
        .args(words)
        .output()
        .unwrap();
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    Report::read(&report)
}

/// A shell loop that counts to `count`.
fn work(count: u32) -> String {
    format!("i=0; while [ $i -lt {count} ]; do i=$((i+1)); done")
}

#[test]
fn orphaned_processes_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let busy = work(100_000);
    let direct = client(dir.path(), &["sh", "-c", &busy]).unwrap();
    // The parent ends at once; an orphan in a session of its own does the work.
    let line = format!("setsid sh -c '{busy}' & exit 0");
    let orphan = client(dir.path(), &["sh", "-c", &line]).unwrap();
    assert!(orphan.usage.cpu_us() > direct.usage.cpu_us() / 3, "{direct:?} {orphan:?}");
}

#[test]
fn failing_or_hanging_commands_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    assert!(client(dir.path(), &["sh", "-c", "exit 3"]).unwrap_err().contains("Some(3)"));
    let hanging = Command::new(PROGRAM)
        .args(["end-client", "--limit", "1", "--report"])
        .arg(dir.path().join("never"))
        .args(["--", "sleep", "600"])
        .output()
        .unwrap();
    assert!(!hanging.status.success());
    assert!(!dir.path().join("never").exists());
}

#[test]
fn both_ends_of_a_ceiling_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    for cipher in [&[][..], &["--cipher", "aes128-gcm"]] {
        let report = dir.path().join("server");
        let mut server = Command::new(PROGRAM)
            .args(["end-server", "--address", "127.0.0.1", "--report"])
            .arg(&report)
            .arg("--log")
            .arg(dir.path().join("log"))
            .args(["--", PROGRAM, "tcp-sink"])
            .args(cipher)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let to = format!("127.0.0.1:{}", line.trim().strip_prefix("port ").unwrap());
        let mut words = vec![PROGRAM, "tcp-source", "--to", &to, "--bytes", "20000000"];
        words.extend(cipher);
        let here = client(dir.path(), &words).unwrap();
        // Closing its input ends a server.
        drop(server.stdin.take());
        assert!(server.wait().unwrap().success());
        let there = Report::read(&report).unwrap();
        assert!(here.wall_us > 0 && here.usage.cpu_us() > 0, "{here:?}");
        assert!(there.usage.cpu_us() > 0 && there.usage.peak_kib > 0, "{there:?}");
    }
}

#[test]
fn commands_count_themselves_and_their_shell() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("us");
    let count = |line: &str| {
        let _ = std::fs::remove_file(&file);
        let done = Command::new("sh").args(["-c", line]).output().unwrap();
        (done, std::fs::read_to_string(&file).ok().and_then(|text| text.parse::<u64>().ok()))
    };
    let counted = format!("exec {PROGRAM} counted {}", file.display());
    let (done, idle) = count(&format!("{counted} echo text"));
    assert_eq!(done.stdout, b"text\n");
    // The shell works before it executes the helper; then the command does.
    let (_, before) = count(&format!("{}; {counted} true", work(300_000)));
    let (_, inside) = count(&format!("{counted} sh -c '{}'", work(300_000)));
    let (idle, before, inside) = (idle.unwrap(), before.unwrap(), inside.unwrap());
    assert!(idle > 0 && before > 2 * idle && inside > 2 * idle, "{idle} {before} {inside}");
    let (done, failed) = count(&format!("{counted} false"));
    assert!(!done.status.success() && failed.is_none());
}
