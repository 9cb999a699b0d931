//! A mux client's control connection, on the master's side.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};

use lh_driver::{ControlCx, Interest, Interests, Ready, Source};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::line::Line;
use super::mux_session::SessionHandle;
use super::open::{OpenError, open_mux_session, open_mux_stdio};
use super::relay::Relay;
use super::state::Shared;
use super::wire::{self, Kind, Reply, Request};
use crate::forward::ForwardError;
use crate::ui::{LogLevel, Permission};

/// State of the control connection.
enum State {
    /// Waiting for the greeting or the next request.
    Listening {
        greeted: bool,
    },
    /// Waiting for the descriptors of a request.
    Descriptors {
        id: u32,
        request: Request,
        got: Vec<OwnedFd>,
    },
    /// Waiting for the user's permission.
    Asking {
        id: u32,
        request: Request,
        got: Vec<OwnedFd>,
        wake: UnixStream,
        answer: Receiver<bool>,
    },
    /// A session runs; only the client's end is awaited.
    Running(SessionHandle),
    Over,
}

pub(super) struct Connection {
    master: Rc<Shared>,
    line: Line,
    /// The message being read: its length first.
    partial: Vec<u8>,
    state: State,
}

impl Connection {
    pub(super) fn start(master: &Rc<Shared>, socket: UnixStream, cx: &mut ControlCx<'_>) {
        let line = Line::new(socket);
        line.say(&wire::master_hello());
        let state = State::Listening { greeted: false };
        let connection = Self { master: Rc::clone(master), line, partial: Vec::new(), state };
        cx.add_source(Box::new(connection));
    }

    /// Reads available bytes, but none after the message, because descriptors may follow it.
    fn read(&mut self, cx: &mut ControlCx<'_>) -> io::Result<()> {
        loop {
            match &mut self.state {
                State::Listening { .. } => {
                    let want = match self.partial.first_chunk::<4>() {
                        None => 4,
                        Some(length) => u32::from_be_bytes(*length) as usize + 4,
                    };
                    if want > wire::MESSAGE_MAX + 4 {
                        return Err(io::Error::other("message too long"));
                    }
                    if self.partial.len() == want && want > 4 {
                        let message = std::mem::take(&mut self.partial);
                        self.on_message(&message[4..], cx)?;
                        continue;
                    }
                    let mut buffer = [0; 4096];
                    let room = (want - self.partial.len()).min(buffer.len());
                    match recv(self.line.socket(), &mut buffer[..room], RecvFlags::DONTWAIT) {
                        Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok((got, _)) => self.partial.extend_from_slice(&buffer[..got]),
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => return Ok(()),
                        Err(error) => return Err(error.into()),
                    }
                    if self.partial == [0, 0, 0, 0] {
                        return Err(io::Error::other("empty message"));
                    }
                }
                State::Descriptors { request, got, .. } => {
                    match lh_sys::pass::receive_fd(self.line.socket()) {
                        Ok(Some(fd)) => got.push(fd),
                        Ok(None) => return Err(io::Error::other("no descriptor")),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                        Err(error) => return Err(error),
                    }
                    if got.len() == descriptor_count(request) {
                        self.complete(cx);
                    }
                }
                // From here on, the relay reads the socket.
                State::Over => return Ok(()),
                // No message is expected while the user decides or a session runs.
                State::Asking { .. } | State::Running(_) => {
                    return match recv(self.line.socket(), &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK)
                    {
                        Err(Errno::AGAIN | Errno::INTR) => Ok(()),
                        Ok((n, _)) if n > 0 => Err(io::Error::other("unexpected message")),
                        _ => Err(io::ErrorKind::UnexpectedEof.into()),
                    };
                }
            }
        }
    }

