//! Tests the commands of `RELEASING.md` that sign and check a release, with a key made for the test.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::source::{Source, failed, shown_commands};
use crate::workspace::Outcome;

/// Makes the key where minisign looks for it, without a passphrase, and prints the public half.
const KEY: &str = "mkdir -p \"$HOME/.minisign\" && minisign -G -W -p \"$HOME/key.pub\" \
                   -s \"$HOME/.minisign/minisign.key\" >/dev/null && tail -n 1 \"$HOME/key.pub\"";

/// Signs the checksums of the packages and checks them as a user does, then with a changed package.
pub(super) fn test(source: &Source) -> Outcome {
    if lh_interop::find("minisign").is_none() {
        println!("SKIPPED dist: the signature is not tried: apt-get install minisign");
        return Ok(());
    }
    let page = source.root.join("RELEASING.md");
    let shown = shown_commands(&page)?;
    let command = |start: &str| {
        let found = shown.lines().find(|line| line.starts_with(start));
        found.map(str::to_owned).ok_or_else(|| format!("RELEASING.md has no line '{start}'"))
    };
    let (sign, check) = (command("minisign -S ")?, command("minisign -V ")?);
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let released = tempfile::tempdir().map_err(|error| error.to_string())?;
    for entry in fs::read_dir(&source.out).map_err(failed(&source.out))?.flatten() {
        if entry.path().is_file() {
            let to = released.path().join(entry.file_name());
            fs::copy(entry.path(), &to).map_err(failed(&to))?;
        }
    }
    let run = |line: &str| in_shell(line, released.path(), home.path());
    let public = run(KEY)?;
    let check = check.replace("PUBLIC_KEY", public.trim());
    run(&sign)?;
    run(&check)?;
    let package = fs::read_dir(released.path()).map_err(failed(released.path()))?.flatten();
    let deb =
        package.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|each| each == "deb"));
    let deb = deb.ok_or("no .deb to change")?;
    fs::write(&deb, b"another").map_err(failed(&deb))?;
    if run(&check).is_ok() {
        return Err(format!("a changed package passes: {check}"));
    }
    println!("dist: SHA256SUMS is signed and checked as RELEASING.md says");
    Ok(())
}

/// Runs a command line; its output, or an error with what it printed.
fn in_shell(line: &str, directory: &Path, home: &Path) -> Result<String, String> {
    let ran = Command::new("sh").args(["-ec", line]).current_dir(directory).env("HOME", home).output();
    let ran = ran.map_err(|error| format!("sh: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ran.status.success() {
        Ok(text(&ran.stdout))
    } else {
        Err(format!("{line}: {}: {}{}", ran.status, text(&ran.stdout), text(&ran.stderr)))
    }
}
