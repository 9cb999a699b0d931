//! Requests to the server's SFTP, many at a time: the files of a run at servers that run no commands.

mod deadlines;
mod remove;
mod requests;
mod steps;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::{SessionNote, SessionSetup, Start, answer_by_default};
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent,
};

use self::deadlines::{Deadlines, Due};
use self::requests::{Requests, SessionLoss};
pub(crate) use self::steps::{Outcome, Step};
use crate::fault::Fault;
use crate::target::Remote;

/// Longest time without an answer, and what it is once the user wants an end.
const LIMIT: Duration = Duration::from_secs(60);
const HURRIED_LIMIT: Duration = Duration::from_secs(10);
/// Why steps are not done that the user does not wait for.
const INTERRUPTED: &str = "interrupted";

/// What a session does once the user wants an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnStop {
    /// It begins no more steps.
    End,
    /// It does all steps, and waits a shorter time for answers.
    Hurry,
}

/// An SFTP session on a connection.
pub(crate) struct Sftp<'a> {
    remote: &'a mut Remote,
    channel: ChannelId,
    requests: Rc<RefCell<Requests>>,
    stop: &'a dyn Fn() -> bool,
    on_stop: OnStop,
}

impl<'a> Sftp<'a> {
    /// Starts the server's SFTP. `stop` says that the user wants an end.
    ///
    /// # Errors
    /// The server has none, in its words, or the connection is lost.
    pub(crate) fn start(
        remote: &'a mut Remote,
        stop: &'a dyn Fn() -> bool,
        on_stop: OnStop,
    ) -> Result<Self, Fault> {
        let server = remote.client.driver().link().peer_identification().map(str::to_owned);
        let deadlines = Deadlines::new(Instant::now(), LIMIT);
        let requests = Rc::new(RefCell::new(Requests::new(server.as_deref(), deadlines)));
        let setup = SessionSetup::new(Start::Subsystem("sftp".to_owned()));
        let handler = Box::new(Handler(Rc::clone(&requests)));
        let opened = remote.client.open_session(setup, &ChannelOptions::default(), handler);
        let channel = opened.map_err(|error| Fault::Server(error.to_string()))?;
        let mut sftp = Self { remote, channel, requests, stop, on_stop };
        sftp.perform(Vec::new())?;
        Ok(sftp)
    }

    /// Does these steps, in any order and many at a time.
    ///
    /// # Errors
    /// Why the session has ended, or that the user wants an end.
    pub(crate) fn perform(&mut self, steps: Vec<Step>) -> Result<Outcome, Fault> {
        let stops = (self.stop)();
        if stops && self.on_stop == OnStop::End {
            return Err(Fault::Late(INTERRUPTED));
        }
        let limit = if stops { HURRIED_LIMIT } else { LIMIT };
        self.requests.borrow_mut().add(steps, Instant::now(), limit);
        let mut control = SessionControl {
            requests: Rc::clone(&self.requests),
            channel: self.channel,
            stop: self.stop,
            on_stop: self.on_stop,
            has_stopped: stops,
        };
        let run = self.remote.client.run(&mut control);
        let is_interrupted = control.has_stopped && self.on_stop == OnStop::End;
        let mut requests = self.requests.borrow_mut();
        if let Err(error) = run {
            requests.lose(SessionLoss::Connection(error));
        }
        let outcome =
            requests.finish().map_err(|loss| Fault::Server(lh_client::sanitise(&loss.to_string())))?;
        if is_interrupted { Err(Fault::Late(INTERRUPTED)) } else { Ok(outcome) }
    }

    /// Removes a directory with all that is in it, as far as the server permits.
    ///
    /// # Errors
    /// The first refusal, or as [`perform`](Self::perform).
    pub(crate) fn remove_tree(&mut self, path: &str) -> Result<(), Fault> {
        remove::remove_tree(path, &mut |steps| self.perform(steps))
    }
}

impl Drop for Sftp<'_> {
    fn drop(&mut self) {
        if let Some(mut channel) = self.remote.client.driver().control().channel(self.channel) {
            channel.close();
        }
    }
}

/// The handler of the session's channel.
struct Handler(Rc<RefCell<Requests>>);

impl ChannelHandler for Handler {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        let mut requests = self.0.borrow_mut();
        match event {
            ChannelEvent::Opened { .. } => requests.ask(cx),
            ChannelEvent::Data { ext, data } => {
                cx.consumed(data.len());
                if ext.is_some() {
                    requests.on_error_output(&data);
                    return;
                }
                requests.on_data(data, Instant::now());
                requests.ask(cx);
                if requests.is_over() {
                    cx.stop(0);
                }
            }
            ChannelEvent::Eof => {
                requests.on_end();
                cx.stop(0);
            }
            _ => {}
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.0.borrow_mut().ask(cx);
    }
}

/// Runs the connection until the session's steps are done.
struct SessionControl<'a> {
    requests: Rc<RefCell<Requests>>,
    channel: ChannelId,
    stop: &'a dyn Fn() -> bool,
    on_stop: OnStop,
    /// The user wants an end.
    has_stopped: bool,
}

impl Control for SessionControl<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        let mut requests = self.requests.borrow_mut();
        match event {
            ControlEvent::Note { note, .. } => match note.downcast_ref::<SessionNote>() {
                Some(SessionNote::OpenFailed { description, .. }) => {
                    requests.lose(SessionLoss::ChannelRefused(description.clone()));
                    cx.stop(0);
                }
                Some(SessionNote::StartRefused { request }) => {
                    requests.lose(SessionLoss::RequestRefused(request));
                    cx.stop(0);
                }
                _ => {}
            },
            ControlEvent::ChannelGone { id, .. } if id == self.channel => {
                requests.on_end();
                cx.stop(0);
            }
            event => answer_by_default(event, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.requests.borrow().deadlines.next())
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let mut requests = self.requests.borrow_mut();
        match requests.deadlines.on_timeout(cx.now()) {
            Due::Begin => {
                if let Some(mut channel) = cx.channel(self.channel) {
                    requests.ask(&mut channel);
                }
            }
            Due::Look if !self.has_stopped && (self.stop)() => {
                self.has_stopped = true;
                requests.deadlines.hurry(cx.now(), HURRIED_LIMIT);
                if self.on_stop == OnStop::End {
                    requests.interrupt();
                }
            }
            Due::Look => {}
            Due::End => requests.lose(SessionLoss::Late),
        }
        if requests.is_over() {
            cx.stop(0);
        }
    }
}
