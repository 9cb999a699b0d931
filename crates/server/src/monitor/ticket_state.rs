//! The state of a session's tickets.

use std::os::unix::net::UnixStream;

use crate::tickets::Record;

/// The monitor's side of tickets.
#[derive(Default)]
pub(super) struct Joining {
    /// The listener, which keeps them.
    pub(super) listener: Option<UnixStream>,
    /// What tickets of this session are worth, once a user has logged in who may have some.
    pub(super) worth: Option<Record>,
    pub(super) issued: u32,
}
