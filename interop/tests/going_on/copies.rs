//! Copies and `lhsftp` resume their sessions: one login, and no byte of a file wrong.

use std::process::{Command, Stdio};

use lh_interop::cuts::Break;
use lh_interop::{
    assert_same_file, assert_same_tree, eventually, make_blob, make_tree, me, our, with_default_signals,
};

use super::{Broken, MB, PLAN};

/// One login, nothing on standard error, and no byte of the files wrong, up and down.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn copies_survive_broken_connections() {
    for upload in [true, false] {
        let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
        let tree = setup.lab.path("tree");
        make_tree(&tree, 40);
        make_blob(&tree.join("blob"), 24 << 20);
        let (from, to) = if upload {
            (setup.lab.arg("tree"), setup.remote("copy"))
        } else {
            (setup.remote("tree"), setup.lab.arg("copy"))
        };
        let mut args = setup.copy_options(&["Resume=yes"]);
        args.extend(["-q", "-r", "-j1", "--verify", "--retries", "0"].map(str::to_owned));
        args.extend([from, to]);
        let ran = setup.lab.run(&our("lhscp"), &args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "upload: {upload}");
        assert_same_tree(&tree, &setup.lab.path("copy"));
        assert_eq!(setup.cuts.broken(), PLAN.len(), "upload: {upload}");
        assert_eq!(setup.logins(), 1, "upload: {upload}");
        setup.server.await_resumptions(PLAN.len());
    }
}

/// Both connections of a copy between two hosts break, and each goes on.
///
/// Covers: ssh_config Resume; lhscp -3
#[test]
fn a_copy_between_hosts_survives_broken_connections() {
    let plan = [(MB, Break::Reset), (MB, Break::End), (3 * MB, Break::Reset), (2 * MB, Break::Reset)];
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    make_blob(&setup.lab.path("blob"), 12 << 20);
    let mut args = setup.copy_options(&["Resume=yes"]);
    args.extend(["-3", "-q", "-j1"].map(str::to_owned));
    args.extend([setup.remote("blob"), setup.remote("copy")]);
    let ran = setup.lab.run(&our("lhscp"), &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("copy"));
    assert_eq!((setup.cuts.broken(), setup.logins()), (plan.len(), 2));
}

/// A connection that has joined a copy's session is lost with its break; its work goes over the one that goes
/// on.
///
/// Covers: ssh_config Resume; lhscp -j
#[test]
fn copies_over_several_connections_survive_breaks() {
    let plan = [(3 * MB, Break::Reset), (2 * MB, Break::Reset), (MB, Break::Reset)];
    let setup = Broken::new("ResumeGrace 2m\nLonghaulTickets yes\n", &plan);
    make_blob(&setup.lab.path("blob"), 32 << 20);
    for (from, to) in
        [(setup.lab.arg("blob"), setup.remote("up")), (setup.remote("blob"), setup.lab.arg("down"))]
    {
        let mut args = setup.copy_options(&["Resume=yes"]);
        args.extend(["-q", "-j3", "--verify", "--retries", "0"].map(str::to_owned));
        args.extend([from, to]);
        let ran = setup.lab.run(&our("lhscp"), &args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("up"));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("down"));
    assert_eq!((setup.cuts.broken(), setup.logins()), (plan.len(), 2));
}

/// The paths of both connections fall silent. The session goes on over another one, and does not wait for the
/// connection that had joined it: keepalives would not find out in this time.
///
/// Covers: ssh_config Resume; lhscp -j
#[test]
fn silent_additional_connections_are_given_up() {
    let plan = [(16 * MB, Break::Silence), (300_000, Break::Silence)];
    let setup = Broken::new("ResumeGrace 2m\nLonghaulTickets yes\n", &plan);
    make_blob(&setup.lab.path("blob"), 40 << 20);
    let mut args = setup.lab.client_options();
    // The rate limit lets the second connection join before the first one breaks.
    for word in
        ["-P", &setup.cuts.port.to_string(), "-o", "ServerAliveInterval=3600", "-v", "-j2", "-l", "60000"]
    {
        args.push(word.to_owned());
    }
    args.extend(["--retries", "0"].map(str::to_owned));
    args.extend([setup.lab.arg("blob"), setup.remote("up")]);
    let ran = setup.lab.run(&our("lhscp"), &args).ok("upload");
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("up"));
    assert_eq!((setup.cuts.broken(), setup.logins()), (plan.len(), 1), "{}", ran.err);
    assert!(ran.err.contains("an additional connection is lost"), "{}", ran.err);
}

