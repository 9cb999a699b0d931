//! `lhsftp` gives a file its final name when it is complete, and resumes interrupted copies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::{Lab, Lhsshd, Ran, assert_same_file, make_blob, our};
use lh_testkit::leftovers;

const SIZE: usize = 24_000_001;

/// Returns the arguments that run these commands.
fn words(lab: &Lab, port: u16, flags: &[&str], commands: &str) -> Vec<String> {
    lab.write("batch", commands);
    let mut words = lab.client_options();
    words.extend(["-P", &port.to_string(), "-b", &lab.arg("batch")].map(str::to_owned));
    words.extend(flags.iter().chain(&["127.0.0.1"]).map(|&word| word.to_owned()));
    words
}

fn run(lab: &Lab, port: u16, commands: &str) -> Ran {
    lab.run(&our("lhsftp"), &words(lab, port, &[], commands))
}

/// Runs the commands slowly and kills them once 4 MB have arrived, which are only under a temporary name.
fn cut_off(lab: &Lab, port: u16, commands: &str, target: &Path) {
    let mut child = Command::new(our("lhsftp"))
        .args(words(lab, port, &["-l", "40000"], commands))
        .env("HOME", lab.path("home"))
        .env_remove("XDG_STATE_HOME")
        .current_dir(lab.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    let grown = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() > 6 << 20);
    while !leftovers(target.parent().unwrap()).iter().any(grown) {
        assert!(Instant::now() < until, "nothing comes");
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Covers: sftp -b; sftp -l
#[test]
fn a_killed_sftp_copy_is_resumed_and_then_named() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    let server = Lhsshd::start(&lab, "");
    for (verb, again) in [("put", "put"), ("get", "get"), ("put", "reput"), ("get", "reget")] {
        let directory = lab.path(&format!("{verb}-{again}"));
        fs::create_dir(&directory).unwrap();
        let target = directory.join("copy");
        if again == verb {
            fs::write(&target, "what was there before").unwrap();
        }
        let line = |verb: &str| format!("{verb} {} {}\n", lab.arg("blob"), target.display());
        cut_off(&lab, server.port, &line(verb), &target);
        if again == verb {
            assert_eq!(fs::read(&target).unwrap(), b"what was there before", "{verb}");
        } else {
            assert!(!target.exists(), "{verb}");
        }
        let part = leftovers(&directory);
        assert_eq!(part.len(), 1, "{part:?}");
        let before = fs::metadata(&part[0]).unwrap().len();
        // A resumed part file keeps its inode.
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&part[0]).unwrap());
        run(&lab, server.port, &line(again)).ok(again);
        assert_same_file(&lab.path("blob"), &target);
        assert_eq!(inode, std::os::unix::fs::MetadataExt::ino(&fs::metadata(&target).unwrap()), "{again}");
        assert!(before > 4 << 20 && leftovers(&directory).is_empty());
    }
    let journals = fs::read_dir(lab.path("home/.local/state/longhaul")).into_iter().flatten().count();
    assert_eq!(journals, 0, "journals of copies that are complete are gone");
}

/// Covers: sftp -a
#[test]
fn reput_and_reget_resume() {
    let lab = Lab::new();
    make_blob(&lab.path("blob"), SIZE);
    let server = Lhsshd::start(&lab, "");
    let whole = fs::read(lab.path("blob")).unwrap();
    for verb in ["reput", "reget", "put -a", "get -a"] {
        let target = lab.path("part");
        fs::write(&target, &whole[..5_000_000]).unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&target).unwrap());
        let line = format!("{verb} {} {}\n", lab.arg("blob"), target.display());
        run(&lab, server.port, &line).ok(verb);
        assert_same_file(&lab.path("blob"), &target);
        // A short local file is copied anew, and replaced when that is complete.
        if !verb.contains("get") {
            let after = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&target).unwrap());
            assert_eq!(inode, after, "{verb}");
        }
        fs::remove_file(&target).unwrap();
        // Without an existing file it is an ordinary copy.
        run(&lab, server.port, &line).ok(verb);
        assert_same_file(&lab.path("blob"), &target);
    }
}
