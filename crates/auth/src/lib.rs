//! User authentication as two sans-IO state machines: RFC 4252 (`ssh-userauth`), RFC 4256
//! (keyboard-interactive) and the user authentication of RFC 4462 (`gssapi-with-mic`).
//!
//! Main design decision: the state machines *ask*, the caller *decides*. The [`client`] reports the methods
//! that the server still accepts, and the caller chooses one. The [`server`] turns each request into a
//! [`server::Attempt`] and waits for the answer, which may come from another process. Neither holds a key,
//! reads a file or knows the users, so the same code runs in the unprivileged pre-auth process.

pub mod client;
mod first_flight;
pub mod gss;
pub mod keysign;
mod request;
pub mod server;
mod ticket;

pub use first_flight::{FIRST_FLIGHT, FirstFlight};
pub use request::{HOSTBOUND_METHOD, HostRequest, KeyRequest, signed_data};
pub use ticket::{TICKET, TicketRequest};

/// The only service that can be requested through `ssh-userauth`.
pub const CONNECTION_SERVICE: &[u8] = b"ssh-connection";
/// The service of this crate.
pub const USERAUTH_SERVICE: &[u8] = b"ssh-userauth";

/// Limit of prompts in one `SSH_MSG_USERAUTH_INFO_REQUEST`; OpenSSH's clients and servers also stop at 100.
pub const MAX_PROMPTS: u32 = 100;
/// Longest user name accepted from a peer, bytes. Linux names have up to 32; directory services allow more.
pub const MAX_USER_LEN: usize = 1024;

/// Error that ends authentication and the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A message could not be decoded.
    #[error("malformed authentication message {number}: {error}")]
    Malformed {
        /// The message number.
        number: u8,
        /// The decoding error.
        error: lh_wire::WireError,
    },
    /// A message arrived in a state that does not allow it.
    #[error("unexpected message {number} while {waiting_for}")]
    Unexpected {
        /// The message number.
        number: u8,
        /// What the state machine was waiting for.
        waiting_for: &'static str,
    },
    /// The peer requested a service that is not available.
    #[error("service {0:?} is not available")]
    Service(String),
    /// The client changed the user name or service, which is not allowed (OpenSSH disconnects as well).
    #[error("change of user name or service not allowed: ({0}) -> ({1})")]
    UserChanged(String, String),
    /// More prompts, or a longer name, than any peer needs.
    #[error("{0} exceeds its limit")]
    TooMuch(&'static str),
    /// The caller passed a message before it answered the previous one.
    #[error("the previous request has not been answered")]
    Busy,
}

impl AuthError {
    /// Returns the `SSH_DISCONNECT_*` reason to send.
    pub const fn disconnect_reason(&self) -> u32 {
        match self {
            Self::Service(_) => lh_wire::msg::disconnect::SERVICE_NOT_AVAILABLE,
            _ => lh_wire::msg::disconnect::PROTOCOL_ERROR,
        }
    }
}

/// Decodes `payload` as `M` and adds the message number to an error.
fn decode<'a, M: lh_wire::Message<'a>>(payload: &'a [u8]) -> Result<M, AuthError> {
    M::decode(payload).map_err(|error| AuthError::Malformed { number: M::NUMBER, error })
}
