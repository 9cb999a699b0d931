//! `lhscp --retry-for`: unattended copies wait for a server that restarts, and end at once on errors that
//! waiting cannot cure.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lh_interop::{Lab, Lhsshd, Ran, assert_same_file, eventually, make_blob, our, script};
use lh_testkit::leftovers;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The arguments of a copy that has a minute.
fn words(lab: &Lab, port: u16, words: &[&str]) -> Vec<String> {
    let mut all = lab.client_options();
    all.extend(["-P".to_owned(), port.to_string(), "--retry-for".to_owned(), "1m".to_owned()]);
    all.extend(words.iter().map(|&word| word.to_owned()));
    all
}

fn start(lab: &Lab, port: u16, arguments: &[&str]) -> Child {
    let mut command = Command::new(our("lhscp"));
    command.args(words(lab, port, arguments)).current_dir(lab.dir()).env("HOME", lab.path("home"));
    command.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(lab: &Lab, port: u16, arguments: &[&str]) -> Ran {
    lab.run(&our("lhscp"), &words(lab, port, arguments))
}

/// Waits for the event `retry` of a child that reports events.
fn wait_for_retry(child: &mut Child) -> (Value, BufReader<std::process::ChildStdout>) {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    loop {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended without another attempt");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["event"] == "retry" {
            return (event, out);
        }
    }
}

fn last_event(out: BufReader<std::process::ChildStdout>) -> Value {
    let last = out.lines().map_while(Result::ok).last().unwrap_or_default();
    serde_json::from_str(&last).unwrap()
}

fn some_is_there(lab: &Lab) -> bool {
    leftovers(lab.dir()).iter().any(|part| Path::new(part).metadata().is_ok_and(|meta| meta.len() > 1 << 20))
}

fn remote(lab: &Lab, name: &str) -> String {
    format!("127.0.0.1:{}", lab.arg(name))
}

/// Covers: lhscp --retry-for
#[test]
fn a_copy_outlasts_a_server_that_is_started_again() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 48 << 20);
    let port = lh_interop::tunnel::free_port();
    for upload in [true, false] {
        let places = [lab.arg("blob"), remote(&lab, "copy")];
        let back = [remote(&lab, "blob"), lab.arg("copy")];
        let [from, to] = if upload { &places } else { &back };
        // The server is not there yet.
        let mut child =
            start(&lab, port, &["--json", "-l", "100000", "-o", "ConnectionAttempts=1", from, to]);
        let (event, out) = wait_for_retry(&mut child);
        assert!(event["left"].is_null() && event["seconds_left"].as_u64().unwrap() <= 60, "{event}");
        child.stdout = Some(out.into_inner());
        serve_a_part(&lab, port);
        let (_, out) = wait_for_retry(&mut child);
        let _server = Lhsshd::start_on(&lab, port);
        let end = last_event(out);
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), end["outcome"].as_str()), (Some(0), Some("complete")), "{said}");
        assert!(end["kept"].as_u64().unwrap() + end["bytes"].as_u64().unwrap() >= 48 << 20, "{end}");
        assert!(said.contains("connection lost; connecting again in"), "{said}");
        assert_same_file(&lab.path("blob"), &lab.path("copy"));
        assert_eq!(leftovers(lab.dir()).len(), 0);
        fs::remove_file(lab.path("copy")).unwrap();
    }
}

/// Starts lhsshd, and kills it with its sessions once a part of the copy is there.
fn serve_a_part(lab: &Lab, port: u16) {
    let server = Lhsshd::start_on(lab, port);
    eventually("a part of the copy", || some_is_there(lab));
    server.kill_with_sessions();
}

/// Pauses between attempts are no time in which data could flow.
///
/// Covers: lhscp --retry-for; lhscp --json
#[test]
fn an_outage_is_not_what_limited_a_copy() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 8 << 20);
    let port = lh_interop::tunnel::free_port();
    let (limited, target) = (["--json", "-l", "24000", "-o", "ConnectionAttempts=1"], remote(&lab, "copy"));
    let mut child = start(&lab, port, &[&limited[..], &["blob", &target]].concat());
    // Three pauses, of seven seconds together.
    for _ in 0..3 {
        let (_, out) = wait_for_retry(&mut child);
        child.stdout = Some(out.into_inner());
    }
    serve_a_part(&lab, port);
    let (_, out) = wait_for_retry(&mut child);
    let _server = Lhsshd::start_on(&lab, port);
    let end = last_event(out);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{end}");
    assert_eq!(end["limited_by"], "request", "{end}");
}

