//! Go test suites, from the module proxy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lh_interop::{Lab, Lhsshd};

use super::place::{Missing, Ordinary, Place, Report, bounded, copy_tree, output_of, path_with};
use crate::workspace::{call, target_dir};

const SFTP: &str = "github.com/pkg/sftp@v1.13.12";
const CRYPTO: &str = "golang.org/x/crypto@v0.58.0";
const RCLONE: &str = "github.com/rclone/rclone@v1.71.2";

/// Runs the tests of pkg/sftp as the current user.
pub(super) fn sftp(place: &Place) -> Result<Report, Missing> {
    let source = fetch(place, SFTP)?;
    let tests = compile(&source, ".", &source.join("longhaul.test"))?;
    let mut command = bounded(&tests);
    command.args(["-test.v", "-integration"]).current_dir(&source);
    for (flag, program) in [("-sftp", "sftp-server"), ("-sftp_client", "sftp")] {
        command.arg(format!("{flag}={}", place.names.join(program).display()));
    }
    output_of(place, "go-sftp", &mut command).map(|text| report(&text))
}

/// Runs x/crypto/ssh/test and x/crypto/ssh/agent. The first skips itself for root, so an ordinary user runs
/// it.
pub(super) fn ssh(place: &Place) -> Result<Report, Missing> {
    let ordinary = Ordinary::new();
    let fetched = fetch(place, CRYPTO)?;
    // The tests read and write in the source directory.
    let source = ordinary.lab.path("crypto");
    copy_tree(&fetched, &source)?;
    call(Command::new("chmod").arg("-R").arg("a+rwX").arg(&source)).map_err(Missing)?;
    let names = ordinary.names(place)?;
    // The suite preloads a library over the C library to give its user a password.
    let directory = source.join("ssh/test");
    let shim = ["-shared", "-fPIC", "-o", "sshd_test_pw.so", "sshd_test_pw.c", "-lcrypt"];
    call(Command::new("cc").args(shim).current_dir(&directory)).map_err(Missing)?;
    let mut all = Report::default();
    for package in ["test", "agent"] {
        let directory = source.join("ssh").join(package);
        let tests = compile(&source, &format!("./ssh/{package}"), &directory.join("longhaul.test"))?;
        lh_interop::open_to_all(&tests);
        let mut command = ordinary.command(&tests);
        command.arg("-test.v").current_dir(&directory).env("PATH", path_with(&names));
        all.add(report(&output_of(place, &format!("go-ssh-{package}"), &mut command)?));
    }
    Ok(all)
}

/// Runs rclone's tests of a remote, with its own SSH client and with ours.
pub(super) fn rclone(place: &Place) -> Result<Report, Missing> {
    let source = fetch(place, RCLONE)?;
    let tests = place.cache.join("rclone.test");
    let tests = compile(&source, "./backend/sftp", &tests)?;
    let lab = Lab::new();
    let server = Lhsshd::start_program(&place.bins.join("lhsshd"), &lab, "", &[]);
    let (port, me, dir) = (server.port, lh_interop::me(), lab.dir().display());
    let ssh = lab.shell_command(&place.names.join("ssh"), port);
    lab.write(
        "rclone.conf",
        &format!(
            "[Own]\ntype = sftp\nhost = 127.0.0.1\nport = {port}\nuser = {me}\nkey_file = {dir}/user_ed25519\n\
             known_hosts_file = {dir}/known_hosts\n[Ssh]\ntype = sftp\nssh = {ssh} {me}@127.0.0.1\n"
        ),
    );
    let mut all = Report::default();
    for remote in ["Own", "Ssh"] {
        let mut command = bounded(&tests);
        // Without a path the test works in a directory that it creates and removes, in the home of the user
        // who logs in.
        command
            .args(["-test.v", "-test.run", "TestIntegration$", "-remote", &format!("{remote}:")])
            .current_dir(source.join("backend/sftp"))
            .env("RCLONE_CONFIG", lab.path("rclone.conf"));
        all.add(report(&output_of(place, &format!("rclone-{remote}"), &mut command)?));
    }
    Ok(all)
}

