//! What happens while a session runs: signals, answers of the server, the exit status and the end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lh_client::mux::Master;
use lh_client::{
    AgentForward, Forwards, HostKeyUpdate, LogLevel, Logger, Resumptions, SessionNote, UserInterface,
    X11Forward, answer_by_default, open_failed,
};
use lh_driver::{
    ChannelCx, ChannelId, Control, ControlCx, ControlEvent, HandlerId, IdleChannels, Interest, Interests,
    Ready,
};
use lh_sys::signals::Signals;
use lh_terminal::TerminalUi;
use rustix::process::Signal;

use crate::escapes::{Background, Disconnect, EscapeRequest, Terminal, redraw, send_window_size};
use crate::report::FAILURE;

/// How a session ends.
pub(super) enum Ending {
    Normal,
    Signal(Signal),
    Background,
}

/// The main channel: what the program was started for.
pub(super) struct MainChannel {
    /// `None` before it is opened and after it has closed.
    pub(super) channel: Option<ChannelId>,
    /// `None` once its handler has passed on all output.
    pub(super) handler: Option<HandlerId>,
    /// The channel is a forward (`-W`).
    pub(super) stdio: bool,
    pub(super) tty: bool,
    /// The user asked for a terminal by name (`-t`, `RequestTTY yes`): without one nothing is run.
    pub(super) needs_tty: bool,
    /// Debug messages to log when the channel is open.
    pub(super) announcement: Vec<String>,
}

/// How the session has ended so far.
pub(super) struct Outcome {
    /// Exit status, once the server has reported one.
    pub(super) status: Option<u8>,
    /// The server has refused what the session is for.
    pub(super) refused: bool,
    /// The session is over; forwarded connections may still be open.
    pub(super) over: bool,
    pub(super) ending: Ending,
    /// Message for the time after the terminal is restored, and its level.
    pub(super) note: Option<(LogLevel, String)>,
}

/// Limits of an unused connection.
pub(super) struct Unused {
    /// Time without use after which the connection ends (`ControlPersist`).
    pub(super) persist: Option<Duration>,
    /// Time of the last use.
    pub(super) since: Option<Instant>,
    /// `ChannelTimeout global`.
    pub(super) channels: Option<IdleChannels>,
}

impl Unused {
    /// Time at which an unused connection ends (`ControlPersist`).
    fn deadline(&self) -> Option<Instant> {
        self.since.zip(self.persist).map(|(since, persist)| since + persist)
    }
}

/// Control of a session: handles signals, the exit status and the end.
pub(super) struct Session {
    pub(super) signals: Signals,
    pub(super) main: MainChannel,
    pub(super) outcome: Outcome,
    pub(super) unused: Unused,
    pub(super) terminal: Terminal,
    pub(super) resumptions: Resumptions,
    pub(super) forwards: Forwards,
    /// Serves mux clients that share the connection.
    pub(super) master: Option<Master>,
    /// True without a session of its own (`-N`, or `ControlPersist` after the first session).
    pub(super) serves_others_only: bool,
    pub(super) agent: AgentForward,
    pub(super) x11: X11Forward,
    /// The loop runs only until the forwards are set up.
    pub(super) settling: bool,
    /// `UpdateHostKeys`, until it is done.
    pub(super) update: Option<HostKeyUpdate>,
    pub(super) ui: TerminalUi,
    pub(super) logger: Logger,
}

impl Session {
    /// Passes the event to `UpdateHostKeys`; true when that handled it.
    fn update_host_keys(&mut self, event: &ControlEvent, cx: &mut ControlCx<'_>) -> bool {
        let Some(update) = &mut self.update else { return false };
        let mut person = self.ui.clone();
        let terminal = &self.terminal;
        let mut ask = |question: &str| {
            let raw = terminal.borrow();
            if let Some(raw) = &*raw {
                let _ = raw.leave();
            }
            let answer = person.ask(question).map(|answer| answer.to_string());
            if let Some(raw) = &*raw {
                let _ = raw.reenter();
            }
            answer
        };
        update.on_event(event, cx, &mut self.ui, self.logger.level(), &mut ask)
    }

    /// Returns the session's channel, where it has a terminal.
    fn terminal_channel<'a>(&self, cx: &'a mut ControlCx<'_>) -> Option<ChannelCx<'a>> {
        self.main.channel.filter(|_| self.main.tty).and_then(|id| cx.channel(id))
    }

    /// Logs a channel request of the server about the session.
    fn log_request(&self, request: &str) {
        let number = self.main.channel.map_or(0, ChannelId::number);
        self.logger.debug(|| format!("client_input_channel_req: channel {number} rtype {request} reply 0"));
    }

    /// Ends without what the session is for.
    fn end_refused(&mut self, cx: &mut ControlCx<'_>) {
        self.outcome.refused = true;
        self.outcome.status = Some(FAILURE);
        cx.stop(FAILURE.into());
    }