/// The server's SFTP program ends in the middle (it was killed, say), on a connection that still works.
///
/// Covers: lhscp --retry-for; lhscp --retries
#[test]
fn copies_go_on_after_the_sftp_program_has_ended() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 8 << 20);
    // The first program is cut off from its client after some reads; `head` would hold data back.
    let program = format!(
        "mkdir {0} 2>/dev/null && {{ dd bs=64k count=\"$(cat {0}.reads)\" status=none | {1}; exit; }}\nexec {1}",
        lab.arg("cut"),
        our("lhsftp-server").display()
    );
    script(&lab.path("cut-off"), &program);
    let config = format!("Subsystem sftp {}\nLonghaulSftp external\n", lab.arg("cut-off"));
    let server = Lhsshd::start(&lab, &config);
    let port = server.port;
    for (from, to, reads) in
        [(lab.arg("blob"), remote(&lab, "up"), "40"), (remote(&lab, "blob"), lab.arg("down"), "3")]
    {
        lab.write("cut.reads", reads);
        for flags in [&["--retry-for", "1m"][..], &[]] {
            let _ = fs::remove_dir(lab.path("cut"));
            let mut all = lab.client_options();
            all.extend(["-P".to_owned(), port.to_string()]);
            all.extend(flags.iter().chain(&[&from[..], &to]).map(|&word| word.to_owned()));
            let err = lab.run(&our("lhscp"), &all).ok("copy").err;
            assert!(err.contains("connection lost; connecting again in 1 s"), "{err}");
            let copy = lab.path(if from.starts_with('/') { "up" } else { "down" });
            assert_same_file(&lab.path("blob"), &copy);
            fs::remove_file(copy).unwrap();
        }
    }
    assert!(leftovers(lab.dir()).is_empty());
}

/// Covers: lhscp --retry-for
#[test]
fn errors_that_waiting_cannot_mend_end_a_copy_at_once() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let bare = Lhsshd::start(&lab, "Subsystem sftp /bin/false\nLonghaulSftp external\n");
    make_blob(&lab.path("blob"), 10);
    let target = remote(&lab, "copy");
    for (port, flags, said) in [
        (server.port, &["-o", "PreferredAuthentications=none"][..], "Permission denied"),
        (server.port, &["-o", "HostKeyAlias=unknown"], "Host key verification failed"),
        (server.port, &["-c", "3des-cbc"], "no matching cipher"),
        (bare.port, &[], "no SFTP server answered"),
    ] {
        let ran = run(&lab, port, &[flags, &["blob", &target]].concat());
        assert_eq!(ran.code, 255, "{said}: {}", ran.err);
        // A copy that waits says so before each attempt.
        assert!(ran.err.contains(said) && !ran.err.contains("connecting again"), "{}", ran.err);
    }
    assert!(!lab.path("copy").exists());
    let journals = fs::read_dir(lab.path("home/.local/state/longhaul")).into_iter().flatten().flatten();
    let left: Vec<String> = journals.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect();
    assert_eq!(left, Vec::<String>::new(), "journals");
}

/// Covers: lhscp --retry-for
#[test]
fn when_the_time_is_over_what_is_left_is_said() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 48 << 20);
    let target = remote(&lab, "copy");
    let server = Lhsshd::start(&lab, "");
    // The last --retry-for counts.
    let mut child =
        start(&lab, server.port, &["--json", "-l", "100000", "--retry-for", "8s", "blob", &target]);
    eventually("a part of the copy", || some_is_there(&lab));
    server.kill_with_sessions();
    let (_, out) = wait_for_retry(&mut child);
    assert_eq!(last_event(out)["outcome"], "lost");
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(255), "{said}");
    assert!(said.contains("no progress for 8s: giving up"), "{said}");
    assert!(said.contains("left behind: the unfinished file") && said.contains(".lhpart"), "{said}");
}

