//! The monitor's part in resumption (`ResumeGrace`): it has the session's secret, and decides which client
//! takes over the session. It serves one claim at a time.

mod reported_state;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use lh_resume::message::Request;
use lh_resume::{Export, Handle, Refused, ServerSecret, Verified};
use lh_session_list::Wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use crate::log::{Field, Log, debug, info};
use crate::monitor::Monitor;
use crate::monitor_ipc::{
    MAX_HAND_OVER, MAX_MONITOR_REQUEST, MOST_LAST_READS, MonitorSocket, MonitorSocketError,
};
use crate::resuming::{
    FromClaimant, FromUser, Login, Moved, SessionTerms, TIMEOUT, ToClaimant, ToUser, check, listen,
};
use reported_state::ReportedState;

/// Largest number of connections accepted in one turn.
const MOST_AT_ONCE: usize = 256;

/// A session that may be resumed over another connection. See the module documentation.
pub(super) struct Resumable {
    secret: ServerSecret,
    session: SessionTerms,
    listening: UnixListener,
    /// The user session process; `None` when it has closed its end.
    user: Option<MonitorSocket>,
    attempt: Option<Attempt>,
    /// Number of orders to close the connection that the user session process has not answered. Only the last
    /// one may be the present attempt's.
    unanswered: u64,
    /// The connection last handed to the user session process: session identifier, peer and local address.
    going_on: Option<(Vec<u8>, SocketAddr, SocketAddr)>,
    /// The secret was rolled for a new connection that the session does not use yet.
    is_rolled: bool,
    reported_state: ReportedState,
    log: Log,
}

/// A connection whose client claims the session.
struct Attempt {
    claimant: MonitorSocket,
    step: Step,
    /// Time at which the attempt is abandoned.
    until: Instant,
}

enum Step {
    /// The claim has not been received.
    Connected,
    /// The proof was right; the other monitor checks the account.
    Right(Claim),
    /// The user session process is closing its connection.
    LettingGo(Claim, Taking),
    /// The client is being answered; the new connection has not been received.
    Accepted(Claim, Taking),
    /// The new connection's socket has been received, but not its state.
    Arriving(Claim, Taking, OwnedFd),
}

struct Claim {
    verified: Verified,
    session_id: Vec<u8>,
}

struct Taking {
    export: Export,
    peer: SocketAddr,
    local: SocketAddr,
}

/// The session must end, because its user has lost the right to it.
pub(super) struct Ended;

impl Resumable {
    /// Begins to listen. Also returns the user session process's end of a socket pair.
    pub(super) fn new(
        handle: [u8; 16],
        export: &[u8],
        session: SessionTerms,
        address: IpAddr,
        log: Log,
    ) -> io::Result<(Self, UnixStream)> {
        let handle = Handle(handle);
        let export = Zeroizing::new(export.try_into().map_err(io::Error::other)?);
        let listening = listen(&handle)?;
        let (ours, theirs) = UnixStream::pair()?;
        let secret = ServerSecret::new(handle, &export);
        let reported_state = ReportedState::new(handle, session.account.clone(), address);
        let user = Some(MonitorSocket::new(ours)?);
        Ok((
            Self {
                secret,
                session,
                listening,
                user,
                attempt: None,
                unanswered: 0,
                going_on: None,
                is_rolled: false,
                reported_state,
                log,
            },
            theirs,
        ))
    }

