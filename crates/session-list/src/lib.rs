//! The sessions of `lhsshd` on this host: how to reach their monitors, and the messages to and from them.
//!
//! Each monitor listens at an abstract Unix address of its own ([`Id::listen`]). The kernel lists these
//! addresses in `/proc/net/unix`, so no directory of sessions is needed. A session can be found as long as
//! its monitor runs, whether or not its listener does. Both ends check the user id of the peer
//! (`SO_PEERCRED`).
//!
//! An exchange is one byte, a [`Request`], and an answer: none if the monitor refuses; a [`Session`] for
//! [`Request::Describe`]; a byte for [`Request::End`]. Then the monitor closes the socket; for
//! [`Request::End`] it does so when the session has ended.

mod client;
mod id;
mod session;

pub use client::{Found, MONITOR_LIMIT, Refused, Sessions, connect, end};
pub use id::{Id, find};
pub use session::{LARGEST, Programs, Session, Wait};

/// A request to a monitor, sent as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Describe the session; the answer is a [`Session`]. Permitted to the session's user, the server's user
    /// and root.
    Describe,
    /// End the session. Permitted to the session's user, the server's user and root.
    End,
    /// A newly started listener adopts this session and counts it. Permitted to the server's user. The
    /// SHA-256 of one of the server's host keys follows the byte and identifies the server.
    Adopt,
}

impl Request {
    /// Returns the byte of this request.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Describe => b'D',
            Self::End => b'E',
            Self::Adopt => b'A',
        }
    }

    /// Returns the request of a byte: the reverse of [`byte`](Self::byte).
    pub const fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            b'D' => Some(Self::Describe),
            b'E' => Some(Self::End),
            b'A' => Some(Self::Adopt),
            _ => None,
        }
    }
}

/// The monitor's answer to [`Request::End`]: the session ends.
pub const ENDS: u8 = 1;
