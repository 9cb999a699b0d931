//! Chooses the path of a forwarded agent's socket (`AgentSocketPath`).
//!
//! The default is `~/.ssh/agent`, as in OpenSSH since 10.1: home directories are private, while all users may
//! list `/tmp`. All file operations use the user's rights. Another user who can rename a directory of the
//! path, or a link in it, could substitute an agent of his own. Directories with this risk are not used.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lh_agent::place;
use lh_config::ExpandError;
use lh_config::server_values::AgentSocketPath;
use lh_config::table::Setting;
use lh_crypto::SystemRandom;
use lh_driver::UnixListener;
use lh_sys::directories;
use lh_sys::users::User;

use crate::session::resolve::{Refused, resolve};
use crate::user_tokens::user_tokens;

/// Umask of the socket: only the user may connect.
const MASK: u32 = 0o177;

/// Directory for the socket when the configuration names none and no better one works.
const LAST_RESORT: &str = "/tmp";

/// Mode bits of a directory: others may write, the group may write, and only owners may rename and remove
/// entries.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Why there is no agent socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    /// The value of `AgentSocketPath` has a token that is not permitted.
    #[error("AgentSocketPath: {0}")]
    Tokens(#[from] ExpandError),
    /// The configuration disables the socket (`none`).
    #[error("AgentSocketPath is none")]
    Nowhere,
    /// Another user could replace the directory.
    #[error("bad ownership or modes for agent directory {0}")]
    Unsafe(PathBuf),
    /// The directory or the socket cannot be created.
    #[error("{path}: {error}")]
    System { path: PathBuf, error: String },
}

/// A directory that was created for one socket; removed when dropped.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

type Made = (UnixListener, Option<Directory>);

/// Listens where the configuration says. Its default falls back to `/tmp`, because the home directory may be
/// missing or read-only, or its path too long.
///
/// # Errors
/// [`PlaceError`]; nothing is left behind except directories of `user:`.
pub(super) fn listen(setting: &Setting<AgentSocketPath>, user: &User) -> Result<Made, PlaceError> {
    let expand = |directory: &str| user_tokens(user).expand(directory).map(PathBuf::from);
    match &setting.value {
        AgentSocketPath::User(directory) => match in_own_directory(&expand(directory)?, user) {
            Err(_) if !setting.is_set() => in_new_directory(Path::new(LAST_RESORT)),
            result => result,
        },
        AgentSocketPath::Shared(directory) => {
            let directory = expand(directory)?;
            check(&directory, user)?;
            in_new_directory(&directory)
        }
        AgentSocketPath::None => Err(PlaceError::Nowhere),
    }
}

/// Listens in the directory itself. It may be relative to the home directory, and is created where it is
/// missing.
fn in_own_directory(directory: &Path, user: &User) -> Result<Made, PlaceError> {
    let directory = user.home.join(directory);
    // The home directory itself is not created: a user whose home is missing has none.
    let (mut path, below) = match directory.strip_prefix(&user.home) {
        Ok(below) => (user.home.clone(), below),
        Err(_) => (PathBuf::new(), directory.as_path()),
    };
    for name in below {
        path.push(name);
        match directories::private(&path) {
            // Even where the user may create nothing, the directory may exist already.
            Err(_) if path.is_dir() => {}
            result => result.map_err(|error| failed(&path, &error))?,
        }
    }
    check(&directory, user)?;
    let node = rustix::system::uname();
    let name = place::socket_name(node.nodename().to_bytes(), "sshd", &mut SystemRandom);
    Ok((bind(&directory.join(name))?, None))
}

/// Listens in a new private directory below `parent`.
fn in_new_directory(parent: &Path) -> Result<Made, PlaceError> {
    let pid = std::process::id();
    let (directory, _) = place::temporary_names(pid, &mut SystemRandom);
    let path = parent.join(directory);
    directories::make_private(&path).map_err(|error| failed(&path, &error))?;
    let directory = Directory(path);
    // Field order: the listener is dropped first, which removes the socket from the directory.
    Ok((bind(&directory.0.join(format!("agent.sshd.{pid}")))?, Some(directory)))
}

fn bind(path: &Path) -> Result<UnixListener, PlaceError> {
    UnixListener::bind(path, MASK, false).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> PlaceError {
    PlaceError::System { path: path.to_owned(), error: lh_sys::errno_text(error).to_string() }
}

/// Checks that only the user and root control this path: all directories and links on the way belong to them.
/// The home directory and those above it are the administrator's responsibility.
fn check(directory: &Path, user: &User) -> Result<(), PlaceError> {
    let home = user.home.canonicalize().unwrap_or_else(|_| user.home.clone());
    let guarded = |path: &Path, entry: &Metadata, _last: bool| {
        let mode = entry.mode();
        // The group may write the user's own directories: often the user is its only member.
        let others = if entry.uid() == user.uid { OTHERS_WRITE } else { OTHERS_WRITE | GROUP_WRITES };
        let safe = [0, user.uid].contains(&entry.uid())
            && (entry.is_symlink() || mode & others == 0 || mode & STICKY != 0);
        let above = home.starts_with(path) || user.home.starts_with(path);
        if safe || above { Ok(()) } else { Err(PlaceError::Unsafe(path.to_owned())) }
    };
    match resolve(directory, guarded) {
        Ok(_) => Ok(()),
        Err(Refused::Check(error)) => Err(error),
        Err(Refused::System(path, error)) => Err(PlaceError::System { path, error }),
    }
}

#[cfg(test)]
mod tests;
