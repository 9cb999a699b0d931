//! The user session process's part in resumption (`ResumeGrace`): keeps the session while it has no
//! connection, and continues it over the connection that the monitor sends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use lh_config::server_table::ServerSettings;
use lh_crypto::{Random, SystemRandom};
use lh_driver::{ControlCx, Interest, Interests, Link, Stream};
use lh_resume::message::Session;
use lh_resume::{BUDGET, Handle, NAME, is_offered};
use lh_transport::{Config, FreezeError, ResumeError, Transport, Unencrypted};
use lh_wire::PacketSink as _;
use zeroize::Zeroizing;

use super::common::{bound_receive_buffer, tune};
use super::shared::Shared;
use super::{joined_path, terminal};
use crate::log::{debug, error, info};
use crate::monitor_ipc::{MonitorRequest, MonitorSocket, MonitorSocketError};
use crate::resuming::{FromUser, Moved, TIMEOUT, ToUser};

/// Poll token of the socket to the monitor.
const MONITOR: usize = 0;

/// Returns interval and count of keepalives to the client. A resumable session has none of its own: a client
/// that sleeps is silent, and its session must not end sooner than one that ends with its connection. A
/// client that comes back takes over the session even while the old connection seems to be alive. One that
/// has `joined` a session is asked, so that its TCP answers; missing answers alone do not end it
/// ([`JoinedPath`](super::joined_path::JoinedPath)).
pub(super) fn keepalive(settings: &ServerSettings, joined: bool) -> Option<(Duration, u32)> {
    match settings.client_alive_interval.value.duration() {
        Some(interval) => Some((interval, settings.client_alive_count_max.value)),
        None if joined => Some((joined_path::INTERVAL, 0)),
        None => None,
    }
}

/// Growth of a waiting session's memory after which the monitor is told, bytes.
const KEPT_STEP: u64 = 64 << 10;

/// The resumption of a session. See the module documentation.
pub(super) struct Resuming {
    monitor: MonitorSocket,
    session: Session,
    /// Configuration for the transports of later connections.
    config: Config,
    unencrypted: Unencrypted,
    /// Time at which a session without a connection ends.
    until: Option<Instant>,
    /// The monitor knows that the client has received its answer.
    heard: bool,
    /// Number of bytes that the waiting session keeps, as last reported to the monitor.
    kept: u64,
}

/// Offers resumption to the client, where both ends and the rules allow it.
pub(super) fn offer(
    transport: &mut Transport,
    monitor: &mut MonitorSocket,
    settings: &ServerSettings,
    config: &Config,
    unencrypted: Unencrypted,
) -> Option<Resuming> {
    let grace = settings.resume_grace.duration()?;
    let both = transport.peer_extension(NAME).is_some_and(is_offered)
        && config.extensions.iter().any(|(name, _)| name == NAME);
    if !both {
        return None;
    }
    let mut handle = [0; 16];
    SystemRandom.fill(&mut handle);
    let export = Zeroizing::new(transport.export(NAME, &handle)?.to_vec());
    monitor.send(&MonitorRequest::Resumable { handle, export }.encode()).ok()?;
    let socket = terminal::receive(monitor).ok()??;
    let monitor = MonitorSocket::new(socket.into()).ok()?;
    transport.retain(BUDGET).ok()?;
    let grace = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
    let session = Session { handle: Handle(handle), grace };
    transport.payload(&session.to_payload());
    Some(Resuming {
        monitor,
        session,
        config: config.clone(),
        unencrypted,
        until: None,
        heard: true,
        kept: 0,
    })
}

