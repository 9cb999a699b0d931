//! Other people's test suites, run with our programs under OpenSSH's names.
//!
//! Nobody who wrote them had Longhaul in mind. Each is fetched in one pinned version from a package registry
//! into `target/suites`, and each has a list of tests that are known to fail, with reasons: one that fails
//! unexpectedly is a failure, and so is a reason that is no longer true. What cannot be fetched or built here
//! is said loudly and left out.

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

/// Seconds that one run of a suite may take; the longest takes three minutes on two cores.
const LIMIT_S: &str = "900";

/// What a suite said of its tests.
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

/// Why there is no report: this machine lacks something.
struct Missing(String);

struct Suite {
    name: &'static str,
    /// Whose it is and what of ours it runs.
    about: &'static str,
    run: fn(&Place) -> Result<Report, Missing>,
    /// Words in the names of tests that fail, and why they do.
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

/// What the suites run with.
struct Place {
    /// Our programs.
    bins: PathBuf,
    /// The folder with OpenSSH's names for them.
    names: PathBuf,
    /// What was fetched, kept from run to run.
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

/// How many tests fail for known reasons, and everything that is not as it should be.
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

/// Runs a suite's own command with a bound on its time, shows where its output is, and returns it.
fn output_of(place: &Place, name: &str, command: &mut Command) -> Result<String, Missing> {
    let log = place.cache.join(format!("{name}.log"));
    let failed = |error: std::io::Error| Missing(format!("{}: {error}", log.display()));
    let file = fs::File::create(&log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    // Of its own: some compare what `/tmp` holds with what a server says of it a moment later.
    let folder = tempfile::tempdir().map_err(failed)?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).map_err(failed)?;
    fs::write(folder.path().join("something"), "to list").map_err(failed)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.env_remove("SSH_AUTH_SOCK").env("TMPDIR", folder.path());
    // How it ended shows in what it said of its tests.
    command.status().map_err(|error| Missing(format!("{command:?}: {error}")))?;
    println!("suites: {name}: what it said is in {}", log.display());
    Ok(String::from_utf8_lossy(&fs::read(&log).map_err(failed)?).into_owned())
}

/// The same command, ended when it takes too long.
fn bounded(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIMIT_S]).arg(program);
    command
}

/// Copies a folder of the registry's cache, which may be read-only, to where tests may write into it.
fn copy_tree(from: &Path, to: &Path) -> Result<(), Missing> {
    let _ = fs::remove_dir_all(to);
    call(Command::new("cp").args(["-r", "--no-preserve=mode,ownership"]).arg(from).arg(to)).map_err(Missing)
}

/// OpenSSH's names in front of what PATH has.
fn path_with(names: &Path) -> String {
    format!("{}:{}", names.display(), std::env::var("PATH").unwrap_or_default())
}

/// A folder that everybody may read, with a user who is not root: suites refuse to run as root, and a server
/// of an ordinary user is another case. Where root does not run this, the user is who does.
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

    /// Our programs under OpenSSH's names where this user can reach them.
    fn names(&self, place: &Place) -> Result<PathBuf, Missing> {
        let to = self.lab.path("programs");
        fs::create_dir_all(&to).map_err(|error| Missing(error.to_string()))?;
        for (_, ours, ..) in names::PROGRAMS {
            fs::copy(place.bins.join(ours), to.join(ours))
                .map_err(|error| Missing(format!("{ours}: {error}")))?;
        }
        names::link(&to).map_err(Missing)
    }

    /// A command of this user's.
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
    fn what_fails_without_a_reason_and_a_reason_without_a_failure_are_problems() {
        let report =
            Report { passed: 3, skipped: 0, failed: vec!["TestOne/a".to_owned(), "TestTwo".to_owned()] };
        assert_eq!(judge(&suite(&[("TestOne", ""), ("TestTwo", "")]), &report), (2, Vec::new()));
        assert_eq!(judge(&suite(&[("TestOne", "")]), &report).1, ["s: failed: TestTwo"]);
        let (known, problems) = judge(&suite(&[("Test", ""), ("Gone", "")]), &report);
        assert_eq!((known, problems.len()), (2, 1));
        assert_eq!(judge(&suite(&[]), &Report::default()).1, ["s: no test has passed"]);
    }
}
