//! A remote end: operations become SFTP requests, replies find their tokens.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_sftp::extended_attrs;
use lh_sftp::{
    Attrs, Handle as RemoteHandle, Incoming, OpenFlags, Reply, ReplyBody, Request, Session, SumStep,
    WriteHeader, extension,
};
use lh_wire::Output;

use crate::answers::{Shape, outcome};
use crate::end::{AsFound, DIGEST_BLOCK, Done, Fault, FaultKind, Handle, Op, Outcome};
use crate::flow::{Next, Silence};
use crate::handles::{Handles, Holder};
use crate::token::Token;

/// Whose answer is awaited, and what it is made of.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    token: Token,
    shape: Shape,
    what: What,
}

/// What a request does to handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Opens,
    Closes,
    Other,
}

/// What a server has said.
#[derive(Debug)]
pub(crate) enum Came {
    /// The answer to an operation.
    Answer(Token, Outcome),
    /// What `opened` asked to open was given a handle that is open already. It is being closed again, and nothing else is opened while
    /// something is open.
    SameHandle { opened: Token, holders: Vec<Holder> },
}

/// A request to open something that waits until nothing is open.
#[derive(Debug)]
struct Waiting {
    token: Token,
    shape: Shape,
    path: Vec<u8>,
    how: How,
}

#[derive(Debug)]
enum How {
    File(OpenFlags, Attrs),
    Dir,
    Listing(Vec<u8>),
}

/// One SFTP session and the requests on their way.
#[derive(Debug)]
pub(crate) struct Remote {
    session: Session,
    /// Requests that wait to be sent, in order; `sent` bytes of them are gone.
    queue: Vec<u8>,
    sent: usize,
    /// Where the request ends that is half sent, in `queue`.
    request_end: usize,
    /// Tokens by id: the first belongs to id `first_id`. Answers mostly come in order, so this stays short.
    pending: VecDeque<Option<Awaited>>,
    first_id: u32,
    ready: bool,
    /// The server takes what stands behind INIT.
    early: bool,
    /// Part of a WRITE is sent; only its rest may follow.
    mid_message: bool,
    lost: Option<String>,
    handles: Handles,
    /// Answers to CLOSEs that came before those to OPENs that were sent earlier.
    early_closes: VecDeque<(u32, Token, Outcome)>,
    /// What is to be opened when nothing else is, on a server that gives one handle twice.
    waiting: VecDeque<Waiting>,
    /// The id of the last request that was answered, and whether all have been in the order of their requests.
    last_answered: Option<u32>,
    in_order: bool,
    silence: Silence,
    /// Requests that were taken for dropped: their answers may still come.
    given_up: HashSet<u32>,
}

impl Remote {
    pub(crate) fn new() -> Self {
        Self {
            session: Session::new(),
            queue: Vec::new(),
            sent: 0,
            request_end: 0,
            pending: VecDeque::new(),
            first_id: 0,
            ready: false,
            early: false,
            mid_message: false,
            lost: None,
            handles: Handles::default(),
            early_closes: VecDeque::new(),
            waiting: VecDeque::new(),
            last_answered: None,
            in_order: true,
            silence: Silence::default(),
            given_up: HashSet::new(),
        }
    }

    /// Goes on with a session whose version and limits are known and that owes no answer.
    pub(crate) fn with_session(session: Session) -> Self {
        Self { session, ready: true, ..Self::new() }
    }

    /// Gives the session back; useful only when it is [`quiet`](Self::quiet).
    pub(crate) fn into_session(self) -> Session {
        self.session
    }

    /// How many answers are awaited; a little more when they come out of order.
    pub(crate) fn awaited(&self) -> usize {
        self.pending.len()
    }

    /// True when nothing waits to be sent and no answer is awaited.
    pub(crate) fn quiet(&self) -> bool {
        self.pending.is_empty() && self.waiting.is_empty() && self.queued() == 0 && !self.mid_message
    }

    /// Says hello. Call once, when the channel is open. `early`: the server takes what stands behind that.
    pub(crate) fn start(&mut self, early: bool) {
        self.session.start(&mut self.queue);
        self.early = early;
    }

    /// True where something may be asked though the server has not answered yet.
    pub(crate) const fn early(&self) -> bool {
        self.early && !self.ready
    }

    /// True when the server's version and extensions are known.
    pub(crate) const fn ready(&self) -> bool {
        self.ready
    }

