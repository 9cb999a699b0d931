//! Runs third-party test suites with our programs under OpenSSH's names.
//!
//! They were written without Longhaul in mind. Each is fetched in one pinned version from a package registry
//! into `target/suites`, and has a list of known failures with reasons. An unexpected failure fails the run,
//! and so does a reason that is no longer true. Suites that cannot be fetched or built here are reported as
//! skipped.

mod audit;
mod go;
mod python;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use lh_interop::{Lab, TestUser};

use crate::{Outcome, build_release, call, names, target_dir};

/// Time limit of one suite, in seconds; the longest takes three minutes on two cores.
const LIMIT_S: &str = "900";

/// Results of a suite's tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    passed: usize,
    skipped: usize,
    failed: Vec<String>,
}

impl Report {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.failed.extend(other.failed);
    }
}

/// Reason why a suite cannot run on this machine.
struct Missing(String);

struct Suite {
    name: &'static str,
    /// Project of the suite, and what it tests.
    about: &'static str,
    run: fn(&Place) -> Result<Report, Missing>,
    /// Words in the names of tests known to fail, with the reason for each.
    known: &'static [(&'static str, &'static str)],
}

const SUITES: &[Suite] = &[
    Suite {
        name: "go-sftp",
        about: "github.com/pkg/sftp: its client against sftp-server, sftp against its server",
        run: go::sftp,
        known: &[],
    },
    Suite {
        name: "go-ssh",
        about: "golang.org/x/crypto/ssh: its client against sshd, ssh against its server, its agent client against ssh-agent",
        run: go::ssh,
        known: &[],
    },
    Suite {
        name: "asyncssh",
        about: "asyncssh: its agent client against ssh-agent, its keys and signatures against ssh-keygen",
        run: python::asyncssh,
        known: python::ASYNCSSH_KNOWN,
    },
    Suite {
        name: "scp-py",
        about: "scp.py over paramiko: the protocol before SFTP against sshd and scp -t and -f",
        run: python::scp,
        known: &[],
    },
    Suite {
        name: "ssh-audit",
        about: "ssh-audit: what a scanner says of sshd's algorithms and of Terrapin",
        run: audit::run,
        known: audit::KNOWN,
    },
    Suite {
        name: "rclone",
        about: "rclone's sftp backend against sshd, by its own client and by ssh",
        run: go::rclone,
        known: &[],
    },
];

/// Directories that the suites use.
struct Place {
    /// Our programs.
    bins: PathBuf,
    /// Directory with OpenSSH's names for them.
    names: PathBuf,
    /// Fetched sources, kept from run to run.
    cache: PathBuf,
}

/// `cargo xtask suites [--bins DIR] [SUITE…]`
pub(crate) fn run(args: &[String]) -> Outcome {
    let mut bins = None;
    let mut wanted = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bins" => bins = Some(PathBuf::from(args.next().ok_or("--bins needs a folder")?)),
            name if SUITES.iter().any(|suite| suite.name == name) => wanted.push(name.to_owned()),
            other => {
                let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
                return Err(format!("no suite {other}; there are: {}", known.join(" ")));
            }
        }
    }
    let bins = match bins {
        Some(dir) => fs::canonicalize(&dir).map_err(|error| format!("{}: {error}", dir.display()))?,
        None => build_release()?,
    };
    let place = Place { names: names::link(&bins)?, bins, cache: target_dir().join("suites") };
    fs::create_dir_all(&place.cache).map_err(|error| format!("{}: {error}", place.cache.display()))?;
    let mut wrong = Vec::new();
    for suite in
        SUITES.iter().filter(|suite| wanted.is_empty() || wanted.iter().any(|name| name == suite.name))
    {
        println!("suites: {}: {}", suite.name, suite.about);
        let start = Instant::now();
        match (suite.run)(&place) {
            Ok(report) => {
                let (passed, skipped) = (report.passed, report.skipped);
                let (known, problems) = judge(suite, &report);
                println!(
                    "suites: {}: {passed} tests pass, {known} fail for known reasons, {skipped} skip themselves ({} s)",
                    suite.name,
                    start.elapsed().as_secs()
                );
                wrong.extend(problems);
            }
            Err(Missing(why)) => println!("suites: SKIPPED {}: {why}", suite.name),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns the number of known failures, and all problems found.
fn judge(suite: &Suite, report: &Report) -> (usize, Vec<String>) {
    let why = |test: &str| suite.known.iter().find(|(words, _)| test.contains(words));
    let mut problems = Vec::new();
    let mut known = 0;
    for test in &report.failed {
        match why(test) {
            Some(_) => known += 1,
            None => problems.push(format!("{}: failed: {test}", suite.name)),
        }
    }
    for (words, reason) in suite.known {
        if report.failed.iter().any(|test| test.contains(words)) {
            println!("suites: {}: known to fail: {words}: {reason}", suite.name);
        } else {
            problems.push(format!("{}: {words} passes now: take its reason out", suite.name));
        }
    }
    if report.passed == 0 {
        problems.push(format!("{}: no test has passed", suite.name));
    }
    (known, problems)
}

/// Runs a suite's command with a time limit, prints the path of its output, and returns the output.
fn output_of(place: &Place, name: &str, command: &mut Command) -> Result<String, Missing> {
    let log = place.cache.join(format!("{name}.log"));
    let failed = |error: std::io::Error| Missing(format!("{}: {error}", log.display()));
    let file = fs::File::create(&log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    // A temporary directory of its own: some tests list `/tmp` and compare it with a server's listing a
    // moment later.
    let folder = tempfile::tempdir().map_err(failed)?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).map_err(failed)?;
    fs::write(folder.path().join("something"), "to list").map_err(failed)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.env_remove("SSH_AUTH_SOCK").env("TMPDIR", folder.path());
    // The exit status adds nothing: the output has the results of the tests.
    command.status().map_err(|error| Missing(format!("{command:?}: {error}")))?;
    println!("suites: {name}: the output is in {}", log.display());
    Ok(String::from_utf8_lossy(&fs::read(&log).map_err(failed)?).into_owned())
}

/// Returns a command for `program` with a time limit.
fn bounded(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIMIT_S]).arg(program);
    command
}

