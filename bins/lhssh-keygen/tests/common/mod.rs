//! A directory for each test, and methods to run the programs in it.

// Every test program uses a part of this module.
#![allow(dead_code)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program under test.
pub(crate) const OURS: &str = env!("CARGO_BIN_EXE_lhssh-keygen");

/// A temporary directory of one test, in which the programs run.
pub(crate) struct TestDirectory {
    directory: tempfile::TempDir,
}

/// Output of a program. Line ends are newlines: on standard error both programs write `\r\n`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestDirectory {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file")
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("written");
        self.set_mode(name, 0o600);
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).expect("exists").permissions().mode() & 0o777
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("mode set");
    }

    /// Names in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).expect("a directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn run(&self, program: impl AsRef<Path>, arguments: &[&str], input: &str) -> Said {
        self.run_with(program, arguments, input, &[])
    }

    /// Like [`run`](Self::run), with additional environment variables.
    pub(crate) fn run_with(
        &self,
        program: impl AsRef<Path>,
        arguments: &[&str],
        input: &str,
        environment: &[(&str, &str)],
    ) -> Said {
        let mut command = Command::new(program.as_ref());
        command.args(arguments).current_dir(self.directory.path());
        // The program must not prompt in a window.
        command.env_remove("SSH_AUTH_SOCK").env("TZ", "Europe/Berlin");
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env("SSH_ASKPASS_REQUIRE", "never");
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        // A program without prompts may have exited already.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let Output { status, stdout, stderr } = child.wait_with_output().expect("ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text").replace("\r\n", "\n");
        Said { status: status.code().expect("an exit status"), out: text(stdout), err: text(stderr) }
    }

    /// Runs lhssh-keygen, which must succeed without output on standard error.
    pub(crate) fn ours(&self, arguments: &[&str]) -> String {
        let said = self.run(OURS, arguments, "");
        assert_eq!((said.status, said.err.as_str()), (0, ""), "{arguments:?}: {}", said.out);
        said.out
    }
}

/// The system's ssh-keygen, for comparison.
pub(crate) struct Theirs(PathBuf);

impl Theirs {
    /// `None` after a skip message where ssh-keygen is not installed.
    pub(crate) fn find(test: &str) -> Option<Self> {
        lh_interop::peers(test, ["ssh-keygen"]).map(|[path]| Self(path))
    }

    /// Runs ssh-keygen, which must succeed.
    pub(crate) fn run(&self, directory: &TestDirectory, arguments: &[&str]) -> String {
        let said = directory.run(&self.0, arguments, "");
        assert_eq!(said.status, 0, "ssh-keygen {arguments:?}: {}", said.err);
        said.out
    }

    /// Runs both programs, whose output and status must be equal except for the program's name.
    pub(crate) fn same(&self, directory: &TestDirectory, arguments: &[&str]) -> Said {
        self.same_with(directory, arguments, "")
    }

    /// Like [`same`](Self::same), with standard input. Ours runs last, so files left behind are ours.
    pub(crate) fn same_with(&self, directory: &TestDirectory, arguments: &[&str], input: &str) -> Said {
        let theirs = directory.run(&self.0, arguments, input);
        let ours = directory.run(OURS, arguments, input);
        assert_eq!(
            Said { err: ours.err.replace("lhssh-keygen", "ssh-keygen"), ..ours },
            theirs,
            "{arguments:?}"
        );
        theirs
    }
}

/// Writes a known_hosts file `known` with every kind of line, and the keys `a`, `b`, `c` in it.
pub(crate) fn known_hosts(directory: &TestDirectory) {
    for name in ["a", "b", "c"] {
        directory.ours(&["-q", "-t", "ed25519", "-N", "", "-f", name, "-C", name]);
    }
    let key = |name: &str| directory.text(&format!("{name}.pub")).trim_end().to_owned();
    let (a, b, c) = (key("a"), key("b"), key("c"));
    let text = format!(
        "# a note\n\nhost1,192.0.2.1 {a}\nhost2 {b} and more\n[host2]:2222 {b}\n@revoked *.bad {c}\n*.lab,!x.lab {c}\n\
         @cert-authority host1 {c}\nhost1 {b}\nUPPER {a}\n"
    );
    directory.write("known", text);
}
