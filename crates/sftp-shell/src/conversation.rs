//! The messages of an SFTP session, and the event that a command waits for.
//!
//! A [`Conversation`] is shared between the commands, which put requests and copies into it, and a
//! [`Carrier`], which moves its bytes until it has [`settled`](Conversation::settled).

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_sftp::link_order::LinkOrder;
use lh_sftp::{Incoming, PacketType, Reply, Request, Session};
use lh_transfer::{Job, Side, Summary};
use lh_wire::Output;

use crate::watch::Watch;

/// Transports the bytes of a conversation.
pub trait Carrier {
    /// Works until the conversation has settled, or is lost (see [`Conversation::lose`]).
    fn run(&mut self, conversation: &Rc<RefCell<Conversation>>);
}

/// Limit of replies that wait to be read: many more than requests in flight.
const MOST_REPLIES: usize = 1024;

/// Time without a byte from the server after which users are told what is awaited.
const MOST_QUIET: Duration = Duration::from_secs(30);

/// Time that users wait for the server's first message at least.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

/// State of a conversation.
enum Stage {
    /// The server's VERSION is awaited.
    Hello(Session),
    Ready(Session),
    Copying(Job, Side),
    /// The connection is lost, for this reason, which is shown to the user.
    Lost(String),
}

/// The event that a command waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The login, behind early messages: it may wait for the user.
    Login,
    Hello,
    /// The reply to this request.
    Reply(u32),
    Copy,
    Console,
}

/// The state of an SFTP session for the commands and the carrier.
pub struct Conversation {
    stage: Stage,
    wait: Wait,
    woken: bool,
    interrupted: bool,
    /// Time of the first queued output that [`Conversation::advance`] has not sent yet.
    fresh: Option<Instant>,
    /// Requests that are not sent yet, from `sent` on.
    queue: Vec<u8>,
    sent: usize,
    /// Bytes left of a request that is partly sent.
    request_left: usize,
    /// Requests without a reply yet; replies may arrive in any order.
    asked: HashMap<u32, PacketType>,
    /// When the last bytes came from the server, or waiting for it began.
    quiet_since: Option<Instant>,
    /// What the server does not answer was reported.
    told_quiet: bool,
    /// Time after which a server that does not answer INIT is given up.
    version_timeout: Option<Duration>,
    replies: VecDeque<Reply>,
    /// The request for the start directory that was sent with INIT.
    home: Option<u32>,
    watch: Rc<Watch>,
}

impl Conversation {
    /// Returns a conversation that begins with INIT.
    pub fn new(watch: Rc<Watch>) -> Self {
        let mut session = Session::new();
        let mut queue = Vec::new();
        session.start(&mut queue);
        Self {
            stage: Stage::Hello(session),
            wait: Wait::Hello,
            woken: false,
            interrupted: false,
            fresh: Some(Instant::now()),
            queue,
            sent: 0,
            request_left: 0,
            asked: HashMap::new(),
            quiet_since: None,
            told_quiet: false,
            version_timeout: None,
            replies: VecDeque::new(),
            home: None,
            watch,
        }
    }

    /// Tells the session which SSH server it talks to, by the identification lines of the server and of this
    /// end, as far as they are known.
    pub fn set_server(&mut self, identification: Option<&str>, own: Option<&str>) {
        if let Stage::Hello(session) | Stage::Ready(session) = &mut self.stage {
            session.set_server(identification, own);
        }
    }

    /// Sets the order in which the server reads the strings of SYMLINK, once it has been observed.
    pub(crate) const fn set_link_order(&mut self, order: LinkOrder) {
        if let Stage::Hello(session) | Stage::Ready(session) = &mut self.stage {
            session.set_link_order(order);
        }
    }

    /// Returns the events that a carrier waits for besides the server.
    pub fn watch(&self) -> Rc<Watch> {
        Rc::clone(&self.watch)
    }

    /// Returns true when the awaited event has occurred, or cannot occur any more.
    pub fn settled(&self) -> bool {
        match (&self.stage, self.wait) {
            (Stage::Lost(_), _) => true,
            (Stage::Hello(_), _) => false,
            (_, Wait::Login | Wait::Hello) => true,
            (_, Wait::Reply(id)) => self.replies.iter().any(|reply| reply.id == id),
            (Stage::Copying(job, _), Wait::Copy) => job.is_quiet(),
            (_, Wait::Copy) => true,
            (_, Wait::Console) => self.woken,
        }
    }

    /// Returns true when the carrier must watch the console's socket.
    pub fn wants_console(&self) -> bool {
        self.wait == Wait::Console
    }