/// Copies a directory of the registry's cache, which may be read-only, to where tests may write.
fn copy_tree(from: &Path, to: &Path) -> Result<(), Missing> {
    let _ = fs::remove_dir_all(to);
    call(Command::new("cp").args(["-r", "--no-preserve=mode,ownership"]).arg(from).arg(to)).map_err(Missing)
}

/// Returns a PATH that searches the directory of OpenSSH's names first.
fn path_with(names: &Path) -> String {
    format!("{}:{}", names.display(), std::env::var("PATH").unwrap_or_default())
}

/// A directory that all users may read, and an ordinary user: suites refuse to run as root, and a server of
/// an ordinary user is another case to test. Without root it is the current user.
struct Ordinary {
    lab: Lab,
    user: Option<TestUser>,
}

impl Ordinary {
    fn new() -> Self {
        let lab = Lab::new();
        let user = lh_interop::is_root().then(|| TestUser::new(&lab));
        Self { lab, user }
    }

    /// Links our programs under OpenSSH's names where this user can reach them.
    fn names(&self, place: &Place) -> Result<PathBuf, Missing> {
        let to = self.lab.path("programs");
        fs::create_dir_all(&to).map_err(|error| Missing(error.to_string()))?;
        for (_, ours, ..) in names::PROGRAMS {
            fs::copy(place.bins.join(ours), to.join(ours))
                .map_err(|error| Missing(format!("{ours}: {error}")))?;
        }
        names::link(&to).map_err(Missing)
    }

    /// Returns a command that runs as this user.
    fn command(&self, program: &Path) -> Command {
        match &self.user {
            None => bounded(program),
            Some(user) => {
                let mut command = bounded(Path::new("setpriv"));
                let ids = [format!("--reuid={}", user.name), format!("--regid={}", user.name)];
                command.args(ids).arg("--init-groups").arg(program);
                command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name);
                command
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(known: &'static [(&'static str, &'static str)]) -> Suite {
        Suite { name: "s", about: "", run: |_| Ok(Report::default()), known }
    }

    #[test]
    fn unexplained_failures_and_stale_reasons_are_problems() {
        let report =
            Report { passed: 3, skipped: 0, failed: vec!["TestOne/a".to_owned(), "TestTwo".to_owned()] };
        assert_eq!(judge(&suite(&[("TestOne", ""), ("TestTwo", "")]), &report), (2, Vec::new()));
        assert_eq!(judge(&suite(&[("TestOne", "")]), &report).1, ["s: failed: TestTwo"]);
        let (known, problems) = judge(&suite(&[("Test", ""), ("Gone", "")]), &report);
        assert_eq!((known, problems.len()), (2, 1));
        assert_eq!(judge(&suite(&[]), &Report::default()).1, ["s: no test has passed"]);
    }
}
