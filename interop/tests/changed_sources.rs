//! Files that are written to while they are copied: told, and a failure only where a verified copy was asked for.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lh_interop::{Inetd, Lab, Lhsshd, Ran, json_lines, make_blob, our, peers};

/// Runs a command while something appends to a file all the time.
fn while_it_grows(path: &Path, run: impl FnOnce() -> Ran) -> Ran {
    let ended = AtomicBool::new(false);
    let mut log = fs::OpenOptions::new().append(true).open(path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                log.write_all(b"another line\n").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let ran = run();
        ended.store(true, Ordering::Relaxed);
        ran
    })
}

/// Copies a log at 4 MB/s and so for longer than it takes to append to it.
fn copy(lab: &Lab, port: u16, flags: &[&str], from: &str, to: &str) -> Ran {
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), port.to_string()]);
    all.extend(["-l", "32000"].map(str::to_owned));
    all.extend(flags.iter().map(|&flag| flag.to_owned()));
    all.extend([from, to].map(str::to_owned));
    lab.run(&our("lhscp"), &all)
}

/// With our server and with OpenSSH's: uploads, downloads, and between two remote hosts.
fn with_each_server(test: &str, check: impl Fn(&Lab, u16, &str, &str, &str)) {
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let theirs = peers(test, ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    for port in [Some(ours.port), theirs.as_ref().map(|server| server.port)].into_iter().flatten() {
        make_blob(&lab.path("log"), 1_500_000);
        let at = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
        for (from, to, way) in [
            (lab.arg("log"), at("copy"), "up"),
            (at("log"), lab.arg("copy"), "down"),
            (at("log"), at("copy"), "relay"),
        ] {
            let _ = fs::remove_file(lab.path("copy"));
            check(&lab, port, &from, &to, way);
            let (log, copy) = (fs::read(lab.path("log")).unwrap(), fs::read(lab.path("copy")).unwrap());
            assert!(copy.len() >= 1_500_000 && log.starts_with(&copy), "{way}: {} bytes", copy.len());
        }
    }
}

#[test]
fn a_log_that_grows_is_copied_and_that_is_told() {
    with_each_server("a_log_that_grows_is_copied_and_that_is_told", |lab, port, from, to, way| {
        let ran = while_it_grows(&lab.path("log"), || copy(lab, port, &["-3", "--json"], from, to));
        assert_eq!(ran.code, 0, "{way}: {}", ran.err);
        let said = "log\": file changed while it was copied: it grew to ";
        assert!(ran.err.contains(said), "{way}: {}", ran.err);
        let events = json_lines(&ran.text());
        let changed: Vec<_> = events.iter().filter(|event| event["event"] == "changed").collect();
        assert_eq!(changed.len(), 1, "{way}: {}", ran.text());
        assert!(changed[0]["source"].as_str().unwrap().ends_with("/log"), "{way}: {}", changed[0]);
        assert_eq!(events.last().unwrap()["verified"], 0, "{way}: {}", ran.text());
    });
}

/// By scp's old protocol the size of a file is told before its data: a client that sends it can tell that it grew.
///
/// Covers: lhscp -O
#[test]
fn a_log_that_grows_is_told_in_the_old_protocol() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("log"), 1_500_000);
    let to = format!("127.0.0.1:{}", lab.arg("copy"));
    let ran = while_it_grows(&lab.path("log"), || copy(&lab, server.port, &["-O", "--json"], "log", &to));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("log\": file changed while it was copied: it grew to "), "{}", ran.err);
    let events = json_lines(&ran.text());
    let changed: Vec<_> = events.iter().filter(|event| event["event"] == "changed").collect();
    assert_eq!(changed.len(), 1, "{}", ran.text());
    let (log, arrived) = (fs::read(lab.path("log")).unwrap(), fs::read(lab.path("copy")).unwrap());
    assert!(arrived.len() >= 1_500_000 && log.starts_with(&arrived));
    let ran = copy(&lab, server.port, &["-O"], "log", &to).ok("nothing writes to it now");
    assert!(!ran.err.contains("changed"), "{}", ran.err);
}

/// Covers: lhscp --verify
#[test]
fn a_verified_copy_of_a_log_that_grows_has_status_1() {
    with_each_server("a_verified_copy_of_a_log_that_grows_has_status_1", |lab, port, from, to, way| {
        let ran = while_it_grows(&lab.path("log"), || copy(lab, port, &["-3", "--verify"], from, to));
        assert_eq!(ran.code, 1, "{way}: {}", ran.err);
        assert!(
            ran.err.contains("log\": file changed while it was copied: it grew to "),
            "{way}: {}",
            ran.err
        );
        let ran = copy(lab, port, &["-3", "--verify", "--json"], from, to).ok("nothing writes to it now");
        assert!(ran.text().contains("\"verified\":1"), "{way}: {}", ran.text());
    });
}
