//! A session channel (RFC 4254 section 6): requests that prepare it, then one program.

mod fields;
mod idle;
mod messages;
mod program;
mod start_log;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, Interests, Ready};
use lh_sftp_server::Arguments;
use lh_sys::records::Last;
use lh_transport::Unencrypted;
use lh_wire::{Reader, Writer};

use self::fields::{one_string, window_size};
use self::idle::Idle;
use self::messages::Messages;
use self::program::{Requested, Terminal};
use self::start_log::log_start;
use super::command::{self, Plan, RequestedProgram};
use super::command_usage::{Files, Work};
use super::environment::ClientVariables;
use super::listed_program::ListedProgram;
use super::process::Process;
use super::sftp::Sftp;
use super::shared::Shared;
use super::x11::{self, Display};
use super::{agent, terminal};
use crate::hosts::shown_ip;
use crate::log::{error, info, verbose};
use crate::monitor_ipc::{MonitorRequest, decode_last};

/// The state of the channel's program.
enum State {
    /// No program yet: requests prepare it.
    Preparing,
    Running(Box<Process>),
    Sftp(Box<Sftp>),
    /// A message was sent in place of a program.
    Over,
}

/// A session channel. See the module documentation.
pub(super) struct SessionChannel {
    shared: Rc<Shared>,
    state: State,
    terminal: Option<Terminal>,
    variables: ClientVariables,
    forced: bool,
    number: u32,
    /// The terminal's name in login records.
    line: Option<String>,
    /// The time limit of an idle channel (`ChannelTimeout`).
    idle: Option<Idle>,
    /// The X11 display that the client requested.
    display: Option<Display>,
    /// The command's usage record, where transfers are logged.
    work: Option<Work>,
    /// The kind of program that the monitor counts for this channel.
    listed: ListedProgram,
}

impl SessionChannel {
    pub(super) fn new(shared: Rc<Shared>, number: u32) -> Self {
        Self {
            shared,
            state: State::Preparing,
            terminal: None,
            variables: ClientVariables::default(),
            forced: false,
            number,
            line: None,
            idle: None,
            work: None,
            listed: ListedProgram::default(),
            display: None,
        }
    }

    /// Updates the command's byte counts, and reports the end of its program to the monitor.
    fn count(&mut self, cx: &mut ChannelCx<'_>) {
        if let Some(work) = &mut self.work {
            work.count(cx);
        }
        if matches!(&self.state, State::Running(process) if process.ended().is_some()) {
            self.listed.end(&self.shared);
        }
    }

    /// Records what a command has transferred.
    fn account(&mut self) {
        if let (Some(work), State::Running(process)) = (self.work.take(), &self.state) {
            for transfer in work.transfers(process.ended()) {
                self.shared.transferred(transfer);
            }
        }
    }

    /// Restarts the idle time: bytes were received or sent.
    fn moved(&mut self, cx: &ChannelCx<'_>) {
        if let Some(idle) = &mut self.idle {
            idle.since = cx.now();
        }
    }

    fn running(&mut self) -> Option<&mut dyn ChannelHandler> {
        match &mut self.state {
            State::Running(process) => Some(&mut **process),
            State::Sftp(sftp) => Some(&mut **sftp),
            State::Preparing | State::Over => None,
        }
    }

    fn running_ref(&self) -> Option<&dyn ChannelHandler> {
        match &self.state {
            State::Running(process) => Some(&**process),
            State::Sftp(sftp) => Some(&**sftp),
            State::Preparing | State::Over => None,
        }
    }