    fn on_message(&mut self, message: &[u8], cx: &mut ControlCx<'_>) -> io::Result<()> {
        let bad = |error: lh_wire::WireError| io::Error::other(error.to_string());
        let State::Listening { greeted } = &mut self.state else { return Ok(()) };
        if !*greeted {
            let version = wire::read_hello(message).map_err(bad)?;
            if version != wire::VERSION {
                let ours = wire::VERSION;
                return Err(io::Error::other(format!("client version mismatch: {ours} vs {version}")));
            }
            *greeted = true;
            return Ok(());
        }
        let (id, request) = Request::decode(message).map_err(bad)?;
        let Some(request) = request else {
            self.line.reply(id, &Reply::Failure("unsupported request".to_owned()));
            return Ok(());
        };
        self.master.logger.debug(|| format!("mux request {id}"));
        self.state = State::Descriptors { id, request, got: Vec::new() };
        if matches!(&self.state, State::Descriptors { request, .. } if descriptor_count(request) == 0) {
            self.complete(cx);
        }
        Ok(())
    }

    /// Handles a request that has arrived with all its descriptors.
    fn complete(&mut self, cx: &mut ControlCx<'_>) {
        let State::Descriptors { id, request, got } =
            std::mem::replace(&mut self.state, State::Listening { greeted: true })
        else {
            return;
        };
        // A client that has given up while this process was stopped has made its own connection, or has
        // failed. The next read finds its end.
        if descriptor_count(&request) > 0 && self.has_client_ended() {
            return;
        }
        let asked = self.question(&request).zip(self.master.permission.clone());
        let Some((question, permission)) = asked else {
            return self.perform(id, request, got, cx);
        };
        match ask(question, permission) {
            Ok((wake, answer)) => self.state = State::Asking { id, request, got, wake, answer },
            Err(_) => self.denied(id),
        }
    }

    fn has_client_ended(&self) -> bool {
        matches!(recv(self.line.socket(), &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK), Ok((0, _)))
    }

    fn denied(&self, id: u32) {
        self.line.reply(id, &Reply::PermissionDenied("Permission denied".to_owned()));
    }

    /// Returns the question to ask the user before this request, if any.
    fn question(&self, request: &Request) -> Option<String> {
        let shared = &self.master;
        let host = &shared.host;
        shared.permission.as_ref()?;
        match request {
            Request::NewSession(_) | Request::Proxy => Some(format!("Allow shared connection to {host}? ")),
            Request::StdioForward(target) => {
                Some(format!("Allow forward to {} through shared connection to {host}? ", shown(target)))
            }
            Request::OpenForward(_, forward) => {
                Some(format!("Open forward {forward:?} on shared connection to {host}? "))
            }
            Request::Terminate => Some(format!("Terminate shared connection to {host}? ")),
            Request::StopListening => {
                Some(format!("Disable further multiplexing on shared connection to {host}? "))
            }
            Request::CloseForward(..) | Request::Alive | Request::Information(_) => None,
        }
    }