    /// Takes bytes from the server.
    pub fn received(&mut self, data: Bytes, now: Instant) {
        self.quiet_since = Some(now);
        match &mut self.stage {
            Stage::Copying(job, side) => job.received(*side, data, now),
            Stage::Hello(session) | Stage::Ready(session) => session.input(data),
            Stage::Lost(_) => {}
        }
        if !matches!(self.stage, Stage::Copying(..)) {
            self.read_replies();
        }
    }

    fn read_replies(&mut self) {
        loop {
            let polled = match &mut self.stage {
                Stage::Hello(session) | Stage::Ready(session) => session.poll(),
                Stage::Copying(..) | Stage::Lost(_) => return,
            };
            match polled {
                Ok(None) => return,
                Ok(Some(Incoming::Reply(_))) if self.replies.len() >= MOST_REPLIES => {
                    return self.lose("Unexpected replies");
                }
                Ok(Some(Incoming::Reply(reply))) => {
                    if self.asked.remove(&reply.id).is_none() {
                        let oldest = self.asked.keys().min().copied().unwrap_or_default();
                        return self.lose(&format!("ID mismatch ({} != {oldest})", reply.id));
                    }
                    self.replies.push_back(reply);
                }
                Ok(Some(Incoming::Version { .. })) => {
                    if let Stage::Hello(session) = &mut self.stage {
                        // Answers come in order, so the limits are known before any file is open.
                        session.request_limits(&mut self.queue);
                    }
                    self.become_ready();
                }
                Ok(Some(Incoming::Limits(_))) => {}
                Err(error) => return self.lose(&error.to_string()),
            }
        }
    }