    pub(crate) const fn lost(&self) -> bool {
        self.lost.is_some()
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Tells the session the server's identification line.
    pub(crate) fn set_server(&mut self, identification: Option<&str>) {
        self.session.set_server(identification);
    }

    /// Bytes of requests that could not be sent yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Starts an operation. Answers at once only when there is no connection any more, or no way to ask.
    pub(crate) fn perform(&mut self, op: Op<'_>, token: Token) -> Option<Outcome> {
        if let Some(reason) = &self.lost {
            return Some(Err(Fault { kind: FaultKind::Lost, text: reason.clone() }));
        }
        let op = self.wait_to_open(op, token)?;
        let mut shape = Shape::Plain;
        let mut encoded = Vec::new();
        let request = match &op {
            Op::Stat(path) => Request::Stat { path },
            Op::OpenRead(_)
            | Op::OpenWrite { .. }
            | Op::OpenWriteOnly { .. }
            | Op::OpenEmptied { .. }
            | Op::OpenExisting(_)
            | Op::OpenPart { .. } => {
                let (path, flags, attrs) = open_of(&op)?;
                Request::Open { path, flags, attrs }
            }
            Op::Lstat(path) => Request::Lstat { path },
            Op::Fstat(handle) => Request::Fstat { handle: remote(handle)? },
            Op::Rename { old, new } if self.session.supports(extension::POSIX_RENAME) => {
                Request::PosixRename { old, new }
            }
            Op::Rename { old, new } | Op::RenameNew { old, new } => Request::Rename { old, new },
            Op::Remove(path) => Request::Remove { path },
            Op::RemoveDir(path) => Request::Rmdir { path },
            Op::Digests { handle, offset, len } => Request::CheckFileHandle {
                handle: remote(handle)?,
                algorithms: b"sha256",
                offset: *offset,
                len: *len,
                block: DIGEST_BLOCK,
            },
            Op::Peek { handle, offset, len } => {
                Request::Read { handle: remote(handle)?, offset: *offset, len: *len }
            }
            Op::BeginSum(handle, read_back) => {
                Request::RunningSum { handle: remote(handle)?, step: SumStep::Begin(*read_back) }
            }
            Op::EndSum(handle) => Request::RunningSum { handle: remote(handle)?, step: SumStep::Finish },
            Op::Mkdir { path, mode } => Request::Mkdir { path, attrs: Attrs::with_permissions(*mode) },
            Op::List { path, pattern } if self.early() || self.session.supports(extension::LIST_DIR) => {
                shape = Shape::Listing;
                Request::ListDir { path, pattern, flags: 0 }
            }
            Op::List { path, .. } | Op::ListPlain(path) => Request::Opendir { path },
            Op::ListMore(handle) => Request::Readdir { handle: remote(handle)? },
            Op::SetPath { path, change } => Request::Setstat { path, attrs: change.to_attrs(self.full()) },
            Op::SetHandle { handle, change } => {
                Request::Fsetstat { handle: remote(handle)?, attrs: change.to_attrs(self.full()) }
            }
            Op::SetLink { path, change } => {
                if !self.session.supports(extension::LSETSTAT) {
                    return Some(Ok(Done::Ok));
                }
                Request::Lsetstat { path, attrs: change.to_attrs(self.full()) }
            }
            Op::ReadLink(path) => Request::Readlink { path },
            Op::Symlink { to, link } => self.session.symlink(to, link),
            Op::Link { old, new } => Request::Hardlink { old, new },
            Op::Ranges { handle, offset } => {
                shape = Shape::Ranges;
                Request::DataRanges { handle: remote(handle)?, offset: *offset }
            }
            Op::Xattrs { path, wanted } => {
                shape = Shape::Xattrs;
                Request::GetXattrs { path, wanted: *wanted }
            }
            Op::SetXattrs { path, wanted, xattrs } => {
                extended_attrs::write_xattrs(xattrs, &mut encoded);
                Request::SetXattrs { path, wanted: *wanted, xattrs: &encoded }
            }
            Op::FullAttrs { wanted } => Request::FullAttrs { wanted: *wanted },
            Op::Sync(handle) => {
                if !self.session.supports(extension::FSYNC) {
                    return Some(Ok(Done::Ok));
                }
                Request::Fsync { handle: remote(handle)? }
            }
            Op::PutFiles { flags, count, files } => {
                shape = Shape::Put;
                Request::PutFiles { flags: *flags, count: *count, files }
            }
            Op::GetFiles { kinds, count, files } => {
                shape = if *kinds == 0 { Shape::Got } else { Shape::GotKept };
                Request::GetFiles { flags: *kinds, count: *count, files }
            }
            Op::Close(handle) => Request::Close { handle: remote(handle)? },
            Op::RealPath(path) => Request::Realpath { path },
            Op::ExpandPath(path) => {
                if !self.session.supports(extension::EXPAND_PATH) {
                    return Some(Err(Fault::other(
                        "server expand-path extension is required for ~user paths in SFTP mode",
                    )));
                }
                Request::ExpandPath { path }
            }
        };
        let id = self.session.request(&request, &mut self.queue);
        let what = match (&request, &op) {
            (Request::Open { path, .. }, _) => {
                self.handles.opening(id, path.to_vec());
                What::Opens
            }
            (Request::Opendir { .. } | Request::ListDir { .. }, _) => {
                self.handles.opening(id, Vec::new());
                What::Opens
            }
            (_, Op::Close(Handle::Remote(handle))) => {
                self.handles.closing(handle, id, &token);
                What::Closes
            }
            _ => What::Other,
        };
        self.await_answer(id, Awaited { token, shape, what });
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

    /// True when every answer came in the order of the requests.
    pub(crate) const fn in_order(&self) -> bool {
        self.in_order
    }

    /// Keeps what is to be opened until nothing is open, where that is to be so; gives everything else back.
    fn wait_to_open<'a>(&mut self, op: Op<'a>, token: Token) -> Option<Op<'a>> {
        if !self.one_at_a_time() || (self.handles.is_empty() && self.waiting.is_empty()) {
            return Some(op);
        }
        let (path, how, shape) = match op {
            Op::List { path, pattern } if self.session.supports(extension::LIST_DIR) => {
                (path, How::Listing(pattern.to_vec()), Shape::Listing)
            }
            Op::List { path, .. } | Op::ListPlain(path) => (path, How::Dir, Shape::Plain),
            _ => match open_of(&op) {
                Some((path, flags, attrs)) => (path, How::File(flags, attrs), Shape::Plain),
                None => return Some(op),
            },
        };
        self.waiting.push_back(Waiting { token, shape, path: path.to_vec(), how });
        None
    }

