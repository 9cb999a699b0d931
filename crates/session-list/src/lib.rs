//! The sessions of `lhsshd` on this host: how each monitor can be reached, and what it answers.
//!
//! Each monitor listens at an abstract Unix address of its own ([`Id::listen`]). The kernel lists these addresses in
//! `/proc/net/unix`, so nothing has to be kept in a directory: a session can be found for as long as its
//! monitor runs, whether or not its listener does, and is gone with it. Both ends look at the user id of the other
//! one (`SO_PEERCRED`).
//!
//! A conversation is one byte, a [`Request`], and the answer: nothing, where the monitor refuses; a [`Session`] for
//! [`Request::Describe`]; a byte for [`Request::End`]. Then the monitor closes the socket, for [`Request::End`]
//! when the session has ended.

mod client;
mod id;
mod session;

pub use client::{Found, MONITOR_LIMIT, Refused, Sessions, connect, end};
pub use id::{Id, find};
pub use session::{LARGEST, Programs, Session, Wait};

/// What a monitor is asked for: the byte that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The [`Session`]. For its user, the server's user and root.
    Describe,
    /// The session's end. For the same users.
    End,
    /// A listener that has just been started counts this session from now on. For the server's user. Behind the byte
    /// is what listeners of one server are known by: the SHA-256 of a host key.
    Adopt,
}

impl Request {
    /// The byte.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Describe => b'D',
            Self::End => b'E',
            Self::Adopt => b'A',
        }
    }

    /// The reverse of [`byte`](Self::byte).
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
