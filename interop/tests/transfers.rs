//! `longhaul transfers` lists unfinished copies, resumes them, and removes their remains at both ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lh_interop::{Inetd, Lab, Lhsshd, Ran, assert_same_file, eventually, json_lines, make_blob, our, peers};
use lh_testkit::leftovers;
use serde_json::Value;

fn transfers(lab: &Lab, words: &[&str]) -> Ran {
    let mut all = vec!["transfers".to_owned()];
    all.extend(words.iter().map(|&word| word.to_owned()));
    lab.run(&our("longhaul"), &all)
}

/// The events of the list.
fn list(lab: &Lab) -> Vec<Value> {
    let ran = transfers(lab, &["--json"]).ok("the list");
    json_lines(&ran.text())
}

fn id(transfer: &Value) -> String {
    transfer["id"].as_str().unwrap().to_owned()
}

/// Starts a slow copy in a directory of the lab; returns it when some of it is there.
fn start(lab: &Lab, port: u16, directory: &Path, words: &[&str]) -> std::process::Child {
    let mut command = Command::new(our("lhscp"));
    command.args(lab.client_options()).args(["-P", &port.to_string(), "-q", "-l", "100000"]).args(words);
    command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let before = leftovers(lab.dir());
    let child = command.spawn().unwrap();
    let is_new =
        |part: &PathBuf| !before.contains(part) && part.metadata().is_ok_and(|meta| meta.len() > 1 << 20);
    eventually("a part of the copy", || leftovers(lab.dir()).iter().any(is_new));
    child
}

/// A copy that is stopped in its middle.
fn interrupted(lab: &Lab, port: u16, directory: &Path, words: &[&str]) {
    let mut child = start(lab, port, directory, words);
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A list that is empty, and no files of ours.
#[track_caller]
fn nothing_is_left(lab: &Lab) {
    assert_eq!(transfers(lab, &[]).ok("the list").text(), "no unfinished transfers\n");
    assert_eq!(leftovers(lab.dir()), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(lab.path("home/.local/state/longhaul")).unwrap().count(), 0);
}

#[test]
fn an_unfinished_copy_is_listed_and_resumed() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let directory = lab.path("work here");
    fs::create_dir(&directory).unwrap();
    make_blob(&directory.join("big file"), 32 << 20);
    let target = format!("127.0.0.1:{}", lab.arg("copy"));
    interrupted(&lab, server.port, &directory, &["big file", &target]);
    let all = list(&lab);
    let [transfer] = &all[..] else { panic!("{all:?}") };
    assert_eq!(
        (&transfer["state"], &transfer["from"], &transfer["to"]),
        (&"unfinished".into(), &"big file".into(), &target.clone().into())
    );
    assert_eq!(transfer["directory"], directory.to_str().unwrap());
    assert_eq!(transfer["unfinished"][0]["target"], lab.arg("copy"));
    assert!(transfer["unfinished"][0]["bytes"].as_u64().unwrap() > 0, "{transfer}");
    let text = transfers(&lab, &[]).ok("the list").text();
    assert!(text.contains(&id(transfer)) && text.contains(&format!("big file -> {target}")), "{text}");
    assert!(text.contains(", 1 unfinished with "), "{text}");
    transfers(&lab, &["resume", &id(transfer)[..6]]).ok("by the beginning of its ID");
    assert_same_file(&directory.join("big file"), &lab.path("copy"));
    nothing_is_left(&lab);
}

/// The journal of a copy of the home directory lies in it, and changes until the copy ends.
#[test]
fn a_copy_of_the_home_directory_leaves_its_own_journal_out() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let state = "home/.local/state/longhaul";
    fs::create_dir_all(lab.path(state)).unwrap();
    lab.write(&format!("{state}/other.journal"), "of another copy");
    make_blob(&lab.path("home/big"), 32 << 20);
    let target = format!("127.0.0.1:{}", lab.arg("copy"));
    let home = lab.arg("home");
    interrupted(&lab, server.port, lab.dir(), &["-r", &home, &target]);
    let all = list(&lab);
    let [transfer] = &all[..] else { panic!("{all:?}") };
    let ran = transfers(&lab, &["resume", &id(transfer)]).ok("the rest");
    assert!(!ran.err.contains("changed"), "{}", ran.err);
    assert_same_file(&lab.path("home/big"), &lab.path("copy/big"));
    let state = "copy/.local/state/longhaul";
    let copied: Vec<_> =
        fs::read_dir(lab.path(state)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(copied, ["other.journal"]);
}

