//! The protocol of authentication agents (RFC 9987, OpenSSH's PROTOCOL.agent): messages in, messages out, no sockets.
//!
//! [`Request`] is what a client asks and [`Reply`] what an agent answers; each reads and writes the body of one message.
//! [`frame()`] puts the length in front, [`Frames`] takes it off again. What is read borrows from the message,
//! because messages hold private keys and passphrases, and every copy of those is one more to wipe.
//!
//! Nothing here decides whether a request is granted; that is the agent's business.

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
pub use request::{Extension, Request, SessionBind, SignFlags, algorithm_for, flags_for};

use lh_crypto::KeyFileError;
use lh_wire::WireError;

/// Longest message either side takes, bytes: OpenSSH's limit.
pub const MAX_MESSAGE: usize = 256 * 1024;
/// Most identities in one answer: OpenSSH's limit.
pub const MAX_IDENTITIES: usize = 2048;
/// Most destination constraints of one key, and most certificates that come with a token: OpenSSH's limit.
pub const MAX_CONSTRAINTS: usize = 1024;

/// Names of extensions.
pub mod names {
    /// Binds a connection to an SSH session (OpenSSH's PROTOCOL.agent section 1).
    pub const SESSION_BIND: &str = "session-bind@openssh.com";
    /// Asks for the names of extensions (RFC 9987 section 3.8.1).
    pub const QUERY: &str = "query";
    /// Constraint: to which hosts a key may be used (PROTOCOL.agent section 2).
    pub const RESTRICT_DESTINATION: &str = "restrict-destination-v00@openssh.com";
    /// Constraint: certificates for the keys of a token (PROTOCOL.agent section 3).
    pub const ASSOCIATED_CERTS: &str = "associated-certs-v00@openssh.com";
    /// Constraint: the middleware of a security key.
    pub const SK_PROVIDER: &str = "sk-provider@openssh.com";
    /// Channel request and channel type of agent forwarding before RFC 9987.
    pub const AUTH_AGENT_REQ: &str = "auth-agent-req@openssh.com";
    /// Channel type of agent forwarding before RFC 9987.
    pub const AUTH_AGENT: &str = "auth-agent@openssh.com";
    /// The channel request as RFC 9987 registers it.
    pub const AGENT_REQ: &str = "agent-req";
    /// The channel type as RFC 9987 registers it.
    pub const AGENT_CONNECT: &str = "agent-connect";
    /// The EXT_INFO extension that says that the registered names are understood; its value is "0".
    pub const AGENT_FORWARD: &str = "agent-forward";
}

/// A message that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Its bytes are not what the protocol says.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// Its length is zero or over [`MAX_MESSAGE`].
    #[error("message length {0} out of range")]
    Length(u32),
    /// A list in it is longer than any real one.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// The key in it is no key, or of a kind that is not known.
    #[error("{0}")]
    Key(#[from] KeyFileError),
    /// The certificate is not one for the key beside it.
    #[error("certificate does not match the key")]
    CertificateMismatch,
    /// A constraint that is not known, so that the key would be less restricted than it was meant to be.
    #[error("unsupported constraint {0}")]
    UnknownConstraint(String),
    /// A constraint that stands there twice or where it has no meaning.
    #[error("constraint {0} is not valid here")]
    MisplacedConstraint(&'static str),
    /// A destination that says nothing, or contradicts itself.
    #[error("inconsistent destination constraint")]
    BadDestination,
}
