//! `UploadHook`: uploads over SFTP are hidden until a program has accepted them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lh_interop::held_fs::HeldFs;
use lh_interop::skip_unavailable;
use lh_interop::{Lab, Ran, ServerSetup, assert_same_file, eventually, json_lines, make_blob, me, our};
use lh_testkit::leftovers;
use serde_json::Value;

/// The hook of these tests. It notes what it is asked, and what the final name leads to meanwhile. While
/// there is `hold`, it waits. It rejects what contains "virus".
const HOOK: &str = r#"
lab=$1 file=$2
test "$file" = "$LONGHAUL_UPLOAD_FILE" || exit 9
case "$(cat "$LONGHAUL_UPLOAD_PATH" 2>/dev/null)" in '') there=no;; before*) there=before;; *) there=new;; esac
echo "$LONGHAUL_UPLOAD_PATH $there" >>"$lab/asked"
if test -e "$lab/hold"; then echo $$ >"$lab/number" && mv "$lab/number" "$lab/waiting"; fi
while test -e "$lab/hold"; do sleep 0.02; done
if grep -q virus "$file"; then echo "Eicar found" >&2; exit 1; fi
"#;

/// A server with the hook and these lines.
fn setup(test: &str, config: &str) -> Option<ServerSetup> {
    let lab = Lab::new();
    lab.write("hook", HOOK);
    fs::create_dir(lab.path("up")).unwrap();
    let config = format!("UploadHook /bin/sh {{lab}}/hook {{lab}}\n{config}");
    ServerSetup::with_lab(test, lab, &config)
}

/// What the hook was asked since the last call, in order: final names and what was there.
fn asked(lab: &Lab) -> Vec<String> {
    let text = fs::read_to_string(lab.path("asked")).unwrap_or_default();
    let _ = fs::remove_file(lab.path("asked"));
    let prefix = format!("{}/", lab.arg("up"));
    let mut lines: Vec<String> = text.lines().map(|line| line.replacen(&prefix, "", 1)).collect();
    lines.sort();
    lines
}

