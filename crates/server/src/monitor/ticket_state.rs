//! What a session has with its listener: its tickets, and that it is counted.

use std::os::unix::net::UnixStream;

use crate::quotas::Moved;
use crate::tickets::Record;
use crate::user_connections::UserConnection;

/// The monitor's side of it.
#[derive(Default)]
pub(super) struct Joining {
    /// The listener, which keeps them.
    pub(super) listener: Option<UnixStream>,
    /// What tickets of this session are worth, once a user has logged in who may have some.
    pub(super) worth: Option<Record>,
    pub(super) issued: u32,
    /// The listener counts this connection.
    pub(super) counted: Option<UserConnection>,
    /// The quota of the user, and how many bytes the listener has been told of.
    pub(super) quota: Option<(Moved, u64)>,
}