    fn on_note(&mut self, note: &SessionNote, cx: &mut ControlCx<'_>) {
        match note {
            SessionNote::OpenFailed { reason, description } => {
                let number = self.main.channel.map_or(0, ChannelId::number);
                let text = open_failed(number, *reason, description);
                if self.main.stdio {
                    self.logger.say(LogLevel::Info, &text);
                    self.outcome.note = Some((LogLevel::Fatal, "stdio forwarding failed".to_owned()));
                } else {
                    self.outcome.note = Some((LogLevel::Info, text));
                }
            }
            SessionNote::PtyRefused => {
                let level = if self.main.needs_tty { LogLevel::Fatal } else { LogLevel::Error };
                self.outcome.note = Some((level, "PTY allocation request failed on channel 0".to_owned()));
                self.main.tty = false;
                self.terminal.borrow_mut().take();
                if self.main.needs_tty {
                    self.end_refused(cx);
                }
            }
            SessionNote::X11Refused => {
                self.logger.say(LogLevel::Error, "X11 forwarding request failed on channel 0");
            }
            SessionNote::Idle => {
                let text = "channel 0: closing after the time ChannelTimeout allows without traffic";
                self.logger.say(LogLevel::Debug1, text);
            }
            // A stdio forward has no exit status; opening it is success.
            SessionNote::Started if self.main.stdio => self.outcome.status = Some(0),
            SessionNote::Opened => {
                self.main.announcement.drain(..).for_each(|line| self.logger.say(LogLevel::Debug1, &line));
            }
            SessionNote::Started => {}
            SessionNote::StartRefused { request } => {
                self.outcome.note = Some((LogLevel::Fatal, format!("{request} request failed on channel 0")));
                self.end_refused(cx);
            }
            // A shell sees only 8 bits.
            SessionNote::ExitStatus(status) => {
                self.log_request("exit-status");
                self.outcome.status = Some((status & 0xff) as u8);
            }
            // Like ssh: there is no exit status, so report failure.
            SessionNote::ExitSignal { .. } => {
                self.log_request("exit-signal");
                self.outcome.status = Some(FAILURE);
            }
        }
    }
}

impl Control for Session {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        if self.update_host_keys(&event, cx) {
            return;
        }
        let event = match &self.master {
            Some(master) => master.on_event(event, cx),
            None => Some(event),
        };
        let Some(event) = event.and_then(|event| self.forwards.on_event(event, cx)) else { return };
        let Some(event) = self.agent.on_event(event, cx) else { return };
        let Some(event) = self.x11.on_event(event, cx) else { return };
        match event {
            ControlEvent::Note { note, .. } => {
                if let Some(note) = note.downcast_ref::<SessionNote>() {
                    self.on_note(note, cx);
                } else if let Some(request) = note.downcast_ref::<EscapeRequest>() {
                    request.execute(&self.forwards, cx);
                } else if note.is::<Disconnect>() {
                    self.outcome.status = Some(FAILURE);
                    cx.stop(FAILURE.into());
                } else if note.is::<Background>() {
                    self.forwards.stop_listening(cx);
                    self.outcome.ending = Ending::Background;
                    cx.stop(0);
                }
            }
            ControlEvent::ChannelGone { handler, .. } => {
                if self.main.handler == Some(handler) {
                    self.main.handler = None;
                    self.main.channel = None;
                    self.outcome.over = true;
                    // Forwarded connections continue to their end; the terminal belongs to the shell again.
                    self.terminal.borrow_mut().take();
                }
            }
            ControlEvent::KexDone { .. } => self.logger.say(LogLevel::Debug1, lh_client::NEWKEYS),
            ControlEvent::Debug { always_display, text } => {
                let (level, line) = lh_client::remote_debug(always_display, &text);
                self.logger.say(level, &line);
            }
            event => answer_by_default(event, cx),
        }
    }

    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        if self.resumptions.take_overwritten()
            && let Some(mut channel) = self.terminal_channel(cx)
        {
            redraw(&mut channel);
        }
        if let Some(master) = &self.master {
            master.before_wait();
        }
        self.outcome.over |= self.serves_others_only && self.master.as_ref().is_some_and(Master::has_stopped);
        let used = cx.handler_count() > 0 || self.master.as_ref().is_some_and(Master::is_used);
        if self.outcome.over && !used {
            // Without an exit status the program was killed, or the server is faulty: not a success.
            cx.stop(self.outcome.status.unwrap_or(FAILURE).into());
        } else if self.settling && !self.forwards.pending() {
            cx.stop(0);
        }
        self.unused.since = match self.unused.since {
            _ if self.unused.persist.is_none() || used => None,
            None => Some(cx.now()),
            since => since,
        };
        if let Some(idle) = &mut self.unused.channels {
            idle.before_wait(cx);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let idle = self.unused.channels.as_ref().and_then(IdleChannels::next_deadline);
        [self.unused.deadline(), idle].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        if self.unused.channels.as_mut().is_some_and(|idle| idle.on_timeout(cx) > 0) {
            let text = "global channel timeout: closing all channels";
            self.logger.say(LogLevel::Info, text);
        }
        if self.unused.deadline().is_none_or(|deadline| deadline > cx.now()) {
            return;
        }
        self.unused.since = None;
        self.unused.persist = None;
        cx.stop(0);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        out.add(0, self.signals.as_fd(), Interest::READ);
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        while let Ok(Some(signal)) = self.signals.take() {
            if signal == Signal::WINCH {
                if let Some(mut channel) = self.terminal_channel(cx) {
                    send_window_size(&mut channel);
                }
                if let Some(master) = &self.master {
                    // A mux client's process forwards the signal to us when its terminal changes.
                    master.window_changed(cx);
                }
            } else {
                self.outcome.ending = Ending::Signal(signal);
                cx.stop(FAILURE.into());
            }
        }
    }
}