    fn become_ready(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Lost(String::new())) {
            Stage::Hello(session) => Stage::Ready(session),
            other => other,
        };
    }

    /// Sends what waits, as far as `out` takes it. Call it also after something was received.
    pub fn advance(&mut self, out: &mut dyn Output, now: Instant) {
        self.fresh = None;
        self.look_for_silence(now);
        if let Stage::Copying(job, side) = &self.stage {
            job.advance(*side, out, now);
            return;
        }
        let many = match &self.stage {
            Stage::Ready(session) => session.takes_many_in_a_packet(),
            // Requests that follow INIT are queued only for servers that accept them there.
            _ => true,
        };
        while self.sent < self.queue.len() {
            let rest = &self.queue[self.sent..];
            let next = match (many, self.request_left) {
                (true, _) => rest.len(),
                (false, 0) => Session::first_message(rest),
                (false, left) => left,
            };
            let want = out.budget().min(next);
            let taken = if want == 0 { 0 } else { out.send(&self.queue[self.sent..self.sent + want]) };
            if taken == 0 {
                return;
            }
            self.sent += taken;
            self.request_left = if many { 0 } else { next - taken };
        }
        self.queue.clear();
        self.sent = 0;
    }

    /// Returns the kind of request whose answer a command waits for.
    fn awaited(&self) -> Option<PacketType> {
        match (&self.stage, self.wait) {
            (Stage::Hello(_), Wait::Hello) => Some(PacketType::INIT),
            (Stage::Ready(_), Wait::Reply(id)) => self.asked.get(&id).copied(),
            _ => None,
        }
    }

    /// Gives a server up that does not answer the first message in this time, or in a minute where that is
    /// longer.
    pub fn limit_wait_for_version(&mut self, limit: Duration) {
        self.version_timeout = Some(limit.max(LEAST_PATIENCE));
    }

    /// The wait for the answer to INIT begins again: the server shows otherwise that it works, or the
    /// connection is interrupted.
    pub fn extend_wait_for_version(&mut self, now: Instant) {
        if self.awaited() == Some(PacketType::INIT) && self.quiet_since.is_some() {
            self.quiet_since = Some(now);
        }
    }

    /// Returns when users are to be told that the server does not answer, or when it is to be given up.
    fn quiet_deadline(&self) -> Option<Instant> {
        let kind = self.awaited()?;
        let tell_after = Some(MOST_QUIET).filter(|_| !self.told_quiet);
        let give_up_after = self.version_timeout.filter(|_| kind == PacketType::INIT);
        let after = tell_after.into_iter().chain(give_up_after).min()?;
        self.quiet_since.map(|since| since + after)
    }

    fn look_for_silence(&mut self, now: Instant) {
        let Some(kind) = self.awaited() else { return self.quiet_since = None };
        let since = *self.quiet_since.get_or_insert(now);
        if self.quiet_deadline().is_none_or(|at| now < at) {
            return;
        }
        if !std::mem::replace(&mut self.told_quiet, true) {
            crate::say(&kind.waiting_for_answer(MOST_QUIET));
        }
        if let Some(limit) = self.version_timeout
            && kind == PacketType::INIT
            && now >= since + limit
        {
            self.lose(&lh_transfer::no_version(limit));
        }
    }

    /// Returns the copy that uses the session, and the session's side in it. A carrier may open additional
    /// channels for the copy; it then transports the copy's bytes itself (see [`begun`](Self::begun)).
    pub fn copy(&self) -> Option<(Job, Side)> {
        match &self.stage {
            Stage::Copying(job, side) => Some((job.clone(), *side)),
            _ => None,
        }
    }

    /// Records that a carrier drives the copy; it replaces the first [`advance`](Self::advance).
    pub const fn begun(&mut self) {
        self.fresh = None;
    }

    /// Returns when [`advance`](Self::advance) must be called without input: a time in the past when a
    /// command has queued output.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.fresh.is_some() {
            return self.fresh;
        }
        match &self.stage {
            Stage::Copying(job, _) => job.next_deadline(),
            _ => self.quiet_deadline(),
        }
    }

    /// Records that the connection is lost; `reason` is shown to the user (such as `Connection closed`).
    pub fn lose(&mut self, reason: &str) {
        if let Stage::Copying(job, side) = &self.stage {
            job.lost(*side, reason);
        }
        if !matches!(self.stage, Stage::Lost(_)) {
            self.stage = Stage::Lost(reason.to_owned());
        }
    }

    /// Returns why the connection was lost, if it was.
    pub fn loss(&self) -> Option<&str> {
        match &self.stage {
            Stage::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Records that the console has an event.
    pub fn wake(&mut self) {
        self.watch.drain_console();
        self.woken = true;
    }

    /// Reads signals; ^C cancels a copy.
    pub fn look_for_signals(&mut self) {
        if self.watch.take_signals() {
            self.interrupted = true;
            if let Stage::Copying(job, _) = &self.stage {
                job.cancel(Instant::now());
                self.fresh = Some(Instant::now());
            }
        }
    }

    /// Returns true when ^C was pressed since the last [`forget_interrupt`](Self::forget_interrupt).
    pub const fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// A new command begins.
    pub fn forget_interrupt(&mut self) {
        let _ = self.watch.take_signals();
        self.interrupted = false;
    }

    /// The session, between copies.
    pub const fn session(&self) -> Option<&Session> {
        match &self.stage {
            Stage::Ready(session) => Some(session),
            _ => None,
        }
    }

    /// Queues a request; `None` when there is no session to ask on.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Option<u32> {
        self.fresh = Some(Instant::now());
        match &mut self.stage {
            Stage::Ready(session) => {
                let id = session.request(request, &mut self.queue);
                self.asked.insert(id, request.packet_type());
                Some(id)
            }
            _ => None,
        }
    }

    /// Asks for the start directory together with INIT, for a server that accepts it. Call it before INIT is
    /// sent.
    pub fn ask_home(&mut self) {
        if let Stage::Hello(session) = &mut self.stage {
            let id = session.request(&Request::Realpath { path: b"." }, &mut self.queue);
            self.asked.insert(id, PacketType::REALPATH);
            self.home = Some(id);
        }
    }

    /// Returns the request of [`ask_home`](Self::ask_home), once.
    pub(crate) const fn take_home(&mut self) -> Option<u32> {
        self.home.take()
    }

    /// Returns the reply to request `id`, if it has arrived.
    pub(crate) fn take_reply(&mut self, id: u32) -> Option<Reply> {
        let at = self.replies.iter().position(|reply| reply.id == id)?;
        self.replies.remove(at)
    }

    /// A login comes first, until [`logged_in`](Self::logged_in): what is sent meanwhile is not answered yet.
    pub const fn wait_for_login(&mut self) {
        self.wait = Wait::Login;
    }

    /// From now on the server is expected to answer.
    pub const fn logged_in(&mut self, now: Instant) {
        self.wait = Wait::Hello;
        self.quiet_since = Some(now);
    }

    pub(crate) fn wait_for_reply(&mut self, id: u32) {
        self.wait = Wait::Reply(id);
        self.quiet_since = Some(Instant::now());
    }

    pub(crate) const fn wait_for_console(&mut self) {
        self.wait = Wait::Console;
        self.woken = false;
    }

    /// Lends the session to a copy.
    pub(crate) fn begin_copy(&mut self, job: Job, side: Side) {
        self.wait = Wait::Copy;
        self.fresh = Some(Instant::now());
        self.stage = match std::mem::replace(&mut self.stage, Stage::Lost(String::new())) {
            Stage::Ready(session) => {
                job.adopt(side, session);
                Stage::Copying(job, side)
            }
            other => other,
        };
    }

    /// Takes the session back. The summary is `None` when the connection was lost on the way.
    pub(crate) fn end_copy(&mut self) -> Option<Summary> {
        let Stage::Copying(job, side) = &self.stage else { return None };
        let summary = job.summary();
        match job.release(*side) {
            Some(session) => {
                self.stage = Stage::Ready(session);
                Some(summary)
            }
            None => {
                // The copy has found an error in the server's replies.
                self.stage = Stage::Lost("Connection closed".to_owned());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
