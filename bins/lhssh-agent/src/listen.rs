//! Where the agent listens: `~/.ssh/agent`, a folder below `$TMPDIR` (`-T`), or where `-a` says.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lh_crypto::{Hash, Random as _, SystemRandom};
use rustix::fs::Mode;

use crate::log::reason;
use crate::options::Options;

/// A socket that refuses connections may be one that is just being made.
const YOUNG: Duration = Duration::from_secs(60);
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The listening socket and the files that go with it.
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Was made for this socket alone.
    folder: Option<PathBuf>,
    /// Files are removed by whoever is the agent.
    ours: bool,
}

impl Socket {
    /// # Errors
    /// The line to print.
    pub(crate) fn open(options: &Options) -> Result<Self, String> {
        if let Some(path) = &options.bind {
            let path = std::path::absolute(path).map_err(|error| reason(&error))?;
            return Self::bind(path, None);
        }
        if options.temporary {
            let base =
                std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or_else(|| "/tmp".into());
            let folder = Path::new(&base).join(format!("ssh-{}", letters(12)));
            make_private(&folder)
                .map_err(|error| format!("mkdtemp: private socket dir: {}", reason(&error)))?;
            let pid = rustix::process::getpid().as_raw_nonzero();
            return Self::bind(folder.join(format!("agent.{pid}")), Some(folder));
        }
        let folder = sockets_folder()?;
        for each in [folder.parent(), Some(folder.as_path())].into_iter().flatten() {
            match make_private(each) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(format!("mkdir {}: {}", each.display(), reason(&error)));
                }
                _ => {}
            }
        }
        if options.clean {
            remove_stale(&folder, false);
        }
        Self::bind(folder.join(format!("s.{}.agent.{}", host_mark(), letters(10))), None)
    }

    fn bind(path: PathBuf, folder: Option<PathBuf>) -> Result<Self, String> {
        // From the first moment nobody but the user may connect.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(&path);
        rustix::process::umask(before);
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                if let Some(folder) = folder {
                    let _ = fs::remove_dir(folder);
                }
                return Err(format!("cannot listen on {}: {}", path.display(), reason(&error)));
            }
        };
        let socket = Self { listener, path, folder, ours: true };
        socket.listener.set_nonblocking(true).map_err(|error| reason(&error))?;
        Ok(socket)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The other process is the agent and will clear up.
    pub(crate) fn leave_to_the_copy(mut self) {
        self.ours = false;
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(&self.path);
            if let Some(folder) = &self.folder {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// `~/.ssh/agent`.
///
/// # Errors
/// Nobody knows where the user's home is.
pub(crate) fn sockets_folder() -> Result<PathBuf, String> {
    let home = lh_sys::users::home().ok_or("Couldn't determine home directory")?;
    Ok(home.join(".ssh/agent"))
}

fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Home folders may be shared by many machines; a socket is of use on one of them.
fn host_mark() -> String {
    let name = rustix::system::uname();
    let digest = Hash::Sha256.digest(&[name.nodename().to_bytes()]);
    digest.as_ref().iter().take(10).map(|byte| letter(*byte)).collect()
}

fn letters(count: usize) -> String {
    let mut bytes = vec![0; count];
    SystemRandom.fill(&mut bytes);
    bytes.into_iter().map(letter).collect()
}

fn letter(byte: u8) -> char {
    char::from(LETTERS[usize::from(byte) % LETTERS.len()])
}

/// Removes sockets of ours that nobody listens on any more: those this machine made, or all.
pub(crate) fn remove_stale(folder: &Path, of_all_hosts: bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let ours = format!("s.{}.", host_mark());
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
    fn only_dead_sockets_go() {
        let folder = tempfile::tempdir().expect("folder");
        let path = |name: &str| folder.path().join(name);
        let old = |path: &Path| {
            let file = fs::File::open(path.parent().expect("folder")).expect("folder");
            let hour = SystemTime::now() - Duration::from_secs(3600);
            let time = hour.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
            let stamp = rustix::fs::Timespec { tv_sec: time as i64, tv_nsec: 0 };
            let times = rustix::fs::Timestamps { last_access: stamp, last_modification: stamp };
            let name = path.file_name().expect("name");
            rustix::fs::utimensat(&file, name, &times, rustix::fs::AtFlags::empty()).expect("touched");
        };
        let mark = host_mark();
        let (dead, alive, young, foreign, file) = (
            path(&format!("s.{mark}.agent.dead")),
            path(&format!("s.{mark}.agent.alive")),
            path(&format!("s.{mark}.agent.young")),
            path("s.elsewhere.agent.dead"),
            path(&format!("s.{mark}.file")),
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
        remove_stale(folder.path(), false);
        assert_eq!(left(), [false, true, true, true, true]);
        remove_stale(folder.path(), true);
        assert_eq!(left(), [false, true, true, false, true]);
    }
}
