//! The monitor's state for resumption (`resume@longhaul`), of the old session and of the new connection.

use crate::resuming::{Claimant, SessionTerms};

/// The monitor's state for `resume@longhaul`.
#[derive(Default)]
pub(super) struct Resuming {
    /// The terms of this session after the login; `None` where it may not outlive its connection.
    pub(super) terms: Option<SessionTerms>,
    /// The claim on the session that this connection is about to take over.
    pub(super) claimant: Option<Claimant>,
    /// The last attempt failed without the client's fault, so it counts as no failure.
    pub(super) uncharged: bool,
}
