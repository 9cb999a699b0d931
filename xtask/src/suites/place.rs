//! Common environment of the suites: programs and their names, a log, a time limit, an ordinary user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lh_interop::{Lab, TestUser};

use crate::names;
use crate::workspace::call;

/// Time limit of one run of a suite, seconds; the longest takes three minutes on two cores.
const LIMIT_S: &str = "900";

/// Results of a suite's tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) passed: usize,
    pub(super) skipped: usize,
    pub(super) failed: Vec<String>,
}

impl Report {
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.failed.extend(other.failed);
    }
}

/// Reason why there is no report: the missing requirement.
pub(super) struct Missing(pub(super) String);

/// Directories that the suites use.
pub(super) struct Place {
    /// Directory of our programs.
    pub(super) bins: PathBuf,
    /// Directory with OpenSSH's names for them.
    pub(super) names: PathBuf,
    /// Directory of downloads, kept from run to run.
    pub(super) cache: PathBuf,
}

/// Runs a suite's own command with a time limit, prints the path of its output, and returns the output.
pub(super) fn output_of(place: &Place, name: &str, command: &mut Command) -> Result<String, Missing> {
    let log = place.cache.join(format!("{name}.log"));
    let failed = |error: std::io::Error| Missing(format!("{}: {error}", log.display()));
    let file = fs::File::create(&log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    // A separate temporary directory: some tests compare the content of `/tmp` with a server's listing a
    // moment later.
    let directory = tempfile::tempdir().map_err(failed)?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).map_err(failed)?;
    fs::write(directory.path().join("something"), "to list").map_err(failed)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.env_remove("SSH_AUTH_SOCK").env("TMPDIR", directory.path());
    // The exit status is ignored, because the output has the results of the tests.
    command.status().map_err(|error| Missing(format!("{command:?}: {error}")))?;
    println!("suites: {name}: what it said is in {}", log.display());
    Ok(String::from_utf8_lossy(&fs::read(&log).map_err(failed)?).into_owned())
}

/// Returns a command that is ended when it takes too long.
pub(super) fn bounded(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIMIT_S]).arg(program);
    command
}

/// Copies a directory of the registry's cache, which may be read-only, to where tests may write into it.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<(), Missing> {
    let _ = fs::remove_dir_all(to);
    call(Command::new("cp").args(["-r", "--no-preserve=mode,ownership"]).arg(from).arg(to)).map_err(Missing)
}

/// Returns a PATH in which OpenSSH's names come first.
pub(super) fn path_with(names: &Path) -> String {
    format!("{}:{}", names.display(), std::env::var("PATH").unwrap_or_default())
}

/// A world-readable directory, with a user who is not root. Suites refuse to run as root, and a server of an
/// ordinary user is a separate case. If root does not run this, the user is the current one.
pub(super) struct Ordinary {
    pub(super) lab: Lab,
    user: Option<TestUser>,
}

impl Ordinary {
    pub(super) fn new() -> Self {
        let lab = Lab::new();
        let user = lh_interop::is_root().then(|| TestUser::new(&lab));
        Self { lab, user }
    }

    /// Returns a directory with our programs under OpenSSH's names that this user can access.
    pub(super) fn names(&self, place: &Place) -> Result<PathBuf, Missing> {
        let to = self.lab.path("programs");
        fs::create_dir_all(&to).map_err(|error| Missing(error.to_string()))?;
        for (_, ours, ..) in names::PROGRAMS {
            fs::copy(place.bins.join(ours), to.join(ours))
                .map_err(|error| Missing(format!("{ours}: {error}")))?;
        }
        names::link(&to).map_err(Missing)
    }

    /// Returns a command that runs as this user.
    pub(super) fn command(&self, program: &Path) -> Command {
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
