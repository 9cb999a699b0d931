//! What every suite runs with: programs and their names, a log, a time limit, an ordinary user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lh_interop::{Lab, TestUser};

use crate::names;
use crate::workspace::call;

/// Seconds that one run of a suite may take; the longest takes three minutes on two cores.
const LIMIT_S: &str = "900";

/// What a suite said of its tests.
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

/// Why there is no report: this machine lacks something.
pub(super) struct Missing(pub(super) String);

/// What the suites run with.
pub(super) struct Place {
    /// Our programs.
    pub(super) bins: PathBuf,
    /// The directory with OpenSSH's names for them.
    pub(super) names: PathBuf,
    /// What was fetched, kept from run to run.
    pub(super) cache: PathBuf,
}

/// Runs a suite's own command with a bound on its time, shows where its output is, and returns it.
pub(super) fn output_of(place: &Place, name: &str, command: &mut Command) -> Result<String, Missing> {
    let log = place.cache.join(format!("{name}.log"));
    let failed = |error: std::io::Error| Missing(format!("{}: {error}", log.display()));
    let file = fs::File::create(&log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    // Of its own: some compare what `/tmp` holds with what a server says of it a moment later.
    let directory = tempfile::tempdir().map_err(failed)?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).map_err(failed)?;
    fs::write(directory.path().join("something"), "to list").map_err(failed)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.env_remove("SSH_AUTH_SOCK").env("TMPDIR", directory.path());
    // How it ended shows in what it said of its tests.
    command.status().map_err(|error| Missing(format!("{command:?}: {error}")))?;
    println!("suites: {name}: what it said is in {}", log.display());
    Ok(String::from_utf8_lossy(&fs::read(&log).map_err(failed)?).into_owned())
}

/// The same command, ended when it takes too long.
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

/// OpenSSH's names in front of what PATH has.
pub(super) fn path_with(names: &Path) -> String {
    format!("{}:{}", names.display(), std::env::var("PATH").unwrap_or_default())
}

/// A directory that everybody may read, with a user who is not root: suites refuse to run as root, and a
/// server of an ordinary user is another case. Where root does not run this, the user is who does.
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

    /// Our programs under OpenSSH's names where this user can reach them.
    pub(super) fn names(&self, place: &Place) -> Result<PathBuf, Missing> {
        let to = self.lab.path("programs");
        fs::create_dir_all(&to).map_err(|error| Missing(error.to_string()))?;
        for (_, ours, ..) in names::PROGRAMS {
            fs::copy(place.bins.join(ours), to.join(ours))
                .map_err(|error| Missing(format!("{ours}: {error}")))?;
        }
        names::link(&to).map_err(Missing)
    }

    /// A command of this user's.
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
