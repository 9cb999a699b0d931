//! A session channel (RFC 4254 section 6): requests that prepare it, then one program.

mod fields;
mod idle;
mod messages;
mod program;
mod requests;
mod start;
mod start_log;

use std::rc::Rc;
use std::time::Instant;

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, Interests, Ready};

use self::idle::Idle;
use self::program::Terminal;
use super::command_usage::Work;
use super::environment::ClientVariables;
use super::listed_program::ListedProgram;
use super::process::Process;
use super::sftp::Sftp;
use super::shared::Shared;
use super::x11::Display;
use crate::hosts::shown_endpoint;
use crate::log::{info, verbose};
use crate::monitor_ipc::MonitorRequest;

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

    /// Asks the monitor to record that the terminal is free.
    fn unrecord(&mut self) {
        if let Some(line) = self.line.take() {
            // A monitor that ends records this by itself.
            let _ = self.shared.monitor.borrow().send(&MonitorRequest::Left { line }.encode());
        }
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
                    let (from, number) = (shown_endpoint(peer), self.number);
                    verbose!(self.shared.requests_log, "Close session: user {user} from {from} id {number}");
                    self.terminal = None;
                    self.account();
                    if let Some(display) = self.display.take() {
                        display.end(cx);
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

/// Reads the fields of channel requests.
#[cfg(fuzzing)]
pub(super) fn fuzz_fields(fields: &[u8]) {
    fields::fuzz(fields);
}
