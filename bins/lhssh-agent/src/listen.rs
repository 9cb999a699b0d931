//! The agent's socket: in `~/.ssh/agent`, in the directory of `-A`, below `$TMPDIR` (`-T`, or no usable
//! home), at the path of `-a`, or passed by the service manager.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lh_agent::place;
use lh_crypto::SystemRandom;
use lh_sys::directories;
use lh_sys::service::Service;
use rustix::fs::Mode;

use crate::error::SocketError;
use crate::options::{Options, SocketDirectory};

/// Age below which a socket that refuses connections may still be in creation.
const YOUNG: Duration = Duration::from_secs(60);

/// The listening socket and its files.
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Directory that was created for this socket alone.
    directory: Option<PathBuf>,
    /// This process is the agent and removes the files on exit.
    ours: bool,
}

impl Socket {
    /// # Errors
    /// The directory or the socket cannot be made.
    pub(crate) fn open(options: &Options) -> Result<Self, SocketError> {
        if let Some(path) = &options.bind {
            let path = std::path::absolute(path)?;
            return Self::bind(path, None);
        }
        let directory = match &options.directory {
            // An account of a service may have no home, or a read-only one, and a home's path may be longer
            // than the address of a socket.
            SocketDirectory::Default => {
                return Self::open_in_home(options.clean).or_else(|_| Self::open_below(&temporary_base()));
            }
            SocketDirectory::User(directory) => directory,
            SocketDirectory::Shared(base) => return Self::open_below(base),
            SocketDirectory::Temporary => return Self::open_below(&temporary_base()),
        };
        Self::open_in(directory, options.clean)
    }

    /// Opens a socket in `~/.ssh/agent`. A home that does not exist is not made.
    fn open_in_home(clean: bool) -> Result<Self, SocketError> {
        let home = home()?;
        fs::metadata(&home).map_err(|source| SocketError::Directory { path: home.clone(), source })?;
        Self::open_in(&below_home(&home), clean)
    }

    /// Opens a socket in the user's own `directory`, which is made if it is not there.
    fn open_in(directory: &Path, clean: bool) -> Result<Self, SocketError> {
        directories::private_with_parents(directory)
            .map_err(|source| SocketError::Directory { path: directory.to_path_buf(), source })?;
        if clean {
            remove_stale(directory, false);
        }
        let node = rustix::system::uname();
        let name = place::socket_name(node.nodename().to_bytes(), "agent", &mut SystemRandom);
        Self::bind(directory.join(name), None)
    }

    /// Opens a socket in a new private directory below `base`.
    fn open_below(base: &Path) -> Result<Self, SocketError> {
        let (directory, name) = place::temporary_names(std::process::id(), &mut SystemRandom);
        let directory = base.join(directory);
        directories::make_private(&directory).map_err(SocketError::PrivateDirectory)?;
        Self::bind(directory.join(name), Some(directory))
    }

    /// Takes over the socket that the service manager listens on, if it has passed one. The manager owns its
    /// file.
    ///
    /// # Errors
    /// The descriptor is no listening Unix socket, or not the only one.
    pub(crate) fn passed(service: &mut Service) -> Result<Option<Self>, SocketError> {
        let mut sockets = service.take_sockets();
        let Some(passed) = sockets.pop() else { return Ok(None) };
        if !sockets.is_empty() {
            return Err(SocketError::SeveralPassed(sockets.len() + 1));
        }
        if !lh_sys::socket::is_unix_listener(&passed.socket) {
            return Err(SocketError::NoSocketPassed);
        }
        let listener = UnixListener::from(passed.socket);
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or(SocketError::NoSocketPassed)?.to_path_buf();
        listener.set_nonblocking(true)?;
        Ok(Some(Self { listener, path, directory: None, ours: false }))
    }

