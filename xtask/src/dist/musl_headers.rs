//! musl's headers for 64-bit ARM, for the C code of the emulated programs.
//!
//! Debian's package for that processor can only be installed after the system's list of architectures was
//! changed, which a test must not do. It is downloaded with package lists of its own and unpacked instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::failed;
use crate::workspace::target_dir;

/// The headers, relative to where the package is unpacked.
const HEADERS: &str = "usr/include/aarch64-linux-musl";

/// Longest time of one download, seconds.
const LIMIT: &str = "120";

/// Returns the directory of the headers, after downloading them if they are not installed; `None` where
/// that fails.
pub(super) fn directory() -> Result<Option<PathBuf>, String> {
    let installed = Path::new("/").join(HEADERS);
    if installed.is_dir() {
        return Ok(Some(installed));
    }
    let unpacked = target_dir().join("musl-headers");
    let headers = unpacked.join(HEADERS);
    if !headers.is_dir() {
        download(&unpacked)?;
    }
    Ok(headers.is_dir().then_some(headers))
}

/// Downloads the package and unpacks it into a directory. Failures of the commands are on their output.
fn download(into: &Path) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |name: &str| directory.path().join(name);
    for name in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(at(name)).map_err(failed(&at(name)))?;
    }
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("timeout");
        command.args([LIMIT, "apt-get", "-q"]).current_dir(directory.path());
        for setting in ["APT::Architecture=arm64", "APT::Architectures=arm64", "Acquire::Languages=none"] {
            command.args(["-o", setting]);
        }
        // As root, apt-get would download as a user who cannot enter the directory.
        command.args(["-o", "APT::Sandbox::User=root"]);
        command.arg("-o").arg(format!("Dir::State::lists={}", at("lists").display()));
        command.arg("-o").arg(format!("Dir::Cache={}", at("cache").display()));
        succeeds(command.args(arguments))
    };
    if !(apt_get(&["update"]) && apt_get(&["download", "musl-dev"])) {
        return Ok(());
    }
    let names = fs::read_dir(directory.path()).map_err(failed(directory.path()))?;
    let package =
        names.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|is| is == "deb"));
    if let Some(package) = package {
        succeeds(Command::new("dpkg-deb").arg("-x").arg(package).arg(into));
    }
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
