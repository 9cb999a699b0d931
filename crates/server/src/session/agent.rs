//! Agent forwarding, the server's side: a socket at which the user's programs find the client's agent.
//!
//! There is one for the whole connection, however many of its sessions ask, in `~/.ssh/agent` as with OpenSSH since 10.1: home
//! directories are private, while all users may list `/tmp`. Where the home directory cannot be written to, a
//! private directory below
//! `/tmp` has to do. The socket goes with the connection.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lh_agent::{names, place};
use lh_crypto::SystemRandom;
use lh_driver::{ChannelOptions, ControlCx, FdPump, Listening, LocalFd, UnixListener};
use lh_sys::directories;

use super::shared::Shared;
use crate::log::{debug, error, verbose};

/// Only the user may connect.
const MASK: u32 = 0o177;

/// True for the channel requests that ask for it: OpenSSH's, and the one RFC 9987 registers.
pub(super) fn is_request(name: &str) -> bool {
    matches!(name, names::AUTH_AGENT_REQ | names::AGENT_REQ)
}

/// Opens the socket. False when the login may not have it, has it already, or it cannot be made.
pub(super) fn start(shared: &Rc<Shared>, request: &str, cx: &mut ControlCx<'_>) -> bool {
    let settings = &shared.settings;
    let allowed = !shared.restricted()
        && settings.allow_agent_forwarding.value
        && !settings.disable_forwarding.value
        && shared.options.agent_forwarding;
    if !allowed {
        debug!(shared.log, "agent forwarding is not allowed");
        return false;
    }
    if shared.programs.agent.borrow().is_some() {
        debug!(shared.log, "agent forwarding is there already");
        return false;
    }
    let (listener, directory) = match listen(&shared.user.home) {
        Ok(made) => made,
        Err(problem) => {
            error!(shared.requests_log, "agent forwarding: {problem}");
            return false;
        }
    };
    let path = listener.path().to_path_buf();
    verbose!(shared.requests_log, "agent forwarding listens on {}", path.display());
    // The channels are named as the request was.
    let kind = if request == names::AGENT_REQ { names::AGENT_CONNECT } else { names::AUTH_AGENT };
    let owner = Rc::clone(shared);
    let accept = move |accepted: lh_driver::Accepted, cx: &mut ControlCx<'_>| {
        // Lives as long as the listener.
        let _ = &directory;
        let opened = accepted.and_then(|(socket, _)| LocalFd::owned(socket)).and_then(|socket| {
            let pump = Box::new(FdPump::socket(socket));
            cx.open(kind, b"", &ChannelOptions::default(), pump).map_err(io::Error::other)
        });
        if let Err(problem) = opened {
            error!(owner.requests_log, "agent forwarding: {problem}");
        }
    };
    cx.add_source(Box::new(Listening::unix(listener, accept)));
    *shared.programs.agent.borrow_mut() = Some(path);
    true
}

/// A directory that was made for one socket.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn listen(home: &Path) -> io::Result<(UnixListener, Option<Directory>)> {
    let directory = home.join(".ssh/agent");
    for each in [&home.join(".ssh"), &directory] {
        if directories::private(each).is_err() {
            return in_temporary_directory();
        }
    }
    let node = rustix::system::uname();
    let name = place::socket_name(node.nodename().to_bytes(), "sshd", &mut SystemRandom);
    match UnixListener::bind(&directory.join(name), MASK, false) {
        Ok(listener) => Ok((listener, None)),
        Err(_) => in_temporary_directory(),
    }
}

fn in_temporary_directory() -> io::Result<(UnixListener, Option<Directory>)> {
    let (directory, name) = place::temporary_names(std::process::id(), &mut SystemRandom);
    let path = Path::new("/tmp").join(directory);
    directories::make_private(&path)?;
    let directory = Directory(path);
    // The listener is dropped first, and with it the file that keeps the directory.
    Ok((UnixListener::bind(&directory.0.join(name), MASK, false)?, Some(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_socket_is_the_user_s_alone_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (listener, directory) = listen(home.path()).unwrap();
        let path = listener.path().to_path_buf();
        assert!(path.starts_with(home.path().join(".ssh/agent")) && directory.is_none());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn without_a_home_a_private_directory_below_tmp_does() {
        let (listener, directory) = listen(Path::new("/nonexistent")).unwrap();
        let path = listener.path().to_path_buf();
        let directory_path = directory.as_ref().unwrap().0.clone();
        assert!(path.starts_with(&directory_path) && directory_path.starts_with("/tmp"));
        drop(listener);
        drop(directory);
        assert!(!directory_path.exists());
    }
}