/// Why a session does not use a connection although its client was told so.
#[derive(Debug, thiserror::Error)]
enum NotResumed {
    #[error("the connection is not the one that was authenticated")]
    WrongConnection,
    #[error("the connection's socket: {0}")]
    Socket(#[from] io::Error),
    #[error("the connection's state: {0}")]
    State(#[from] FreezeError),
    #[error("{0}")]
    Session(#[from] ResumeError),
}

impl NotResumed {
    /// Returns whether no other connection can carry the session either. Such a session ends at once, because
    /// waiting would only keep its programs and memory. In other cases the fault is in this connection.
    const fn ends_session(&self) -> bool {
        match self {
            Self::WrongConnection | Self::Socket(_) | Self::State(_) => false,
            Self::Session(error) => error.is_final(),
        }
    }
}

impl Resuming {
    /// Returns the session's handle and waiting time, which the client knows.
    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        out.add(MONITOR, self.monitor.socket().as_fd(), Interest::READ);
    }

    /// Checks the connection, once a turn of the event loop.
    pub(super) fn before_wait(&mut self, shared: &Shared, cx: &mut ControlCx<'_>) {
        if cx.is_away() && self.until.is_none() {
            let mut grace = self.session.grace;
            if cx.has_peer_closed() {
                let after_end = shared.settings.resume_grace.value.after_end_of_file().as_secs();
                grace = grace.min(u32::try_from(after_end).unwrap_or(u32::MAX));
            }
            self.wait_for_client(grace, shared, cx);
            // Without a waiting time the session ends in this turn.
            if grace > 0 {
                self.say(FromUser::Away { grace });
            }
        }
        self.report_heard(cx);
        self.report_kept(cx);
    }

    /// Reports the memory of a waiting session to the monitor when it has grown. Little is queued later, so
    /// nearly all of it is there at the beginning.
    fn report_kept(&mut self, cx: &ControlCx<'_>) {
        if self.until.is_some() {
            let kept = cx.unacknowledged_bytes() as u64;
            if kept >= self.kept.saturating_add(KEPT_STEP) {
                self.kept = kept;
                self.say(FromUser::Keeps(kept));
            }
        }
    }

    /// Reports to the monitor, once, that the client has sent a message over its new connection.
    fn report_heard(&mut self, cx: &ControlCx<'_>) {
        if !self.heard && cx.has_heard() {
            self.heard = true;
            self.say(FromUser::Heard);
        }
    }

    /// Keeps the session without a connection for `grace` seconds.
    fn wait_for_client(&mut self, grace: u32, shared: &Shared, cx: &ControlCx<'_>) {
        // The old connection is closed with its last descriptor.
        shared.client.socket.take();
        self.until = cx.now().checked_add(Duration::from_secs(grace.into()));
    }

    pub(super) const fn next_deadline(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn on_timeout(&mut self, shared: &Shared, cx: &mut ControlCx<'_>) {
        if self.until.is_some_and(|until| until <= cx.now()) {
            self.until = None;
            info!(shared.log, "session of user {} ends: its client has not come back", shared.user.name);
            cx.give_up();
        }
    }

    /// Handles messages of the monitor.
    pub(super) fn on_ready(&mut self, shared: &Shared, cx: &mut ControlCx<'_>) {
        if let Err(problem) = self.obey(shared, cx) {
            error!(shared.log, "session to resume: {problem}");
            // The monitor has ended, or sends invalid messages. Without it no key exchange can be signed.
            cx.stop(255);
        }
    }

    fn obey(&mut self, shared: &Shared, cx: &mut ControlCx<'_>) -> Result<(), MonitorSocketError> {
        match next_order(&mut self.monitor)? {
            (ToUser::LetGo, _) => {
                // Reported before the count: the client's later messages concern the next connection.
                self.report_heard(cx);
                let gone = cx.lose_link();
                if gone && self.until.is_none() {
                    self.wait_for_client(self.session.grace, shared, cx);
                }
                let received = cx.received_messages();
                self.say(if gone { FromUser::Received(received) } else { FromUser::Cannot });
            }
            (ToUser::Connection(moved), Some(socket)) => match self.go_on(moved, socket, shared, cx) {
                Ok(()) => self.say(FromUser::Resumed),
                Err(problem) if problem.ends_session() => {
                    error!(shared.log, "session of user {} ends: {problem}", shared.user.name);
                    cx.give_up();
                }
                // The client finds its connection closed, and tries again with another one.
                Err(problem) => error!(shared.log, "session not resumed: {problem}"),
            },
            (ToUser::Connection(_), None) => error!(shared.log, "session not resumed: no socket"),
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        moved: Moved,
        socket: OwnedFd,
        shared: &Shared,
        cx: &mut ControlCx<'_>,
    ) -> Result<(), NotResumed> {
        let Moved { received, peer, local, session_id, state } = moved;
        tune(&socket, &shared.settings, &shared.log);
        bound_receive_buffer(&socket, &shared.settings);
        let copy = socket.try_clone()?;
        let stream = Stream::socket(socket)?;
        let mut transport =
            Transport::thaw(&state, self.config.clone(), Box::new(SystemRandom), Instant::now())?;
        if transport.session_id() != Some(&session_id[..]) {
            return Err(NotResumed::WrongConnection);
        }
        transport.set_unencrypted(self.unencrypted);
        cx.resume(Link::new(transport, stream), received)?;
        debug!(shared.log, "the session goes on, {received} messages of it were received");
        (self.until, self.heard, self.kept) = (None, false, 0);
        shared.moved(peer, local, copy);
        Ok(())
    }

    fn say(&self, message: FromUser) {
        // If the monitor has ended, the session ends too.
        let _ = self.monitor.send(&message.encode());
    }
}

/// Receives the monitor's next message, and its socket. More messages may be there: the monitor gives up an
/// attempt that this process, when it is busy or stopped, does not answer, and serves the next one.
fn next_order(monitor: &mut MonitorSocket) -> Result<(ToUser, Option<OwnedFd>), MonitorSocketError> {
    let socket = terminal::receive(monitor)?;
    let message = monitor.receive_until(Instant::now().checked_add(TIMEOUT))?;
    Ok((ToUser::decode(&message)?, socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::SocketAddr;
    use std::os::unix::net::UnixStream;

    use lh_driver::{Keepalive, KeepaliveAction};

    #[test]
    fn queued_messages_of_the_monitor_are_read_one_by_one() {
        let (theirs, ours) = UnixStream::pair().unwrap();
        let (theirs, mut ours) = (MonitorSocket::new(theirs).unwrap(), MonitorSocket::new(ours).unwrap());
        let here = SocketAddr::from(([127, 0, 0, 1], 7));
        let moved = |received| {
            let (session_id, state) = (b"id".to_vec(), Zeroizing::new(vec![7; 40_000]));
            ToUser::Connection(Moved { received, peer: here, local: here, session_id, state })
        };
        for message in [ToUser::LetGo, moved(5), ToUser::LetGo, ToUser::LetGo, moved(9)] {
            match message {
                ToUser::LetGo => { theirs.socket() }.write_all(&[0]).unwrap(),
                ToUser::Connection(_) => {
                    lh_sys::pass::send_fd(theirs.socket(), theirs.socket().as_fd()).unwrap();
                }
            }
            theirs.send(&message.encode()).unwrap();
        }
        for message in [ToUser::LetGo, moved(5), ToUser::LetGo, ToUser::LetGo, moved(9)] {
            let has_socket = matches!(message, ToUser::Connection(_));
            let (came, socket) = next_order(&mut ours).unwrap();
            assert_eq!((came, socket.is_some()), (message, has_socket));
        }
    }

    /// Simulates silence; returns after how many seconds the path counts as broken.
    fn broken_after(lines: &str) -> Option<u64> {
        let start = Instant::now();
        let (interval, count_max) = keepalive(&crate::testing::settings(lines), false)?;
        let mut keepalive = Keepalive::new(interval, count_max, start);
        (0..7200).find(|second| {
            keepalive.on_timeout(start + Duration::from_secs(*second)) == KeepaliveAction::Dead
        })
    }

    #[test]
    fn a_session_that_no_connection_can_carry_ends() {
        let count = lh_resume::CountError::TakenBack { count: 1, acknowledged: 2 };
        for error in [ResumeError::Lost, ResumeError::NotResumable, ResumeError::Count(count)] {
            assert!(NotResumed::from(error).ends_session());
        }
        let socket = NotResumed::from(io::Error::from(io::ErrorKind::NotConnected));
        for error in
            [ResumeError::Busy.into(), NotResumed::WrongConnection, FreezeError::Version.into(), socket]
        {
            assert!(!error.ends_session(), "{error}");
        }
    }

    #[test]
    fn joined_connections_are_asked_without_a_limit() {
        let of = |lines, joined| keepalive(&crate::testing::settings(lines), joined);
        assert_eq!(of("", true), Some((Duration::from_secs(30), 0)));
        assert_eq!(of("ClientAliveInterval 5", true), Some((Duration::from_secs(5), 3)));
        assert_eq!(of("", false), None);
    }

    #[test]
    fn only_configured_probes_make_silence_a_break() {
        assert_eq!(broken_after(""), None);
        assert_eq!(broken_after("ResumeGrace 10m"), None);
        assert_eq!(broken_after("ClientAliveCountMax 1"), None);
        assert_eq!(broken_after("ClientAliveInterval 5"), Some(20));
        assert_eq!(broken_after("ClientAliveInterval 0"), None);
        assert_eq!(broken_after("ClientAliveInterval 5\nClientAliveCountMax 0"), None);
    }
}
