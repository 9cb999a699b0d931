//! What users have beyond single connections.

use super::waiting::Owner;
use crate::quotas::Quotas;
use crate::tickets::Tickets;
use crate::user_connections::UserConnections;

#[derive(Default)]
pub(super) struct Users {
    /// Tickets with which a client adds connections to its session.
    pub(super) tickets: Tickets,
    /// Authenticated connections of each user, where `PerUserMaxConnections` is set.
    pub(super) connections: UserConnections<Owner>,
    /// Bytes that each user has transferred, where `PerUserTransferQuota` is set.
    pub(super) quotas: Quotas<Owner>,
}

impl Users {
    /// Forgets a session that has ended.
    pub(super) fn end(&mut self, owner: &Owner) {
        self.connections.end(owner);
        self.quotas.end(owner);
    }
}