/// A server that is gone for good, with the session that it would keep: attempts to resume the session count
/// like those to log in, also with the old protocol and with additional logins.
///
/// Covers: lhscp --retries; sshd_config ResumeGrace; ssh_config Resume
#[test]
fn a_server_that_is_gone_ends_a_copy_after_its_retries() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 48 << 20);
    let target = remote(&lab, "copy");
    for (flags, attempts) in [
        (&["--retries", "1"][..], 1),
        (&["--retries", "0"], 0),
        (&["--retries", "1", "-O"], 1),
        (&["--retries", "1", "-j3"], 1),
    ] {
        let server = Lhsshd::start(&lab, "ResumeGrace 10m\nLonghaulTickets no\n");
        let mut command = Command::new(our("lhscp"));
        command.args(lab.client_options()).args(flags).args(["-l", "100000", "-P"]);
        command.arg(server.port.to_string()).args(["blob", &target]).current_dir(lab.dir());
        command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        if flags.contains(&"-O") {
            eventually("a part of the copy", || lab.path("copy").metadata().is_ok_and(|meta| meta.len() > 0));
        } else {
            eventually("a part of the copy", || some_is_there(&lab));
        }
        server.kill_with_sessions();
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        let expected = if flags.contains(&"-O") { 1 } else { 255 };
        assert_eq!(done.status.code(), Some(expected), "{flags:?}: {said}");
        assert_eq!(
            said.matches("connection lost; connecting again in").count(),
            attempts,
            "{flags:?}: {said}"
        );
        assert_eq!(said.matches("(the last attempt)").count(), attempts, "{flags:?}: {said}");
        for part in leftovers(lab.dir()).into_iter().chain([lab.path("copy")]) {
            let _ = fs::remove_file(part);
        }
    }
}

/// A server that is started again after the last attempt was announced: it does not have the session, and the
/// copy logs in.
///
/// Covers: lhscp --retries; sshd_config ResumeGrace; ssh_config Resume
#[test]
fn the_last_attempt_is_a_login_at_a_server_that_was_restarted() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 48 << 20);
    let port = lh_interop::tunnel::free_port();
    let server = Lhsshd::start_on(&lab, port);
    let mut command = Command::new(our("lhscp"));
    command.args(lab.client_options()).args(["--json", "--retries", "4", "-l", "100000", "-P"]);
    command.arg(port.to_string()).args(["blob", &remote(&lab, "copy")]).current_dir(lab.dir());
    command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    eventually("a part of the copy", || some_is_there(&lab));
    server.kill_with_sessions();
    for left in (0..4).rev() {
        let (event, out) = wait_for_retry(&mut child);
        assert_eq!(event["left"], left, "{event}");
        child.stdout = Some(out.into_inner());
    }
    // Eight seconds before the last attempt.
    let _server = Lhsshd::start_on(&lab, port);
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("connecting again in").count(), 4, "{said}");
    assert_same_file(&lab.path("blob"), &lab.path("copy"));
}

/// Covers: lhscp --retry-for
#[test]
fn a_signal_ends_the_pause_between_attempts() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 10);
    let port = lh_interop::tunnel::free_port();
    let mut child = start(&lab, port, &["--json", "--retry-for", "10h", "blob", &remote(&lab, "copy")]);
    // After the third attempt the pause is three seconds long or more: the signal comes in it.
    for _ in 0..2 {
        let (_, out) = wait_for_retry(&mut child);
        child.stdout = Some(out.into_inner());
    }
    let (event, out) = wait_for_retry(&mut child);
    assert!(event["in"].as_u64().unwrap() >= 3, "{event}");
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    let end = last_event(out);
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), end["outcome"].as_str()), (Some(130), Some("interrupted")));
}

/// Covers: lhscp --retry-for
#[test]
fn copies_that_cannot_wait_are_refused() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 10);
    let port = lh_interop::tunnel::free_port();
    let target = remote(&lab, "copy");
    for (flags, said) in [
        (&["-O"][..], "not with -O"),
        (&["-S", "/bin/false"], "not with -S"),
        (&["--no-resume"], "not with --no-resume"),
        (&["--in-place"], "not with --in-place"),
        (&["--retries", "3"], "not with --retries"),
        (&["--retry-for", "soon"], "bad time"),
        (&["--retry-for", "0"], "bad time"),
        (&[&*remote(&lab, "other")], "only between this host and another"),
    ] {
        let ran = run(&lab, port, &[flags, &["blob", &target]].concat());
        assert_eq!(ran.code, 1, "{said}: {}", ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}
