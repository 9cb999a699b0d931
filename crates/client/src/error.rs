//! Errors of a failed connection.

/// Error of a failed [`connect`](crate::connect()). `Display` is the line (or lines) that OpenSSH would
/// print, without the final newline. Every variant means exit status 255.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host could not be reached, or its name has no address.
    #[error("{0}")]
    Unreachable(String),
    /// The host was reached and refused the connection: nothing listens on the port.
    #[error("{0}")]
    Refused(String),
    /// The connection ended, or the peer broke the protocol, before the session ran.
    #[error("{0}")]
    Lost(String),
    /// The user or the policy refused the host key. The warnings before this line were already shown.
    #[error("{0}")]
    HostKey(String),
    /// No method of authentication was accepted.
    #[error("{0}")]
    Denied(String),
    /// The configuration is invalid or requires something unsupported.
    #[error("{0}")]
    Config(String),
    /// A local operation failed.
    #[error("{0}")]
    Local(String),
}