    /// Handles a request of the client. Requests that start a program send their own answer, so that it
    /// precedes the first byte of output. For the others, the returned result is sent as the answer.
    fn request(&mut self, name: &str, want_reply: bool, fields: Bytes, cx: &mut ChannelCx<'_>) {
        let preparing = matches!(self.state, State::Preparing);
        let wanted = match name {
            "shell" if preparing && fields.is_empty() => Some(RequestedProgram::Shell),
            "exec" if preparing => {
                one_string(&fields).map(|text| RequestedProgram::Command(OsString::from_vec(text)))
            }
            "subsystem" if preparing => one_string(&fields)
                .and_then(|text| String::from_utf8(text).ok())
                .map(RequestedProgram::Subsystem),
            _ => None,
        };
        if let Some(wanted) = wanted {
            return self.start(&wanted, want_reply, cx);
        }
        let done = match name {
            "pty-req" if preparing => self.allocate_terminal(&fields, cx).unwrap_or(false),
            "env" if preparing => self.set_variable(&fields).unwrap_or(false),
            "x11-req" if preparing && self.display.is_none() => {
                self.display = x11::start(&Rc::clone(&self.shared), &fields, &mut cx.control());
                self.display.is_some()
            }
            "window-change" => self.resize(&fields).unwrap_or(false),
            "signal" => self.signal(&fields).unwrap_or(false),
            name if agent::is_request(name) && preparing => {
                agent::start(&Rc::clone(&self.shared), name, &mut cx.control())
            }
            "break" => match &self.state {
                State::Running(process) => process.send_break(),
                _ => false,
            },
            "eow@openssh.com" => {
                if let Some(handler) = self.running() {
                    let event = ChannelEvent::Request { name: name.to_owned(), want_reply: false, fields };
                    handler.on_event(event, cx);
                }
                true
            }
            _ => false,
        };
        if want_reply {
            cx.reply(done);
        }
    }

    fn allocate_terminal(&mut self, fields: &[u8], cx: &mut ChannelCx<'_>) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let kind = reader.string()?;
        let size = window_size(&mut reader)?;
        let modes = reader.string()?;
        reader.finish()?;
        let allowed = self.shared.settings.permit_tty.value && self.shared.options.pty;
        if !allowed || self.terminal.is_some() {
            return Ok(false);
        }
        if !cx.is_encrypted() {
            info!(
                self.shared.requests_log,
                "terminal refused: the connection is not encrypted (NoneEnabled)"
            );
            return Ok(false);
        }
        let inside_chroot = self.shared.programs.start.inside_chroot;
        let allocated = terminal::allocate(&mut self.shared.monitor.borrow_mut(), inside_chroot);
        let allocated = allocated.and_then(|pty| {
            let slave = pty.open_slave()?;
            lh_sys::termios::set_modes(&slave, modes)?;
            pty.resize(size)?;
            Ok(pty)
        });
        match allocated {
            Ok(pty) => {
                let kind = String::from_utf8_lossy(kind).into_owned();
                self.terminal = Some(Terminal { pty, kind });
                // Typed text stays encrypted: later requests of the client cannot change that.
                cx.control().set_unencrypted(Unencrypted::Refused);
                Ok(true)
            }
            Err(problem) => {
                error!(self.shared.requests_log, "cannot allocate a terminal: {problem}");
                Ok(false)
            }
        }
    }

