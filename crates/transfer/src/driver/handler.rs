//! The channels of a [`Job`], as their connections' drivers see them.

use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, Interest, Interests, Ready,
};

use crate::additional::LOOK;
use crate::additional_connection::{AdditionalConnections, Waker};
use crate::remote_stderr::RemoteStderr;
use crate::{Event, Side};

use super::{AsSession, Job, Open, State};

/// One end of a [`Job`].
pub struct JobHandler {
    pub(super) job: Job,
    pub(super) side: Side,
    /// Which of the channels to this end; none for an additional one that is not open.
    pub(super) number: Option<usize>,
    /// Which of the connections to this end.
    pub(super) connection: usize,
    /// Notified by other connections; in one handler of each connection.
    pub(super) waker: Option<Arc<Waker>>,
    /// How additional channels are opened; `None`: none may be.
    pub(super) as_session: Option<AsSession>,
    /// Makes additional connections, where they are allowed.
    pub(super) additional: Option<Arc<dyn AdditionalConnections>>,
    pub(super) deadline: Option<Instant>,
    pub(super) closed: bool,
    /// The session had no connection when this was last looked at.
    pub(super) was_away: bool,
    pub(super) stderr: RemoteStderr,
}

impl Job {
    /// The handler for the SFTP channel of `side`. It stops its driver, with 0, when the copy is finished.
    pub fn handler(&self, side: Side) -> JobHandler {
        JobHandler {
            job: self.clone(),
            side,
            number: Some(0),
            connection: 0,
            waker: self.waker(0),
            as_session: None,
            additional: None,
            deadline: None,
            closed: false,
            was_away: false,
            stderr: crate::RemoteStderr::default(),
        }
    }

    /// The handler for an SFTP channel of an additional connection; the `first` one is woken for what happens
    /// on other connections. It stops its driver, with 0, when the copy is finished.
    pub fn additional_handler(&self, side: Side, connection: usize, first: bool) -> JobHandler {
        JobHandler {
            job: self.clone(),
            side,
            number: None,
            connection,
            waker: if first { self.waker(connection) } else { None },
            as_session: None,
            additional: None,
            deadline: None,
            closed: false,
            was_away: false,
            stderr: crate::RemoteStderr::default(),
        }
    }
}

/// Poll tokens of a handler's event sources beside its channel.
const WAKE: usize = 0;
const WAKER: usize = 1;

impl JobHandler {
    /// Lets the copy open additional channels on the same connection when they help.
    #[must_use]
    pub fn with_more_channels(mut self, as_session: AsSession) -> Self {
        self.as_session = Some(as_session);
        self
    }

    /// Lets the copy have additional connections when they help.
    #[must_use]
    pub fn with_additional(mut self, additional: Option<Arc<dyn AdditionalConnections>>) -> Self {
        self.additional = additional;
        self
    }

    pub(super) fn run(&mut self, cx: &mut ChannelCx<'_>) {
        let now = cx.now();
        let is_away = cx.is_away();
        let mut guard = self.job.lock();
        self.job.stop_if_interrupted(&mut guard);
        if std::mem::replace(&mut self.was_away, is_away) || is_away {
            // A server that cannot be reached is not silent.
            guard.engine.extend_wait_for_version(self.side, now);
        }
        if guard.over.contains(&self.connection) {
            // Only channels that are being closed remain of the connection.
            self.closed = true;
            return;
        }
        if guard.channels.len() > 1 || self.connection > 0 {
            // Data from one channel may permit all of them to send.
            guard = self.job.advance_all(guard, self.side, self.connection, cx, now);
        } else if self.number == Some(0) {
            guard = self.job.advance_first(guard, self.side, cx, now);
        }
        let state = &mut *guard;
        self.open_more(state, cx);
        self.look_at_load(state, cx);
        // Before the login there is nothing to show.
        let redraw = if cx.is_promised() { None } else { state.follow(now) };
        self.deadline = [state.engine.next_deadline(), redraw].into_iter().flatten().min();
        let finished = state.is_over();
        let other = if self.side == Side::Source { Side::Target } else { Side::Source };
        let wake = self.job.shared.relay && (finished || state.engine.wants_to_send(other));
        let others = state.others(self.connection);
        if finished {
            let summary = state.engine.summary();
            // Of two remote ends each has a first connection.
            if !self.job.shared.relay {
                state.over.push(self.connection);
            }
            if self.connection == 0 && !state.lent && !self.closed {
                state.report.ended(&summary, now);
            }
        }
        drop(guard);
        if finished && !self.closed {
            self.job.notify(|connection| connection != self.connection);
        } else if !others.is_empty() {
            self.job.notify(|connection| others.contains(&connection));
        }
        if finished && !std::mem::replace(&mut self.closed, true) {
            self.job.wake_other(self.side);
            self.close_all(cx);
            cx.stop(0);
        } else if wake && !self.closed {
            self.job.wake_other(self.side);
        }
    }

    pub(super) fn opened(&mut self, id: ChannelId, early: bool) {
        let state = &mut *self.job.lock();
        let number = match self.number {
            Some(number) => {
                if early {
                    state.engine.open_early(self.side);
                } else {
                    state.engine.open(self.side);
                }
                number
            }
            None => *self.number.insert(state.engine.open_channel()),
        };
        // Of two remote ends neither has additional channels.
        if !self.job.shared.relay {
            state.channels.push(Open { connection: self.connection, number, id });
        }
    }

