//! State of a connection that can continue over another link (`resume@longhaul`).

use std::time::Instant;

use lh_resume::message::Session;
use lh_resume::{Pace, Receipts};

use crate::link::LinkError;

/// Reason why a link counts as broken.
#[derive(Debug)]
pub(crate) enum Break {
    /// The socket or the transport failed.
    Link(LinkError),
    /// The peer did not answer keepalives.
    Silence,
}

/// State of the extension on one connection.
#[derive(Debug)]
pub(crate) struct Resumption {
    pub(crate) receipts: Receipts,
    /// The server's consent; a client without it gives up at the first break.
    pub(crate) session: Option<Session>,
    /// The break of the last link, until another link replaces it.
    pub(crate) broken: Option<Break>,
    /// The session must not wait any longer.
    pub(crate) given_up: bool,
    /// The peer has sent a message of the session over the current link.
    pub(crate) has_received: bool,
    /// Sends no acknowledgements by time: they would reveal when data arrives.
    pub(crate) covered: bool,
}

impl Resumption {
    pub(crate) fn new(session: Option<Session>) -> Self {
        Self {
            receipts: Receipts::new(Pace::default()),
            session,
            broken: None,
            given_up: false,
            has_received: false,
            covered: false,
        }
    }

    /// Returns the count to acknowledge now. `riding`: other output is being sent anyway.
    pub(crate) fn due(&self, riding: bool, now: Instant) -> Option<u64> {
        if self.covered { self.receipts.due_by_bytes() } else { self.receipts.due(riding, now) }
    }

    /// Returns the time at which an acknowledgement is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.covered || self.broken.is_some() { None } else { self.receipts.deadline() }
    }
}
