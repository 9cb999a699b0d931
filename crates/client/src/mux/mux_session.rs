//! A mux client's running session or stdio forward: the messages about its channel, and its end.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use lh_driver::{ChannelId, ControlCx, HandlerId};
use lh_sys::termios::window_size;
use lh_wire::{LONGEST_TEXT, Writer};

use super::escapes::write_notice;
use super::line::Line;
use super::wire::{MasterMessage, Reply};
use crate::log::sanitise_start;
use crate::proxy::open_failure_words;
use crate::session::SessionNote;

/// A control connection's handle of its session.
pub(super) struct SessionHandle {
    pub(super) handler: Option<HandlerId>,
    pub(super) channel: ChannelId,
    pub(super) over: Rc<Cell<bool>>,
}

impl SessionHandle {
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
pub(super) struct MuxSession {
    pub(super) line: Line,
    /// The request's id, until it is answered.
    pub(super) request: Option<u32>,
    pub(super) channel: ChannelId,
    /// Standard input, if that is a terminal whose size is sent.
    pub(super) terminal: Option<Rc<OwnedFd>>,
    pub(super) stderr: Option<Rc<OwnedFd>>,
    pub(super) over: Rc<Cell<bool>>,
}

impl MuxSession {
    /// Handles a note about the channel or its program.
    pub(super) fn on_note(&mut self, note: &SessionNote, cx: &mut ControlCx<'_>) {
        let session = self.channel.number();
        let send = |message: MasterMessage| {
            if let Some(message) = message.encode() {
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
                    let text = sanitise_start(description, LONGEST_TEXT);
                    let why = format!("Session open refused by peer: {words}: {text}");
                    self.line.reply(id, &Reply::Failure(why));
                }
            }
            SessionNote::X11Refused => {
                if let Some(stderr) = &self.stderr {
                    write_notice(stderr, &format!("X11 forwarding request failed on channel {session}\r\n"));
                }
            }
            SessionNote::PtyRefused => send(MasterMessage::NoTerminal(session)),
            SessionNote::StartRefused { request } => {
                if let Some(stderr) = &self.stderr {
                    write_notice(stderr, &format!("{request} request failed on channel {session}\r\n"));
                }
                if let Some(mut channel) = cx.channel(self.channel) {
                    channel.close();
                }
            }
            // `ChannelTimeout`: the channel closes, and the client detects that.
            SessionNote::Idle => {}
            SessionNote::ExitStatus(status) => send(MasterMessage::Exit(session, *status)),
            // As in ssh: a signal has no exit status, so the status reports a failure.
            SessionNote::ExitSignal { .. } => send(MasterMessage::Exit(session, 255)),
        }
    }

    pub(super) const fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Ends the session after the channel is gone and its output written.
    pub(super) fn end(self) {
        self.over.set(true);
        self.line.hang_up();
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
