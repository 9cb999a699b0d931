//! Features of copies for users and scripts: dry runs, selection, events, and interrupts.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use lh_interop::{
    Inetd, Lab, Lhsshd, Ran, assert_same_file, eventually, json_lines, make_blob, our, peers,
    with_default_signals,
};
use lh_testkit::leftovers;

fn scp(lab: &Lab, port: u16, words: &[&str]) -> Ran {
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), port.to_string()]);
    all.extend(words.iter().map(|&word| word.to_owned()));
    lab.run(&our("lhscp"), &all)
}

fn tree(lab: &Lab) {
    for name in ["tree/src/a.c", "tree/src/a.o", "tree/build/out", "tree/docs/read me", "tree/keep.o"] {
        let path = lab.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

/// Covers: lhscp --include; lhscp --exclude; lhscp --manifest
#[test]
fn include_exclude_and_manifest_select_files() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    tree(&lab);
    lab.write("list", "docs\nsrc/a.c\n");
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    for (flags, wanted) in [
        (
            &["-rq", "--include", "keep.o", "--exclude", "*.o", "--exclude=/build/"][..],
            &["docs/read me", "keep.o", "src/a.c"][..],
        ),
        (&["-rq", "--manifest", "list"], &["docs/read me", "src/a.c"]),
    ] {
        scp(&lab, server.port, &[flags, &["tree", &there]].concat()).ok("upload");
        let found = lab.sh("cd there && find . -type f | sort | sed 's,^./,,'").text();
        assert_eq!(found.lines().collect::<Vec<_>>(), wanted, "{flags:?}");
        assert!(!lab.path("there/build").exists(), "{flags:?}");
        fs::remove_dir_all(lab.path("there")).unwrap();
    }
    // A listed file that is missing is an error, in both directions; the others are copied.
    lab.write("list", "# a comment\nsrc/a.c\nsrc/gone.c\nno directory/file\n");
    let back = format!("127.0.0.1:{}", lab.arg("tree"));
    for words in [["tree", &there], [&back, "there"]] {
        let ran = scp(&lab, server.port, &[&["-rq", "--manifest", "list"][..], &words].concat());
        assert_eq!(ran.code, 1, "{}", ran.err);
        let missing: Vec<&str> = ran.err.lines().filter(|line| line.contains("manifest")).collect();
        let says = |path: &str| format!("lhscp: {path}: named in the manifest, not found");
        assert_eq!(missing, [says("no directory/file"), says("src/gone.c")]);
        assert!(lab.path("there/src/a.c").exists());
        fs::remove_dir_all(lab.path("there")).unwrap();
    }
    let ran = scp(&lab, server.port, &["--manifest", "missing", "tree", &there]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--manifest missing: No such file"), "{}", ran.err);
}

/// Covers: lhscp --dry-run
#[test]
fn a_dry_run_names_what_would_be_copied_and_copies_nothing() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    tree(&lab);
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let ran = scp(&lab, server.port, &["-r", "--dry-run", "tree", &there]).ok("dry run");
    let mut lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[0].starts_with("tree/build/out -> ") && lines[0].contains("/there/build/out"), "{lines:?}");
    assert!(!lab.path("there").exists());
    assert!(!lab.path("home/.local/state/longhaul").exists(), "a plan needs no journal");
}

/// Covers: lhscp --dry-run; lhscp --json
#[test]
fn a_dry_run_tells_sizes_both_ways_whatever_the_server() {
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let theirs = peers("a_dry_run_tells_sizes_both_ways_whatever_the_server", ["sshd"])
        .map(|[sshd]| Inetd::openssh(&lab, &sshd, ""));
    tree(&lab);
    for port in [Some(ours.port), theirs.as_ref().map(|server| server.port)].into_iter().flatten() {
        let at = |name: &str| format!("127.0.0.1:{}", lab.arg(name));
        for (from, to) in [(lab.arg("tree"), at("there")), (at("tree"), lab.arg("there"))] {
            let ran = scp(&lab, port, &["-r", "--dry-run", &from, &to]).ok("dry run");
            let sizes = ran.text().lines().filter(|line| line.ends_with(" bytes)")).count();
            assert_eq!(sizes, 5, "{}", ran.text());
            let ran = scp(&lab, port, &["-r", "--dry-run", "--json", &from, &to]).ok("dry run");
            let events = ran.text();
            let events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let planned: Vec<_> = events.filter(|event| event["event"] == "planned").collect();
            assert_eq!(planned.len(), 5, "{}", ran.text());
            for event in planned {
                let size = fs::metadata(event["source"].as_str().unwrap()).unwrap().len();
                assert_eq!(event["size"].as_u64(), Some(size), "{event}");
            }
        }
    }
    assert!(!lab.path("there").exists());
}