/// Covers: longhaul --older-than
#[test]
fn leftovers_of_copies_are_removed_at_both_ends() {
    let Some([sshd]) = peers("leftovers_of_copies_are_removed_at_both_ends", ["sshd"]) else { return };
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    let theirs = Inetd::openssh(&lab, &sshd, "");
    make_blob(&lab.path("blob"), 32 << 20);
    fs::create_dir(lab.path("down")).unwrap();
    for port in [ours.port, theirs.port] {
        let up = format!("127.0.0.1:{}", lab.arg("up"));
        let from = format!("127.0.0.1:{}", lab.arg("blob"));
        interrupted(&lab, port, lab.dir(), &["blob", &up]);
        // A relative target, from another directory than the list is asked for in.
        interrupted(&lab, port, &lab.path("down"), &[&from, "here"]);
        assert_eq!((list(&lab).len(), leftovers(lab.dir()).len()), (2, 2));
        transfers(&lab, &["clean", "--older-than", "1h"]).ok("nothing is so old");
        assert_eq!(list(&lab).len(), 2);
        let download = list(&lab).iter().find(|each| each["to"] == "here").map(id).unwrap();
        let said = transfers(&lab, &["clean", &download]).ok("one of them").text();
        assert!(said.contains(&format!("{download}: removed, with 1 unfinished")), "{said}");
        assert_eq!((list(&lab).len(), leftovers(lab.dir()).len()), (1, 1));
        transfers(&lab, &["clean", "--older-than", "0"]).ok("all that is left");
        nothing_is_left(&lab);
    }
}

#[test]
fn leftovers_out_of_reach_are_reported_and_kept() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), 32 << 20);
    let port = lh_interop::tunnel::free_port();
    let server = Lhsshd::start_on(&lab, port);
    let target = format!("127.0.0.1:{}", lab.arg("copy"));
    interrupted(&lab, port, lab.dir(), &["blob", &target]);
    drop(server);
    let name = id(&list(&lab)[0]);
    let ran = transfers(&lab, &["clean", &name]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("unfinished files and the journal are left: no connection"), "{}", ran.err);
    assert_eq!((list(&lab).len(), leftovers(lab.dir()).len()), (1, 1));
    // Older journals have no command: what they leave is named.
    let journal = lab.path("home/.local/state/longhaul").join(format!("{name}.journal"));
    let text = fs::read_to_string(&journal).unwrap();
    let without: String =
        text.lines().filter(|line| !line.starts_with("command ")).map(|line| format!("{line}\n")).collect();
    fs::write(&journal, without).unwrap();
    assert_eq!(list(&lab)[0]["from"], Value::Null);
    let ran = transfers(&lab, &["resume", &name]);
    assert!(ran.code == 1 && ran.err.contains("has no command"), "{}", ran.err);
    let ran = transfers(&lab, &["clean", &name]);
    assert!(ran.code == 1 && ran.err.contains(".lhpart is left"), "{}", ran.err);
    assert_eq!(list(&lab).len(), 0);
}

#[test]
fn a_running_copy_is_left_alone() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    make_blob(&lab.path("blob"), 64 << 20);
    let target = format!("127.0.0.1:{}", lab.arg("copy"));
    let mut child = start(&lab, server.port, lab.dir(), &["blob", &target]);
    let transfer = list(&lab).remove(0);
    assert_eq!(transfer["state"], "running");
    for words in [["resume", &id(&transfer)], ["clean", &id(&transfer)]] {
        let ran = transfers(&lab, &words);
        assert!(ran.code == 1 && ran.err.contains("a process works on it"), "{}", ran.err);
    }
    transfers(&lab, &["clean", "--older-than", "0"]).ok("nothing to do");
    assert_eq!(leftovers(lab.dir()).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn mistakes_of_transfers_have_status_2() {
    let lab = Lab::new();
    for (words, said) in [
        (&["clean"][..], "name one ID, or --older-than"),
        (&["clean", "a", "b"], "name one ID"),
        (&["clean", "--older-than", "soon"], "bad time"),
        (&["clean", "--json", "a"], "has no flag --json"),
        (&["resume"], "name one ID"),
        (&["--older-than", "1h"], "has no flag --older-than"),
        (&["list"], "unknown command list"),
        (&["--extra"], "has no flag --extra"),
    ] {
        let ran = transfers(&lab, words);
        assert!(ran.code == 2 && ran.err.contains(said), "{words:?}: {}", ran.err);
    }
    let ran = transfers(&lab, &["resume", "none"]);
    assert!(ran.code == 1 && ran.err.contains("no transfer none"), "{}", ran.err);
}
