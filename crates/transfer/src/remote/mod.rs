//! A remote end: operations become SFTP requests, replies find their tokens.
//!
//! | module | what |
//! |---|---|
//! | [`dropped`] | requests that are not answered |
//! | [`listed`] | what is asked about entries of listings |
//! | [`outgoing`] | requests that wait to be sent |
//! | [`pending`] | requests that wait for their answers |
//! | [`requests`] | the request for each operation |

mod dropped;
mod listed;
mod outgoing;
mod pending;
mod requests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_sftp::link_order::LinkOrder;
use lh_sftp::{
    Incoming, PacketType, Reply, ReplyBody, Request, Session, SessionError, StatusCode, WriteHeader,
    extension,
};
use lh_wire::Output;

use crate::answers::{Shape, outcome};
use crate::end::{Done, Fault, FaultKind, Handle, Op, Outcome};
use crate::flow::Silence;
use crate::handles::{HandlePurpose, Handles};
use crate::remote::listed::Listed;
use crate::remote::outgoing::Outgoing;
use crate::remote::pending::{Awaited, Pending, What};
use crate::remote::requests::{Asked, has_full_attrs, opening_of, remote, request_of};
use crate::to_open::{Opening, ToOpen, Turn, Waiting, may_be_limit, may_wait, most_handles};
use crate::token::Token;

/// A message of a server.
#[derive(Debug)]
pub(crate) enum Received {
    /// The answer to an operation.
    Answer(Token, Outcome),
    /// The server gave `opened` a handle that is already open. It is being closed again, and nothing else is
    /// opened while something is open.
    SameHandle { opened: Token, holders: Vec<HandlePurpose> },
}

/// The server broke the protocol: the end of this session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// Its messages make no sense.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It answered what was not asked.
    #[error("ID mismatch: the SFTP server answered request {0}, which is not open")]
    NotAsked(u32),
}

/// One SFTP session and the requests on their way.
#[derive(Debug)]
pub(crate) struct Remote {
    session: Session,
    /// Which of the channels to its end; 0 is the first one.
    channel: usize,
    outgoing: Outgoing,
    pending: Pending,
    ready: bool,
    /// The server takes what stands behind INIT.
    first_flight: bool,
    /// The server can answer INIT. Before the login it cannot.
    awaits_version: bool,
    /// Time after which a server that does not answer INIT is given up.
    version_timeout: Option<Duration>,
    lost: Option<String>,
    handles: Handles,
    /// Answers to CLOSEs that came before those to OPENs that were sent earlier.
    early_closes: VecDeque<(u32, Token, Outcome)>,
    /// Requests that wait until fewer files are open.
    to_open: ToOpen,
    /// The other end of the copy is remote, too.
    both_remote: bool,
    silence: Silence,
    listed: Listed,
}

impl Remote {
    pub(crate) fn new() -> Self {
        Self {
            session: Session::new(),
            channel: 0,
            outgoing: Outgoing::default(),
            pending: Pending::default(),
            ready: false,
            first_flight: false,
            awaits_version: false,
            version_timeout: None,
            lost: None,
            handles: Handles::default(),
            early_closes: VecDeque::new(),
            to_open: ToOpen::default(),
            both_remote: false,
            silence: Silence::default(),
            listed: Listed::default(),
        }
    }

    /// The end of additional channel number `channel`.
    pub(crate) fn of_channel(channel: usize) -> Self {
        Self { channel, ..Self::new() }
    }

    /// An end of a copy between two remote ends.
    pub(crate) fn of_two() -> Self {
        Self { both_remote: true, ..Self::new() }
    }

    /// Goes on with a session whose version and limits are known and that owes no answer.
    pub(crate) fn with_session(session: Session) -> Self {
        Self { session, ready: true, ..Self::new() }
    }

    #[cfg(test)]
    pub(crate) const fn on_channel(mut self, channel: usize) -> Self {
        self.channel = channel;
        self
    }

    /// Gives the session back; useful only when it is [`quiet`](Self::quiet).
    pub(crate) fn into_session(self) -> Session {
        self.session
    }

    /// Returns the number of answers that are awaited; a little more when they come out of order.
    pub(crate) fn awaited(&self) -> usize {
        self.pending.len()
    }