    fn set_variable(&mut self, fields: &[u8]) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let name = reader.text()?;
        let value = OsString::from_vec(reader.string()?.to_vec());
        reader.finish()?;
        Ok(self.variables.offer(&self.shared.settings.accept_env.0, name, value))
    }

    fn resize(&self, fields: &[u8]) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let size = window_size(&mut reader)?;
        reader.finish()?;
        match (&self.state, &self.terminal) {
            (State::Running(process), _) => process.resize(size),
            (_, Some(terminal)) => drop(terminal.pty.resize(size)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sends a signal to the program. Forced commands get none, as in OpenSSH: they may not expect any.
    fn signal(&self, fields: &[u8]) -> lh_wire::Result<bool> {
        let mut reader = Reader::new(fields);
        let name = reader.text()?;
        reader.finish()?;
        let State::Running(process) = &self.state else { return Ok(false) };
        match lh_sys::signals::by_name(name) {
            Some(signal) if !self.forced => Ok(process.signal(signal).is_ok()),
            _ => Ok(false),
        }
    }

    /// Starts the requested program, or the one that is forced in its place.
    fn start(&mut self, wanted: &RequestedProgram, want_reply: bool, cx: &mut ChannelCx<'_>) {
        let shared = Rc::clone(&self.shared);
        shared.programs.title.show();
        let notice = match &shared.modules.problem {
            Some(problem) => Some(format!("{}{problem}\n", shared.modules.said)),
            // With PAM, a module checks for nologin.
            None if shared.modules.decide => None,
            // Inside a chroot, the chroot's file counts, as in sshd.
            None => command::nologin_notice(shared.user.uid),
        };
        if notice.is_some() && !shared.modules.decide {
            info!(shared.requests_log, "User {} not allowed because /etc/nologin exists", shared.user.name);
        }
        let has_terminal = self.terminal.is_some();
        let decision = command::decide(
            wanted,
            &shared.user,
            &shared.settings,
            &shared.options,
            shared.must_change_password,
            has_terminal,
            notice,
        );
        let terminal = self.terminal.as_ref().map(|terminal| terminal.pty.name());
        log_start(&shared, &decision, wanted, self.number, terminal);
        let kind = match wanted {
            RequestedProgram::Shell => "session:shell".to_owned(),
            RequestedProgram::Command(_) => "session:command".to_owned(),
            RequestedProgram::Subsystem(name) => format!("session:subsystem:{name}"),
        };
        self.idle = shared.settings.channel_timeout.of(&kind).map(|limit| Idle { limit, since: cx.now() });
        shared.set_interactive(has_terminal);
        self.forced = decision.forced;
        let said = if shared.has_begun.replace(true) { "" } else { &shared.modules.said };
        let messages = Messages { shared: &shared, said, on_terminal: has_terminal };
        let answer = |cx: &mut ChannelCx<'_>, ok: bool| {
            if want_reply {
                cx.reply(ok);
            }
        };
        match &decision.plan {
            Plan::Nothing => answer(cx, false),
            Plan::Message(text, status) => {
                answer(cx, true);
                if shared.must_change_password {
                    messages.say(command::password_warning(has_terminal), cx);
                }
                messages.say(text, cx);
                self.end(*status, cx);
            }
            Plan::SftpOnly => {
                answer(cx, true);
                cx.send(command::sftp_only(has_terminal).as_bytes());
                self.end(1, cx);
            }
            Plan::InternalSftp(args) => match Arguments::parse(args.iter().map(OsString::from), &shared.user)
            {
                Ok(arguments) => {
                    let control = cx.control();
                    let client = control.peer_identification();
                    let sftp = Sftp::new(&arguments, Rc::clone(&shared), client);
                    self.state = State::Sftp(Box::new(sftp));
                    self.listed.start(wanted, &self.shared);
                    answer(cx, true);
                    if let Ok(file) = shared.user_environment() {
                        messages.tell_about_files(wanted, &file, cx);
                    }
                }
                Err(stop) => {
                    let problem = stop.err.lines().next().unwrap_or("nothing to serve");
                    error!(shared.requests_log, "internal-sftp: {problem}");
                    answer(cx, false);
                }
            },
            Plan::Program { login_shell, .. } => {
                let login = *login_shell && has_terminal;
                let command = match wanted {
                    RequestedProgram::Command(command) if !decision.forced => command.as_bytes().to_vec(),
                    _ => decision.what.clone().into_bytes(),
                };
                let files = if shared.accounts { Files::of(&command) } else { None };
                // For subsystem servers: they may need the client's name to work around its bugs.
                let client = match wanted {
                    RequestedProgram::Subsystem(_) => cx.peer_identification().map(str::to_owned),
                    _ => None,
                };
                let user_file = match shared.user_environment() {
                    Ok(file) => file,
                    Err(problem) => {
                        error!(shared.requests_log, "{problem}");
                        answer(cx, true);
                        return self.end(255, cx);
                    }
                };
                let requested = Requested {
                    variables: &self.variables,
                    display: self.display.as_ref(),
                    terminal: self.terminal.take(),
                };
                let line = requested.terminal.as_ref().and_then(Terminal::line);
                match program::run(&shared, &decision, wanted, &user_file, files.as_ref(), client, requested)
                {
                    Ok(mut process) => {
                        self.line = line;
                        answer(cx, true);
                        if shared.must_change_password {
                            // Others have seen it before the session alone, as with sshd.
                            if matches!(wanted, RequestedProgram::Shell) {
                                messages.pass_on_said(cx);
                            }
                            messages.say(command::password_warning(has_terminal), cx);
                        }
                        let last = self.record(process.pid());
                        if login {
                            messages.greet(last.as_ref(), cx);
                        } else if *login_shell {
                            messages.pass_on_said(cx);
                        }
                        messages.tell_about_files(wanted, &user_file, cx);
                        process.start(cx);
                        self.state = State::Running(Box::new(process));
                        self.listed.start(wanted, &self.shared);
                        if shared.accounts {
                            self.work = Some(Work::new(command, files, cx.now()));
                        }
                    }
                    Err(problem) => {
                        let shell = shared.user.shell.display();
                        let problem = lh_sys::errno_text(&problem);
                        error!(shared.requests_log, "cannot run {shell}: {problem}");
                        answer(cx, true);
                        messages.say(&format!("{shell}: {problem}\n"), cx);
                        self.end(1, cx);
                    }
                }
            }
        }
    }

    /// Asks the monitor to record the login at the terminal. Returns the last login, if it should be shown.
    fn record(&mut self, pid: u32) -> Option<Last> {
        let line = self.line.as_deref()?.to_owned();
        let mut monitor = self.shared.monitor.borrow_mut();
        let answer = monitor.ask(&MonitorRequest::Arrived { line, pid });
        answer.ok().and_then(|bytes| decode_last(&bytes).ok()).flatten()
    }

    /// Asks the monitor to record that the terminal is free.
    fn unrecord(&mut self) {
        if let Some(line) = self.line.take() {
            // A monitor that ends records this by itself.
            let _ = self.shared.monitor.borrow().send(&MonitorRequest::Left { line }.encode());
        }
    }

    /// Ends a session without a program, with this exit status.
    fn end(&mut self, status: u32, cx: &mut ChannelCx<'_>) {
        let mut fields = Vec::new();
        fields.put_u32(status);
        cx.request("exit-status", false, &fields);
        cx.eof();
        cx.close();
        self.state = State::Over;
    }
}

