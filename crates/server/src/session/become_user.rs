//! Switches the process to the user's ids for good: afterwards it has no other rights.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lh_sys::ids;
use rustix::fs::Mode;

use super::authenticated::Login;
use super::resolve::{Refused, resolve};
use crate::user_tokens::user_tokens;

/// Why the process could not switch to the user. The session ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum BecomeError {
    /// Others can change a directory on the path to the chroot, which is a way to become root.
    #[error("bad ownership or modes for chroot directory {0}")]
    ChrootModes(Component),
    /// A part of the chroot's path is not a directory.
    #[error("chroot path {0} is not a directory")]
    ChrootFile(Component),
    /// The chroot's path is relative.
    #[error("chroot path does not begin at root")]
    ChrootRelative,
    /// The chroot's path cannot be used.
    #[error("safely_chroot: {0}")]
    Chroot(String),
    /// The system refused to change ids.
    #[error("cannot become user {user}: {error}")]
    Ids { user: String, error: io::Error },
}

/// A directory on the path to a chroot. `Display` is OpenSSH's text, which does not introduce the last one
/// with a word.
#[derive(Debug)]
pub(super) struct Component {
    path: PathBuf,
    last: bool,
}

impl std::fmt::Display for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match (self.last, self.path.parent()) {
            (true, _) => write!(f, "\"{path}\""),
            (false, None) => write!(f, "component \"{path}\""),
            (false, Some(_)) => write!(f, "component \"{path}/\""),
        }
    }
}

/// The state in which a session starts.
pub(super) struct Start {
    /// Whether the session is inside a chroot.
    pub(super) inside_chroot: bool,
    /// The working directory: the home directory, or the root where that cannot be entered.
    pub(super) directory: PathBuf,
    /// A message to the user about the home directory.
    pub(super) notice: Option<String>,
}

/// Changes the root directory, ids, umask and working directory.
pub(super) fn become_user(login: &Login) -> Result<Start, BecomeError> {
    let mut inside_chroot = false;
    if login.credentials.is_some() {
        // Loaded before a chroot, which may lack the system's libraries. Storing the credentials reports a
        // failure.
        let _ = lh_sys::gssapi::load();
    }
    if let Some(pattern) = login.settings.chroot_directory.as_deref()
        && ids::is_root()
    {
        change_root(pattern, login)?;
        inside_chroot = true;
    }
    // Keeps the server's umask, but always denies write access to group and others.
    let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::umask(mask | Mode::from_raw_mode(0o022));
    ids::become_permanently(&login.ids)
        .map_err(|error| BecomeError::Ids { user: login.user.name.clone(), error })?;
    // The connection's keys are in this memory: no core files, and no ptrace by the user's other processes.
    if login.user.uid != 0 {
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
    let home = &login.user.home;
    match rustix::process::chdir(home) {
        Ok(()) => Ok(Start { inside_chroot, directory: home.clone(), notice: None }),
        Err(problem) => {
            let _ = rustix::process::chdir("/");
            let problem = lh_sys::errno_text(&io::Error::from(problem));
            let notice = format!("Could not chdir to home directory {}: {problem}\n", home.display());
            // In a chroot, administrators expect home directories to be missing.
            let notice = (!inside_chroot).then_some(notice);
            Ok(Start { inside_chroot, directory: "/".into(), notice })
        }
    }
}

/// Changes the root directory to the path that `pattern` expands to.
fn change_root(pattern: &str, login: &Login) -> Result<(), BecomeError> {
    let user = &login.user;
    let path = user_tokens(user).expand(pattern).map_err(|why| BecomeError::Chroot(why.to_string()))?;
    let path = Path::new(&path);
    if !path.is_absolute() {
        return Err(BecomeError::ChrootRelative);
    }
    let path = &resolve_root_owned(path)?;
    rustix::process::chdir(path)
        .and_then(|()| rustix::process::chroot(path))
        .and_then(|()| rustix::process::chdir("/"))
        .map_err(|error| BecomeError::Chroot(io::Error::from(error).to_string()))
}

/// Returns the path without symbolic links. Every directory on the way, also on that of a link, must be
/// root's and not writable by others. Otherwise the user could place files where privileged programs look for
/// theirs, or replace a directory by a link.
fn resolve_root_owned(path: &Path) -> Result<PathBuf, BecomeError> {
    resolve(path, check_directory).map_err(|refused| match refused {
        Refused::Check(error) => error,
        Refused::System(path, error) => BecomeError::Chroot(format!("stat(\"{}\"): {error}", path.display())),
    })
}

fn check_directory(path: &Path, entry: &Metadata, last: bool) -> Result<(), BecomeError> {
    let named = || Component { path: path.to_owned(), last };
    if entry.is_symlink() {
        // Only root can have created the link.
        return Ok(());
    }
    if entry.uid() != 0 || entry.mode() & 0o022 != 0 {
        return Err(BecomeError::ChrootModes(named()));
    }
    if !entry.is_dir() {
        return Err(BecomeError::ChrootFile(named()));
    }
    Ok(())
}