/// Names below the directory of uploads.
fn names(lab: &Lab) -> Vec<String> {
    let entries = fs::read_dir(lab.path("up")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn lhscp_words(setup: &ServerSetup, words: &[&str]) -> Vec<String> {
    let mut args = setup.lab.client_options();
    args.extend(["-P".to_owned(), setup.server.port_arg(), "-q".to_owned()]);
    args.extend(words.iter().map(|&word| word.to_owned()));
    args.push(format!("{}@127.0.0.1:{}/", me(), setup.lab.arg("up")));
    args
}

fn lhscp(setup: &ServerSetup, words: &[&str]) -> Ran {
    setup.lab.run(&our("lhscp"), &lhscp_words(setup, words))
}

/// A client that runs meanwhile.
fn start(lab: &Lab, program: &Path, words: &[String]) -> Child {
    let mut command = Command::new(program);
    command
        .args(words)
        .env("HOME", lab.path("home"))
        .env_remove("SSH_AUTH_SOCK")
        .env_remove("XDG_STATE_HOME");
    command.current_dir(lab.dir()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Kills the client while the hook looks at its file: the hook ends too.
fn kill_while_the_hook_waits(setup: &ServerSetup, file: &str) {
    let lab = &setup.lab;
    lab.write("hold", "");
    let mut copy = start(lab, &our("lhscp"), &lhscp_words(setup, &[file]));
    eventually("the hook waits", || lab.path("waiting").exists());
    let process = Path::new("/proc").join(lab.read("waiting").trim());
    assert!(process.exists());
    copy.kill().unwrap();
    copy.wait().unwrap();
    eventually("the hook is gone", || !process.exists());
}

/// Covers: sshd_config UploadHook
#[test]
fn openssh_uploads_appear_when_accepted() {
    let config = "TransferLog {lab}/log\nTransferLogFormat json\nForceCommand internal-sftp";
    let Some(setup) = setup("openssh_uploads_appear_when_accepted", config) else { return };
    let lab = &setup.lab;
    lab.write("good", "fine");
    lab.write("bad", "a virus");
    lab.write("up/old", "before");
    lab.write("up/kept", "before");
    let up = lab.arg("up");
    setup.sftp(&format!("put good {up}/new\nput good {up}/old\n")).ok("good files");
    assert_eq!(asked(lab), ["new no", "old before"]);
    assert_eq!([lab.read("up/new"), lab.read("up/old")], ["fine", "fine"]);
    for name in ["bad", "kept"] {
        let ran = setup.sftp(&format!("put bad {up}/{name}\n"));
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("close remote"), "{}", ran.err);
    }
    // Bytes behind those of an existing file would be in place before they were looked at.
    lab.write("longer", "before and behind");
    assert_eq!(setup.sftp(&format!("reput longer {up}/kept\n")).code, 1);
    assert_eq!(asked(lab), ["bad no", "kept before"]);
    assert_eq!(names(lab), ["kept", "new", "old"]);
    assert_eq!(lab.read("up/kept"), "before");
    setup.logged(&format!("upload of \"{up}/kept\" by {} rejected by UploadHook: Eicar found", me()));
    let outcomes = || {
        let records: Vec<Value> = json_lines(&fs::read_to_string(lab.path("log")).unwrap_or_default());
        let of = |outcome: &str| records.iter().filter(|record| record["outcome"] == outcome).count();
        [of("complete"), of("rejected")]
    };
    eventually("both rejections are in the transfer log", || outcomes() == [2, 2]);
}

/// Covers: sshd_config UploadHook (lhscp)
#[test]
fn lhscp_uploads_appear_when_accepted() {
    let config = "TransferLog {lab}/log\nTransferLogFormat json";
    let Some(setup) = setup("lhscp_uploads_appear_when_accepted", config) else { return };
    let lab = &setup.lab;
    fs::create_dir_all(lab.path("tree/below")).unwrap();
    for number in 0..60 {
        lab.write(&format!("tree/below/small-{number}"), &format!("text {number}"));
    }
    make_blob(&lab.path("tree/big"), 20_000_000);
    lhscp(&setup, &["-r", "tree"]).ok("a tree");
    assert_same_file(&lab.path("tree/big"), &lab.path("up/tree/big"));
    assert_eq!(lab.read("up/tree/below/small-59"), "text 59");
    let seen = asked(lab);
    assert_eq!(seen.len(), 61, "{seen:?}");
    assert!(seen.iter().all(|line| line.starts_with("tree/") && line.ends_with(" no")), "{seen:?}");
    // Small and big, over what is there: the client names each file that was rejected.
    let big = [&b"a virus "[..], &vec![b'x'; 20_000_000]].concat();
    fs::write(lab.path("tree/big"), big).unwrap();
    lab.write("tree/below/small-7", "a virus");
    lab.write("tree/below/small-8", "other text");
    lab.write("up/tree/big", "before");
    lab.write("up/tree/below/small-7", "before");
    let ran = lhscp(&setup, &["-r", "tree"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for name in ["big", "small-7"] {
        let line = ran.err.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains("upload rejected: Eicar found")), "{}", ran.err);
    }
    assert_eq!(lab.read("up/tree/big"), "before");
    assert_eq!(lab.read("up/tree/below/small-7"), "before");
    assert_eq!(lab.read("up/tree/below/small-8"), "other text");
    assert!(leftovers(&lab.path("up")).is_empty(), "{:?}", leftovers(&lab.path("up")));
    let rejected = || {
        let records: Vec<Value> = json_lines(&fs::read_to_string(lab.path("log")).unwrap_or_default());
        let mut paths: Vec<String> = records
            .iter()
            .filter(|record| record["outcome"] == "rejected")
            .map(|record| record["path"].as_str().unwrap_or_default().to_owned())
            .collect();
        paths.sort();
        paths
    };
    let expected = [lab.arg("up/tree/below/small-7"), lab.arg("up/tree/big")];
    eventually("both rejections are in the transfer log", || rejected() == expected);
}

/// Covers: sshd_config UploadHook (several connections, resume); sshd_config ResumeGrace
#[test]
fn hook_sees_the_whole_file_of_several_channels() {
    let config = "ResumeGrace 10m";
    let Some(setup) = setup("hook_sees_the_whole_file_of_several_channels", config) else { return };
    let lab = &setup.lab;
    make_blob(&lab.path("big"), 40_000_000);
    lhscp(&setup, &["-j", "4", "big"]).ok("four channels");
    assert_eq!(asked(lab), ["big no"]);
    assert_same_file(&lab.path("big"), &lab.path("up/big"));
    // Each channel in a session process of its own, as far as they join before the copy ends.
    let Some(other) = self::setup("hook_sees_the_whole_file_of_several_channels", "MaxSessions 1") else {
        return;
    };
    make_blob(&other.lab.path("big"), 40_000_000);
    lhscp(&other, &["-j", "3", "big"]).ok("three connections");
    assert_eq!(asked(&other.lab), ["big no"]);
    assert_same_file(&other.lab.path("big"), &other.lab.path("up/big"));
    // Cut off in the middle: what has come stays hidden, and goes on.
    make_blob(&lab.path("again"), 40_000_000);
    let mut child = start(lab, &our("lhscp"), &lhscp_words(&setup, &["-l", "80000", "again"]));
    let grown = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() > 6 << 20);
    eventually("some of it has come", || leftovers(&lab.path("up")).iter().any(grown));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(asked(lab).is_empty() && !lab.path("up/again").exists());
    // The server may not have given up the file yet; the first session waits for its client.
    eventually("the copy is resumed", || lhscp(&setup, &["again"]).code == 0);
    assert_eq!(asked(lab), ["again no"]);
    assert_same_file(&lab.path("again"), &lab.path("up/again"));
    assert!(leftovers(&lab.path("up")).is_empty());
}

/// Covers: sshd_config UploadHook (beside a shell)
#[test]
fn waiting_hook_holds_up_only_its_file() {
    let Some(setup) = setup("waiting_hook_holds_up_only_its_file", "") else { return };
    let lab = &setup.lab;
    lab.write("good", "fine");
    lab.write("hold", "");
    lab.write("commands", &format!("put good {}/slow\n", lab.arg("up")));
    // Both channels on one connection.
    let socket = format!("ControlPath={}", lab.arg("ctl"));
    let master = ["-o", "ControlMaster=yes", "-o", &socket, "-N"];
    let mut master = start(lab, &setup.ssh, &setup.args(&master, &me(), &[]));
    eventually("there is a master", || lab.path("ctl").exists());
    let mut words = vec!["-o".to_owned(), socket.clone(), "-b".to_owned(), lab.arg("commands")];
    words.extend(lab.client_options());
    words.extend(["-P".to_owned(), setup.server.port_arg(), format!("{}@127.0.0.1", me())]);
    let mut sftp = start(lab, &lh_interop::find("sftp").unwrap(), &words);
    eventually("the hook waits", || lab.path("waiting").exists());
    let beside = setup.ssh(&["-o", &socket, "-o", "ControlMaster=no"], &["echo", "beside"]);
    assert_eq!(beside.ok("a command beside it").text(), "beside\n");
    assert!(sftp.try_wait().unwrap().is_none() && !lab.path("up/slow").exists());
    let [hidden] = &names(lab)[..] else { panic!("{:?}", names(lab)) };
    assert!(hidden.starts_with('.') && hidden.ends_with(".lhupload"), "{hidden}");
    fs::remove_file(lab.path("hold")).unwrap();
    assert!(sftp.wait().unwrap().success());
    assert_eq!(names(lab), ["slow"]);
    setup.ssh(&["-o", &socket, "-O", "exit"], &[]);
    master.wait().unwrap();
    // A command writes what it likes, and the log says so once for each session.
    setup.logged("UploadHook checks no files that command of");
}

/// Covers: sshd_config UploadHook (the session ends)
#[test]
fn hook_ends_with_its_session() {
    let Some(setup) = setup("hook_ends_with_its_session", "ResumeGrace 0") else { return };
    let lab = &setup.lab;
    lab.write("good", "fine");
    kill_while_the_hook_waits(&setup, "good");
    eventually("nothing is left", || names(lab).is_empty());
    setup.logged("the session has ended");
}

/// Where a file system can hang, files are with a thread that has descriptors of its own; it runs the hook,
/// too.
///
/// Covers: sshd_config UploadHook (network file systems)
#[test]
fn hook_runs_where_a_file_system_can_hang() {
    let test = "hook_runs_where_a_file_system_can_hang";
    let Some(setup) = setup(test, "ResumeGrace 0") else { return };
    let lab = &setup.lab;
    let _held = match HeldFs::mount(&lab.path("held"), b"content") {
        Ok(held) => held,
        Err(problem) => return skip_unavailable(test, &problem.to_string()),
    };
    lab.write("good", "fine");
    lab.write("bad", "a virus");
    let up = lab.arg("up");
    setup.sftp(&format!("put good {up}/good\n-put bad {up}/bad\nput good {up}/more\n")).ok("uploads");
    assert_eq!(asked(lab), ["bad no", "good no", "more no"]);
    assert_eq!(names(lab), ["good", "more"]);
    setup.logged("rejected by UploadHook: Eicar found");
    // The session ends while the hook runs.
    kill_while_the_hook_waits(&setup, "bad");
    eventually("nothing is left", || names(lab) == ["good", "more"]);
}

/// Covers: sshd_config UploadHook (cannot be run); sshd_config UploadHookTimeout; sshd_config Match UploadHook
#[test]
fn uploads_are_refused_when_the_hook_cannot_answer() {
    for (hook, reason) in [
        ("/no/such/hook", "No such file or directory"),
        ("/etc/passwd", "Permission denied"),
        ("/bin/sh -c \"kill -9 $$\"", "ended by signal 9"),
        ("/bin/sh -c \"sleep 1000\"", "took longer than UploadHookTimeout"),
    ] {
        let lab = Lab::new();
        fs::create_dir(lab.path("up")).unwrap();
        lab.write("good", "fine");
        lab.write("up/old", "before");
        let rules = format!("Match User {}\n UploadHook {hook}\n UploadHookTimeout 1\n", me());
        lab.write("rules", &rules);
        let test = "uploads_are_refused_when_the_hook_cannot_answer";
        let Some(setup) = ServerSetup::with_lab(test, lab, "Include {lab}/rules") else { return };
        let lab = &setup.lab;
        let up = lab.arg("up");
        for name in ["old", "new"] {
            assert_eq!(setup.sftp(&format!("put good {up}/{name}\n")).code, 1, "{hook}");
        }
        let ran = lhscp(&setup, &["good"]);
        assert_eq!(ran.code, 1, "{hook}: {}", ran.err);
        assert!(ran.err.contains("good") && ran.err.contains("could not be checked"), "{}", ran.err);
        assert_eq!((names(lab), lab.read("up/old")), (vec!["old".to_owned()], "before".to_owned()));
        setup.logged(reason);
    }
}