    /// Adds the descriptors to poll.
    pub(super) fn interests<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if let Some(user) = &self.user {
            fds.push(PollFd::new(user.socket(), PollFlags::IN));
        }
        match &self.attempt {
            // The next connection waits until this attempt is decided.
            Some(attempt) => fds.push(PollFd::new(attempt.claimant.socket(), PollFlags::IN)),
            None => fds.push(PollFd::new(&self.listening, PollFlags::IN)),
        }
    }

    /// Returns the time at which to call [`serve`](Self::serve) even if no descriptor is ready.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.attempt.as_ref().map(|attempt| attempt.until)
    }

    /// Returns how long the session has waited for its client, and how long it still will; `None` while it
    /// has a connection.
    pub(super) fn wait(&self) -> Option<Wait> {
        self.reported_state.wait()
    }

    /// Reports to the listener whether the session waits, or where its connection comes from.
    pub(super) fn notify(&self, listener: &mut impl Write) {
        self.reported_state.notify(listener);
    }

    /// Handles all pending messages without blocking.
    pub(super) fn serve(&mut self, monitor: &mut Monitor, control: &mut impl Write) -> Result<(), Ended> {
        if self.user.as_ref().is_some_and(|user| is_ready(user.socket()))
            && let Err(problem) = self.hear_user(monitor, control)
        {
            debug!(self.log, "session to resume: {problem}");
            self.user = None;
        }
        if self.attempt.as_ref().is_some_and(|attempt| attempt.until <= Instant::now()) {
            debug!(self.log, "session to resume: the other connection's monitor does not go on");
            self.attempt = None;
        }
        match &self.attempt {
            None if is_ready(&self.listening) => self.accept(),
            Some(attempt) if is_ready(attempt.claimant.socket()) => match self.hear_claimant() {
                Ok(true) => {}
                Ok(false) => return Err(Ended),
                Err(problem) => {
                    debug!(self.log, "session to resume: {problem}");
                    self.attempt = None;
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn accept(&mut self) {
        // Other users' processes may connect too; the bound is high so that they do not delay the right one.
        for _ in 0..MOST_AT_ONCE {
            let Ok((socket, _)) = self.listening.accept() else { return };
            let claimant = check(&socket)
                .and_then(|()| socket.set_nonblocking(false))
                .and_then(|()| MonitorSocket::new(socket));
            if let (Ok(claimant), Some(until)) = (claimant, Instant::now().checked_add(TIMEOUT)) {
                self.attempt = Some(Attempt { claimant, step: Step::Connected, until });
                return;
            }
        }
    }

    /// Handles a message of the other connection's monitor. Returns false when the session must end.
    fn hear_claimant(&mut self) -> Result<bool, MonitorSocketError> {
        let Some(mut attempt) = self.attempt.take() else { return Ok(true) };
        if let Step::Accepted(claim, taking) = attempt.step {
            let socket = lh_sys::pass::receive_fd(attempt.claimant.socket())?.ok_or(wrong())?;
            attempt.step = Step::Arriving(claim, taking, socket);
            self.attempt = Some(attempt);
            return Ok(true);
        }
        attempt.claimant.read()?;
        let largest = match attempt.step {
            Step::Arriving(..) => MAX_HAND_OVER + 64,
            _ => MAX_MONITOR_REQUEST,
        };
        let Some(message) = attempt.claimant.next(largest)? else {
            self.attempt = Some(attempt);
            return Ok(true);
        };
        attempt.step = match (FromClaimant::decode(&message)?, attempt.step) {
            (FromClaimant::Claim { user, fields, session_id }, Step::Connected) => {
                match self.verify(&user, &fields, &session_id) {
                    Ok(verified) => {
                        let SessionTerms { proofs, host, options, rules, host_keys, .. } =
                            self.session.clone();
                        let login = Login { proofs, host, options: Box::new(options), rules, host_keys };
                        attempt.claimant.send(&ToClaimant::Right(login).encode())?;
                        Step::Right(Claim { verified, session_id })
                    }
                    Err(why) => {
                        info!(self.log, "claim on the session of {} refused: {why}", self.session.name);
                        let overtaken = why == Refused::Overtaken;
                        attempt.claimant.send(&ToClaimant::Refused { overtaken }.encode())?;
                        return Ok(true);
                    }
                }
            }
            (FromClaimant::End, Step::Right(_)) => return Ok(false),
            (FromClaimant::Take { export, peer, local }, Step::Right(claim)) => {
                let export = Zeroizing::new((&export[..]).try_into().map_err(|_| wrong())?);
                self.tell_user(None, &ToUser::LetGo)?;
                self.unanswered += 1;
                Step::LettingGo(claim, Taking { export, peer, local })
            }
            (FromClaimant::Connection(state), Step::Arriving(claim, taking, socket)) => {
                let Taking { peer, local, .. } = taking;
                let received = claim.verified.received();
                let moved = Moved { received, peer, local, session_id: claim.session_id.clone(), state };
                self.tell_user(Some(socket), &ToUser::Connection(moved))?;
                // The user session process reports later whether it uses the connection.
                self.going_on = Some((claim.session_id, peer, local));
                return Ok(true);
            }
            _ => return Err(wrong()),
        };
        self.attempt = Some(attempt);
        Ok(true)
    }

    /// Reads what the user session process, which has ended, reported last.
    pub(super) fn hear_last(&mut self, monitor: &mut Monitor, control: &mut impl Write) {
        for _ in 0..MOST_LAST_READS {
            if !self.user.as_ref().is_some_and(|user| is_ready(user.socket())) {
                return;
            }
            if self.hear_user(monitor, control).is_err() {
                self.user = None;
            }
        }
    }

    fn verify(&self, user: &str, fields: &[u8], session_id: &[u8]) -> Result<Verified, Refused> {
        let request = Request::from_fields(user, fields).map_err(|_| Refused::WrongProof)?;
        if request.user != self.session.name {
            return Err(Refused::WrongProof);
        }
        self.secret.verify(&request, session_id)
    }

    /// Sends a byte, with the socket if there is one, and then the message.
    fn tell_user(&self, socket: Option<OwnedFd>, message: &ToUser) -> Result<(), MonitorSocketError> {
        let user = self.user.as_ref().ok_or(MonitorSocketError::Closed)?;
        match socket {
            Some(socket) => lh_sys::pass::send_fd(user.socket(), socket.as_fd())?,
            None => { user.socket() }.write_all(&[0])?,
        }
        user.send(&message.encode())
    }

    fn hear_user(
        &mut self,
        monitor: &mut Monitor,
        control: &mut impl Write,
    ) -> Result<(), MonitorSocketError> {
        let Some(user) = &mut self.user else { return Ok(()) };
        user.read()?;
        while let Some(message) =
            self.user.as_mut().map_or(Ok(None), |user| user.next(MAX_MONITOR_REQUEST))?
        {
            match FromUser::decode(&message)? {
                // The user controls the process, and each report costs a log line and a notice.
                FromUser::Away { .. } if self.reported_state.waits() => {}
                FromUser::Away { grace } => {
                    let grace = self.session.grace.min(Duration::from_secs(grace.into()));
                    self.reported_state.begin_to_wait(grace, control);
                    let (name, seconds) = (&self.session.name, grace.as_secs());
                    info!(
                        self.log,
                        "connection of user {name} lost; the session waits for {seconds} seconds"
                    );
                }
                // A message over the previous connection does not show that the client has the new secret.
                FromUser::Heard if self.is_rolled => {}
                FromUser::Heard => self.secret.confirm(),
                FromUser::Keeps(bytes) => self.reported_state.note_kept(bytes, control),
                FromUser::Received(received) => self.let_go(Some(received), control),
                FromUser::Cannot => self.let_go(None, control),
                FromUser::Resumed => {
                    let Some((session_id, peer, local)) = self.going_on.take() else { return Err(wrong()) };
                    self.is_rolled = false;
                    monitor.moved(&session_id, peer, local);
                    self.log.set_field(Field::RemoteAddr, &peer.ip().to_string());
                    let (name, ip, port) = (&self.session.name, peer.ip(), peer.port());
                    info!(self.log, "session of user {name} resumed from {ip} port {port}");
                    self.reported_state.go_on(peer.ip(), control);
                }
            }
        }
        Ok(())
    }

    /// Handles the user session process's answer: it has closed its connection, with the final count, or
    /// cannot resume.
    fn let_go(&mut self, received: Option<u64>, control: &mut impl Write) {
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered > 0 {
            // The answer belongs to an attempt that has been abandoned. Messages may have arrived since,
            // over a connection that was handed over between the two orders.
            return;
        }
        let Some(mut attempt) = self.attempt.take() else { return };
        let Step::LettingGo(claim, taking) = attempt.step else {
            // The answer belongs to an attempt that has been abandoned.
            self.attempt = Some(attempt);
            return;
        };
        let answer =
            received.and_then(|received| self.secret.accept(&claim.verified, &taking.export, received).ok());
        let Some(answer) = answer else {
            let _ = attempt.claimant.send(&ToClaimant::Refused { overtaken: false }.encode());
            return;
        };
        self.is_rolled = true;
        // The session waits until the new connection arrives, which may never happen.
        self.reported_state.begin_to_wait(self.session.grace, control);
        // If the other monitor has ended, its client has lost the connection too, and claims the session
        // again.
        if attempt.claimant.send(&ToClaimant::Accepted(answer.to_payload()).encode()).is_ok() {
            attempt.step = Step::Accepted(claim, taking);
            self.attempt = Some(attempt);
        }
    }
}

fn wrong() -> MonitorSocketError {
    io::Error::from(io::ErrorKind::InvalidData).into()
}

fn is_ready(fd: impl AsFd) -> bool {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let fd = fd.as_fd();
    matches!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&none)), Ok(1))
}

#[cfg(test)]
mod tests;
