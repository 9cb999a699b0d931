//! Python test suites, from PyPI, in a separate virtual environment.

use std::path::PathBuf;
use std::process::Command;

use lh_interop::{Lab, Lhsshd};

use super::place::{Missing, Place, Report, bounded, output_of, path_with};

/// Versions for which the lists of known failures were made; pip chooses their dependencies.
const ASYNCSSH: &str = "asyncssh==2.24.1";
const SCP: &str = "scp==0.15.0";
const TOOLS: &[&str] = &["pytest==9.2.0", "paramiko==5.1.0", "pyOpenSSL", "bcrypt"];

pub(super) const ASYNCSSH_KNOWN: &[(&str, &str)] = &[];

/// Runs asyncssh's tests that call OpenSSH's programs.
pub(super) fn asyncssh(place: &Place) -> Result<Report, Missing> {
    let directory = fetch(place, ASYNCSSH)?;
    let mut command = pytest(
        place,
        &["test_agent", "test_sshsig", "test_public_key"].map(|name| format!("tests/{name}.py")),
    );
    command.current_dir(&directory).env("PATH", path_with(&place.names));
    output_of(place, "asyncssh", &mut command).map(|text| report(&text))
}

/// Runs scp.py's only test file, which logs in with the key in the home directory.
pub(super) fn scp(place: &Place) -> Result<Report, Missing> {
    let directory = fetch(place, SCP)?;
    let lab = Lab::new();
    // Commands on the server find `scp` on PATH.
    let set = format!("SetEnv PATH={}", path_with(&place.names));
    let server = Lhsshd::start_program(&place.bins.join("lhsshd"), &lab, &set, &[]);
    for (from, to) in [("user_ed25519", "home/.ssh/id_ed25519"), ("known_hosts", "home/.ssh/known_hosts")] {
        lab.write(to, &lab.read(from));
    }
    let mut command = pytest(place, &["test.py".to_owned()]);
    command
        .current_dir(&directory)
        .env("HOME", lab.path("home"))
        .env("SCPPY_PORT", server.port.to_string())
        .env("SCPPY_USERNAME", lh_interop::me());
    output_of(place, "scp-py", &mut command).map(|text| report(&text))
}

fn pytest(place: &Place, files: &[String]) -> Command {
    let mut command = bounded(&environment(place).join("bin/python"));
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-rfEs"]).args(files);
    command
}

pub(super) fn environment(place: &Place) -> PathBuf {
    place.cache.join("python")
}

/// Makes the environment, if there is none, and unpacks the source of a package with its tests.
fn fetch(place: &Place, package: &str) -> Result<PathBuf, Missing> {
    let python = lh_interop::find("python3").ok_or_else(|| Missing("python3 is not installed".to_owned()))?;
    let own = environment(place).join("bin/python");
    if !own.is_file() {
        quietly(Command::new(&python).args(["-m", "venv"]).arg(environment(place)))?;
    }
    quietly(Command::new(&own).args(["-m", "pip", "install", "-q"]).args(TOOLS).arg(package))?;
    let source = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", ".", package];
    quietly(Command::new(&own).args(source).current_dir(&place.cache))?;
    let name = package.replace("==", "-");
    quietly(Command::new("tar").arg("xf").arg(format!("{name}.tar.gz")).current_dir(&place.cache))?;
    Ok(place.cache.join(name))
}

/// Runs a preparation step; its failure means that the suite cannot run here.
pub(super) fn quietly(command: &mut Command) -> Result<(), Missing> {
    let shown = format!("{command:?}").replace('"', "");
    let done = command.output().map_err(|error| Missing(format!("{shown}: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Missing(format!("{shown}: {}", said.lines().last().unwrap_or_default())))
}

/// Parses pytest's summary: failed tests by name, the others counted.
fn report(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines() {
        if let Some(test) = ["FAILED ", "ERROR ", "SUBFAILED"].iter().find_map(|kind| line.strip_prefix(kind))
        {
            report.failed.push(test.trim().to_owned());
        }
    }
    let summary = text.lines().rev().find(|line| line.contains(" passed")).unwrap_or_default();
    let words: Vec<&str> = summary.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let count = |what: &[&str]| {
        words
            .windows(what.len() + 1)
            .find(|each| each[1..] == *what)
            .and_then(|each| each[0].parse().ok())
            .unwrap_or(0)
    };
    report.passed = count(&["passed"]) + count(&["subtests", "passed"]);
    report.skipped = count(&["skipped"]);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_from_the_summary() {
        let text = "....s\nSUBFAILED[Export (x)] (alg='y') tests/t.py::T::test_keys\nFAILED tests/t.py::T::other\n\
                    2 failed, 13 passed, 3 skipped, 2150 subtests passed in 166.50s (0:02:46)\n";
        let failed = ["[Export (x)] (alg='y') tests/t.py::T::test_keys", "tests/t.py::T::other"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(report(text), Report { passed: 2163, skipped: 3, failed });
        assert_eq!(report("9 passed in 23.55s\n"), Report { passed: 9, ..Report::default() });
        assert_eq!(report("ImportError\n"), Report::default());
    }
}
