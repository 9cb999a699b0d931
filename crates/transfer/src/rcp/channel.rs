//! Runs a role of the old protocol on a channel of the readiness loop; the remote `scp` is its peer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler};

use super::{Event, RcpRole};
use crate::Current;
use crate::flow::Limiter;
use crate::remote_stderr::RemoteStderr;

/// Receives the events of a copy. Called between the packets; must not block for long.
pub trait Report: Send {
    /// Something happened.
    fn event(&mut self, event: Event, now: Instant);

    /// The file whose data move, after every turn in which something happened.
    fn progress(&mut self, current: Option<Current<'_>>, now: Instant);

    /// When [`progress`](Self::progress) wants to be called although nothing happens.
    fn next_deadline(&self) -> Option<Instant>;

    /// Passes on all events of a role.
    fn tell(&mut self, role: &mut dyn RcpRole, now: Instant) {
        while let Some(event) = role.poll_event() {
            self.event(event, now);
        }
        self.progress(role.current(), now);
    }
}

/// Outcome of a copy, for the program that runs the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Things that went wrong.
    pub failures: u64,
    /// The role has ended, with or without failures.
    pub finished: bool,
}

/// Runs a role on a channel; stops the driver, with 0, when the channel is closed.
pub struct Handler {
    role: Box<dyn RcpRole>,
    report: Box<dyn Report>,
    outcome: Arc<Mutex<Outcome>>,
    /// For a sink: what has come is only credited at this rate.
    limiter: Option<Limiter>,
    /// Received and not credited.
    owed: usize,
    deadline: Option<Instant>,
    ended: bool,
    stderr: RemoteStderr,
}

impl Handler {
    /// A handler for the channel on which the remote `scp` has been started. `receive_limit` bounds, in bits
    /// per second, what is taken from the peer.
    pub fn new(role: Box<dyn RcpRole>, report: Box<dyn Report>, receive_limit: Option<u64>) -> Self {
        Self {
            role,
            report,
            outcome: Arc::default(),
            limiter: receive_limit.map(|rate| Limiter::new(rate, Instant::now())),
            owed: 0,
            deadline: None,
            ended: false,
            stderr: RemoteStderr::default(),
        }
    }

    /// Returns the outcome, which is set when the driver has stopped.
    pub fn outcome(&self) -> Arc<Mutex<Outcome>> {
        Arc::clone(&self.outcome)
    }

    fn run(&mut self, cx: &mut ChannelCx<'_>) {
        let now = cx.now();
        self.role.advance(cx, now);
        self.report.tell(&mut *self.role, now);
        let mut deadline = self.role.next_deadline();
        if self.owed > 0 {
            let wait = self.limiter.as_mut().and_then(|limiter| limiter.wait(now));
            match wait {
                Some(at) => deadline = deadline.into_iter().chain([at]).min(),
                None => cx.consumed(std::mem::take(&mut self.owed)),
            }
        }
        self.deadline = deadline.into_iter().chain(self.report.next_deadline()).min();
        let finished = self.role.is_finished();
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) =
            Outcome { failures: self.role.failures(), finished };
        if finished && !std::mem::replace(&mut self.ended, true) {
            // The remote side finds the end of its input, says how it fared, and closes.
            cx.eof();
        }
    }
}

impl ChannelHandler for Handler {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Opened { .. } => self.run(cx),
            ChannelEvent::Data { ext: None, data } => {
                let len = data.len();
                match &mut self.limiter {
                    Some(limiter) => {
                        limiter.spend(len as u64);
                        self.owed += len;
                    }
                    None => cx.consumed(len),
                }
                self.role.received(data, cx.now());
            }
            ChannelEvent::Data { ext: Some(_), data } => {
                self.stderr.write(&data);
                cx.consumed(data.len());
            }
            ChannelEvent::Eof => {
                self.role.closed();
                self.run(cx);
            }
            ChannelEvent::Closed => {
                self.role.refused();
                self.role.closed();
                self.run(cx);
                cx.stop(0);
            }
            ChannelEvent::OpenFailed { .. } => cx.stop(0),
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

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.deadline = None;
        self.run(cx);
    }
}
