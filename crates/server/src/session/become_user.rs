//! Becoming the user: after this nothing in the process has another's rights.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lh_sys::ids;
use rustix::fs::Mode;

use super::authenticated::Login;
use super::resolve::{Refused, resolve};
use crate::user_tokens::user_tokens;

/// Why the process could not become the user. The session ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum BecomeError {
    /// A chroot whose path others could change is a way to become root.
    #[error("bad ownership or modes for chroot directory {0}")]
    ChrootModes(Component),
    /// A file is in the way.
    #[error("chroot path {0} is not a directory")]
    ChrootFile(Component),
    /// The path is relative.
    #[error("chroot path does not begin at root")]
    ChrootRelative,
    /// The path cannot be used.
    #[error("safely_chroot: {0}")]
    Chroot(String),
    /// The system refused.
    #[error("cannot become user {user}: {error}")]
    Ids { user: String, error: io::Error },
}

/// A directory on the way to a chroot. `Display` is OpenSSH's text: the last one has no word in front of it.
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

/// Where a session starts.
pub(super) struct Start {
    /// The session is inside a chroot.
    pub(super) inside_chroot: bool,
    /// The home directory; the root where that cannot be entered.
    pub(super) directory: PathBuf,
    /// What to tell the user about the home directory.
    pub(super) notice: Option<String>,
}

/// Changes root, ids, umask and directory.
pub(super) fn become_user(login: &Login) -> Result<Start, BecomeError> {
    let mut inside_chroot = false;
    if login.credentials.is_some() {
        // For the session, which may be where no library of the system's is. What fails is told when they are stored.
        let _ = lh_sys::gssapi::load();
    }
    if let Some(pattern) = login.settings.chroot_directory.as_deref()
        && ids::is_root()
    {
        change_root(pattern, login)?;
        inside_chroot = true;
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
        Ok(()) => Ok(Start { inside_chroot, directory: home.clone(), notice: None }),
        Err(problem) => {
            let _ = rustix::process::chdir("/");
            let problem = lh_sys::errno_text(&io::Error::from(problem));
            let notice = format!("Could not chdir to home directory {}: {problem}\n", home.display());
            // That homes are not inside is what administrators of a chroot expect.
            let notice = (!inside_chroot).then_some(notice);
            Ok(Start { inside_chroot, directory: "/".into(), notice })
        }
    }
}

/// Changes the root to what `pattern` names.
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

/// Returns the path without symbolic links. Every directory on the way must be root's and writable by no other user,
/// also on the way of a link: otherwise the user could put files where programs with more rights look for theirs, or
/// another link in the place of a directory.
fn resolve_root_owned(path: &Path) -> Result<PathBuf, BecomeError> {
    resolve(path, check_directory).map_err(|refused| match refused {
        Refused::Check(error) => error,
        Refused::System(path, error) => BecomeError::Chroot(format!("stat(\"{}\"): {error}", path.display())),
    })
}

fn check_directory(path: &Path, entry: &Metadata, last: bool) -> Result<(), BecomeError> {
    let named = || Component { path: path.to_owned(), last };
    if entry.is_symlink() {
        // Only root can have put it there.
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