    fn perform(&mut self, id: u32, request: Request, got: Vec<OwnedFd>, cx: &mut ControlCx<'_>) {
        let line = self.line.clone();
        match request {
            Request::Alive => line.reply(id, &Reply::Alive(std::process::id())),
            Request::Terminate => {
                line.reply(id, &Reply::Ok);
                self.master.state.borrow_mut().terminate = true;
                cx.stop(255);
            }
            Request::Proxy => {
                line.reply(id, &Reply::Proxy);
                self.state = State::Over;
                Relay::start(&self.master, &line, cx);
            }
            Request::Information(what) => {
                let answer = self.master.information(&what, cx).map_or_else(
                    || Reply::Failure("unsupported information request".to_owned()),
                    Reply::Information,
                );
                line.reply(id, &answer);
            }
            Request::StopListening => {
                self.master.stop_listening(cx);
                line.reply(id, &Reply::Ok);
            }
            Request::OpenForward(kind, forward) => {
                let forwards = &self.master.forwards;
                let done = move |reply: Reply| line.reply(id, &reply);
                match kind {
                    Kind::Remote => {
                        use lh_config::forward::Endpoint;
                        let chosen = matches!(forward.listen, Endpoint::Tcp { port: 0, .. });
                        let started = move |port| if chosen { Reply::RemotePort(port) } else { Reply::Ok };
                        if let Some(port) = forwards.has_remote(&forward) {
                            return done(started(port));
                        }
                        let answered = move |result: Result<u16, ForwardError>, _: &mut ControlCx<'_>| {
                            done(result.map_or_else(|why| Reply::Failure(why.to_string()), started));
                        };
                        forwards.add_remote(&forward, cx, Box::new(answered));
                    }
                    Kind::Local | Kind::Dynamic => {
                        if forwards.has_local(&forward) {
                            return done(Reply::Ok);
                        }
                        // The reason is in the master's log.
                        let failed = |_| Reply::Failure("Port forwarding failed".to_owned());
                        let answered = move |result: Result<u16, ForwardError>, _: &mut ControlCx<'_>| {
                            done(result.map_or_else(failed, |_| Reply::Ok));
                        };
                        forwards.add_local(&forward, cx, Box::new(answered));
                    }
                }
            }
            Request::CloseForward(kind, forward) => {
                let forwards = &self.master.forwards;
                let known = match kind {
                    Kind::Remote => {
                        forwards.has_remote(&forward).is_some() && forwards.cancel_remote(&forward, cx)
                    }
                    Kind::Local | Kind::Dynamic => {
                        forwards.has_local(&forward) && forwards.cancel_listener(&forward.listen, cx)
                    }
                };
                line.reply(
                    id,
                    &if known { Reply::Ok } else { Reply::Failure("port not forwarded".to_owned()) },
                );
            }
            Request::NewSession(session) => {
                let opened = open_mux_session(&self.master, &session, got, id, &line, cx);
                self.run(id, opened);
            }
            Request::StdioForward(target) => {
                let opened = open_mux_stdio(&self.master, &target, got, id, &line, cx);
                self.run(id, opened);
            }
        }
    }

    /// Waits for the end of an opened session, or reports why it did not open.
    fn run(&mut self, id: u32, opened: Result<SessionHandle, OpenError>) {
        match opened {
            Ok(session) => self.state = State::Running(session),
            Err(why) => self.line.reply(id, &Reply::Failure(why.to_string())),
        }
    }
}

/// Number of descriptors that follow a request.
const fn descriptor_count(request: &Request) -> usize {
    match request {
        Request::NewSession(_) => 3,
        Request::StdioForward(_) => 2,
        _ => 0,
    }
}

fn shown(target: &lh_driver::Target) -> String {
    match target {
        lh_driver::Target::Tcp { host, port } => format!("{host}:{port}"),
        lh_driver::Target::Unix(path) => path.display().to_string(),
    }
}

/// Asks the user in a thread, since the answer may take long.
fn ask(question: String, permission: Permission) -> io::Result<(UnixStream, Receiver<bool>)> {
    let (wake, waker) = UnixStream::pair()?;
    let (sender, answer) = channel();
    std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
        let _ = sender.send(permission(&question));
        drop(waker);
    })?;
    Ok((wake, answer))
}

/// Poll tokens.
const CLIENT: usize = 0;
const ANSWER: usize = 1;

impl Source for Connection {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        match &self.state {
            State::Over => {}
            State::Asking { wake, .. } => out.add(ANSWER, wake.as_fd(), Interest::READ),
            _ => out.add(CLIENT, self.line.socket().as_fd(), Interest::READ),
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        if token == ANSWER {
            let State::Asking { id, request, got, answer, .. } =
                std::mem::replace(&mut self.state, State::Listening { greeted: true })
            else {
                return;
            };
            if answer.recv().unwrap_or(false) {
                self.perform(id, request, got, cx);
            } else {
                self.denied(id);
            }
            return;
        }
        if let Err(error) = self.read(cx) {
            // A reset: the client has ended without reading the master's messages.
            if !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) {
                self.master.logger.say(LogLevel::Error, &format!("multiplex client: {error}"));
            }
            if let State::Running(session) = &self.state {
                session.abandon(cx);
            }
            self.state = State::Over;
        }
    }

    fn finished(&self) -> bool {
        match &self.state {
            State::Over => true,
            // The client has closed the connection.
            State::Running(session) => session.is_over(),
            _ => false,
        }
    }
}