    /// Opens what waits, when nothing is open.
    fn open_waiting(&mut self) {
        if !self.handles.is_empty() {
            return;
        }
        let Some(Waiting { token, shape, path, how }) = self.waiting.pop_front() else { return };
        let request = match &how {
            How::File(flags, attrs) => Request::Open { path: &path, flags: *flags, attrs: *attrs },
            How::Dir => Request::Opendir { path: &path },
            How::Listing(pattern) => Request::ListDir { path: &path, pattern, flags: 0 },
        };
        let id = self.session.request(&request, &mut self.queue);
        self.handles.opening(id, path);
        self.await_answer(id, Awaited { token, shape, what: What::Opens });
    }

    /// The server tells and takes times as they are.
    pub(crate) fn full(&self) -> bool {
        self.session.supports(extension::FULL_ATTRS)
    }

    /// Queues a READ.
    pub(crate) fn read(&mut self, handle: &Handle, offset: u64, len: u32, token: Token) {
        if let Some(handle) = remote(handle) {
            let id = self.session.request(&Request::Read { handle, offset, len }, &mut self.queue);
            self.expect(id, token);
        }
    }

    /// Begins a WRITE; when its data are known, [`Remote::expect`] its id.
    pub(crate) fn write_header(&mut self, handle: &Handle, offset: u64) -> Option<WriteHeader> {
        Some(self.session.write_header(remote(handle)?, offset))
    }

    /// Puts a whole WRITE behind the other requests, for data so small that they share a packet.
    pub(crate) fn queue_write(&mut self, header: &mut WriteHeader, data: &[u8], token: Token) {
        self.queue.extend_from_slice(header.bytes(data.len()));
        self.queue.extend_from_slice(data);
        self.expect(header.id(), token);
    }

    /// Remembers whose reply the one with this id will be.
    pub(crate) fn expect(&mut self, id: u32, token: Token) {
        self.await_answer(id, Awaited { token, shape: Shape::Plain, what: What::Other });
    }

    /// Nothing was sent with this id after all.
    pub(crate) fn forget(&mut self, id: u32) {
        self.take(id);
    }

