//! One SFTP session on a connection: the handler of its channel, and the control that runs the connection
//! until the session's work is done or the session is lost.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use lh_client::{ClientError, SessionNote, SessionSetup, Start, answer_by_default};
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent,
};
use lh_sftp::{Incoming, Reply, Request, Session, SessionError};

use crate::target::Remote;

/// Requests that wait for an answer at a time, where the server is known to take many, and elsewhere.
const MANY_AT_A_TIME: usize = 64;
const FEW_AT_A_TIME: usize = 16;
/// Most of the server's error output that is kept, bytes.
const LONGEST_ERROR_OUTPUT: usize = 4096;

/// Why a session is of no more use.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SessionLoss {
    /// The connection ended.
    #[error(transparent)]
    Connection(ClientError),
    /// The server opens no channel: its words.
    #[error("{0}")]
    ChannelRefused(String),
    /// The server refused this request of the channel.
    #[error("{0} request failed on channel 0")]
    RequestRefused(&'static str),
    /// An answer took too long.
    #[error("the server's SFTP did not answer in time")]
    Late,
    /// The server broke the protocol.
    #[error(transparent)]
    Protocol(SessionError),
    /// The answer about `path` has a form that its request does not have.
    #[error("{path}: the server's SFTP gave an answer of another kind")]
    OtherAnswer { path: String },
    /// The server ended the session, with this last line of error output.
    #[error("{0}")]
    EndedSaying(String),
    /// The server ended the session without a word.
    #[error("the server's SFTP ended")]
    Ended,
}

/// What all sessions have: the state of the protocol, messages that are still to be sent, and why the session
/// is of no more use.
pub(crate) struct SessionState {
    session: Session,
    at_a_time: usize,
    /// Messages that the window of the channel has not let pass yet.
    out: Vec<u8>,
    lost: Option<SessionLoss>,
    /// Error output of the server's program.
    error_output: Vec<u8>,
}

impl SessionState {
    /// A session with a server of this identification, whose first message is written.
    pub(crate) fn new(server: Option<&str>) -> Self {
        let mut session = Session::new();
        session.set_server(server, None);
        let at_a_time = if session.takes_many_requests() { MANY_AT_A_TIME } else { FEW_AT_A_TIME };
        let mut out = Vec::new();
        session.start(&mut out);
        Self { session, at_a_time, out, lost: None, error_output: Vec::new() }
    }

    /// Most requests that wait for an answer.
    pub(crate) const fn at_a_time(&self) -> usize {
        self.at_a_time
    }

    /// Returns whether the server has told its version, before which it takes no requests.
    pub(crate) fn has_begun(&self) -> bool {
        self.session.version().is_some()
    }

    /// Writes a request; returns its id.
    pub(crate) fn request(&mut self, request: &Request<'_>) -> u32 {
        self.session.request(request, &mut self.out)
    }

    /// Records why the session is of no more use; the first reason counts.
    pub(crate) fn lose(&mut self, loss: SessionLoss) {
        self.lost.get_or_insert(loss);
    }

    /// Why the session is of no more use, once it is.
    pub(crate) const fn loss(&self) -> Option<&SessionLoss> {
        self.lost.as_ref()
    }

    pub(crate) fn on_error_output(&mut self, data: &[u8]) {
        let space = LONGEST_ERROR_OUTPUT.saturating_sub(self.error_output.len()).min(data.len());
        self.error_output.extend_from_slice(data.get(..space).unwrap_or_default());
    }

    /// Notes that the server has ended the session.
    pub(crate) fn on_end(&mut self) {
        let output = String::from_utf8_lossy(&self.error_output);
        let line = output.lines().map(str::trim).rfind(|line| !line.is_empty());
        let loss = line.map_or(SessionLoss::Ended, |line| SessionLoss::EndedSaying(line.to_owned()));
        self.lose(loss);
    }
}

/// What a session is there for: its requests, and what follows from their answers. The handler of the channel
/// and the control share it.
pub(crate) trait SessionWork {
    fn state(&mut self) -> &mut SessionState;

    /// Writes the next request, where one is due; returns its id.
    fn write_next(&mut self, now: Instant) -> Option<u32>;

    /// Takes the server's version, after which it takes requests.
    fn on_version(&mut self, now: Instant);

    /// Takes the answer to a request.
    fn on_reply(&mut self, reply: Reply, now: Instant);

    /// Returns whether nothing is left to do, or the session is lost.
    fn is_over(&self) -> bool;

