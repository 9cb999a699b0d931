//! Errors of the agent: of its command line, of its start and its socket, and those that it logs while it
//! serves.

use std::io;
use std::path::PathBuf;

use lh_cli::helper::MemoryUnprotected;
use lh_config::ExpandError;
use lh_crypto::VerifyError;
use lh_security_key::SkError;
use lh_security_key::pkcs11::TokenError;
use lh_sys::errno_text;
use lh_wire::WireError;

/// A command line that the agent does not accept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OptionsError {
    #[error("Invalid hash algorithm \"{0}\"")]
    Hash(String),
    /// With the usage.
    #[error("Invalid lifetime\n{0}")]
    Lifetime(String),
    #[error("Unknown -O option")]
    UnknownOption,
    #[error("websafe-allow already set")]
    WebsafeTwice,
    #[error("-P option already specified")]
    AllowedTwice,
    /// Options that exclude each other. The usage.
    #[error("{0}")]
    Usage(String),
    /// The user database does not know the user.
    #[error("No user found with this uid")]
    NoUser,
    #[error(transparent)]
    Expand(#[from] ExpandError),
    #[error("shared agent socket paths must be absolute")]
    RelativeShared,
    #[error("unsupported agent path specification {0}")]
    Directory(String),
}

impl OptionsError {
    /// Returns the exit status, which is OpenSSH's.
    pub(crate) const fn status(&self) -> u8 {
        match self {
            Self::Lifetime(_) | Self::Usage(_) => 1,
            _ => 255,
        }
    }
}

/// A failure before the agent serves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Memory(#[from] MemoryUnprotected),
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A system call of the process's own life: its name, and the error.
    #[error("{call}: {}", errno_text(.source))]
    System { call: &'static str, source: io::Error },
    /// The system does not give what the loop needs.
    #[error("{}", errno_text(.0))]
    Serve(io::Error),
    #[error("{}: {}", .program.display(), errno_text(.source))]
    Command { program: PathBuf, source: io::Error },
}

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
    #[error("unix_listener: cannot bind to path {}: {}", .path.display(), errno_text(.source))]
    Listen { path: PathBuf, source: io::Error },
    /// The service manager is set up for another program.
    #[error("the service manager passed {0} sockets, not one")]
    SeveralPassed(usize),
    /// The service manager is set up for another program.
    #[error("the service manager passed a descriptor that is no listening Unix socket")]
    NoSocketPassed,
}

/// A library that a client names and the agent does not load.
#[derive(Debug, thiserror::Error)]
#[error("{task} \"{named}\": {why}")]
pub(crate) struct LibraryRefused {
    /// The task that fails.
    pub(crate) task: &'static str,
    /// The path, as the client gives it.
    pub(crate) named: String,
    pub(crate) why: WhyRefused,
}

/// The rule that a library breaks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyRefused {
    #[error("remote addition of providers is disabled")]
    Remote,
    #[error("{}", errno_text(.0))]
    Path(io::Error),
    #[error("path is not UTF-8")]
    NotText,
    #[error("provider not allowed")]
    NotAllowed,
}

/// Work of a security key or a token that fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("{kind} {fingerprint}: {source}")]
    SecurityKey { kind: String, fingerprint: String, source: SkError },
    #[error("PKCS#11 key of {library}: {source}")]
    Token { library: String, source: TokenError },
    #[error("failed PKCS#11 add of \"{library}\": {source}")]
    Open { library: String, source: TokenError },
    /// The agent was locked while the library was loaded.
    #[error("the agent is locked")]
    Locked,
    #[error("{library}: too many keys")]
    Full { library: String },
}

/// A `session-bind` request that is not recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("session identifier too long")]
    LongSession,
    #[error("host key: {0}")]
    HostKey(WireError),
    #[error("signature: {0}")]
    SignatureForm(WireError),
    #[error("signature: {0}")]
    Signature(#[from] VerifyError),
    /// Nothing may follow a binding for a login.
    #[error("connection is already bound for authentication")]
    BoundForLogin,
    #[error("session recorded with another host key")]
    OtherHostKey,
    #[error("too many sessions recorded")]
    TooMany,
}

/// A key with destinations that a client may not see or use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotPermitted {
    /// The path is unknown: a host may have tried to hide itself.
    #[error("an earlier binding failed")]
    BindingFailed,
    #[error("the connection is bound for forwarding")]
    BoundForForwarding,
    #[error("forwarded behind a connection bound for authentication")]
    BehindLogin,
    #[error("not permitted on this path")]
    OtherPath,
    #[error("permitted at the host but not beyond")]
    NotBeyond,
    #[error("the connection is not bound to a session")]
    NotBound,
    #[error("this is not a login request")]
    NoLogin,
    #[error("the login request is for another session")]
    OtherSession,
    #[error("the login request names another host key")]
    OtherHost,
    /// Beyond the first hop, a host on the path could relay a request that is meant for another host.
    #[error("the login request does not name its host key")]
    HostNotNamed,
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
            (
                SocketError::Listen { path, source: denied() },
                "unix_listener: cannot bind to path /x: Permission denied",
            ),
            (SocketError::PrivateDirectory(denied()), "mkdtemp: private socket dir: Permission denied"),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }
}
