//! The monitor's dealings with the listener: tickets, counted connections and quotas.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::quotas::Moved;
use crate::tickets::Record;
use crate::user_connections::{Member, UserConnection};

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
    /// The session of this connection, where its connections are counted.
    pub(super) member: Option<Member>,
    /// The user's quota, and the number of bytes reported to the listener.
    pub(super) quota: Option<(Moved, u64)>,
}

impl Joining {
    /// Sends the listener a question that it answers with yes or no.
    ///
    /// # Errors
    /// There is no listener, or it does not answer.
    pub(super) fn ask(&mut self, question: &[u8]) -> io::Result<bool> {
        let listener = self
            .listener
            .as_mut()
            .ok_or_else(|| io::Error::other("there is no listener, or it has not answered"))?;
        listener.write_all(question)?;
        let mut answer = [0];
        if let Err(problem) = listener.read_exact(&mut answer) {
            self.give_up();
            return Err(problem);
        }
        Ok(answer == [1])
    }

    /// Asks the listener nothing more: an answer that comes late must not be taken for that to another
    /// question.
    pub(super) fn give_up(&mut self) {
        self.listener = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_late_answer_is_none_to_the_next_question() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut joining = Joining { listener: Some(ours), ..Joining::default() };
        theirs.write_all(&[1]).unwrap();
        assert!(joining.ask(b"first").unwrap());
        assert!(joining.ask(b"second").is_err());
        // It may be gone, too.
        let _ = theirs.write_all(&[1]);
        assert!(joining.ask(b"third").is_err());
    }
}
