//! The extension `resume@longhaul`: a session continues over a new connection when its connection breaks.
//!
//! This crate has the rules of the extension (docs/protocol.md) without sockets, clocks, files or threads:
//! numbers, bytes and times are arguments, decisions are results. Its parts are independent:
//!
//! | part | question it answers |
//! |---|---|
//! | [`Unacknowledged`] | which sent messages has the peer not acknowledged? (`lh-transport` stores packets in it) |
//! | [`Receipts`] | how many messages were received, and when is the peer told? |
//! | [`ClientSecret`], [`ServerSecret`] | does the other end of a new connection own the session? |
//! | [`message`] | how do the messages look on the wire? |
//! | [`Waiting`] | which sessions wait at a server, and which one ends when a limit is reached? |
//! | [`Silence`] | when is a link broken? |
//! | [`Comparison`] | is a link that is alive and stalled replaced by a second one? |
//! | [`Reconnect`] | when does a client connect again, and when does it give up? |
//!
//! # Words
//!
//! A *counted message* is one of the connection protocol ([`is_counted`]): each is delivered exactly once, in
//! order, over any number of connections. All other messages belong to one connection and end with it. A
//! *link* is one connection of the session. A *generation* is the number of resumptions that led to a secret.

mod comparison;
pub mod message;
mod receipts;
mod reconnect;
mod secret;
mod silence;
mod unacknowledged;
mod waiting;

pub use comparison::{Advice, Comparison, PROBE_INTERVAL, PROBE_LEN, Probe};
pub use message::{Handle, PROOF_LEN};
pub use receipts::{Pace, Receipts};
pub use reconnect::{Action, AttemptId, Failure, Reconnect};
pub use secret::{ClientSecret, Export, Refused, SECRET_LEN, ServerSecret, Verified};
pub use silence::Silence;
pub use unacknowledged::{CountError, Unacknowledged};
pub use waiting::{Limits, Waiter, Waiting};

/// Name of the extension in EXT_INFO, of the authentication method and of the exporter's label.
pub const NAME: &str = "resume@longhaul";

/// Version of the extension that this program implements: the first word of its value in EXT_INFO.
pub const VERSION: &str = "1";

/// Memory for sent messages that the peer has not acknowledged, bytes: the bandwidth-delay product of a path
/// of 10 Gb/s and 50 ms. The peer's windows limit it further.
pub const BUDGET: usize = 64 << 20;

/// Returns true if the peer offers this version in EXT_INFO: the first word of the extension's `value`.
pub fn is_offered(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').next() == Some(VERSION.as_bytes())
}

/// Returns true for numbers of messages that are delivered exactly once: those of the connection protocol
/// (RFC 4250 section 4.1.2).
pub const fn is_counted(number: u8) -> bool {
    matches!(number, 80..=127)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_offer_begins_with_the_version() {
        for value in ["1", "1,more", "1,"] {
            assert!(super::is_offered(value.as_bytes()), "{value}");
        }
        for value in ["", "2", "11", "2,1", " 1", ",1"] {
            assert!(!super::is_offered(value.as_bytes()), "{value}");
        }
    }
}
