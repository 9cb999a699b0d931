//! Becoming the user: after this nothing in the process has another's rights.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component as PathComponent, Path, PathBuf};

use lh_config::token::Tokens;
use lh_sys::ids;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::authenticated::Login;

/// As many symbolic links as Linux follows in one path.
const MAX_LINKS: usize = 40;

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
    let path = Tokens::new()
        .with('h', user.home.to_string_lossy())
        .with('u', user.name.as_str())
        .with('U', user.uid.to_string())
        .expand(pattern)
        .map_err(|why| BecomeError::Chroot(why.to_string()))?;
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
    let mut resolved = PathBuf::from("/");
    let mut rest: Vec<OsString> = names(path);
    let mut links = 0;
    check_directory(&resolved, rest.is_empty())?;
    while let Some(name) = rest.pop() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&name);
        let status = |error: &io::Error| no_status(&next, error);
        if !std::fs::symlink_metadata(&next).map_err(|error| status(&error))?.is_symlink() {
            check_directory(&next, rest.is_empty())?;
            resolved = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(status(&Errno::LOOP.into()));
        }
        let target = std::fs::read_link(&next).map_err(|error| status(&error))?;
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        rest.extend(names(&target));
    }
    Ok(resolved)
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let is_name =
        |part: &PathComponent<'_>| matches!(part, PathComponent::Normal(_) | PathComponent::ParentDir);
    path.components().rev().filter(is_name).map(|part| part.as_os_str().to_owned()).collect()
}

fn check_directory(path: &Path, last: bool) -> Result<(), BecomeError> {
    let named = || Component { path: path.to_owned(), last };
    let metadata = std::fs::metadata(path).map_err(|error| no_status(path, &error))?;
    if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
        return Err(BecomeError::ChrootModes(named()));
    }
    if !metadata.is_dir() {
        return Err(BecomeError::ChrootFile(named()));
    }
    Ok(())
}

fn no_status(path: &Path, error: &io::Error) -> BecomeError {
    BecomeError::Chroot(format!("stat(\"{}\"): {}", path.display(), lh_sys::errno_text(error)))
}