/// Covers: lhscp --json; lhscp -v
#[test]
fn json_events_name_the_bottleneck() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 2_000_000);
    fs::create_dir(lab.path("dir")).unwrap();
    fs::copy(lab.path("blob"), lab.path("dir/a\"b\nc")).unwrap();
    fs::write(lab.path("dir/small"), b"1").unwrap();
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let ran = scp(&lab, server.port, &["-r", "--json", "-l", "16000", "dir", &there]).ok("json");
    lab.write("events", &ran.text());
    let script = "import json,sys\n\
         lines = [json.loads(line) for line in open('events')]\n\
         files = [line for line in lines if line['event'] == 'file']\n\
         assert sorted(f['name'] for f in files) == ['a\"b\\nc', 'small'], files\n\
         assert any(line['event'] == 'progress' and line['rate'] >= 0 for line in lines), lines\n\
         end = lines[-1]\n\
         assert end['event'] == 'end' and end['files'] == 2 and end['bytes'] == 2000001, end\n\
         assert lines[0]['event'] == 'start' and lines[0]['version'] == 1 and end['run'] == lines[0]['run'], lines[0]\n\
         assert end['outcome'] == 'complete' and end['status'] == 0 and end['peak'] >= end['average'] > 0, end\n\
         assert end['failures'] == 0 and not end['lost'] and end['limited_by'] == 'request', end\n";
    lab.run(Path::new("python3"), &["-c", script]).ok("python reads the events");
    let ran = scp(&lab, server.port, &["-v", "-l", "16000", "blob", &there]).ok("-v");
    assert!(ran.err.contains("lhscp: 1 file, "), "{}", ran.err);
    assert!(ran.err.contains("held up by the rate that was asked for (-l, --pace)"), "{}", ran.err);
}

/// Time in which a person thinks about a passphrase is no time in which data could flow.
///
/// Covers: lhscp --json
#[test]
fn a_prompt_is_not_what_limited_a_copy() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 2_000_000);
    fs::copy(lab.path("user_ed25519"), lab.path("locked")).unwrap();
    lab.run(&our("lhssh-keygen"), &["-q", "-p", "-N", "secret", "-f", &lab.arg("locked")]).ok("keygen");
    lab.sh("printf '#!/bin/sh\nsleep 3\necho asked >>asked\necho secret\n' >ask; chmod +x ask").ok("ask");
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let (locked, port, options) = (lab.arg("locked"), server.port.to_string(), lab.client_options());
    let mut words = vec!["-o", "BatchMode=no", "-i", &locked, "-P", &port, "--json", "-l", "16000"];
    words.extend(options.iter().map(String::as_str));
    words.extend(["blob", &there]);
    let variables = [format!("SSH_ASKPASS={}", lab.arg("ask")), "SSH_ASKPASS_REQUIRE=force".to_owned()];
    let text = lab.run_env(&variables, &our("lhscp"), &words).ok("a copy").text();
    assert_eq!(lab.read("asked"), "asked\n");
    let end: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(end["limited_by"], "request", "{text}");
}