    fn bind(path: PathBuf, directory: Option<PathBuf>) -> Result<Self, SocketError> {
        // Created with its final permissions, so that other users can never connect.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(&path);
        rustix::process::umask(before);
        let listener = match listener {
            Ok(listener) => listener,
            Err(source) => {
                if let Some(directory) = directory {
                    let _ = fs::remove_dir(directory);
                }
                return Err(SocketError::Listen { path, source });
            }
        };
        let socket = Self { listener, path, directory, ours: true };
        socket.listener.set_nonblocking(true)?;
        Ok(socket)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Leaves the files to the other process, which is the agent.
    pub(crate) fn leave_to_the_copy(mut self) {
        self.ours = false;
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(&self.path);
            if let Some(directory) = &self.directory {
                let _ = fs::remove_dir(directory);
            }
        }
    }
}

/// `~/.ssh/agent`.
///
/// # Errors
/// The user's home directory is unknown.
pub(crate) fn sockets_directory() -> Result<PathBuf, SocketError> {
    Ok(below_home(&home()?))
}

fn home() -> Result<PathBuf, SocketError> {
    lh_sys::users::home().ok_or(SocketError::NoHome)
}

fn below_home(home: &Path) -> PathBuf {
    home.join(".ssh/agent")
}

/// `$TMPDIR` if it is a directory, else `/tmp`.
fn temporary_base() -> PathBuf {
    let given = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|base| base.is_dir());
    given.unwrap_or_else(|| "/tmp".into())
}

/// Prefix of this machine's socket names.
fn host_prefix() -> String {
    place::host_prefix(rustix::system::uname().nodename().to_bytes())
}

/// Removes stale sockets of this user: those of this machine, or of all machines.
pub(crate) fn remove_stale(directory: &Path, of_all_hosts: bool) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let ours = host_prefix();
    let me = rustix::process::getuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with(if of_all_hosts { "s." } else { &ours }) {
            continue;
        }
        let Ok(about) = entry.metadata() else { continue };
        let age = about.modified().ok().and_then(|made| SystemTime::now().duration_since(made).ok());
        if !about.file_type().is_socket() || about.uid() != me || age.is_none_or(|age| age < YOUNG) {
            continue;
        }
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if UnixStream::connect(entry.path()).is_err_and(|error| gone(&error)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_manager_no_socket_is_passed() {
        assert!(Socket::passed(&mut Service::default()).expect("fine").is_none());
    }

    #[test]
    fn only_stale_sockets_are_removed() {
        let directory = tempfile::tempdir().expect("directory");
        let path = |name: &str| directory.path().join(name);
        let old = |path: &Path| {
            let file = fs::File::open(path.parent().expect("directory")).expect("directory");
            let hour = SystemTime::now() - Duration::from_secs(3600);
            let time = hour.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
            let stamp = rustix::fs::Timespec { tv_sec: time as i64, tv_nsec: 0 };
            let times = rustix::fs::Timestamps { last_access: stamp, last_modification: stamp };
            let name = path.file_name().expect("name");
            rustix::fs::utimensat(&file, name, &times, rustix::fs::AtFlags::empty()).expect("touched");
        };
        let mark = host_prefix();
        let (dead, alive, young, foreign, file) = (
            path(&format!("{mark}agent.dead")),
            path(&format!("{mark}agent.alive")),
            path(&format!("{mark}agent.young")),
            path("s.elsewhere.agent.dead"),
            path(&format!("{mark}file")),
        );
        let _listener = UnixListener::bind(&alive).expect("socket");
        for each in [&dead, &young, &foreign] {
            drop(UnixListener::bind(each).expect("socket"));
        }
        fs::write(&file, "x").expect("file");
        for each in [&dead, &alive, &foreign, &file] {
            old(each);
        }
        let left = || [&dead, &alive, &young, &foreign, &file].map(|path| path.exists());
        remove_stale(directory.path(), false);
        assert_eq!(left(), [false, true, true, true, true]);
        remove_stale(directory.path(), true);
        assert_eq!(left(), [false, true, true, false, true]);
    }
}