impl ChannelHandler for SessionChannel {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if matches!(event, ChannelEvent::Data { .. }) {
            self.moved(cx);
        }
        match event {
            ChannelEvent::Request { name, want_reply, fields } => self.request(&name, want_reply, fields, cx),
            event => {
                if event == ChannelEvent::Closed {
                    let (user, peer) = (&self.shared.user.name, self.shared.client.peer.get());
                    let (ip, port, number) = (shown_ip(peer), peer.port(), self.number);
                    verbose!(
                        self.shared.requests_log,
                        "Close session: user {user} from {ip} port {port} id {number}"
                    );
                    self.terminal = None;
                    self.account();
                    if let Some(display) = self.display.take() {
                        display.end(&mut cx.control());
                    }
                    self.unrecord();
                    self.listed.end(&self.shared);
                }
                match (self.running(), event) {
                    (Some(handler), event) => handler.on_event(event, cx),
                    // Input without a program to read it.
                    (None, ChannelEvent::Data { data, .. }) => cx.consumed(data.len()),
                    (None, _) => {}
                }
                self.count(cx);
            }
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        if let Some(handler) = self.running() {
            handler.on_batch_end(cx);
        }
        self.count(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.moved(cx);
        if let Some(handler) = self.running() {
            handler.on_writable(cx);
        }
        self.count(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let Some(handler) = self.running_ref() {
            handler.interests(out);
        }
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        self.moved(cx);
        if let Some(handler) = self.running() {
            handler.on_ready(token, ready, cx);
        }
        self.count(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let running = self.running_ref().and_then(ChannelHandler::next_deadline);
        [running, self.idle.and_then(Idle::over)].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        if let Some(idle) = self.idle.filter(|idle| idle.over().is_some_and(|over| over <= cx.now())) {
            self.idle = None;
            let seconds = idle.limit.as_secs();
            info!(
                self.shared.requests_log,
                "channel {}: closing after {seconds} seconds of inactivity", self.number
            );
            return cx.close();
        }
        if let Some(handler) = self.running() {
            handler.on_timeout(cx);
        }
        self.count(cx);
    }

    fn finished(&self) -> bool {
        self.running_ref().is_none_or(ChannelHandler::finished)
    }
}