/// The last line tells scripts how a copy ended, in every case.
#[test]
fn every_exit_writes_an_end_event() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    lab.write("good", "good");
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let closed = lh_interop::tunnel::free_port();
    fs::create_dir(lab.path("into")).unwrap();
    let into = format!("127.0.0.1:{}", lab.arg("into"));
    for (port, words, outcome, status, files) in [
        (server.port, &["good", &there][..], "complete", 0, 1),
        (server.port, &["-O", "good", &there], "complete", 0, 1),
        (server.port, &["good", "absent", &into], "partial", 1, 1),
        (server.port, &["absent", &there], "failed", 1, 0),
        (closed, &["good", &there], "no_connection", 255, 0),
        (server.port, &["--retries", "many", "good", &there], "failed", 1, 0),
        (server.port, &["--nosuch", "good", &there], "failed", 1, 0),
        (server.port, &["good"], "failed", 1, 0),
        (server.port, &["good", &there, "-l"], "failed", 1, 0),
        (server.port, &[], "failed", 1, 0),
    ] {
        let words: Vec<&str> = ["--json"].into_iter().chain(words.iter().copied()).collect();
        let ran = scp(&lab, port, &words);
        let lines = json_lines(&ran.text());
        let end = lines.last().unwrap_or_else(|| panic!("{words:?}: {}", ran.err));
        assert_eq!(end["event"], "end", "{words:?}: {end}");
        assert_eq!(
            (end["outcome"].as_str(), end["status"].as_i64()),
            (Some(outcome), Some(status)),
            "{words:?}: {end}"
        );
        assert_eq!(
            (i64::from(ran.code), end["files"].as_i64()),
            (status, Some(files)),
            "{words:?}: {end} {}",
            ran.err
        );
        assert_eq!(lines[0]["run"], end["run"]);
    }
}

/// Covers: lhscp --no-resume
#[test]
fn an_interrupted_copy_can_be_resumed_and_says_so() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 24_000_000);
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let part =
        |lab: &Lab| leftovers(lab.dir()).first().map(|path| fs::metadata(path).map_or(0, |meta| meta.len()));
    let child = with_default_signals(&our("lhscp"))
        .args(lab.client_options())
        .args(["-P", &server.port_arg(), "-q", "-l", "32000", &lab.arg("blob"), &there])
        .env("HOME", lab.path("home"))
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("something has come", || part(&lab).is_some_and(|size| size > 4_000_000));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted: 0 files are complete; the same command again goes on from here"),
        "{said}"
    );
    assert!(!lab.path("there").exists());
    let ran = scp(&lab, server.port, &["--json", &lab.arg("blob"), &there]).ok("the same command again");
    assert!(ran.text().contains("\"event\":\"resumed\""), "{}", ran.text());
    assert_same_file(&lab.path("blob"), &lab.path("there"));
    assert_eq!(part(&lab), None);
    // With --no-resume there is no journal.
    fs::remove_dir_all(lab.path("home/.local")).unwrap();
    scp(&lab, server.port, &["-q", "--no-resume", &lab.arg("blob"), &there]).ok("--no-resume");
    assert!(!lab.path("home/.local").exists());
}

/// Covers: lhscp -Z; lhscp --in-place; lhscp --fsync
#[test]
fn partial_files_of_other_programs_are_resumed_if_equal() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 8_000_000);
    let whole = fs::read(lab.path("blob")).unwrap();
    let there = format!("127.0.0.1:{}", lab.arg("there"));
    let kept = |text: &str| -> u64 {
        let rest = text.split("\"kept\":").nth(1).unwrap_or("0");
        rest.split([',', '}']).next().unwrap_or_default().parse().unwrap()
    };
    // The existing data are a correct beginning, a wrong one, or the complete file.
    let mut wrong = whole[..5_000_000].to_vec();
    wrong[77] ^= 1;
    for (left, expected) in [(&whole[..5_000_000], 5_000_000), (&wrong, 0), (&whole, 8_000_000)] {
        fs::write(lab.path("there"), left).unwrap();
        let ran = scp(&lab, server.port, &["-Z", "--fsync", "--json", "blob", &there]).ok("-Z");
        let last = ran.text().lines().last().unwrap_or_default().to_owned();
        assert_eq!(kept(&last), expected, "{}", ran.text());
        assert_same_file(&lab.path("blob"), &lab.path("there"));
    }
    // In place, the file keeps its inode.
    use std::os::unix::fs::MetadataExt as _;
    let before = fs::metadata(lab.path("there")).unwrap().ino();
    scp(&lab, server.port, &["--in-place", "-q", "blob", &there]).ok("--in-place");
    assert_eq!(fs::metadata(lab.path("there")).unwrap().ino(), before);
    assert_same_file(&lab.path("blob"), &lab.path("there"));
}