    /// Asks for as many channels as the engine would like to have, or for connections instead.
    fn open_more(&self, state: &mut State, cx: &mut ChannelCx<'_>) {
        let Some(as_session) = &self.as_session else { return };
        let mut channels = std::mem::take(&mut state.instead);
        // Without a number from the user: channels first, and connections where they are found to help.
        let instead = self.additional.as_ref().filter(|_| !state.engine.chooses_channels());
        for _ in 0..state.engine.channels_wanted() {
            let connects = instead.is_some_and(|additional| additional.instead(cx));
            channels += usize::from(!connects);
        }
        for _ in 0..channels {
            let handler = Self {
                job: self.job.clone(),
                side: self.side,
                number: None,
                connection: self.connection,
                waker: None,
                as_session: None,
                additional: self.additional.clone(),
                deadline: None,
                closed: false,
                was_away: false,
                stderr: RemoteStderr::default(),
            };
            let handler = as_session(Box::new(handler));
            if cx.open_channel("session", b"", &ChannelOptions::default(), handler).is_err() {
                state.engine.channel_refused();
            }
        }
    }

    /// From time to time: would another connection help?
    fn look_at_load(&self, state: &mut State, cx: &mut ChannelCx<'_>) {
        let Some(additional) = self.additional.as_ref().filter(|_| self.number == Some(0)) else { return };
        let now = cx.now();
        if state.next_look.is_some_and(|next| now < next) {
            return;
        }
        state.next_look = Some(now + LOOK);
        if state.engine.look_at_load(additional.load(), now) {
            // As many channels as this one has: where windows are small one would not show what it is worth.
            let channels = state.channels.iter().filter(|open| open.connection == self.connection).count();
            if !additional.another(channels, cx) {
                state.engine.connection_refused();
                let text =
                    "no additional connection: the server gives no ticket, and another login would need you";
                state.report.event(Event::Notice { text: text.to_owned() }, now);
            }
        }
    }

    fn close_all(&self, cx: &mut ChannelCx<'_>) {
        let mut state = self.job.lock();
        let lent = state.lent && self.connection == 0;
        let mine = |open: &mut Open| open.connection == self.connection && !(lent && open.number == 0);
        let channels: Vec<Open> = state.channels.extract_if(.., mine).collect();
        drop(state);
        for open in channels {
            if let Some(mut channel) = cx.sibling(open.id) {
                channel.close();
            }
        }
        if !lent {
            cx.close();
        }
    }

    fn lost(&mut self, reason: &str, cx: &mut ChannelCx<'_>) {
        if self.closed || self.job.lock().over.contains(&self.connection) {
            return;
        }
        match self.number {
            Some(0) => {
                let mut state = self.job.lock();
                state.server_ended |= !state.engine.is_finished();
                drop(state);
                self.job.lost(self.side, reason);
                self.run(cx);
                // The other remote end may still have something to finish. This channel is gone, and with it
                // what would notice that it has: the loop would wait for its connection for ever.
                if self.job.shared.relay && !std::mem::replace(&mut self.closed, true) {
                    cx.stop(0);
                }
                return;
            }
            Some(_) if self.connection > 0 => {
                // The connection has no other purpose.
                self.job.lock().lose(self.connection, reason, cx.now());
                cx.stop(0);
            }
            Some(number) => self.job.lock().engine.channel_lost(number, reason, cx.now()),
            None if self.additional.as_ref().is_some_and(|additional| additional.beyond()) => {}
            None => {
                let mut state = self.job.lock();
                state.engine.channel_refused();
                if self.connection > 0
                    && !state.channels.iter().any(|open| open.connection == self.connection)
                {
                    cx.stop(0);
                }
            }
        }
        self.run(cx);
    }
}

impl ChannelHandler for JobHandler {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            // The caller has asked for the subsystem before; its answer need not be waited for.
            ChannelEvent::Opened { .. } => {
                let server = cx.peer_identification().map(str::to_owned);
                let own = cx.own_identification();
                self.job.lock().engine.set_server(self.side, server.as_deref(), &own);
                self.opened(cx.id(), cx.is_promised());
                self.run(cx);
            }
            ChannelEvent::Data { ext: None, data } => {
                let len = data.len();
                let mut state = self.job.lock();
                match self.number {
                    Some(number @ 1..) => state.engine.channel_take_in(number, data, cx.now()),
                    _ => state.engine.take_in(self.side, data, cx.now()),
                }
                drop(self.job.do_file_work(state));
                cx.consumed(len);
            }
            ChannelEvent::Data { ext: Some(_), data } => {
                self.stderr.write(&data);
                self.job.lock().engine.extend_wait_for_version(self.side, cx.now());
                cx.consumed(data.len());
            }
            ChannelEvent::Eof | ChannelEvent::Closed => self.lost("Connection closed", cx),
            ChannelEvent::OpenFailed { .. } if self.number.is_none() => self.lost("", cx),
            ChannelEvent::OpenFailed { description, .. } => {
                let text = crate::display_name(description.as_bytes());
                self.lost(&format!("channel open failed: {text}"), cx);
            }
            ChannelEvent::Request { want_reply: true, .. } => cx.reply(false),
            _ => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.run(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.run(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if self.job.shared.relay {
            out.add(WAKE, self.job.listen[self.side as usize].as_fd(), Interest::READ);
        }
        if let Some(waker) = &self.waker {
            out.add(WAKER, waker.fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ChannelCx<'_>) {
        if let (WAKER, Some(waker)) = (token, &self.waker) {
            waker.drain();
            return self.run(cx);
        }
        let mut drained = [0; 256];
        while let Ok(1..) = (&self.job.listen[self.side as usize]).read(&mut drained) {}
        self.run(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.deadline = None;
        self.run(cx);
    }
}
