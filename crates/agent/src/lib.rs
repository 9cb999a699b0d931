//! The protocol of authentication agents (RFC 9987, OpenSSH's PROTOCOL.agent) as a codec without sockets.
//!
//! [`Request`] is a client's message and [`Reply`] the agent's; each decodes and encodes the body of one
//! message. [`frame()`] prepends the length, [`Frames`] removes it. Decoded data borrows from the message:
//! messages contain private keys and passphrases, and every copy of those would have to be wiped.
//!
//! The agent decides whether a request is granted, not this crate.

mod constraint;
mod frame;
mod key;
mod number;
pub mod place;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use constraint::{AssociatedCerts, Constraints, Destination, Hop, HopKey};
pub use frame::{Frames, frame};
pub use key::{AddedKey, SecurityKey};
pub use reply::{IdentityEntry, Reply};
pub use request::{Extension, Request, SessionBind, SignFlags, algorithm_for, flags_for, is_session_bind};

use lh_crypto::KeyFileError;
use lh_wire::WireError;

/// Longest message that either side accepts, bytes: OpenSSH's limit.
pub const MAX_MESSAGE: usize = 256 * 1024;
/// Limit of identities in one answer: OpenSSH's.
pub const MAX_IDENTITIES: usize = 2048;
/// Limit of destination constraints per key, and of certificates that come with a token: OpenSSH's.
pub const MAX_CONSTRAINTS: usize = 1024;

/// Names of extensions.
pub mod names {
    /// Binds a connection to an SSH session (OpenSSH's PROTOCOL.agent section 1).
    pub const SESSION_BIND: &str = "session-bind@openssh.com";
    /// Asks for the names of extensions (RFC 9987 section 3.8.1).
    pub const QUERY: &str = "query";
    /// Constraint: the hosts for which a key may be used (PROTOCOL.agent section 2).
    pub const RESTRICT_DESTINATION: &str = "restrict-destination-v00@openssh.com";
    /// Constraint: certificates for the keys of a token (PROTOCOL.agent section 3).
    pub const ASSOCIATED_CERTS: &str = "associated-certs-v00@openssh.com";
    /// Constraint: the middleware of a security key.
    pub const SK_PROVIDER: &str = "sk-provider@openssh.com";
    /// Channel request of agent forwarding before RFC 9987.
    pub const AUTH_AGENT_REQ: &str = "auth-agent-req@openssh.com";
    /// Channel type of agent forwarding before RFC 9987.
    pub const AUTH_AGENT: &str = "auth-agent@openssh.com";
    /// The channel request registered by RFC 9987.
    pub const AGENT_REQ: &str = "agent-req";
    /// The channel type registered by RFC 9987.
    pub const AGENT_CONNECT: &str = "agent-connect";
    /// The EXT_INFO extension of peers that support the registered names; its value is "0".
    pub const AGENT_FORWARD: &str = "agent-forward";
}

/// Error of an unusable message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The bytes cannot be decoded.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The length is zero or above [`MAX_MESSAGE`].
    #[error("message length {0} out of range")]
    Length(u32),
    /// A list exceeds its limit.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// The key is invalid or of an unsupported type.
    #[error("{0}")]
    Key(#[from] KeyFileError),
    /// The certificate does not match the key.
    #[error("certificate does not match the key")]
    CertificateMismatch,
    /// The constraint is unknown; ignoring it would leave the key less restricted than intended.
    #[error("unsupported constraint {0}")]
    UnknownConstraint(String),
    /// The constraint is duplicate or not valid in this message.
    #[error("constraint {0} is not valid here")]
    MisplacedConstraint(&'static str),
    /// A destination is empty or contradictory.
    #[error("inconsistent destination constraint")]
    BadDestination,
}
