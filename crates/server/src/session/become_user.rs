//! Becoming the user: after this nothing in the process has another's rights.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lh_config::token::Tokens;
use lh_sys::ids;
use rustix::fs::Mode;

use super::authenticated::Login;
use super::command;

/// Why the process could not become the user. The session ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum BecomeError {
    /// A chroot whose path others could change is a way to become root.
    #[error("bad ownership or modes for chroot directory component \"{0}\"")]
    ChrootModes(PathBuf),
    /// The path cannot be used.
    #[error("chroot: {0}")]
    Chroot(String),
    /// The system refused.
    #[error("cannot become user {user}: {error}")]
    Ids { user: String, error: io::Error },
}

/// What lies outside of the chroot and is read before it is entered, as sshd does.
pub(super) struct Outside {
    /// The text of `/etc/nologin`, where that closes the account.
    pub(super) nologin: Option<String>,
}

/// Where a session starts.
pub(super) struct Start {
    /// Of a session inside a chroot.
    pub(super) outside: Option<Outside>,
    /// The home directory; the root where that cannot be entered.
    pub(super) directory: PathBuf,
    /// What to tell the user about the home directory.
    pub(super) notice: Option<String>,
}

/// Changes root, ids, umask and directory.
pub(super) fn become_user(login: &Login) -> Result<Start, BecomeError> {
    let mut outside = None;
    if let Some(pattern) = login.settings.chroot_directory.as_deref()
        && ids::is_root()
    {
        outside = Some(Outside { nologin: command::nologin_notice(login.user.uid) });
        change_root(pattern, login)?;
    }
    // What the server was started with, but never files that others may write.
    let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::umask(mask | Mode::from_raw_mode(0o022));
    ids::become_permanently(&login.ids)
        .map_err(|error| BecomeError::Ids { user: login.user.name.clone(), error })?;
    // The keys of the connection are in this memory: no core files, no ptrace by the user's others.
    if login.user.uid != 0 {
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
    let home = &login.user.home;
    match rustix::process::chdir(home) {
        Ok(()) => Ok(Start { outside, directory: home.clone(), notice: None }),
        Err(problem) => {
            let _ = rustix::process::chdir("/");
            let problem = io::Error::from(problem).to_string();
            let problem = problem.split(" (os error").next().unwrap_or_default();
            let notice = format!("Could not chdir to home directory {}: {problem}\n", home.display());
            // That homes are not inside is what administrators of a chroot expect.
            let notice = outside.is_none().then_some(notice);
            Ok(Start { outside, directory: "/".into(), notice })
        }
    }
}

/// Every directory on the way must be root's and writable by no other user: otherwise the user could put
/// files where programs with more rights look for theirs.
fn change_root(pattern: &str, login: &Login) -> Result<(), BecomeError> {
    let user = &login.user;
    let path = Tokens::new()
        .with('h', user.home.to_string_lossy())
        .with('u', user.name.as_str())
        .with('U', user.uid.to_string())
        .expand(pattern)
        .map_err(BecomeError::Chroot)?;
    let path = Path::new(&path);
    if !path.is_absolute() {
        return Err(BecomeError::Chroot(format!("path \"{}\" is not absolute", path.display())));
    }
    for component in path.ancestors() {
        let metadata = std::fs::metadata(component)
            .map_err(|error| BecomeError::Chroot(format!("stat(\"{}\"): {error}", component.display())))?;
        if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 || !metadata.is_dir() {
            return Err(BecomeError::ChrootModes(component.to_owned()));
        }
    }
    rustix::process::chdir(path)
        .and_then(|()| rustix::process::chroot(path))
        .and_then(|()| rustix::process::chdir("/"))
        .map_err(|error| BecomeError::Chroot(io::Error::from(error).to_string()))
}
