//! Messages that sessions send to the listener after the login: totals of counters (for `PrometheusListen`),
//! tickets to keep, and the state of resumable sessions.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::counters::{Counters, REPORT, REPORT_LENGTH};
use crate::quotas::{MOVED, MOVED_LENGTH, Moved};
use crate::resuming::{CONNECTED, GOES_ON, KEEPS, Notice, WAITS};
use crate::tickets::{Id, KEEP, KEEP_LENGTH, LARGEST};
use crate::user_connections::{MEMBER, MEMBER_LENGTH, Member, USER, USER_LENGTH, UserConnection};

/// Largest number of reads of one session before others have their turn. A user who controls the process of a
/// session can have its monitor report without end.
const MOST_READS: usize = 64;

/// A message of a session besides its totals.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionMessage {
    /// The listener should keep this ticket.
    Ticket(Ticket),
    /// A resumable session has a connection, waits for its client, or is resumed.
    Notice(Notice),
    /// The user and the connection to count, sent by a session that an earlier listener counted.
    User(UserConnection),
    /// The session of this connection, sent by one of several that an earlier listener has let in.
    Member(Member),
    /// Bytes that the session has transferred.
    Moved(Moved),
}

/// The listener's end of one session's report socket.
pub(super) struct Reports {
    control: OwnedFd,
    /// Received bytes of the next, incomplete report.
    inbox: Vec<u8>,
    counted: Counters,
}

/// A ticket's id, and its record of what the ticket permits.
pub(super) type Ticket = (Id, Vec<u8>);

impl Reports {
    /// `first` is a byte that has been read already and belongs to the first report.
    pub(super) fn new(control: OwnedFd, first: Option<u8>) -> Self {
        Self {
            control,
            inbox: first.filter(|byte| [REPORT, KEEP, WAITS, GOES_ON].contains(byte)).into_iter().collect(),
            counted: Counters::default(),
        }
    }

    /// Returns the socket to poll.
    pub(super) const fn control(&self) -> &OwnedFd {
        &self.control
    }

    /// Adds reported increases to `sum` and other messages to `messages`, for one turn of the listener;
    /// returns false at the end of the reports.
    pub(super) fn read(&mut self, sum: &mut Counters, messages: &mut Vec<SessionMessage>) -> bool {
        self.read_at_most(MOST_READS, sum, messages)
    }

    /// Like [`read`](Self::read), for all reports that are there. The session must have ended.
    pub(super) fn read_last(&mut self, sum: &mut Counters, messages: &mut Vec<SessionMessage>) {
        self.read_at_most(usize::MAX, sum, messages);
    }

    fn read_at_most(&mut self, reads: usize, sum: &mut Counters, messages: &mut Vec<SessionMessage>) -> bool {
        for _ in 0..reads {
            let mut buffer = [0; 4 * REPORT_LENGTH];
            match recv(self.control.as_fd(), &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((n, _)) => self.inbox.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(Errno::INTR) => continue,
                Err(error) => return error == Errno::AGAIN,
            }
            loop {
                let used = match self.inbox.first() {
                    None => break,
                    Some(&KEEP) => match ticket(&self.inbox) {
                        Err(()) => return false,
                        Ok(None) => break,
                        Ok(Some((ticket, used))) => {
                            messages.push(SessionMessage::Ticket(ticket));
                            used
                        }
                    },
                    Some(&USER) => {
                        let Some((message, _)) = self.inbox.split_first_chunk::<USER_LENGTH>() else { break };
                        messages.extend(UserConnection::decode(message).map(SessionMessage::User));
                        USER_LENGTH
                    }
                    Some(&MEMBER) => {
                        let Some((message, _)) = self.inbox.split_first_chunk::<MEMBER_LENGTH>() else {
                            break;
                        };
                        messages.extend(Member::decode(message).map(SessionMessage::Member));
                        MEMBER_LENGTH
                    }
                    Some(&MOVED) => {
                        let Some((message, _)) = self.inbox.split_first_chunk::<MOVED_LENGTH>() else {
                            break;
                        };
                        messages.extend(Moved::decode(message).map(SessionMessage::Moved));
                        MOVED_LENGTH
                    }
                    Some(&(WAITS | GOES_ON | KEEPS | CONNECTED)) => match Notice::read(&self.inbox) {
                        Err(()) => return false,
                        Ok(None) => break,
                        Ok(Some((notice, used))) => {
                            messages.push(SessionMessage::Notice(notice));
                            used
                        }
                    },
                    Some(_) => {
                        let Some((report, _)) = self.inbox.split_first_chunk::<REPORT_LENGTH>() else {
                            break;
                        };
                        // After a restart, a session of another version may report in another format.
                        let Some(now) = Counters::read(report) else { return false };
                        sum.grow(&self.counted, &now);
                        self.counted = now;
                        REPORT_LENGTH
                    }
                };
                self.inbox.drain(..used);
            }
        }
        true
    }
}

