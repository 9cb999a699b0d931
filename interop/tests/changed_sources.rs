//! Files that another program writes to during the copy. The client reports them. The exit status is 1 only
//! for a verified copy, or if a file has become shorter.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lh_interop::held_fs::{HeldFs, OnRead};
use lh_interop::{Inetd, Lab, Lhsshd, Ran, json_lines, make_blob, our, peers, skip_unavailable};

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

/// By scp's old protocol the size of a file is told before its data: a client that sends it can tell that it
/// grew.
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

/// A file system whose file changes when it is read: no test has to be faster than a copy.
fn changing(test: &str, lab: &Lab) -> Option<HeldFs> {
    match HeldFs::mount(&lab.path("held"), b"") {
        Ok(held) => Some(held),
        Err(problem) => {
            let text = format!("no file system in user space can be mounted: {problem}");
            skip_unavailable(test, &text);
            None
        }
    }
}

/// Runs one command of lhsftp, as a batch. Relative names are in the lab's directory at both ends.
fn sftp(lab: &Lab, port: u16, command: &str) -> Ran {
    lab.write("batch", &format!("cd {}\n{command}\n", lab.dir().display()));
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), port.to_string()]);
    all.extend(["-q", "-b", "batch", "127.0.0.1"].map(str::to_owned));
    lab.run(&our("lhsftp"), &all)
}

/// Size of the source, which takes several requests.
const SIZE: usize = 1_500_000;

fn whole(lab: &Lab) -> Vec<u8> {
    make_blob(&lab.path("whole"), SIZE);
    fs::read(lab.path("whole")).unwrap()
}

/// Covers: sftp -a
#[test]
fn sftp_tells_of_sources_that_grow() {
    const TEST: &str = "sftp_tells_of_sources_that_grow";
    let lab = Lab::new();
    let Some(held) = changing(TEST, &lab) else { return };
    let whole = whole(&lab);
    let ours = Lhsshd::start(&lab, "");
    let theirs = peers(TEST, ["sshd"]).map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    for port in [Some(ours.port), theirs.as_ref().map(|server| server.port)].into_iter().flatten() {
        for (command, begun) in [
            ("put held/file copy", None),
            ("get held/file copy", None),
            ("reput held/file copy", Some(SIZE / 3)),
            ("reget held/file copy", Some(SIZE / 3)),
        ] {
            held.set_content(&whole);
            match begun {
                None => drop(fs::remove_file(lab.path("copy"))),
                Some(size) => fs::write(lab.path("copy"), &whole[..size]).unwrap(),
            }
            held.change_on_read(Some(OnRead::Grow));
            let ran = sftp(&lab, port, command);
            held.change_on_read(None);
            assert_eq!(ran.code, 0, "{command}: {}", ran.err);
            let told = "held/file\": file changed while it was copied: it grew to ";
            assert!(ran.err.contains(told), "{command}: {}", ran.err);
            let copy = fs::read(lab.path("copy")).unwrap();
            assert!(copy.starts_with(&whole) && held.content().starts_with(&copy), "{command}");
            // An unchanged source causes no message.
            let ran = sftp(&lab, port, command).ok(command);
            assert!(!ran.err.contains("changed"), "{command}: {}", ran.err);
            assert!(fs::read(lab.path("copy")).unwrap() == held.content(), "{command}");
        }
    }
}

/// A source that ends before its size is a failure: the copy would not be what the source was or is.
///
/// Covers: sftp -b
#[test]
fn sources_that_shrink_are_failures() {
    const TEST: &str = "sources_that_shrink_are_failures";
    let lab = Lab::new();
    let Some(held) = changing(TEST, &lab) else { return };
    let whole = whole(&lab);
    let server = Lhsshd::start(&lab, "");
    let there = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
    let commands: [(&str, &dyn Fn() -> Ran); 4] = [
        ("put", &|| sftp(&lab, server.port, "put held/file copy")),
        ("get", &|| sftp(&lab, server.port, "get held/file copy")),
        ("up", &|| copy(&lab, server.port, &[], "held/file", &there("copy"))),
        ("down", &|| copy(&lab, server.port, &[], &there("held/file"), "copy")),
    ];
    for (name, run) in commands {
        held.set_content(&whole);
        held.change_on_read(Some(OnRead::Shrink));
        let ran = run();
        held.change_on_read(None);
        assert_eq!(ran.code, 1, "{name}: {}", ran.err);
        assert!(ran.err.contains("held/file") && ran.err.contains("shrank"), "{name}: {}", ran.err);
    }
}

/// The far side of scp's old protocol tells on standard error, which SSH passes on: a record would count as
/// an error.
///
/// Covers: lhscp -f
#[test]
fn the_far_side_of_the_old_protocol_tells_of_growth() {
    let lab = Lab::new();
    let Some(held) = changing("the_far_side_of_the_old_protocol_tells_of_growth", &lab) else { return };
    held.set_content(&whole(&lab));
    held.change_on_read(Some(OnRead::Grow));
    lab.write("answers", "\0\0\0");
    let answers = fs::File::open(lab.path("answers")).unwrap();
    let ran = lab.run_with(&our("lhscp"), &["-f".to_owned(), "held/file".to_owned()], answers.into());
    held.change_on_read(None);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("held/file\": file changed while it was copied: it grew to "), "{}", ran.err);
    let announced = format!("C0644 {SIZE} file\n");
    assert!(ran.out.starts_with(announced.as_bytes()));
    assert_eq!(ran.out.len(), announced.len() + SIZE + 1, "as announced, and the end of the file");
}
