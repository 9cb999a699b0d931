//! Errors of forwards that do not start.

use std::io;

use lh_sys::errno_text;

/// Why a forward does not start. `Display` has OpenSSH's words.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The name of the address to listen on has no address.
    #[error("{name}: {}", errno_text(.source))]
    NoAddress {
        /// The name to listen on.
        name: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// This machine permits no listener on the port, at any of its addresses.
    #[error("channel_setup_fwd_listener_tcpip: cannot listen to port: {0}")]
    LocalPort(u16),
    /// This machine permits no socket at the path.
    #[error("unix_listener: cannot bind to path {path}: {}", errno_text(.source))]
    LocalPath {
        /// The path of the socket.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The server refuses to listen on the port.
    #[error("remote port forwarding failed for listen port {0}")]
    RemotePort(u16),
    /// The server refuses to listen on the path.
    #[error("remote port forwarding failed for listen path {0}")]
    RemotePath(String),
    /// The server's reply lacks the port that it should have chosen.
    #[error("remote port forwarding failed: the server did not say which port")]
    PortNotNamed,
    /// The user has cancelled the forward before the server's reply.
    #[error("cancelled")]
    Cancelled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_openssh() {
        let missing = io::Error::from_raw_os_error(2);
        for (error, words) in [
            (ForwardError::LocalPort(80), "channel_setup_fwd_listener_tcpip: cannot listen to port: 80"),
            (
                ForwardError::LocalPath { path: "/no/x".to_owned(), source: missing },
                "unix_listener: cannot bind to path /no/x: No such file or directory",
            ),
            (ForwardError::RemotePort(80), "remote port forwarding failed for listen port 80"),
            (ForwardError::RemotePath("/x".to_owned()), "remote port forwarding failed for listen path /x"),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }
}
