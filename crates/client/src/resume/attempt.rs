//! One attempt to reach the server again, in its own thread.
//!
//! The thread connects, exchanges keys and checks the host's key. Then it waits until the loop tells it to
//! claim the session, which only one attempt may do at a time.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lh_crypto::PublicKey;
use lh_driver::{Link, LinkError};
use lh_resume::message::{ACCEPTED, Accepted, Request};
use lh_resume::{AttemptId, ClientSecret, Export, Failure, NAME, PROBE_INTERVAL, PROBE_LEN, Probe, Refused};
use lh_transport::{Event, ResumeError};
use lh_wire::Message as _;
use lh_wire::msg::{Ping, ServiceRequest, UserauthFailure, UserauthSuccess};

use super::limit::AttemptFailure;
use crate::carrier::Carrier;
use crate::error::ClientError;
use crate::log::Log;
use crate::options::Options;
use crate::ui::{LogLevel, Progress, UserInterface};

/// Longest wait for the answer to the claim.
const ANSWER: Duration = Duration::from_secs(15);
/// Time between checks for the loop's order to claim the session, while PINGs are sent.
const LOOK: Duration = Duration::from_millis(100);

/// Function that reaches the host and checks its key. A key other than the given one must already be known: a
/// session to resume adds nothing to known_hosts.
pub(crate) type Connect =
    fn(&Options, &PublicKey, &mut Log<'_>) -> Result<(Link, Option<Carrier>), ClientError>;

/// Returns the key that the server of this connection has proved to own, without its certificate.
pub(super) fn host_key(blob: Option<&[u8]>) -> Option<PublicKey> {
    Some(PublicKey::from_blob(blob?).ok()?.plain().clone())
}

/// Returns the meaning of a refusal over `link`: final only if it comes from the session's server.
pub(super) fn refusal(link: &Link, session: &PublicKey) -> Failure {
    if host_key(link.host_key()).as_ref() == Some(session) { Failure::Refused } else { Failure::Elsewhere }
}

/// A report of an attempt to the loop.
pub(super) enum AttemptReport {
    /// The host was reached and its key accepted. Holds the session identifier of the new link.
    Reached { session_id: Vec<u8> },
    /// The server has accepted the claim. Its proof has not been checked.
    Accepted { link: Box<Link>, carrier: Option<Carrier>, answer: Accepted },
    /// The attempt has failed.
    Failed(AttemptError),
}

/// Why an attempt ended without the session.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// No link to the host, or a wrong host key. `complaint`: messages logged before, with their line ends.
    #[error("{complaint}{error}")]
    Connect { complaint: String, error: ClientError },
    /// The link broke, or the answer to the claim took too long.
    #[error(transparent)]
    Link(LinkError),
    /// The peer disconnected, with this text.
    #[error("{0}")]
    Disconnected(String),
    /// The peer refused the claim; `meaning` depends on whether it is the session's server.
    #[error("{refusal}")]
    Refused { meaning: Failure, refusal: Refusal },
    /// The thread ended without a report.
    #[error("the attempt has ended")]
    NoThread,
}

impl AttemptError {
    /// Returns the meaning of this error for a limit of the program.
    pub(super) const fn for_limit(&self) -> AttemptFailure {
        match self {
            Self::Connect { error: ClientError::Unreachable(_), .. } => AttemptFailure::NoAnswer,
            _ => AttemptFailure::Ended,
        }
    }

    /// Returns the meaning of this error for the session. `can_log_in`: the program can log in again, so it
    /// does not wait for the session's server where another host with an accepted key answers.
    pub(super) const fn failure(&self, can_log_in: bool) -> Failure {
        match self {
            Self::Refused { .. } if can_log_in => Failure::Refused,
            Self::Connect { error, .. } => failure_of(error),
            Self::Link(_) | Self::Disconnected(_) | Self::NoThread => Failure::Path,
            Self::Refused { meaning, .. } => *meaning,
        }
    }
}

/// How the peer refuses a claim.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the server does not go on with the session")]
    Declined,
    /// The peer consents, but without the message that contains its proof.
    #[error("the server proves nothing")]
    NoProof,
    #[error(transparent)]
    Malformed(lh_wire::WireError),
}

/// Why the peer's proof is not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProofError {
    #[error("no claim was made")]
    NoClaim,
    #[error("no key exchange")]
    NoKeyExchange,
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// A claim that was sent, to check the answer.
pub(super) struct Claim {
    request: Request,
    session_id: Vec<u8>,
}