    fn await_answer(&mut self, id: u32, awaited: Awaited) {
        if self.pending.is_empty() {
            self.first_id = id;
        }
        let place = id.wrapping_sub(self.first_id) as usize;
        if place >= self.pending.len() {
            self.pending.resize(place + 1, None);
        }
        self.pending[place] = Some(awaited);
    }

    pub(crate) const fn mid_message(&self) -> bool {
        self.mid_message
    }

    pub(crate) const fn set_mid_message(&mut self, mid_message: bool) {
        self.mid_message = mid_message;
    }

    /// Sends what is queued, as far as the channel takes it; true when nothing is left.
    pub(crate) fn flush(&mut self, out: &mut dyn Output) -> bool {
        if self.mid_message {
            return false;
        }
        let many = self.session.takes_many_in_a_packet() || self.early();
        while self.sent < self.queue.len() {
            if self.request_end <= self.sent {
                self.request_end = self.sent + Session::first_message(&self.queue[self.sent..]);
            }
            let end = if many { self.queue.len() } else { self.request_end };
            let want = out.budget().min(end - self.sent);
            let taken = if want == 0 { 0 } else { out.send(&self.queue[self.sent..self.sent + want]) };
            if taken == 0 {
                // Keep the front from growing without bound while the window is shut.
                if self.sent > 64 * 1024 {
                    self.queue.drain(..self.sent);
                    self.request_end = self.request_end.saturating_sub(self.sent);
                    self.sent = 0;
                }
                return false;
            }
            self.sent += taken;
        }
        self.queue.clear();
        (self.sent, self.request_end) = (0, 0);
        true
    }

    /// Takes bytes from the channel.
    pub(crate) fn input(&mut self, data: Bytes, now: Instant) {
        self.silence.heard(now);
        self.session.input(data);
    }

    /// What the server says next. An error is the end of this session.
    pub(crate) fn poll(&mut self) -> Result<Option<Came>, String> {
        loop {
            if let Some(came) = self.next_early_close() {
                return Ok(Some(came));
            }
            match self.session.poll().map_err(|error| error.to_string())? {
                None => return Ok(None),
                // Answers come in order: the limits are known before a file is open, which is when they matter.
                Some(Incoming::Version { .. }) => {
                    self.session.request_limits(&mut self.queue);
                    self.ready = true;
                }
                Some(Incoming::Limits(_)) => {}
                Some(Incoming::Reply(Reply { id, body })) => {
                    let Some(awaited) = self.take(id) else {
                        if self.given_up.remove(&id) {
                            self.too_late(body);
                            continue;
                        }
                        return Err(format!(
                            "ID mismatch: the SFTP server answered request {id}, which is not open"
                        ));
                    };
                    if let Some(came) = self.came(id, awaited, body) {
                        return Ok(Some(came));
                    }
                }
            }
        }
    }

    /// What an answer means; `None` when it is kept for later.
    fn came(&mut self, id: u32, awaited: Awaited, body: ReplyBody) -> Option<Came> {
        self.in_order &= self.last_answered.is_none_or(|last| id.wrapping_sub(last) as i32 > 0);
        self.last_answered = Some(id);
        let Awaited { token, shape, what } = awaited;
        let outcome = outcome(body, shape);
        match what {
            What::Other => {}
            What::Closes if self.handles.opening_before(id) => {
                // What this handle was good for may be in doubt when they are answered.
                self.early_closes.push_back((id, token, outcome));
                return None;
            }
            What::Closes => {
                self.handles.closed(id);
                self.open_waiting();
            }
            What::Opens => {
                let path = self.handles.answered(id);
                if let Ok(
                    Done::Opened(Handle::Remote(handle), _) | Done::Listing(Some(Handle::Remote(handle)), _),
                ) = &outcome
                {
                    let holders = self.handles.given(handle, id, token, path);
                    if !holders.is_empty() {
                        self.open_one_at_a_time();
                        let handle = Handle::Remote(handle.clone());
                        self.perform(Op::Close(handle), Token::Nothing);
                        return Some(Came::SameHandle { opened: token, holders });
                    }
                }
                self.open_waiting();
            }
        }
        Some(Came::Answer(token, outcome))
    }

    /// An answer to a CLOSE that had to wait for the answers to OPENs, and need not any more.
    fn next_early_close(&mut self) -> Option<Came> {
        let at = self.early_closes.iter().position(|(id, ..)| !self.handles.opening_before(*id))?;
        let (id, token, outcome) = self.early_closes.remove(at)?;
        self.handles.closed(id);
        self.open_waiting();
        Some(Came::Answer(token, outcome))
    }