/// Fetches a module and copies its source to a writable directory.
fn fetch(place: &Place, module: &str) -> Result<PathBuf, Missing> {
    let go = lh_interop::find("go").ok_or_else(|| Missing("go is not installed".to_owned()))?;
    let done = Command::new(go)
        .args(["mod", "download", "-json", module])
        .current_dir(&place.cache)
        .output()
        .map_err(|error| Missing(format!("go: {error}")))?;
    let text = String::from_utf8_lossy(&done.stdout);
    let directory = directory_of(&text).ok_or_else(|| {
        let said = String::from_utf8_lossy(&done.stderr);
        Missing(format!("{module} cannot be fetched: {}{}", text.trim(), said.trim()))
    })?;
    let above = place.cache.join(module.replace(['/', '@'], "_"));
    fs::create_dir_all(&above).map_err(|error| Missing(format!("{}: {error}", above.display())))?;
    // Some tests expect the directory's name in the repository.
    let name = module.split('@').next().and_then(|path| path.rsplit('/').next()).unwrap_or(module);
    let to = above.join(name);
    copy_tree(Path::new(directory), &to)?;
    Ok(to)
}

/// Returns the directory in the output of `go mod download -json`.
fn directory_of(json: &str) -> Option<&str> {
    json.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.split('"').next())
}

/// Builds the tests of a package.
fn compile(source: &Path, package: &str, to: &Path) -> Result<PathBuf, Missing> {
    let mut go = Command::new("go");
    go.args(["test", "-c", "-o"]).arg(to).arg(package).current_dir(source);
    go.envs(lh_interop::go_variables(&target_dir().join("peers")));
    // The copied source belongs to no repository.
    call(go.env("GOFLAGS", "-buildvcs=false -mod=mod")).map_err(Missing)?;
    fs::metadata(to).map_err(|error| Missing(format!("{}: {error}", to.display())))?;
    Ok(to.to_path_buf())
}

/// Parses the output of `-test.v`. If a test has subtests, only the subtests count.
fn report(text: &str) -> Report {
    let mut report = Report::default();
    let mut failed = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let name = |kind: &str| Some(line.strip_prefix(kind)?.split(' ').next()?.to_owned());
        if name("--- PASS: ").is_some() {
            report.passed += 1;
        } else if name("--- SKIP: ").is_some() {
            report.skipped += 1;
        } else if let Some(name) = name("--- FAIL: ") {
            failed.push(name);
        } else if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
            failed.push(line.to_owned());
        }
    }
    let is_part =
        |name: &str, part: &String| part.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
    report.failed =
        failed.iter().filter(|name| !failed.iter().any(|part| is_part(name, part))).cloned().collect();
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_count_parts_and_name_what_failed() {
        let text = "=== RUN   TestA\n--- FAIL: TestA (0.14s)\n    --- FAIL: TestA/password,publickey (0.02s)\n    \
                    --- PASS: TestA/publickey (0.1s)\n--- PASS: TestAB (0.02s)\n--- SKIP: TestC (0.00s)\nFAIL\n";
        let failed = vec!["TestA/password,publickey".to_owned()];
        assert_eq!(report(text), Report { passed: 2, skipped: 1, failed });
        assert_eq!(report("panic: test timed out\n").failed, ["panic: test timed out"]);
    }

    #[test]
    fn directories_are_found_in_what_go_says() {
        let json = "{\n\t\"Path\": \"m\",\n\t\"Dir\": \"/root/go/pkg/mod/m@v1\",\n\t\"Sum\": \"h1:\"\n}\n";
        assert_eq!(directory_of(json), Some("/root/go/pkg/mod/m@v1"));
        assert_eq!(directory_of("{\n\t\"Error\": \"no network\"\n}\n"), None);
    }
}