    /// When [`on_timeout`](Self::on_timeout) is due.
    fn next_deadline(&self) -> Instant;

    /// Does what is due at this time. `stop` says that the user wants an end.
    fn on_timeout(&mut self, now: Instant, stop: &dyn Fn() -> bool);

    /// Takes what the server has sent.
    fn on_data(&mut self, data: bytes::Bytes, now: Instant) {
        self.state().session.input(data);
        loop {
            match self.state().session.poll() {
                Ok(Some(Incoming::Reply(reply))) => self.on_reply(reply, now),
                Ok(Some(_)) => self.on_version(now),
                Ok(None) => break,
                Err(error) => {
                    self.state().lose(SessionLoss::Protocol(error));
                    break;
                }
            }
        }
    }

    /// Sends what is due, as far as the channel's window allows.
    fn transmit(&mut self, cx: &mut ChannelCx<'_>) {
        loop {
            if self.state().out.is_empty() {
                self.write_next(Instant::now());
            }
            // One message in a packet: some servers read no more from it.
            let out = &mut self.state().out;
            let sent = cx.send(out);
            out.drain(..sent);
            if sent == 0 {
                break;
            }
        }
    }
}

/// Starts the server's SFTP for this work.
///
/// # Errors
/// The connection is lost.
pub(crate) fn start<W: SessionWork + 'static>(
    remote: &mut Remote,
    work: &Rc<RefCell<W>>,
) -> Result<ChannelId, ClientError> {
    let setup = SessionSetup::new(Start::Subsystem("sftp".to_owned()));
    let handler = Box::new(Handler(Rc::clone(work)));
    remote.client.open_session(setup, &ChannelOptions::default(), handler)
}

/// Runs the connection until the work is done or the session is lost. `stop` says that the user wants an end.
pub(crate) fn run<W: SessionWork>(
    remote: &mut Remote,
    channel: ChannelId,
    work: &Rc<RefCell<W>>,
    stop: &dyn Fn() -> bool,
) {
    let mut control = SessionControl { work: Rc::clone(work), channel, stop };
    if let Err(error) = remote.client.run(&mut control) {
        work.borrow_mut().state().lose(SessionLoss::Connection(error));
    }
}

/// Closes the session's channel, where it is still open.
pub(crate) fn close(remote: &mut Remote, channel: ChannelId) {
    if let Some(mut channel) = remote.client.driver().control().channel(channel) {
        channel.close();
    }
}

/// The handler of the session's channel.
struct Handler<W>(Rc<RefCell<W>>);

impl<W: SessionWork> ChannelHandler for Handler<W> {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        let mut work = self.0.borrow_mut();
        match event {
            ChannelEvent::Opened { .. } => work.transmit(cx),
            ChannelEvent::Data { ext, data } => {
                cx.consumed(data.len());
                if ext.is_some() {
                    work.state().on_error_output(&data);
                    return;
                }
                work.on_data(data, Instant::now());
                work.transmit(cx);
                if work.is_over() {
                    cx.stop(0);
                }
            }
            ChannelEvent::Eof => {
                work.state().on_end();
                cx.stop(0);
            }
            _ => {}
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.0.borrow_mut().transmit(cx);
    }
}

/// Runs the connection until the session's work is done.
struct SessionControl<'a, W> {
    work: Rc<RefCell<W>>,
    channel: ChannelId,
    stop: &'a dyn Fn() -> bool,
}

impl<W: SessionWork> Control for SessionControl<'_, W> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        let mut work = self.work.borrow_mut();
        match event {
            ControlEvent::Note { note, .. } => match note.downcast_ref::<SessionNote>() {
                Some(SessionNote::OpenFailed { description, .. }) => {
                    work.state().lose(SessionLoss::ChannelRefused(description.clone()));
                    cx.stop(0);
                }
                Some(SessionNote::StartRefused { request }) => {
                    work.state().lose(SessionLoss::RequestRefused(request));
                    cx.stop(0);
                }
                _ => {}
            },
            ControlEvent::ChannelGone { id, .. } if id == self.channel => {
                work.state().on_end();
                cx.stop(0);
            }
            event => answer_by_default(event, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.work.borrow().next_deadline())
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let mut work = self.work.borrow_mut();
        work.on_timeout(cx.now(), self.stop);
        if let Some(mut channel) = cx.channel(self.channel) {
            work.transmit(&mut channel);
        }
        if work.is_over() {
            cx.stop(0);
        }
    }
}