/// Returns the ticket at the beginning of `inbox` and the length of its message; `None` while it is
/// incomplete.
fn ticket(inbox: &[u8]) -> Result<Option<(Ticket, usize)>, ()> {
    let Some((head, rest)) = inbox.split_first_chunk::<KEEP_LENGTH>() else { return Ok(None) };
    let (id, length) = head[1..].split_first_chunk::<32>().ok_or(())?;
    let length = u32::from_be_bytes(length.try_into().map_err(drop)?) as usize;
    if length > LARGEST {
        return Err(());
    }
    Ok(rest.get(..length).map(|record| ((*id, record.to_vec()), KEEP_LENGTH + length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter;
    use lh_config::server_values::TransferQuota;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn totals_of_a_session_are_counted_once() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut sum = Counters::default();
        let mut tickets = Vec::new();
        let mut counters = Counters::default();
        counters.add(Counter::BytesIn, 100);
        let report = counters.report();
        theirs.write_all(&report[1..]).unwrap();
        let mut reports = Reports::new(ours.into(), Some(report[0]));
        assert!(reports.read(&mut sum, &mut tickets));
        assert_eq!(sum, counters);
        counters.add(Counter::BytesIn, 11);
        theirs.write_all(&counters.report()[..20]).unwrap();
        assert!(reports.read(&mut sum, &mut tickets));
        theirs.write_all(&counters.report()[20..]).unwrap();
        // A ticket that arrives in two pieces, followed by a report.
        let keep = [&[KEEP][..], &[7; 32], &[0, 0, 0, 3], b"abc"].concat();
        theirs.write_all(&keep[..10]).unwrap();
        assert!(reports.read(&mut sum, &mut tickets));
        assert_eq!((sum, tickets.len()), (counters, 0));
        theirs.write_all(&keep[10..]).unwrap();
        counters.add(Counter::BytesIn, 5);
        theirs.write_all(&counters.report()).unwrap();
        crate::testing::close(&theirs);
        assert!(!reports.read(&mut sum, &mut tickets));
        assert_eq!((sum, tickets), (counters, vec![SessionMessage::Ticket(([7; 32], b"abc".to_vec()))]));
    }

    #[test]
    fn a_session_that_reports_without_end_has_its_turn_only() {
        const SENT: u32 = 3000;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let quota = TransferQuota { bytes: 1, period: Duration::from_secs(1) };
        let messages: Vec<u8> =
            (0..SENT).flat_map(|bytes| Moved { uid: 7, bytes: bytes.into(), quota }.encode()).collect();
        theirs.write_all(&messages).unwrap();
        let mut reports = Reports::new(ours.into(), None);
        let (mut sum, mut messages) = (Counters::default(), Vec::new());
        assert!(reports.read(&mut sum, &mut messages));
        assert!((1..SENT as usize).contains(&messages.len()), "{}", messages.len());
        reports.read_last(&mut sum, &mut messages);
        assert_eq!(messages.len(), SENT as usize);
    }

    #[test]
    fn a_ticket_longer_than_any_ends_the_conversation() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[&[KEEP][..], &[7; 32], &[0xff; 4]].concat()).unwrap();
        let mut reports = Reports::new(ours.into(), None);
        assert!(!reports.read(&mut Counters::default(), &mut Vec::new()));
    }
}
