//! Errors of the socket.

use std::io;
use std::path::PathBuf;

use lh_sys::errno_text;

/// A socket that cannot be made or taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("{}", errno_text(.0))]
    Io(#[from] io::Error),
    #[error("Couldn't determine home directory")]
    NoHome,
    #[error("mkdir {}: {}", .path.display(), errno_text(.source))]
    Directory { path: PathBuf, source: io::Error },
    #[error("mkdtemp: private socket dir: {}", errno_text(.0))]
    PrivateDirectory(io::Error),
    #[error("cannot listen on {}: {}", .path.display(), errno_text(.source))]
    Listen { path: PathBuf, source: io::Error },
    /// The service manager is set up for another program.
    #[error("the service manager passed {0} sockets, not one")]
    SeveralPassed(usize),
    /// The service manager is set up for another program.
    #[error("the service manager passed a descriptor that is no listening Unix socket")]
    NoSocketPassed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_what_failed_and_why() {
        let denied = || io::Error::from_raw_os_error(13);
        let path = PathBuf::from("/x");
        for (error, words) in [
            (SocketError::Directory { path: path.clone(), source: denied() }, "mkdir /x: Permission denied"),
            (SocketError::Listen { path, source: denied() }, "cannot listen on /x: Permission denied"),
            (SocketError::PrivateDirectory(denied()), "mkdtemp: private socket dir: Permission denied"),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }
}
