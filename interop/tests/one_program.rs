//! The program in packages: one file that acts by the name it is called by.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lh_interop::{Lab, Lhsshd, assert_same_file, eventually, make_blob, our};
use lh_testkit::leftovers;

/// Ours and OpenSSH's.
const NAMES: &[(&str, &str)] = &[
    ("lhssh", "ssh"),
    ("lhscp", "scp"),
    ("lhsftp", "sftp"),
    ("lhsftp-server", "sftp-server"),
    ("lhsshd", "sshd"),
    ("lhssh-keygen", "ssh-keygen"),
    ("lhssh-agent", "ssh-agent"),
    ("lhssh-add", "ssh-add"),
    ("lhssh-keyscan", "ssh-keyscan"),
    ("longhaul", "longhaul"),
];

/// Installs the program and its links as packages do; returns the directory of the links.
fn install(lab: &Lab) -> PathBuf {
    let (lib, bin) = (lab.path("usr/lib/longhaul"), lab.path("usr/bin"));
    fs::create_dir_all(&lib).unwrap();
    fs::create_dir_all(&bin).unwrap();
    let program = our("longhaul-multi");
    if fs::hard_link(&program, lib.join("longhaul")).is_err() {
        fs::copy(&program, lib.join("longhaul")).unwrap();
    }
    for (ours, theirs) in NAMES {
        symlink("../lib/longhaul/longhaul", bin.join(ours)).unwrap();
        if *ours != "longhaul" {
            symlink("longhaul", lib.join(ours)).unwrap();
            symlink("../lib/longhaul/longhaul", bin.join(theirs)).unwrap();
        }
    }
    bin
}

#[test]
fn each_name_runs_its_program() {
    let lab = Lab::new();
    let bin = install(&lab);
    for (ours, theirs) in NAMES {
        let separate = lab.path("separate");
        fs::create_dir_all(&separate).unwrap();
        if ours != theirs {
            symlink(our(ours), separate.join(theirs)).unwrap();
        }
        for (name, expected) in [(ours, our(ours)), (theirs, separate.join(theirs))] {
            if ours == theirs && expected != our(ours) {
                continue;
            }
            for flag in ["--help", "--no-such-flag"] {
                let (got, expected) = (lab.run(&bin.join(name), &[flag]), lab.run(&expected, &[flag]));
                assert_eq!((got.code, got.text(), &got.err), (expected.code, expected.text(), &expected.err));
                assert!(!got.err.is_empty() || !got.out.is_empty(), "{name} {flag} printed nothing");
            }
        }
    }
}

#[test]
fn first_argument_of_longhaul_names_a_program() {
    let lab = Lab::new();
    let longhaul = install(&lab).join("longhaul");
    let got = lab.run(&longhaul, &["lhssh", "-V"]);
    assert_eq!((got.code, got.err), (0, lab.run(&our("lhssh"), &["-V"]).err));
    let got = lab.run(&longhaul, &["ssh", "-V"]).ok("ssh -V");
    assert!(got.err.starts_with("OpenSSH_"), "{}", got.err);
    let got = lab.run(&longhaul, &["lhssh-"]);
    assert!(got.code == 2 && got.err.contains("unknown command lhssh-"), "{} {}", got.code, got.err);
}

#[test]
fn server_starts_sessions_and_itself_again() {
    let lab = Lab::new();
    let bin = install(&lab);
    lab.write("more.conf", "SetEnv WHICH=old\n");
    let config = format!("Include {}", lab.arg("more.conf"));
    let server = Lhsshd::start_program(&bin.join("lhsshd"), &lab, &config, &[]);
    let ask = |port: &str| {
        let mut arguments = lab.client_options();
        arguments.extend(["-p", port, "127.0.0.1", "echo $WHICH"].map(str::to_owned));
        lab.run(&bin.join("lhssh"), &arguments).ok("a session").text()
    };
    assert_eq!(ask(&server.port_arg()), "old\n");
    let hang_up = || {
        let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };
    // The server runs its program to check the file, and finds the mistake.
    lab.write("more.conf", "NoSuchKeyword yes\n");
    hang_up();
    eventually("the mistake is logged", || server.log().contains("Bad configuration option: NoSuchKeyword"));
    lab.write("more.conf", "SetEnv WHICH=new\n");
    hang_up();
    let listening = "Server listening on 127.0.0.1 port ";
    eventually("it listens again", || server.log().matches(listening).count() == 2);
    let log = server.log();
    let port = log.rsplit(listening).next().unwrap().split('.').next().unwrap().to_owned();
    lab.know(port.parse().unwrap());
    assert_eq!(ask(&port), "new\n");
}

#[test]
fn interrupted_copy_is_resumed_by_longhaul() {
    let lab = Lab::new();
    let bin = install(&lab);
    let server = Lhsshd::start_program(&bin.join("lhsshd"), &lab, "", &[]);
    make_blob(&lab.path("blob"), 32 << 20);
    let target = format!("127.0.0.1:{}", lab.arg("copy"));
    let mut command = Command::new(bin.join("lhscp"));
    command.args(lab.client_options()).args([
        "-P",
        &server.port_arg(),
        "-q",
        "-l",
        "100000",
        "blob",
        &target,
    ]);
    command.env("HOME", lab.path("home")).env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
    command.current_dir(lab.dir()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    eventually("a part of the copy", || {
        leftovers(lab.dir()).iter().any(|part| part.metadata().is_ok_and(|meta| meta.len() > 1 << 20))
    });
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let list = lab.run(&bin.join("longhaul"), &["transfers", "--json"]).ok("the list").text();
    let transfer: serde_json::Value = serde_json::from_str(list.trim()).unwrap();
    let id = transfer["id"].as_str().unwrap();
    lab.run(&bin.join("longhaul"), &["transfers", "resume", id]).ok("resume");
    assert_same_file(&lab.path("blob"), &lab.path("copy"));
}
