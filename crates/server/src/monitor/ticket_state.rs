//! The monitor's dealings with the listener: tickets, counted connections and quotas.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::quotas::Moved;
use crate::tickets::Record;
use crate::user_connections::UserConnection;

/// The listener, and what it knows about this session.
#[derive(Default)]
pub(super) struct Joining {
    /// The listener, which keeps tickets and counts; `None` with `-i`.
    pub(super) listener: Option<UnixStream>,
    /// The record for tickets of this session, once a user has logged in who may have tickets.
    pub(super) worth: Option<Record>,
    pub(super) issued: u32,
    /// The connection that the listener counts for its user.
    pub(super) counted: Option<UserConnection>,
    /// The user's quota, and the number of bytes reported to the listener.
    pub(super) quota: Option<(Moved, u64)>,
}

impl Joining {
    /// Sends the listener a question that it answers with yes or no.
    ///
    /// # Errors
    /// There is no listener, or it does not answer.
    pub(super) fn ask(&mut self, question: &[u8]) -> io::Result<bool> {
        let listener = self.listener.as_mut().ok_or_else(|| io::Error::other("there is no listener (-i)"))?;
        listener.write_all(question)?;
        let mut answer = [0];
        listener.read_exact(&mut answer)?;
        Ok(answer == [1])
    }
}