    /// What was taken for dropped is answered after all. Nothing waits for that any more.
    fn too_late(&mut self, body: ReplyBody) {
        if let ReplyBody::Handle(handle) = body {
            self.perform(Op::Close(Handle::Remote(handle)), Token::Nothing);
        }
    }

    /// See [`Silence::look`].
    pub(crate) fn look_for_answers(&mut self, patience: Duration, now: Instant) -> Next {
        let sent = self.queued() == 0 && !self.mid_message;
        let awaited = self.ready && !self.lost() && sent && !self.pending.is_empty();
        self.silence.look(awaited, patience, now)
    }

    /// The probe was answered, which is not awaited any more: what was asked for before it will not be answered. Returns its tokens.
    pub(crate) fn give_up_older(&mut self, now: Instant) -> Vec<Token> {
        let before = self.last_answered.map_or(0, |probe| probe.wrapping_sub(self.first_id) as usize);
        let mut tokens = Vec::new();
        for place in 0..before.min(self.pending.len()) {
            let id = self.first_id.wrapping_add(place as u32);
            let Some(awaited) = self.pending[place].take() else { continue };
            match awaited.what {
                What::Opens => drop(self.handles.answered(id)),
                What::Closes => self.handles.closed(id),
                What::Other => {}
            }
            self.given_up.insert(id);
            tokens.push(awaited.token);
        }
        self.drop_answered();
        self.silence.probed(!tokens.is_empty(), now);
        self.open_waiting();
        tokens
    }

    /// Ends the session and returns the tokens that will never be answered.
    pub(crate) fn fail(&mut self, reason: &str) -> Vec<Token> {
        self.lost.get_or_insert_with(|| reason.to_owned());
        self.queue.clear();
        (self.sent, self.request_end) = (0, 0);
        self.mid_message = false;
        let awaited = self.pending.drain(..).flatten().map(|awaited| awaited.token);
        let closed = self.early_closes.drain(..).map(|(_, token, _)| token);
        awaited.chain(closed).chain(self.waiting.drain(..).map(|waiting| waiting.token)).collect()
    }

    fn take(&mut self, id: u32) -> Option<Awaited> {
        let place = id.wrapping_sub(self.first_id) as usize;
        let awaited = self.pending.get_mut(place)?.take();
        self.drop_answered();
        awaited
    }

    fn drop_answered(&mut self) {
        while let Some(None) = self.pending.front() {
            self.pending.pop_front();
            self.first_id = self.first_id.wrapping_add(1);
        }
    }
}

/// How a file is opened: its path, the flags, and what it is made with.
fn open_of<'a>(op: &Op<'a>) -> Option<(&'a [u8], OpenFlags, Attrs)> {
    // Without READ some servers cut what is there (Erlang/OTP's).
    let both = OpenFlags::READ | OpenFlags::WRITE;
    Some(match *op {
        Op::OpenRead(path) => (path, OpenFlags::READ, Attrs::NONE),
        Op::OpenWrite { path, mode } => {
            (path, both | OpenFlags::CREAT, Attrs::with_permissions(mode & 0o777))
        }
        Op::OpenWriteOnly { path, mode } => {
            (path, OpenFlags::WRITE | OpenFlags::CREAT, Attrs::with_permissions(mode & 0o777))
        }
        Op::OpenEmptied { path, mode } => {
            // The servers that cut without READ do not cut with it, whatever they are told.
            let flags = OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::TRUNC;
            (path, flags, Attrs::with_permissions(mode & 0o777))
        }
        Op::OpenExisting(path) => (path, both, Attrs::NONE),
        Op::OpenPart { path, mode, as_found } => {
            let found = match as_found {
                AsFound::Fresh => OpenFlags::EXCL,
                AsFound::Empty => OpenFlags::TRUNC,
                AsFound::Kept => OpenFlags::default(),
                AsFound::Adopted => return Some((path, both, Attrs::NONE)),
            };
            (path, both | OpenFlags::CREAT | found, Attrs::with_permissions(mode & 0o777))
        }
        _ => return None,
    })
}

fn remote(handle: &Handle) -> Option<&RemoteHandle> {
    match handle {
        Handle::Remote(handle) => Some(handle),
        Handle::Local(_) | Handle::LocalDir(_) => None,
    }
}
