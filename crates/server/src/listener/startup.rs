//! One unauthenticated connection, as the listener sees it: its session process, and how much of the
//! hand-over it has received.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::Pid;

use crate::hand_over::STARTED;
use crate::penalties::Source;
use crate::quotas::{Moved, Quotas};
use crate::tickets::{TAKE, TAKE_LENGTH};
use crate::user_connections::{UserConnection, UserConnections};

use super::users::Users;
use super::waiting::{Owner, WaitingSessions};

/// Time after which a process counts as started even if it has not reported that it serves its client.
const LONG_START: Duration = Duration::from_millis(200);

/// Pause after the start of a further connection of a source, before the next one, as a multiple of the time
/// that the start took: a flood has a third of the cores that may start processes, and logins the others.
const REST: u32 = 2;

/// Pause where the kernel lacks memory for a message.
const LACKING: Duration = Duration::from_millis(1);

/// An unauthenticated connection. See the module documentation.
pub(super) struct Startup {
    pub(super) control: OwnedFd,
    pub(super) pid: Pid,
    pub(super) peer: SocketAddr,
    pub(super) source: Source,
    pub(super) deadline: Option<Instant>,
    /// There is a ticket for the connection, so it does not count as unauthenticated.
    pub(super) expected: bool,
    /// When its process was created.
    pub(super) since: Instant,
    /// Its source had other unauthenticated connections, and no user had logged in from there.
    pub(super) is_further: bool,
    /// When the process began to serve its client.
    pub(super) started: Option<Instant>,
    /// Number of bytes of the hand-over that have been sent.
    pub(super) handed_over: usize,
}

impl Startup {
    /// Returns the events to poll for: messages of the session process, and room for the rest of `hand_over`.
    pub(super) fn interest(&self, hand_over: &[u8]) -> PollFlags {
        if self.handed_over < hand_over.len() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Sends the rest of the hand-over, as far as it fits. Waits for no process: one that is stopped or waits
    /// for a disk must not delay other connections.
    pub(super) fn push(&mut self, hand_over: &[u8]) {
        while let Some(rest) = hand_over.get(self.handed_over..).filter(|rest| !rest.is_empty()) {
            match send(&self.control, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => self.handed_over += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(Errno::NOBUFS | Errno::NOMEM) => {
                    // The socket counts as writable meanwhile, so the listener would try without a pause.
                    std::thread::sleep(LACKING);
                    return;
                }
                // The process has ended, which `reap` will notice.
                Err(_) => self.handed_over = hand_over.len(),
            }
        }
    }

    /// Returns the time at which the process counts as started; `None` once it has reported its start.
    pub(super) fn begun_by(&self) -> Option<Instant> {
        self.started.is_none().then(|| self.since.checked_add(LONG_START)).flatten()
    }

    /// Returns the time until which further connections wait, since this one has started as one of them.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        let started = self.started.filter(|_| self.is_further)?;
        let took = started.saturating_duration_since(self.since).min(LONG_START);
        started.checked_add(took * REST)
    }

    /// Takes all that is no word about the login: that the process has begun, and questions, which are
    /// answered. Returns the sessions to end, because they wait for their clients and this connection takes
    /// their place.
    #[must_use]
    pub(super) fn serve(&mut self, users: &mut Users, waiting: &WaitingSessions, now: Instant) -> Vec<Owner> {
        let mut ended = Vec::new();
        while self.take_started()
            || self.answer_joiner(users, now)
            || self.answer_user(&mut users.connections, waiting, &mut ended)
            || self.answer_quota(&mut users.quotas, now)
        {}
        ended
    }

    /// Returns whether the process has said something that has not been taken, or is gone.
    pub(super) fn has_message(&self) -> bool {
        let look = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        !matches!(recv(&self.control, &mut [0], look), Err(Errno::AGAIN | Errno::INTR))
    }

    /// Takes the word that the process has begun; false when it says something else, or nothing.
    fn take_started(&mut self) -> bool {
        if self.started.is_some() {
            return false;
        }
        let said = self.take(|message: &[u8; STARTED.len()]| (message == STARTED).then_some(())).is_some();
        self.started = said.then(Instant::now);
        said
    }

    /// Gives the session what the ticket is worth that its client has shown; false when it wants something
    /// else.
    fn answer_joiner(&self, users: &mut Users, now: Instant) -> bool {
        let id = |message: &[u8; TAKE_LENGTH]| {
            let (kind, id) = message.split_first()?;
            id.first_chunk().copied().filter(|_| *kind == TAKE)
        };
        let Some(id) = self.take(id) else { return false };
        let ticket = users.tickets.take(&id, self.pid, now);
        let record = ticket.map_or_else(Vec::new, |(owner, record)| {
            users.connections.join(Owner::Process(self.pid), Owner::Process(owner));
            record
        });
        let mut answer = u32::try_from(record.len()).unwrap_or_default().to_be_bytes().to_vec();
        answer.extend_from_slice(&record);
        self.answer(&answer);
        true
    }

    /// Answers a process that asks whether its user may move anything; false when it wants something else.
    fn answer_quota(&self, quotas: &mut Quotas<Owner>, now: Instant) -> bool {
        let Some(moved) = self.take(Moved::decode) else { return false };
        let may_move = quotas.add(moved, now);
        if may_move {
            quotas.begin(Owner::Process(self.pid), &moved);
        }
        self.answer(&[u8::from(may_move)]);
        true
    }

