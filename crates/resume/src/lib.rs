//! The extension `resume@longhaul`: a session that goes on over a new connection when its connection breaks.
//!
//! This crate has the rules of the extension (docs/protocol.md) without sockets, clocks, files or threads:
//! numbers, bytes and times come in as arguments, decisions go out. Its parts do not know each other:
//!
//! | part | question it answers |
//! |---|---|
//! | [`Ledger`] | which sent messages has the peer not acknowledged? (`lh-transport` stores packets in it) |
//! | [`Receipts`] | how many messages were received, and when is the peer told? |
//! | [`ClientSecret`], [`ServerSecret`] | does the other end of a new connection own the session? |
//! | [`message`] | how do the messages look on the wire? |
//! | [`Waiting`] | which sessions wait at a server, and which one has to go? |
//! | [`Reconnect`], [`Silence`] | when is a link broken, and when does a client connect again? |
//! | [`Rival`] | does a second connection replace one that is stalled? |
//!
//! # Words
//!
//! A *counted message* is one of the connection protocol ([`is_counted`]): each is delivered exactly once, in
//! order, over any number of connections. All other messages belong to one connection and end with it. A
//! *link* is one connection of the session. A *generation* is the number of resumptions that led to a secret.

mod ledger;
pub mod message;
mod receipts;
mod reconnect;
mod rival;
mod secret;
mod waiting;

pub use ledger::{CountError, Ledger};
pub use message::{Handle, PROOF_LEN};
pub use receipts::{Pace, Receipts};
pub use reconnect::{Action, Failure, Reconnect, Silence};
pub use rival::{Choice, Rival, Which};
pub use secret::{ClientSecret, Export, Refused, SECRET_LEN, ServerSecret, Verified};
pub use waiting::{Limits, Waiter, Waiting};

/// Name of the extension in EXT_INFO, of the authentication method and of the exporter's label.
pub const NAME: &str = "resume@longhaul";

/// Version of the extension in this document and program: the first word of its value in EXT_INFO.
pub const VERSION: &str = "1";

/// Returns true for numbers of messages that are delivered exactly once: those of the connection protocol
/// (RFC 4250 section 4.1.2).
pub const fn is_counted(number: u8) -> bool {
    matches!(number, 80..=127)
}
