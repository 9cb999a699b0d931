//! Opens a mux client's session or stdio forward on the descriptors that it has passed.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use lh_driver::{ChannelId, ChannelOptions, ControlCx, Direction, FdPump, LocalFd, Target};
use lh_sys::termios::{encode_modes, is_terminal, window_size};

use super::escapes::MuxClientEscapes;
use super::line::Line;
use super::mux_session::{MuxSession, SessionHandle};
use super::state::Shared;
use super::wire::NewSession;
use crate::X11Forward;
use crate::session::{Pty, SessionChannel, SessionSetup, Start};

/// Why a mux client's session or stdio forward does not open. `Display` is the text for the client.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// The client asks for a terminal over a connection whose encryption is off.
    #[error("the shared connection is not encrypted and carries no terminals")]
    NotEncrypted,
    /// The client has passed too few descriptors.
    #[error("descriptors are missing")]
    NoDescriptors,
    /// A descriptor cannot be used.
    #[error(transparent)]
    Descriptor(std::io::Error),
    /// All channels are in use.
    #[error(transparent)]
    Channel(lh_connection::OpenError),
}

/// Opens a session on these descriptors.
pub(super) fn open_mux_session(
    master: &Shared,
    session: &NewSession,
    descriptors: Vec<OwnedFd>,
    request: u32,
    line: &Line,
    cx: &mut ControlCx<'_>,
) -> Result<SessionHandle, OpenError> {
    if session.tty && !cx.is_encrypted() {
        return Err(OpenError::NotEncrypted);
    }
    let [stdin, stdout, stderr]: [OwnedFd; 3] =
        descriptors.try_into().map_err(|_| OpenError::NoDescriptors)?;
    let (stdin, stderr) = (Rc::new(stdin), Rc::new(stderr));
    let mut setup = setup(session, &stdin);
    setup.agent_request = master.agent.filter(|_| session.agent);
    setup.x11 = master.x11.as_ref().filter(|_| session.x11).and_then(X11Forward::request);
    let mut pump = ends(&stdin, &stdout).map_err(OpenError::Descriptor)?;
    let errors = LocalFd::inherited(stderr.as_fd(), Direction::Write).map_err(OpenError::Descriptor)?;
    pump = pump.output_ext(errors).tell_broken_output();
    if let Some(escape) = session.escape.filter(|_| session.tty) {
        let forwards = master.forwards.clone();
        pump = pump.filter(Box::new(MuxClientEscapes::new(escape, forwards, Rc::clone(&stderr))));
    }
    let handler = Box::new(SessionChannel::new(setup, Box::new(pump)));
    let channel = cx.open("session", b"", &ChannelOptions::default(), handler).map_err(OpenError::Channel)?;
    let terminal = (session.tty && is_terminal(&*stdin)).then_some(stdin);
    Ok(register(master, channel, line, request, terminal, Some(stderr), cx))
}

/// Connects these descriptors to `target`.
pub(super) fn open_mux_stdio(
    master: &Shared,
    target: &Target,
    descriptors: Vec<OwnedFd>,
    request: u32,
    line: &Line,
    cx: &mut ControlCx<'_>,
) -> Result<SessionHandle, OpenError> {
    let [stdin, stdout]: [OwnedFd; 2] = descriptors.try_into().map_err(|_| OpenError::NoDescriptors)?;
    let local =
        |fd: &OwnedFd, direction| LocalFd::inherited(fd.as_fd(), direction).map_err(OpenError::Descriptor);
    let (input, output) = (local(&stdin, Direction::Read)?, local(&stdout, Direction::Write)?);
    let channel = master.forwards.open_stdio(target, input, output, cx).map_err(OpenError::Channel)?;
    Ok(register(master, channel, line, request, None, None, cx))
}

fn ends(stdin: &OwnedFd, stdout: &OwnedFd) -> std::io::Result<FdPump> {
    Ok(FdPump::new()
        .input(LocalFd::inherited(stdin.as_fd(), Direction::Read)?)
        .output(LocalFd::inherited(stdout.as_fd(), Direction::Write)?))
}

fn register(
    master: &Shared,
    channel: ChannelId,
    line: &Line,
    request: u32,
    terminal: Option<Rc<OwnedFd>>,
    stderr: Option<Rc<OwnedFd>>,
    cx: &ControlCx<'_>,
) -> SessionHandle {
    let over = Rc::new(Cell::new(false));
    let request_over = Rc::clone(&over);
    let session = MuxSession { line: line.clone(), request: Some(request), channel, terminal, stderr, over };
    // The channel was opened just now, so it exists.
    let handler = cx.handler_of(channel);
    match handler {
        Some(handler) => {
            master.state.borrow_mut().sessions.insert(handler, session);
        }
        None => session.end(),
    }
    SessionHandle { handler, channel, over: request_over }
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