    /// Answers a process that asks whether its user may have this connection; false when it wants something
    /// else. Sessions of this user that wait for their clients give way.
    fn answer_user(
        &self,
        users: &mut UserConnections<Owner>,
        waiting: &WaitingSessions,
        ended: &mut Vec<Owner>,
    ) -> bool {
        let Some(connection) = self.take(UserConnection::decode) else { return false };
        let (admitted, replaced) =
            users.admit_instead(Owner::Process(self.pid), connection, waiting.by_time_left());
        ended.extend(replaced);
        self.answer(&[u8::from(admitted)]);
        true
    }

    /// Takes the next message if it is complete and `decode` accepts it; otherwise leaves it in the socket.
    fn take<const LENGTH: usize, T>(&self, decode: impl FnOnce(&[u8; LENGTH]) -> Option<T>) -> Option<T> {
        let mut message = [0; LENGTH];
        let look = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        if !matches!(recv(&self.control, &mut message[..], look), Ok((count, _)) if count == LENGTH) {
            return None;
        }
        let found = decode(&message)?;
        let _ = recv(&self.control, &mut message[..], RecvFlags::DONTWAIT);
        Some(found)
    }

    fn answer(&self, bytes: &[u8]) {
        // The socket's send buffer is empty, so the answer fits.
        let _ = send(&self.control, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand_over::AUTHENTICATED;
    use crate::testing::{LATE, close};
    use lh_config::server_values::NetBlockSize;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// Returns a startup, and its process's end of the socket.
    fn startup() -> (Startup, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let peer: SocketAddr = ([127, 0, 0, 1], 7).into();
        let startup = Startup {
            control: ours.into(),
            pid: rustix::process::getpid(),
            peer,
            source: Source::of(peer.ip(), NetBlockSize { ipv4: 32, ipv6: 64 }),
            deadline: None,
            expected: false,
            since: Instant::now(),
            is_further: false,
            started: None,
            handed_over: 0,
        };
        (startup, theirs)
    }

    #[test]
    fn a_started_process_is_not_waited_for() {
        use std::io::Write;
        let (mut startup, mut theirs) = startup();
        assert_eq!(startup.begun_by(), Some(startup.since + LONG_START));
        assert!(!startup.take_started());
        theirs.write_all(STARTED).unwrap();
        theirs.write_all(AUTHENTICATED).unwrap();
        drop(theirs);
        assert!(startup.take_started());
        assert_eq!((startup.begun_by(), startup.rests_until()), (None, None));
        // The next message stays in the socket and is not reported as a start.
        assert!(!startup.take_started());
        assert_eq!(
            super::super::session_messages::first_byte(&startup.control),
            AUTHENTICATED.first().copied()
        );
    }

    #[test]
    fn further_connections_rest_for_as_long_as_their_start_took() {
        let (mut startup, _theirs) = startup();
        startup.is_further = true;
        assert_eq!(startup.rests_until(), None);
        let took = Duration::from_millis(5);
        startup.started = Some(startup.since + took);
        assert_eq!(startup.rests_until(), Some(startup.since + took + took * REST));
        startup.started = Some(startup.since + LONG_START * 9);
        assert_eq!(startup.rests_until(), Some(startup.since + LONG_START * 9 + LONG_START * REST));
    }

    #[test]
    fn a_login_behind_unanswered_questions_is_heard() {
        use std::io::Write;
        let (mut startup, mut theirs) = startup();
        let mut users = Users::default();
        let waiting = super::super::waiting::tests::sessions();
        let mut serve = |startup: &mut Startup| startup.serve(&mut users, &waiting, Instant::now());
        serve(&mut startup);
        assert!(!startup.has_message());
        // The listener was late with each of its answers.
        let quota = lh_config::server_values::TransferQuota { bytes: 1, period: Duration::from_secs(60) };
        for message in [
            STARTED,
            &[&[TAKE][..], &[7; TAKE_LENGTH - 1]].concat(),
            &UserConnection { uid: 1, limit: Some(1) }.encode(),
            &Moved { uid: 1, bytes: 0, quota }.encode(),
            AUTHENTICATED,
        ] {
            theirs.write_all(message).unwrap();
        }
        serve(&mut startup);
        assert!(startup.has_message());
        assert_eq!(
            super::super::session_messages::first_byte(&startup.control),
            AUTHENTICATED.first().copied()
        );
        assert!(!startup.has_message());
        let mut answers = [9; 7];
        assert_eq!(theirs.read(&mut answers).unwrap(), 6);
        assert_eq!(answers, [0, 0, 0, 0, 1, 1, 9]);
        close(&theirs);
        assert!(startup.has_message());
    }

    #[test]
    fn a_session_that_does_not_read_holds_nobody_up() {
        let (mut startup, mut theirs) = startup();
        // More bytes than a socket buffer holds.
        let hand_over: Vec<u8> = (0..8_u32 << 20).map(|at| at as u8).collect();
        startup.push(&hand_over);
        assert!(startup.handed_over < hand_over.len());
        assert_eq!(startup.interest(&hand_over), PollFlags::IN | PollFlags::OUT);
        let mut got = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        // The kernel may free the memory of read bytes late, and `push` finds no space until then.
        theirs.set_nonblocking(true).unwrap();
        let end = Instant::now() + LATE;
        while got.len() < hand_over.len() {
            assert!(Instant::now() < end, "{} bytes after a minute", got.len());
            startup.push(&hand_over);
            match theirs.read(&mut buffer) {
                Ok(n) => got.extend_from_slice(&buffer[..n]),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
        assert!(got == hand_over);
        assert_eq!(startup.interest(&hand_over), PollFlags::IN);
        close(&theirs);
        startup.handed_over = 0;
        startup.push(&hand_over);
        assert_eq!(startup.interest(&hand_over), PollFlags::IN);
    }
}
