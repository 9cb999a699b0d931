//! User authentication as two sans-IO machines: RFC 4252 (`ssh-userauth`), RFC 4256 (keyboard-interactive) and the user's part of
//! RFC 4462 (`gssapi-with-mic`).
//!
//! The decision that shaped this crate: the machines *ask*, others *decide*. The [`client`] machine says which
//! methods the server still takes and the caller picks one; the [`server`] machine turns each request into an
//! [`server::Attempt`] and waits for the answer, which may come from another process. No machine holds a key, reads a
//! file or knows a user, so the same code runs in an unprivileged pre-authentication process.

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

/// The only service that can be asked for behind `ssh-userauth`.
pub const CONNECTION_SERVICE: &[u8] = b"ssh-connection";
/// The service this crate speaks.
pub const USERAUTH_SERVICE: &[u8] = b"ssh-userauth";

/// Most prompts in one `SSH_MSG_USERAUTH_INFO_REQUEST`; OpenSSH's clients and servers stop at 100 too.
pub const MAX_PROMPTS: u32 = 100;
/// Longest user name taken from a peer, in bytes. Linux names end at 32; directories allow more.
pub const MAX_USER_LEN: usize = 1024;

/// Why authentication cannot go on. Each of these ends the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A message could not be read.
    #[error("malformed authentication message {number}: {error}")]
    Malformed {
        /// The message number.
        number: u8,
        /// What is wrong with it.
        error: lh_wire::WireError,
    },
    /// A message came that has no place here.
    #[error("unexpected message {number} while {waiting_for}")]
    Unexpected {
        /// The message number.
        number: u8,
        /// What the machine was waiting for.
        waiting_for: &'static str,
    },
    /// The peer asked for a service that is not offered.
    #[error("service {0:?} is not available")]
    Service(String),
    /// A client must not change its mind about who it is (OpenSSH disconnects as well).
    #[error("change of user name or service not allowed: ({0}) -> ({1})")]
    UserChanged(String, String),
    /// More prompts or a longer name than anybody needs.
    #[error("{0} over its limit")]
    TooMuch(&'static str),
    /// Our own caller fed the next message before it answered the last.
    #[error("the previous request has not been answered")]
    Busy,
}

impl AuthError {
    /// The `SSH_DISCONNECT_*` reason to send.
    pub const fn disconnect_reason(&self) -> u32 {
        match self {
            Self::Service(_) => lh_wire::msg::disconnect::SERVICE_NOT_AVAILABLE,
            _ => lh_wire::msg::disconnect::PROTOCOL_ERROR,
        }
    }
}

/// Decodes `payload` as `M`, keeping the message number for the error.
fn decode<'a, M: lh_wire::Message<'a>>(payload: &'a [u8]) -> Result<M, AuthError> {
    M::decode(payload).map_err(|error| AuthError::Malformed { number: M::NUMBER, error })
}
