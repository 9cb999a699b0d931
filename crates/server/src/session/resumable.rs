//! The monitor's part in a session that may go on over another connection (`ResumeGrace`): it has the secret, and
//! decides who takes the session over. One claim at a time.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use lh_resume::message::Request;
use lh_resume::{BUDGET, Export, Handle, Refused, ServerSecret, Verified};
use lh_session_list::Wait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use crate::log::{Field, Log, debug, info};
use crate::monitor::Monitor;
use crate::monitor_ipc::{MAX_HAND_OVER, MAX_MONITOR_REQUEST, MonitorSocket, MonitorSocketError};
use crate::resuming::{
    FromClaimant, FromUser, Login, Moved, Notice, PATIENCE, SessionTerms, ToClaimant, ToUser, check, listen,
};

/// Connections that are looked at before anything else is done.
const MOST_AT_ONCE: usize = 256;

/// See the module documentation.
pub(super) struct Resumable {
    secret: ServerSecret,
    session: SessionTerms,
    listening: UnixListener,
    /// The user session process; `None` when it has closed its end.
    user: Option<MonitorSocket>,
    attempt: Option<Attempt>,
    /// The connection that the user session process was given last.
    going_on: Option<(Vec<u8>, SocketAddr, SocketAddr)>,
    /// The secret was rolled for a connection that the session does not go on over yet.
    is_rolled: bool,
    /// The session has no connection.
    waiting: Option<Waiting>,
    /// Where the client was last.
    address: IpAddr,
    log: Log,
}

/// More than a session process keeps for its client, bytes: the budget, and what may exceed it.
const MOST_KEPT: u64 = 2 * BUDGET as u64;

/// Since when, and how long, a session waits for its client.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Instant,
    grace: Duration,
    /// Bytes that the client has not acknowledged, as the user session process says.
    kept: u64,
}

/// A connection whose client claims the session.
struct Attempt {
    claimant: MonitorSocket,
    step: Step,
    /// When it is not waited for any longer.
    until: Instant,
}

enum Step {
    /// The claim is to come.
    Connected,
    /// The proof was right; the account is being looked at.
    Right(Claim),
    /// The user session process lets its connection go.
    LettingGo(Claim, Taking),
    /// The client is being told; the connection is to come.
    Accepted(Claim, Taking),
    /// Its socket has come.
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

/// The session is to end: its user may not have it any more.
pub(super) struct Ended;

impl Resumable {
    /// Begins to listen. Returns the user session process's end of the conversation, too.
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
        let user = Some(MonitorSocket::new(ours)?);
        Ok((
            Self {
                secret,
                session,
                listening,
                user,
                attempt: None,
                going_on: None,
                is_rolled: false,
                waiting: None,
                address,
                log,
            },
            theirs,
        ))
    }

