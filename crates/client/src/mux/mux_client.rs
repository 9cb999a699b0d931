//! A session or stdio forward on a mux client's descriptors.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use lh_driver::{ChannelId, ChannelOptions, ControlCx, Direction, FdPump, HandlerId, LocalFd, Target};
use lh_sys::termios::{encode_modes, is_terminal, window_size};
use lh_wire::Writer;

use super::Master;
use super::connection::{Line, hang_up};
use super::escapes::{MuxClientEscapes, write_notice};
use super::wire::{NewSession, Reply, Said};
use crate::X11Forward;
use crate::log::sanitise;
use crate::proxy::open_failure_words;
use crate::session::{Pty, SessionChannel, SessionNote, SessionSetup, Start};

/// The control connection's handle of its session.
pub(super) struct MuxRequest {
    handler: Option<HandlerId>,
    channel: ChannelId,
    over: Rc<Cell<bool>>,
}

impl MuxRequest {
    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Closes the session after its client has gone.
    pub(super) fn abandon(&self, cx: &mut ControlCx<'_>) {
        if self.handler.is_some()
            && cx.handler_of(self.channel) == self.handler
            && let Some(mut channel) = cx.channel(self.channel)
        {
            channel.close();
        }
    }
}

/// The master's state of a mux client's session.
pub(super) struct MuxClient {
    line: Line,
    /// The request's id, until it is answered.
    request: Option<u32>,
    channel: ChannelId,
    /// Standard input, if that is a terminal whose size is sent.
    terminal: Option<Rc<OwnedFd>>,
    stderr: Option<Rc<OwnedFd>>,
    over: Rc<Cell<bool>>,
}

impl MuxClient {
    /// Handles a note about the channel or its program.
    pub(super) fn on_note(&mut self, note: &SessionNote, cx: &mut ControlCx<'_>) {
        let session = self.channel.number();
        let say = |said: Said| {
            if let Some(message) = said.encode() {
                self.line.say(&message);
            }
        };
        match note {
            // A stdio forward has no program that starts; it reports its open channel.
            SessionNote::Opened | SessionNote::Started => {
                if let Some(id) = self.request.take() {
                    self.line.reply(id, &Reply::SessionOpened(session));
                }
            }
            SessionNote::OpenFailed { reason, description } => {
                if let Some(id) = self.request.take() {
                    let words = open_failure_words(*reason);
                    let why = format!("Session open refused by peer: {words}: {}", sanitise(description));
                    self.line.reply(id, &Reply::Failure(why));
                }
            }
            SessionNote::X11Refused => {
                if let Some(stderr) = &self.stderr {
                    write_notice(stderr, &format!("X11 forwarding request failed on channel {session}\r\n"));
                }
            }
            SessionNote::PtyRefused => say(Said::NoTerminal(session)),
            SessionNote::StartRefused { request } => {
                if let Some(stderr) = &self.stderr {
                    write_notice(stderr, &format!("{request} request failed on channel {session}\r\n"));
                }
                if let Some(mut channel) = cx.channel(self.channel) {
                    channel.close();
                }
            }
            // `ChannelTimeout`: the channel closes, which the client notices.
            SessionNote::Idle => {}
            SessionNote::ExitStatus(status) => say(Said::Exit(session, *status)),
            // As in ssh: a signal has no exit status, so the status reports a failure.
            SessionNote::ExitSignal { .. } => say(Said::Exit(session, 255)),
        }
    }

    pub(super) const fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Ends the session after the channel is gone and its output written.
    pub(super) fn end(self) {
        self.over.set(true);
        hang_up(&self.line);
    }

    pub(super) fn send_window_size(&self, cx: &mut ControlCx<'_>) {
        let Some(terminal) = &self.terminal else { return };
        if let Some(mut channel) = cx.channel(self.channel) {
            let size = window_size(terminal);
            let mut fields = Vec::new();
            for value in [size.ws_col, size.ws_row, size.ws_xpixel, size.ws_ypixel] {
                fields.put_u32(value.into());
            }
            channel.request("window-change", false, &fields);
        }
    }
}