impl Claim {
    /// Checks the server's proof, and returns the number of messages that it has received.
    ///
    /// # Errors
    /// The peer is not the session's server.
    pub(super) fn verify(
        &self,
        secret: &mut ClientSecret,
        link: &Link,
        answer: &Accepted,
    ) -> Result<u64, ProofError> {
        let export = export(link, &self.request).ok_or(ProofError::NoKeyExchange)?;
        Ok(secret.accepted(&self.request, &self.session_id, &export, answer)?)
    }
}

fn export(link: &Link, request: &Request) -> Option<Export> {
    link.export(NAME, &request.handle.0)
}

/// An attempt and its thread. Dropping it abandons the attempt: the thread ends by itself and claims nothing.
pub(super) struct Attempt {
    id: AttemptId,
    next_report: Receiver<AttemptReport>,
    /// Contains one byte for each report of the thread.
    wake: UnixStream,
    go: Sender<Request>,
    claim: Option<Claim>,
    /// Time of the last received data, until it is read.
    progress: LastProgress,
    /// The connection goes through a command or a jump host, so its progress is unknown.
    indirect: bool,
    process: u32,
}

type LastProgress = Arc<Mutex<Option<Instant>>>;

/// Measurements of the thread of a second link beside a stalled one.
pub(super) type SharedProbe = Arc<Mutex<Probe>>;

impl Attempt {
    /// Starts the thread. With `probe`, the thread sends PINGs while it waits for the order to claim the
    /// session, and records their answers there.
    pub(super) fn start(
        id: AttemptId,
        options: &Options,
        session: &PublicKey,
        connect: Connect,
        probe: Option<SharedProbe>,
    ) -> io::Result<Self> {
        let session = session.clone();
        let mut options = options.clone();
        options.bound_attempt();
        options.log_level = LogLevel::Error;
        let indirect = !options.config.is_direct();
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let progress = LastProgress::default();
        let (sender, next_report) = channel();
        let (go, claims) = channel();
        let thread = Thread { next_report: sender, waker, claims, progress: Arc::clone(&progress), probe };
        std::thread::Builder::new().name("reconnect".to_owned()).spawn(move || {
            if let Err(error) = thread.run(&options, &session, connect) {
                thread.tell(AttemptReport::Failed(error));
            }
        })?;
        Ok(Self { id, next_report, wake, go, claim: None, progress, indirect, process: std::process::id() })
    }

    pub(super) const fn id(&self) -> AttemptId {
        self.id
    }

    /// Returns a socket that is readable when there is a report.
    pub(super) const fn wake(&self) -> &UnixStream {
        &self.wake
    }

    /// Returns the next report of the thread.
    pub(super) fn next_report(&self) -> Option<AttemptReport> {
        // The byte only wakes the loop; an error means that there is nothing to read.
        let _ = (&self.wake).read(&mut [0; 1]);
        match self.next_report.try_recv() {
            Ok(next_report) => Some(next_report),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(AttemptReport::Failed(AttemptError::NoThread)),
        }
    }

    /// Claims the session over the attempt's link.
    pub(super) fn claim(&mut self, request: Request, session_id: Vec<u8>) {
        // Ignored: a thread that has ended has sent a report.
        let _ = self.go.send(request.clone());
        self.claim = Some(Claim { request, session_id });
    }

    /// Returns the claim, once it was sent.
    pub(super) const fn made_claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Returns when data was received, if that was after the last call.
    pub(super) fn take_progress(&self) -> Option<Instant> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// True for an attempt whose progress is unknown before the key exchange.
    pub(super) const fn is_indirect(&self) -> bool {
        self.indirect
    }

    /// True in a forked copy of the process that started the attempt: its thread exists only in the original.
    pub(super) fn is_lost_by_fork(&self) -> bool {
        self.process != std::process::id()
    }
}

/// The thread's part of an attempt.
struct Thread {
    next_report: Sender<AttemptReport>,
    waker: UnixStream,
    claims: Receiver<Request>,
    progress: LastProgress,
    probe: Option<SharedProbe>,
}

impl Thread {
    /// Sends a report to the loop, which may have dropped the attempt.
    fn tell(&self, next_report: AttemptReport) {
        let _ = self.next_report.send(next_report);
        let _ = (&self.waker).write_all(&[0]);
    }

    fn run(&self, options: &Options, session: &PublicKey, connect: Connect) -> Result<(), AttemptError> {
        let mut ui = Silent { progress: &self.progress, complaint: String::new() };
        let connected = connect(options, session, &mut options.log(&mut ui));
        let (mut link, carrier) =
            connected.map_err(|error| AttemptError::Connect { complaint: ui.complaint, error })?;
        let session_id = link.session_id().unwrap_or_default().to_vec();
        self.tell(AttemptReport::Reached { session_id });
        let request = match &self.probe {
            Some(probe) => self.compare(&mut link, probe)?,
            None => self.claims.recv(),
        };
        // The loop has dropped the attempt.
        let Ok(request) = request else { return Ok(()) };
        let answer = claim(&mut link, &request, session)?;
        self.tell(AttemptReport::Accepted { link: Box::new(link), carrier, answer });
        Ok(())
    }

