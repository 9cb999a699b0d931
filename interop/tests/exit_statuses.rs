//! Exit statuses and outcomes of `lhscp`: one test for each row of the table in docs/copying.md.

use std::fs;
use std::process::Stdio;

use lh_interop::{Lab, Lhsshd, Ran, eventually, make_blob, make_tree, our, with_default_signals};
use serde_json::Value;

fn words(lab: &Lab, port: u16, words: &[&str]) -> Vec<String> {
    let mut all = lab.client_options();
    all.extend(["--json".to_owned(), "-P".to_owned(), port.to_string()]);
    all.extend(words.iter().map(|&word| word.to_owned()));
    all
}

/// Runs a copy; returns its status and the outcome of the last event.
fn ended(lab: &Lab, port: u16, arguments: &[&str]) -> (i32, String) {
    let Ran { code, out, .. } = lab.run(&our("lhscp"), &words(lab, port, arguments));
    (code, outcome(&out))
}

fn outcome(out: &[u8]) -> String {
    let text = String::from_utf8_lossy(out);
    let end: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default();
    end["outcome"].as_str().unwrap_or("none").to_owned()
}

fn remote(lab: &Lab, name: &str) -> String {
    format!("127.0.0.1:{}", lab.arg(name))
}

/// Copies slowly; calls `then` with the process id once some of it is there, and returns how the copy ended.
fn cut_short(lab: &Lab, port: u16, sources: &[&str], then: impl FnOnce(u32)) -> (i32, String) {
    let target = remote(lab, "copy");
    let arguments = [&["-l", "40000", "--retries", "0"], sources, &[&target]].concat();
    let mut command = with_default_signals(&our("lhscp"));
    command.args(words(lab, port, &arguments)).current_dir(lab.dir()).env("HOME", lab.path("home"));
    command.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME").stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    eventually("a part of the copy", || {
        let entries =
            fs::read_dir(lab.dir()).unwrap().chain(fs::read_dir(lab.path("copy")).into_iter().flatten());
        let part = |path: &std::path::Path| path.extension().is_some_and(|end| end == "lhpart");
        entries
            .flatten()
            .any(|entry| part(&entry.path()) && entry.metadata().is_ok_and(|meta| meta.len() > 0))
    });
    then(child.id());
    let done = child.wait_with_output().unwrap();
    (done.status.code().unwrap_or(-1), outcome(&done.stdout))
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn all_copied_is_0() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_tree(&lab.path("tree"), 5);
    assert_eq!(ended(&lab, server.port, &["-r", "tree", &remote(&lab, "copy")]), (0, "complete".into()));
}

#[test]
fn some_copied_is_1() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_tree(&lab.path("tree"), 5);
    fs::create_dir_all(lab.path("copy/empty")).unwrap();
    assert_eq!(ended(&lab, server.port, &["-r", "tree/.", &remote(&lab, "copy")]), (1, "partial".into()));
}

#[test]
fn none_copied_is_1() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    assert_eq!(ended(&lab, server.port, &["none", &remote(&lab, "copy")]), (1, "failed".into()));
    make_blob(&lab.path("blob"), 10);
    assert_eq!(ended(&lab, server.port, &["-l", "x", "blob", &remote(&lab, "copy")]).0, 1);
    let unwritable = ["--manifest-out", "no/such", "blob", &remote(&lab, "copy")];
    assert_eq!(ended(&lab, server.port, &unwritable), (1, "failed".into()));
}

#[test]
fn interrupted_is_130_and_nothing_more_is_copied() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("big"), 64 << 20);
    make_blob(&lab.path("other"), 10);
    fs::create_dir(lab.path("copy")).unwrap();
    // Two copies: the second comes from another host, by name.
    let other = format!("localhost:{}", lab.arg("other"));
    for kind in [rustix::process::Signal::TERM, rustix::process::Signal::INT, rustix::process::Signal::HUP] {
        let got = cut_short(&lab, server.port, &["big", &other], |pid| signal(pid, kind));
        assert_eq!(got, (130, "interrupted".into()));
        assert!(!lab.path("copy/other").exists());
        for part in lh_testkit::leftovers(lab.dir()) {
            fs::remove_file(part).unwrap();
        }
    }
}

/// A host that takes the connection and says nothing.
#[test]
fn a_signal_while_connecting_is_130_with_an_end_event() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 10);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, target) = (silent.local_addr().unwrap().port(), remote(&lab, "copy"));
    for flags in [&[][..], &["-O"]] {
        for kind in
            [rustix::process::Signal::TERM, rustix::process::Signal::INT, rustix::process::Signal::HUP]
        {
            let arguments = [flags, &["blob", &target]].concat();
            let mut command = with_default_signals(&our("lhscp"));
            command.args(words(&lab, port, &arguments)).current_dir(lab.dir()).env("HOME", lab.path("home"));
            command.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME").stdin(Stdio::null());
            let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let _connected = silent.accept().unwrap();
            signal(child.id(), kind);
            let done = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            let got = (done.status.code(), outcome(&done.stdout));
            assert_eq!(got, (Some(130), "interrupted".into()), "{kind:?}: {text}");
            assert_eq!(text.lines().count(), 2, "start and end: {text}");
        }
    }
}

#[test]
fn a_lost_connection_is_255() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("big"), 64 << 20);
    fs::create_dir(lab.path("copy")).unwrap();
    let sessions = || lh_interop::process::below(server.pid());
    let got = cut_short(&lab, server.port, &["big"], |_| {
        sessions().into_iter().for_each(|pid| signal(pid, rustix::process::Signal::KILL));
    });
    assert_eq!(got, (255, "lost".into()));
}

#[test]
fn no_connection_is_255() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 10);
    let target = remote(&lab, "copy");
    let none = (255, "no_connection".to_owned());
    assert_eq!(ended(&lab, lh_interop::tunnel::free_port(), &["blob", &target]), none);
    assert_eq!(ended(&lab, server.port, &["-o", "PreferredAuthentications=none", "blob", &target]), none);
    let unknown = ["-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes", "blob", &target];
    assert_eq!(ended(&lab, server.port, &unknown).0, 0, "the first value of a keyword counts");
    lab.write("known_hosts", "");
    assert_eq!(ended(&lab, server.port, &["blob", &target]), none, "the host key");
}

/// Values that make no sense, for which scp ends with 255.
///
/// Covers: lhscp -P; lhscp -X; lhscp -1
#[test]
fn a_bad_port_or_sftp_option_is_255() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 10);
    let target = remote(&lab, "copy");
    for flags in [&["-P", "x"][..], &["-P", "0"], &["-X", "x"], &["-X", "buffer=x"], &["-1"]] {
        let got = ended(&lab, server.port, &[flags, &["blob", &target]].concat());
        assert_eq!(got, (255, "no_connection".into()), "{flags:?}");
    }
    assert!(!server.log().contains("Accepted"), "{}", server.log());
}

/// A server that ends the subsystem, and one that refuses it: one login each, no further attempt.
#[test]
fn no_sftp_server_is_255_after_one_login() {
    for config in ["Subsystem sftp /bin/false\nLonghaulSftp external\n", "Subsystem sftp none\n"] {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        make_blob(&lab.path("blob"), 10);
        let run = lab.run(&our("lhscp"), &words(&lab, server.port, &["blob", &remote(&lab, "copy")]));
        assert_eq!((run.code, outcome(&run.out)), (255, "lost".into()), "{config}{}", run.err);
        assert!(run.err.contains("-O copies by scp's old protocol"), "{}", run.err);
        assert_eq!(server.log().matches("Accepted publickey").count(), 1, "{}", server.log());
    }
}