    /// Lists what to wait for.
    pub(super) fn interests<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if let Some(user) = &self.user {
            fds.push(PollFd::new(user.socket(), PollFlags::IN));
        }
        match &self.attempt {
            // The next one waits until this one is decided.
            Some(attempt) => fds.push(PollFd::new(attempt.claimant.socket(), PollFlags::IN)),
            None => fds.push(PollFd::new(&self.listening, PollFlags::IN)),
        }
    }

    /// Time at which to call [`serve`](Self::serve) though nothing has come.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.attempt.as_ref().map(|attempt| attempt.until)
    }

    /// How long the session has waited for its client, and still will.
    pub(super) fn wait(&self) -> Option<Wait> {
        let Waiting { since, grace, .. } = self.waiting?;
        let waited = since.elapsed();
        Some(Wait { waited: waited.as_secs(), left: grace.saturating_sub(waited).as_secs() })
    }

    /// Tells the listener whether the session waits, or where its connection comes from.
    pub(super) fn notify(&self, listener: &mut impl Write) {
        let Some(Waiting { since, grace, kept }) = self.waiting else {
            let _ = listener.write_all(&Notice::Connected(self.address).encode());
            return;
        };
        let (handle, user) = (self.secret.handle(), self.session.account.clone());
        let (address, waited) = (self.address, since.elapsed());
        // A listener that has been restarted adopts the session, and is told then.
        let _ = listener.write_all(&Notice::Waits { handle, user, address, waited, grace }.encode());
        if kept > 0 {
            let _ = listener.write_all(&Notice::Keeps { handle, bytes: kept }.encode());
        }
    }

    /// Does what is there to be done, without waiting.
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
        // Other users' processes are many, at worst; they must not keep the right one waiting.
        for _ in 0..MOST_AT_ONCE {
            let Ok((socket, _)) = self.listening.accept() else { return };
            let claimant = check(&socket)
                .and_then(|()| socket.set_nonblocking(false))
                .and_then(|()| MonitorSocket::new(socket));
            if let (Ok(claimant), Some(until)) = (claimant, Instant::now().checked_add(PATIENCE)) {
                self.attempt = Some(Attempt { claimant, step: Step::Connected, until });
                return;
            }
        }
    }

    /// Takes what the other connection's monitor says. False: the session is to end.
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
                        let SessionTerms { proofs, options, rules, host_keys, .. } = self.session.clone();
                        let login = Login { proofs, options: Box::new(options), rules, host_keys };
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
                Step::LettingGo(claim, Taking { export, peer, local })
            }
            (FromClaimant::Connection(state), Step::Arriving(claim, taking, socket)) => {
                let Taking { peer, local, .. } = taking;
                let received = claim.verified.received();
                let moved = Moved { received, peer, local, session_id: claim.session_id.clone(), state };
                self.tell_user(Some(socket), &ToUser::Connection(moved))?;
                // What the user session process makes of it, it says itself.
                self.going_on = Some((claim.session_id, peer, local));
                return Ok(true);
            }
            _ => return Err(wrong()),
        };
        self.attempt = Some(attempt);
        Ok(true)
    }

    fn verify(&self, user: &str, fields: &[u8], session_id: &[u8]) -> Result<Verified, Refused> {
        let request = Request::from_fields(user, fields).map_err(|_| Refused::WrongProof)?;
        if request.user != self.session.name {
            return Err(Refused::WrongProof);
        }
        self.secret.verify(&request, session_id)
    }

    /// A byte, with the socket if there is one, and the message.
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
                FromUser::Away { grace } => {
                    let grace = self.session.grace.min(Duration::from_secs(grace.into()));
                    self.begin_to_wait(grace, control);
                    let (name, seconds) = (&self.session.name, grace.as_secs());
                    info!(
                        self.log,
                        "connection of user {name} lost; the session waits for {seconds} seconds"
                    );
                }
                // Of the connection before it says nothing about who has the secret now.
                FromUser::Heard if self.is_rolled => {}
                FromUser::Heard => self.secret.confirm(),
                FromUser::Keeps(bytes) => self.note_kept(bytes, control),
                FromUser::Received(received) => self.let_go(Some(received), control),
                FromUser::Cannot => self.let_go(None, control),
                FromUser::Resumed => {
                    let Some((session_id, peer, local)) = self.going_on.take() else { return Err(wrong()) };
                    self.is_rolled = false;
                    monitor.moved(&session_id, peer, local);
                    self.address = peer.ip();
                    self.log.set_field(Field::RemoteAddr, &peer.ip().to_string());
                    let (name, ip, port) = (&self.session.name, peer.ip(), peer.port());
                    info!(self.log, "session of user {name} resumed from {ip} port {port}");
                    self.waiting = None;
                    // A listener that is not there any more counts nothing.
                    let _ = control.write_all(&Notice::GoesOn(self.secret.handle()).encode());
                    self.notify(control);
                }
            }
        }
        Ok(())
    }

    /// The session has no connection. One that waits already goes on to wait.
    fn begin_to_wait(&mut self, grace: Duration, listener: &mut impl Write) {
        self.waiting.get_or_insert(Waiting { since: Instant::now(), grace, kept: 0 });
        self.notify(listener);
    }

    /// The waiting session keeps more for its client than before.
    fn note_kept(&mut self, bytes: u64, listener: &mut impl Write) {
        // What the user's own process says: no more than it can keep, and what only grows is told a bounded
        // number of times.
        let bytes = bytes.min(MOST_KEPT);
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| bytes > waiting.kept) {
            waiting.kept = bytes;
            let _ = listener.write_all(&Notice::Keeps { handle: self.secret.handle(), bytes }.encode());
        }
    }

    /// The user session process has let its connection go, with the final count, or cannot.
    fn let_go(&mut self, received: Option<u64>, control: &mut impl Write) {
        let Some(mut attempt) = self.attempt.take() else { return };
        let Step::LettingGo(claim, taking) = attempt.step else {
            // The answer to an attempt that was not waited for any longer.
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
        // Until the connection has come: it may not.
        self.begin_to_wait(self.session.grace, control);
        // A claimant that is gone takes its client with it, who then claims the session again.
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
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use lh_resume::{ClientSecret, NAME};

    use crate::key_options::KeyOptions;
    use crate::log::Level;
    use crate::resuming::connect;

    const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7);

    /// A session, with the user session process and the client in the test's hands.
    struct Scene {
        resumable: Resumable,
        monitor: Monitor,
        user: MonitorSocket,
        client: ClientSecret,
        handle: Handle,
        listener: Vec<u8>,
    }

    impl Scene {
        fn new(number: u8) -> Self {
            let mut handle = [number; 16];
            handle[..4].copy_from_slice(&std::process::id().to_be_bytes());
            let export: Export = Zeroizing::new([3; 32]);
            let grace = std::time::Duration::from_secs(60);
            let (name, account, proofs) = ("ada:style".to_owned(), "ada".to_owned(), String::new());
            let (options, rules, host_keys) = (KeyOptions::default(), Vec::new(), Vec::new());
            let session = SessionTerms { name, account, proofs, options, rules, host_keys, grace };
            let log = Log::lines(Level::Info);
            let (resumable, theirs) =
                Resumable::new(handle, &export[..], session, HERE.ip(), log.clone()).unwrap();
            let user = MonitorSocket::new(theirs).unwrap();
            let monitor = Monitor::new(crate::testing::config(""), Vec::new(), HERE, HERE, log);
            let handle = Handle(handle);
            let client = ClientSecret::new(handle, &export);
            Self { resumable, monitor, user, client, handle, listener: Vec::new() }
        }

        fn serve(&mut self) {
            while self.resumable.has_work() {
                assert!(self.resumable.serve(&mut self.monitor, &mut self.listener).is_ok());
            }
        }

        /// A monitor whose client has made the right claim, for a connection with this identifier.
        fn claimed(&mut self, session_id: &[u8]) -> MonitorSocket {
            let request = self.client.request("ada:style", session_id, 0).to_payload();
            let before = 1 + 4 + 9 + 4 + 14 + 4 + NAME.len();
            let claim = FromClaimant::Claim {
                user: "ada:style".to_owned(),
                fields: request[before..].to_vec(),
                session_id: session_id.to_vec(),
            };
            let mut claimant = MonitorSocket::new(connect(&self.handle).unwrap()).unwrap();
            claimant.send(&claim.encode()).unwrap();
            self.serve();
            let answer = ToClaimant::decode(&claimant.receive().unwrap()).unwrap();
            assert!(matches!(answer, ToClaimant::Right(_)), "{answer:?}");
            claimant
        }

        /// Lets the connection take the session over, and the user session process hear of it.
        fn take(&mut self, claimant: &MonitorSocket) {
            let export = vec![4; 32].into();
            claimant.send(&FromClaimant::Take { export, peer: HERE, local: HERE }.encode()).unwrap();
            self.serve();
            assert!(lh_sys::pass::receive_fd(self.user.socket()).unwrap().is_none());
            assert_eq!(ToUser::decode(&self.user.receive().unwrap()), Ok(ToUser::LetGo));
        }

        fn answer(&mut self, count: u64) {
            self.user.send(&FromUser::Received(count).encode()).unwrap();
            self.serve();
        }
    }

    impl Resumable {
        fn has_work(&self) -> bool {
            let mut fds = Vec::new();
            self.interests(&mut fds);
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
        }
    }

    #[test]
    fn a_connection_takes_the_session_over() {
        let mut scene = Scene::new(1);
        let mut claimant = scene.claimed(b"new connection");
        scene.take(&claimant);
        scene.answer(5);
        let answer = ToClaimant::decode(&claimant.receive().unwrap()).unwrap();
        assert!(matches!(answer, ToClaimant::Accepted(_)), "{answer:?}");
        lh_sys::pass::send_fd(claimant.socket(), claimant.socket().as_fd()).unwrap();
        scene.serve();
        claimant.send(&FromClaimant::Connection(vec![9; 100_000].into()).encode()).unwrap();
        scene.serve();
        assert!(lh_sys::pass::receive_fd(scene.user.socket()).unwrap().is_some());
        let ToUser::Connection(moved) = ToUser::decode(&scene.user.receive().unwrap()).unwrap() else {
            panic!("no connection");
        };
        assert_eq!((moved.session_id.as_slice(), moved.state.len()), (&b"new connection"[..], 100_000));
        scene.user.send(&FromUser::Resumed.encode()).unwrap();
        scene.serve();
        let (waits, used) = Notice::read(&scene.listener).unwrap().unwrap();
        // Counted by account: a style makes no other user of it.
        assert!(matches!(&waits, Notice::Waits { user, .. } if user == "ada"), "{waits:?}");
        let after =
            [Notice::GoesOn(scene.handle), Notice::Connected(HERE.ip())].map(|notice| notice.encode());
        assert_eq!(scene.listener[used..], after.concat());
    }

    #[test]
    fn the_listener_is_told_what_a_session_keeps() {
        let mut scene = Scene::new(4);
        let handle = scene.handle;
        let words = [FromUser::Keeps(9), FromUser::Away { grace: 60 }, FromUser::Keeps(7)];
        for word in
            words.into_iter().chain([FromUser::Keeps(5), FromUser::Keeps(u64::MAX), FromUser::Keeps(9)])
        {
            scene.user.send(&word.encode()).unwrap();
        }
        scene.serve();
        // A listener that comes later is told all of it.
        let now = std::mem::take(&mut scene.listener);
        scene.resumable.notify(&mut scene.listener);
        for (mut told, kept) in [(&now[..], vec![7, MOST_KEPT]), (&scene.listener[..], vec![MOST_KEPT])] {
            let (waits, used) = Notice::read(told).unwrap().unwrap();
            assert!(matches!(waits, Notice::Waits { .. }), "{waits:?}");
            told = &told[used..];
            for bytes in kept {
                let (notice, used) = Notice::read(told).unwrap().unwrap();
                assert_eq!(notice, Notice::Keeps { handle, bytes });
                told = &told[used..];
            }
            assert!(told.is_empty());
        }
    }

    #[test]
    fn late_word_of_the_old_connection_confirms_nothing() {
        let mut scene = Scene::new(3);
        // The answers are lost: the client goes on to claim with the secret that it has.
        for id in [b"first", b"other"] {
            let mut claimant = scene.claimed(id);
            scene.take(&claimant);
            scene.answer(5);
            scene.user.send(&FromUser::Heard.encode()).unwrap();
            scene.serve();
            let answer = ToClaimant::decode(&claimant.receive().unwrap()).unwrap();
            assert!(matches!(answer, ToClaimant::Accepted(_)), "{answer:?}");
            drop(claimant);
            scene.serve();
        }
        scene.claimed(b"last");
    }

    #[test]
    fn a_claimant_that_leaves_does_not_end_the_session() {
        let mut scene = Scene::new(2);
        for id in [b"first", b"other"] {
            let claimant = scene.claimed(id);
            scene.take(&claimant);
            drop(claimant);
            // Its end may be noticed before the answer, or when it is to be told.
            if id == b"other" {
                scene.serve();
            }
            scene.answer(5);
        }
        // While a further one is being looked at, a late answer changes nothing.
        let claimant = scene.claimed(b"last");
        scene.answer(5);
        scene.take(&claimant);
        assert!(scene.resumable.user.is_some() && scene.resumable.attempt.is_some());
    }
}