/// Opens a session on these descriptors.
pub(super) fn open_mux_session(
    master: &Master,
    session: &NewSession,
    descriptors: Vec<OwnedFd>,
    request: u32,
    line: &Line,
    cx: &mut ControlCx<'_>,
) -> Result<MuxRequest, String> {
    if session.tty && !cx.transport().is_encrypted() {
        return Err("the shared connection is not encrypted and carries no terminals".to_owned());
    }
    let [stdin, stdout, stderr]: [OwnedFd; 3] =
        descriptors.try_into().map_err(|_| "descriptors are missing".to_owned())?;
    let (stdin, stderr) = (Rc::new(stdin), Rc::new(stderr));
    let mut setup = setup(session, &stdin);
    setup.agent_request = master.0.agent.filter(|_| session.agent);
    setup.x11 = master.0.x11.as_ref().filter(|_| session.x11).and_then(X11Forward::request);
    let mut pump = ends(&stdin, &stdout).map_err(|error| error.to_string())?;
    let errors = LocalFd::inherited(stderr.as_fd(), Direction::Write).map_err(|error| error.to_string())?;
    pump = pump.output_ext(errors).tell_broken_output();
    if let Some(escape) = session.escape.filter(|_| session.tty) {
        let forwards = master.0.forwards.clone();
        pump = pump.filter(Box::new(MuxClientEscapes::new(escape, forwards, Rc::clone(&stderr))));
    }
    let handler = Box::new(SessionChannel::new(setup, Box::new(pump)));
    let channel =
        cx.open("session", b"", &ChannelOptions::default(), handler).map_err(|error| error.to_string())?;
    let terminal = (session.tty && is_terminal(&*stdin)).then_some(stdin);
    Ok(register(master, channel, line, request, terminal, Some(stderr), cx))
}

/// Connects these descriptors to `target`.
pub(super) fn open_mux_stdio(
    master: &Master,
    target: &Target,
    descriptors: Vec<OwnedFd>,
    request: u32,
    line: &Line,
    cx: &mut ControlCx<'_>,
) -> Result<MuxRequest, String> {
    let [stdin, stdout]: [OwnedFd; 2] =
        descriptors.try_into().map_err(|_| "descriptors are missing".to_owned())?;
    let local = |fd: &OwnedFd, direction| {
        LocalFd::inherited(fd.as_fd(), direction).map_err(|error| error.to_string())
    };
    let (input, output) = (local(&stdin, Direction::Read)?, local(&stdout, Direction::Write)?);
    let channel = master.0.forwards.open_stdio(target, input, output, cx)?;
    Ok(register(master, channel, line, request, None, None, cx))
}

fn ends(stdin: &OwnedFd, stdout: &OwnedFd) -> std::io::Result<FdPump> {
    Ok(FdPump::new()
        .input(LocalFd::inherited(stdin.as_fd(), Direction::Read)?)
        .output(LocalFd::inherited(stdout.as_fd(), Direction::Write)?))
}

fn register(
    master: &Master,
    channel: ChannelId,
    line: &Line,
    request: u32,
    terminal: Option<Rc<OwnedFd>>,
    stderr: Option<Rc<OwnedFd>>,
    cx: &ControlCx<'_>,
) -> MuxRequest {
    let over = Rc::new(Cell::new(false));
    let ride_over = Rc::clone(&over);
    let mux_client =
        MuxClient { line: line.clone(), request: Some(request), channel, terminal, stderr, over };
    // It was opened just now, so it exists.
    let handler = cx.handler_of(channel);
    match handler {
        Some(handler) => {
            master.0.state.borrow_mut().mux_clients.insert(handler, mux_client);
        }
        None => mux_client.end(),
    }
    MuxRequest { handler, channel, over: ride_over }
}

fn setup(session: &NewSession, stdin: &OwnedFd) -> SessionSetup {
    let start = match (&session.command[..], session.subsystem) {
        (name, true) => Start::Subsystem(String::from_utf8_lossy(name).into_owned()),
        ([], false) => Start::Shell,
        (command, false) => Start::Exec(command.to_vec()),
    };
    let mut setup = SessionSetup::new(start);
    if session.tty {
        let size = window_size(stdin);
        let modes = rustix::termios::tcgetattr(stdin).map_or_else(|_| vec![0], |modes| encode_modes(&modes));
        setup.pty = Some(Pty {
            term: session.term.clone(),
            columns: size.ws_col.into(),
            rows: size.ws_row.into(),
            width: size.ws_xpixel.into(),
            height: size.ws_ypixel.into(),
            modes,
        });
    }
    for variable in &session.environment {
        let variable = String::from_utf8_lossy(variable);
        if let Some((name, value)) = variable.split_once('=') {
            setup.env.push((name.to_owned(), value.to_owned()));
        }
    }
    setup
}
