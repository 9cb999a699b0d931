//! What a session has with its listener: its tickets, and that it is counted.

use std::io::{self, Read as _, Write as _};
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

impl Joining {
    /// Asks the listener what it answers with yes or no.
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