/// lhsftp: both commands, and what is asked between them, in one session.
///
/// Covers: ssh_config Resume; wire resume@longhaul
#[test]
fn sftp_commands_survive_broken_connections() {
    let setup = Broken::new("ResumeGrace 2m\n", &PLAN);
    make_blob(&setup.lab.path("blob"), 16 << 20);
    let batch = format!(
        "cd {dir}\nput blob up\n!true\npwd\nls -l up\nget up down\n",
        dir = setup.lab.dir().display()
    );
    std::fs::write(setup.lab.path("batch"), batch).unwrap();
    let mut args = setup.copy_options(&["Resume=yes"]);
    args.extend(["-q", "-j1", "-b", "batch"].map(str::to_owned));
    args.push(format!("{}@127.0.0.1", me()));
    let ran = setup.lab.run(&our("lhsftp"), &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_same_file(&setup.lab.path("blob"), &setup.lab.path("down"));
    assert_eq!((setup.cuts.broken(), setup.logins()), (PLAN.len(), 1));
}

/// A copy whose host stays away ends by a signal, and the same command goes on where it was.
///
/// Covers: ssh_config Resume
#[test]
fn a_copy_that_is_away_ends_by_a_signal() {
    let plan: Vec<_> = [(4 * MB, Break::Reset)].into_iter().chain([(0, Break::End); 1000]).collect();
    let setup = Broken::new("ResumeGrace 2m\n", &plan);
    make_blob(&setup.lab.path("blob"), 16 << 20);
    let mut args = setup.copy_options(&["Resume=yes"]);
    args.extend([setup.lab.arg("blob"), setup.remote("copy")]);
    let mut command = Command::new(our("lhscp"));
    command.args(&args).env("HOME", setup.lab.path("home")).env_remove("SSH_AUTH_SOCK");
    command.env_remove("XDG_STATE_HOME").stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    eventually("attempts to reach the host", || setup.cuts.connections() > 3);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("the same command again goes on from here"), "{said}");
    assert!(!setup.lab.path("copy").exists());
}

/// The server does not keep the session of a copy that was interrupted: it is told.
///
/// Covers: ssh_config Resume; sshd_config ResumeGrace
#[test]
fn an_interrupted_copy_leaves_no_session() {
    use rustix::process::{Signal, kill_process};
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        for (program, down) in [("lhscp", false), ("lhscp", true), ("lhsftp", false)] {
            let setup = Broken::new("ResumeGrace 10m\n", &[]);
            make_blob(&setup.lab.path("blob"), 8 << 20);
            let mut args = setup.copy_options(&["Resume=yes"]);
            args.extend(["-l".to_owned(), "4000".to_owned()]);
            let (blob, copy) = (setup.lab.arg("blob"), setup.lab.arg("copy"));
            match (program, down) {
                ("lhsftp", _) => {
                    setup.lab.write("batch", &format!("put {blob} {copy}\n"));
                    args.extend(["-b".to_owned(), setup.lab.arg("batch"), format!("{}@127.0.0.1", me())]);
                }
                (_, false) => args.extend([blob, setup.remote("copy")]),
                (_, true) => args.extend([setup.remote("blob"), copy]),
            }
            let mut command = with_default_signals(&our(program));
            command.args(&args).env("HOME", setup.lab.path("home")).env_remove("SSH_AUTH_SOCK");
            command.env_remove("XDG_STATE_HOME").stdin(Stdio::null()).stdout(Stdio::null());
            let child = command.stderr(Stdio::null()).spawn().unwrap();
            eventually("a part has come", || {
                let mut names = std::fs::read_dir(setup.lab.dir()).unwrap();
                names.any(|name| {
                    let name = name.unwrap();
                    name.file_name().to_string_lossy().ends_with(".lhpart")
                        && name.metadata().is_ok_and(|data| data.len() > 0)
                })
            });
            kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
            let status = if program == "lhsftp" { 128 + signal.as_raw() } else { 130 };
            assert_eq!(child.wait_with_output().unwrap().status.code(), Some(status), "{program}");
            eventually("the session has ended", || setup.server.log().contains("Disconnected from user "));
            assert!(!setup.server.log().contains("the session waits"), "{}", setup.server.log());
        }
    }
}
