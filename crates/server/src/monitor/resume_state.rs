//! The state of a session that may go on over another connection, and of a connection that takes one over.

use crate::resuming::{Claimant, SessionTerms};

/// The monitor's side of `resume@longhaul`.
#[derive(Default)]
pub(super) struct Resuming {
    /// What this session is, once its user has logged in, where it may outlive its connection.
    pub(super) terms: Option<SessionTerms>,
    /// The session that this connection is about to take over.
    pub(super) claimant: Option<Claimant>,
    /// The last attempt failed and is not the client's fault.
    pub(super) uncharged: bool,
}
