//! Sources of the packages, and functions that several package formats use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::workspace::{Outcome, root, target_dir};

/// The sources of one set of packages, and the directories in which they are built.
pub(super) struct Source {
    /// Directory of the workspace.
    pub root: PathBuf,
    /// Cargo's directory for this build.
    pub build: PathBuf,
    /// Directory of the finished packages.
    pub out: PathBuf,
    /// Directory of existing programs, used instead of a build. Such packages are only for tests.
    pub built: Option<PathBuf>,
    /// Modification time of all files, seconds since 1970.
    pub epoch: u64,
}

impl Source {
    /// Returns this checkout. The time is `SOURCE_DATE_EPOCH`, or that of the last commit.
    pub(super) fn here() -> Result<Self, String> {
        let root = root();
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text.parse().map_err(|_| format!("SOURCE_DATE_EPOCH: bad number {text}"))?,
            Err(_) => commit_time(&root)?,
        };
        let target = target_dir();
        Ok(Self { root, build: target.join("dist-build"), out: target.join("dist"), built: None, epoch })
    }

    /// Returns the compression level: 0 for packages that are only tested.
    pub(super) fn compression(&self) -> u8 {
        if self.built.is_some() { 0 } else { 9 }
    }

    pub(super) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Returns the path of a directory for intermediate files.
    pub(super) fn scratch_path(&self, name: &str) -> PathBuf {
        self.build.join("scratch").join(name)
    }

    /// Returns an empty directory for intermediate files.
    pub(super) fn scratch(&self, name: &str) -> Result<PathBuf, String> {
        let directory = self.scratch_path(name);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(failed(&directory))?;
        }
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        Ok(directory)
    }
}

fn commit_time(root: &Path) -> Result<u64, String> {
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| "no commit: set SOURCE_DATE_EPOCH".to_owned())
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a command that must succeed, and returns its output.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let shown = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&text)))
}

pub(super) fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(failed(path))
}

/// Adds the file's path to an error's text.
pub(super) fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + use<> {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// Returns the lines of a page's blocks of commands: the tests of the packages run them as it shows them.
pub(super) fn shown_commands(page: &Path) -> Result<String, String> {
    let text = fs::read_to_string(page).map_err(failed(page))?;
    let blocks = lh_interop::shown::code(&text);
    let lines = blocks.iter().filter(|block| block.info.is_none_or(|info| info.starts_with("sh")));
    let lines = lines.flat_map(|block| block.lines.iter().copied());
    Ok(lines.fold(String::new(), |all, line| all + line + "\n"))
}

/// Day of the week, day, month and year, as changelogs of packages write them.
pub(super) fn date(epoch: u64) -> (&'static str, i64, &'static str, i64) {
    let days = epoch / 86_400;
    let (year, month, day) = lh_sys::time::date(days.cast_signed());
    let week = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    (week, day, months[month as usize - 1], year)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_of_changelogs_are_those_of_the_calendar() {
        assert_eq!(date(0), ("Thu", 1, "Jan", 1970));
        assert_eq!(date(1_795_392_000), ("Mon", 23, "Nov", 2026));
    }
}