    /// Returns true when nothing waits to be sent and no answer is awaited.
    pub(crate) fn quiet(&self) -> bool {
        self.pending.is_empty() && self.to_open.is_empty() && self.outgoing.is_empty()
    }

    /// Says hello. Call once, when the channel is open. `first_flight`: the server takes what stands behind
    /// that.
    pub(crate) fn start(&mut self, first_flight: bool) {
        self.session.start(&mut self.outgoing.queue);
        self.first_flight = first_flight;
    }

    /// Returns true where something may be asked though the server has not answered yet.
    pub(crate) const fn takes_first_flight(&self) -> bool {
        self.first_flight && !self.ready
    }

    /// Returns true when the server's version and extensions are known.
    pub(crate) const fn ready(&self) -> bool {
        self.ready
    }

    pub(crate) const fn lost(&self) -> bool {
        self.lost.is_some()
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Sets the order in which the server reads the strings of SYMLINK, once it has been observed.
    pub(crate) const fn set_link_order(&mut self, order: LinkOrder) {
        self.session.set_link_order(order);
    }

    /// Makes all listings tell links from their targets.
    pub(crate) const fn tell_links(&mut self) {
        self.listed.wanted = true;
    }

    /// Like [`Remote::with_session`], for the same copy as before.
    pub(crate) fn adopt(&mut self, session: Session) {
        let listed = std::mem::take(&mut self.listed);
        *self = Self { listed, ..Self::with_session(session) };
    }

    /// Tells the session the identification lines of the server and of this end.
    pub(crate) fn set_server(&mut self, identification: Option<&str>, own: &str) {
        self.session.set_server(identification, Some(own));
    }

    /// Bytes of requests that could not be sent yet.
    pub(crate) fn queued(&self) -> usize {
        self.outgoing.queued()
    }

    /// Starts an operation. Answers at once only when there is no connection any more, or no way to ask.
    pub(crate) fn perform(&mut self, op: Op<'_>, token: Token) -> Option<Outcome> {
        if let Some(reason) = &self.lost {
            return Some(Err(Fault { kind: FaultKind::Lost, text: reason.clone() }));
        }
        if op.handle().is_some_and(|handle| handle.channel() != self.channel) {
            // It would be about another file.
            return Some(Err(Fault::other("Bad file descriptor")));
        }
        let op = self.wait_to_open(op, token)?;
        let mut encoded = Vec::new();
        let (request, shape) = match request_of(&op, &self.session, self.takes_first_flight(), &mut encoded)?
        {
            Asked::Request(request, shape) => (request, shape),
            Asked::Known(outcome) => return Some(outcome),
        };
        let kind = request.packet_type();
        let id = self.session.request(&request, &mut self.outgoing.queue);
        let what = match (Opening::of(&request), &op) {
            (Some(opening), _) => {
                self.handles.opening(id, opening);
                What::Opens
            }
            (None, Op::Close(Handle::Remote(handle, _))) => {
                self.handles.closing(handle, id, &token);
                self.listed.closed(handle);
                What::Closes
            }
            (None, Op::ListMore(Handle::Remote(handle, _))) if self.listed.asked(id, handle) => What::Lists,
            _ => What::Other,
        };
        self.pending.push(id, Awaited { token, shape, what, kind });
        None
    }

    /// The server is a Longhaul server.
    pub(crate) fn is_ours(&self) -> bool {
        self.session.supports(extension::PUT_FILES)
    }

    /// One file or directory is open at a time.
    pub(crate) const fn one_at_a_time(&self) -> bool {
        self.session.gives_handles_twice()
    }

    /// From now on nothing is opened while something is open.
    pub(crate) const fn open_one_at_a_time(&mut self) {
        self.session.note_handles_given_twice();
    }

    /// Returns true when every answer came in the order of the requests.
    pub(crate) const fn in_order(&self) -> bool {
        self.pending.in_order
    }

    /// Keeps what is to be opened for later, where that is to be so; gives everything else back.
    fn wait_to_open<'a>(&mut self, op: Op<'a>, token: Token) -> Option<Op<'a>> {
        let alone = self.one_at_a_time();
        if self.to_open.is_empty() && (!alone || self.handles.is_empty())
            || !(alone || may_wait(&token, self.both_remote))
        {
            return Some(op);
        }
        let Some((opening, shape)) = opening_of(&op, &self.session) else { return Some(op) };
        self.to_open.push(Waiting { token, shape, opening });
        None
    }

    /// Opens what waits and whose turn it is.
    fn open_waiting(&mut self) {
        while !self.to_open.is_empty() {
            let turn = match self.pending.is_empty() {
                _ if self.one_at_a_time() => Turn::Alone,
                true => Turn::Idle,
                false => Turn::Awaiting,
            };
            let Some(next) = self.to_open.next(self.handles.open_or_opening(), turn) else { return };
            let Waiting { token, shape, opening } = next;
            let kind = opening.request().packet_type();
            let id = self.session.request(&opening.request(), &mut self.outgoing.queue);
            self.handles.opening(id, opening);
            self.pending.push(id, Awaited { token, shape, what: What::Opens, kind });
        }
    }

    /// The server sends and takes times as they are.
    pub(crate) fn full(&self) -> bool {
        has_full_attrs(&self.session)
    }

    /// The bytes of a handle, where it belongs to this channel.
    fn own<'a>(&self, handle: &'a Handle) -> Option<&'a lh_sftp::Handle> {
        remote(handle).filter(|_| handle.channel() == self.channel)
    }

    /// Queues a READ.
    pub(crate) fn read(&mut self, handle: &Handle, offset: u64, len: u32, token: Token) {
        if let Some(handle) = self.own(handle) {
            let id = self.session.request(&Request::Read { handle, offset, len }, &mut self.outgoing.queue);
            let (shape, what, kind) = (Shape::Plain, What::Other, PacketType::READ);
            self.pending.push(id, Awaited { token, shape, what, kind });
        }
    }

    /// Begins a WRITE; when its data are known, [`Remote::expect`] its id.
    pub(crate) fn write_header(&mut self, handle: &Handle, offset: u64) -> Option<WriteHeader> {
        Some(self.session.write_header(self.own(handle)?, offset))
    }

    /// Puts a whole WRITE behind the other requests, for data so small that they share a packet.
    pub(crate) fn queue_write(&mut self, header: &mut WriteHeader, data: &[u8], token: Token) {
        self.outgoing.queue.extend_from_slice(header.bytes(data.len()));
        self.outgoing.queue.extend_from_slice(data);
        self.expect(header.id(), token);
    }

    /// Remembers which WRITE the reply with this id will be about.
    pub(crate) fn expect(&mut self, id: u32, token: Token) {
        let (shape, what, kind) = (Shape::Status, What::Other, PacketType::WRITE);
        self.pending.push(id, Awaited { token, shape, what, kind });
    }

    /// Nothing was sent with this id after all.
    pub(crate) fn forget(&mut self, id: u32) {
        self.pending.take(id);
    }

    pub(crate) const fn mid_message(&self) -> bool {
        self.outgoing.mid_message()
    }

    pub(crate) const fn set_mid_message(&mut self, mid_message: bool) {
        self.outgoing.set_mid_message(mid_message);
    }

    /// Sends what is queued, as far as the channel takes it; true when nothing is left.
    pub(crate) fn flush(&mut self, out: &mut dyn Output) -> bool {
        // No further reply may come that would open the waiting ones.
        self.open_waiting();
        let many = self.session.takes_many_in_a_packet() || self.takes_first_flight();
        self.outgoing.flush(many, out)
    }

    /// Takes bytes from the channel.
    pub(crate) fn input(&mut self, data: Bytes, now: Instant) {
        self.silence.answered(now);
        self.session.input(data);
    }

    /// Returns the next message of the server. An error is the end of this session.
    pub(crate) fn poll(&mut self) -> Result<Option<Received>, ServerError> {
        loop {
            if let Some(came) = self.next_early_close() {
                return Ok(Some(came));
            }
            match self.session.poll()? {
                None => return Ok(None),
                // Answers come in order: the limits are known before a file is open, which is when they
                // matter.
                Some(Incoming::Version { .. }) => {
                    self.session.request_limits(&mut self.outgoing.queue);
                    self.ready = true;
                }
                Some(Incoming::Limits(_)) => {}
                Some(Incoming::Reply(Reply { id, body })) => {
                    let Some(awaited) = self.pending.take(id) else {
                        if self.pending.take_given_up(id) {
                            self.too_late(body);
                            continue;
                        }
                        return Err(ServerError::NotAsked(id));
                    };
                    if let Some(came) = self.on_reply(id, awaited, body) {
                        return Ok(Some(came));
                    }
                }
            }
        }
    }

    /// Returns the meaning of an answer; `None` if it is kept for later.
    fn on_reply(&mut self, id: u32, awaited: Awaited, body: ReplyBody) -> Option<Received> {
        self.pending.answered(id);
        let Awaited { token, shape, what, .. } = awaited;
        let code = if let ReplyBody::Status(status) = &body { status.code } else { StatusCode::OK };
        let outcome = outcome(body, shape, self.channel);
        match what {
            What::Other => {}
            What::Closes if self.handles.opening_before(id) => {
                // The validity of this handle may be in doubt when they are answered.
                self.early_closes.push_back((id, token, outcome));
                return None;
            }
            What::Closes => {
                self.handles.closed(id);
                self.open_waiting();
            }
            What::Opens => return self.opened(id, awaited, code, outcome),
            What::Lists => return self.listed(id, token, outcome),
            What::Looks(look) => {
                let listing = self.listed.looked(look, outcome);
                if self.listed.lists_links {
                    self.session.note_listed_links();
                }
                self.look_at_more();
                return listing.map(|(token, outcome)| Received::Answer(token, outcome));
            }
        }
        Some(Received::Answer(token, outcome))
    }

    /// Returns the meaning of an answer to READDIR; `None` if its entries must be looked at first.
    fn listed(&mut self, id: u32, token: Token, outcome: Outcome) -> Option<Received> {
        let answer = self.listed.look_at(id, token, outcome, self.session.lists_links());
        self.look_at_more();
        answer.map(|outcome| Received::Answer(token, outcome))
    }

    /// Asks about entries of listings, as many as may be.
    fn look_at_more(&mut self) {
        while let Some((path, look)) = self.listed.next_look() {
            let path = &path[..];
            let request = if look.follows { Request::Stat { path } } else { Request::Lstat { path } };
            let (kind, what) = (request.packet_type(), What::Looks(look));
            let id = self.session.request(&request, &mut self.outgoing.queue);
            self.pending.push(id, Awaited { token: Token::Nothing, shape: Shape::Plain, what, kind });
        }
    }

    /// Returns the meaning of an answer to a request that opens; `None` if it is to be opened later.
    fn opened(&mut self, id: u32, awaited: Awaited, code: StatusCode, outcome: Outcome) -> Option<Received> {
        let Awaited { token, shape, .. } = awaited;
        let opening = self.handles.answered(id);
        match (&outcome, opening) {
            (
                Ok(
                    Done::Opened(Handle::Remote(handle, _), _)
                    | Done::Listing(Some(Handle::Remote(handle, _)), _),
                ),
                Some(opening),
            ) => {
                if let Some(refused_at) = opening.refused_at {
                    self.session.note_most_handles(most_handles(refused_at) as u64);
                }
                if !opening.is_file() {
                    self.listed.opened(handle, &opening.path);
                }
                let holders = self.handles.given(handle, id, token, opening);
                self.to_open.opened(self.handles.open());
                if !holders.is_empty() {
                    self.open_one_at_a_time();
                    let handle = Handle::Remote(handle.clone(), self.channel);
                    self.perform(Op::Close(handle), Token::Nothing);
                    return Some(Received::SameHandle { opened: token, holders });
                }
            }
            (Err(fault), Some(opening)) => {
                let open = self.handles.open();
                if may_be_limit(code, fault)
                    && may_wait(&token, self.both_remote)
                    && self.to_open.is_doubtful(&opening, open, self.in_order())
                {
                    let opening = Opening { refused_at: Some(open.all), ..opening };
                    self.to_open.push(Waiting { token, shape, opening });
                    self.open_waiting();
                    return None;
                }
            }
            _ => {}
        }
        self.open_waiting();
        Some(Received::Answer(token, outcome))
    }

    /// An answer to a CLOSE that had to wait for the answers to OPENs, and need not any more.
    fn next_early_close(&mut self) -> Option<Received> {
        let at = self.early_closes.iter().position(|(id, ..)| !self.handles.opening_before(*id))?;
        let (id, token, outcome) = self.early_closes.remove(at)?;
        self.handles.closed(id);
        self.open_waiting();
        Some(Received::Answer(token, outcome))
    }
}
