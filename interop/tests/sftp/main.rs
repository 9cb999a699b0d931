//! `lhsftp` with other servers and Longhaul's: its commands, its connections, and its prompt.

mod commands;
mod connections;
mod terminal;

use std::fs;
use std::os::unix::fs::symlink;

use lh_interop::{Lab, Ran, our};

/// Runs an `sftp` program on a local server, with a script on its standard input or as its batch.
struct Local<'a> {
    lab: &'a Lab,
    program: std::path::PathBuf,
    server: String,
}

impl<'a> Local<'a> {
    fn new(lab: &'a Lab) -> Self {
        let server = our("lhsftp-server").to_string_lossy().into_owned();
        Self { lab, program: our("lhsftp"), server }
    }

    fn run(&self, flags: &[&str], script: &str) -> Ran {
        self.lab.write("script", script);
        let mut args: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        args.extend(["-D".to_owned(), self.server.clone()]);
        let stdin = fs::File::open(self.lab.path("script")).unwrap();
        self.lab.run_with(&self.program, &args, stdin.into())
    }

    fn batch(&self, flags: &[&str], script: &str) -> Ran {
        let mut flags = flags.to_vec();
        flags.extend(["-b", "script"]);
        self.run(&flags, script)
    }
}

/// Makes the files in `r` and `l` that the scripts use.
fn prepare(lab: &Lab) {
    for dir in ["r", "l"] {
        let _ = fs::remove_dir_all(lab.path(dir));
    }
    fs::create_dir_all(lab.path("r/d/sub")).unwrap();
    fs::create_dir_all(lab.path("l/t/s")).unwrap();
    for (name, text) in [
        ("r/f1", "hi\n"),
        ("r/f 2", "there\n"),
        ("r/st*r", ""),
        ("r/q\"uote", "q"),
        ("r/d/x", "x\n"),
        ("r/d/sub/y", "y\n"),
        ("l/u1", "1\n"),
        ("l/u 2", "2\n"),
        ("l/t/a", "a\n"),
        ("l/t/s/b", "b\n"),
    ] {
        fs::write(lab.path(name), text).unwrap();
    }
    for (target, name) in
        [("f1", "r/lnk"), ("nowhere", "r/dang"), ("x", "r/d/lx"), ("a", "l/t/la"), ("s", "l/t/ls")]
    {
        symlink(target, lab.path(name)).unwrap();
    }
}

fn ssh_flags(lab: &Lab, port: u16) -> Vec<String> {
    let mut flags = lab.client_options();
    flags.extend(["-P".into(), port.to_string()]);
    flags
}
