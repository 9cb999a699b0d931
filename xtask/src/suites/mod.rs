//! Runs third-party test suites with our programs under OpenSSH's names.
//!
//! They were written without Longhaul in mind. Each is fetched in one pinned version from a package registry
//! into `target/suites`, and has a list of known failures with reasons. An unexpected failure fails the run,
//! and so does a reason that is no longer true. Suites that cannot be fetched or built here are reported as
//! skipped.

mod audit;
mod go;
mod place;
mod python;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use self::place::{Missing, Place, Report};
use crate::names;
use crate::workspace::{Outcome, build_release, target_dir};

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

/// `cargo xtask suites [--bins DIR] [SUITE…]`
pub(crate) fn run(args: &[String]) -> Outcome {
    let mut bins = None;
    let mut wanted = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bins" => bins = Some(PathBuf::from(args.next().ok_or("--bins needs a directory")?)),
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