    /// Sends PINGs, one at a time, until the loop wants to claim the session.
    fn compare(
        &self,
        link: &mut Link,
        probe: &SharedProbe,
    ) -> Result<Result<Request, RecvError>, AttemptError> {
        let probe = || probe.lock().unwrap_or_else(PoisonError::into_inner);
        let (data, mut next, mut waits) = (vec![0; PROBE_LEN], Instant::now(), false);
        loop {
            match self.claims.try_recv() {
                Ok(request) => return Ok(Ok(request)),
                Err(TryRecvError::Disconnected) => return Ok(Err(RecvError)),
                Err(TryRecvError::Empty) => {}
            }
            let now = Instant::now();
            if !waits && now >= next && link.answers_pings() {
                link.send(&Ping::new(&data).to_payload());
                probe().on_asked(now);
                (next, waits) = (now + PROBE_INTERVAL, true);
            }
            match link.next_event(Some(now + LOOK)) {
                Ok(Event::Pong(data)) => {
                    probe().on_answer(data.len(), Instant::now());
                    waits = false;
                }
                Ok(Event::Disconnected { description, .. }) => {
                    return Err(AttemptError::Disconnected(crate::log::sanitise(&description)));
                }
                Ok(_) | Err(LinkError::TimedOut) => {}
                Err(error) => return Err(AttemptError::Link(error)),
            }
        }
    }
}

/// Returns the meaning of an error before the session's server was reached.
const fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::HostKey(_) => Failure::OtherKey,
        // It comes from a jump host: there is no login on the server itself.
        ClientError::Denied(_) => Failure::Elsewhere,
        ClientError::Config(_) => Failure::Refused,
        ClientError::Unreachable(_)
        | ClientError::Refused(_)
        | ClientError::Lost(_)
        | ClientError::Local(_) => Failure::Path,
    }
}

/// Returns the meaning of an error in continuing over the new link, after the server has accepted it.
pub(super) const fn failure_to_go_on(error: &ResumeError) -> Failure {
    if error.is_final() { Failure::Refused } else { Failure::Path }
}

/// Claims the session on this link. `session`: the host key of the session's server.
fn claim(link: &mut Link, request: &Request, session: &PublicKey) -> Result<Accepted, AttemptError> {
    let meaning = refusal(link, session);
    let refused = |refusal| AttemptError::Refused { meaning, refusal };
    // Both are sent at once, because the server handles them in order.
    link.send(&ServiceRequest::new(lh_auth::USERAUTH_SERVICE).to_payload());
    link.send(&request.to_payload());
    let deadline = Instant::now() + ANSWER;
    let mut answer = None;
    loop {
        let event = link.next_event(Some(deadline)).map_err(AttemptError::Link)?;
        let payload = match event {
            Event::Packet(payload) => payload,
            Event::Disconnected { description, .. } => {
                return Err(AttemptError::Disconnected(crate::log::sanitise(&description)));
            }
            _ => continue,
        };
        match payload.first() {
            Some(&ACCEPTED) => {
                answer = Some(Accepted::decode(&payload).map_err(|error| refused(Refusal::Malformed(error)))?)
            }
            Some(&UserauthFailure::NUMBER) => {
                return Err(refused(Refusal::Declined));
            }
            Some(&UserauthSuccess::NUMBER) => break,
            _ => {}
        }
    }
    answer.ok_or_else(|| refused(Refusal::NoProof))
}

/// A user interface that answers no questions and records the attempt's progress.
struct Silent<'a> {
    progress: &'a Mutex<Option<Instant>>,
    complaint: String,
}

impl UserInterface for Silent<'_> {
    fn message(&mut self, level: LogLevel, text: &str) {
        if level <= LogLevel::Error {
            self.complaint.push_str(text);
            self.complaint.push('\n');
        }
    }

    fn progress(&mut self, _progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_no_link_can_carry_is_over() {
        assert_eq!(failure_to_go_on(&ResumeError::Busy), Failure::Path);
        let count = lh_resume::CountError::NotSent { count: 7, sent: 3 };
        for error in [ResumeError::Lost, ResumeError::NotResumable, ResumeError::Count(count)] {
            assert_eq!(failure_to_go_on(&error), Failure::Refused, "{error}");
        }
    }
}
