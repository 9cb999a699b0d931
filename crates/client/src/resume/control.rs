//! The control of a loop whose session may be resumed.

use std::os::fd::AsFd as _;
use std::time::Instant;

use lh_driver::{Control, ControlCx, ControlEvent, Interest, Interests, Ready};

use super::Resuming;

/// Poll tokens. The program's own are small; attempts use `ATTEMPTS` and the numbers above it.
const SECOND: usize = usize::MAX - 10;
const FAREWELL: usize = usize::MAX - 11;
const NETWORK: usize = usize::MAX - 9;
const SLEEP: usize = usize::MAX - 8;
const ATTEMPTS: usize = usize::MAX - 7;

/// The program's control, combined with the resumption of its session.
pub(crate) struct Resumed<'a> {
    pub(crate) inner: &'a mut dyn Control,
    pub(crate) resuming: &'a mut Resuming,
}

impl Control for Resumed<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        if let ControlEvent::Pong(content) = &event
            && let Some(agreed) = &mut self.resuming.agreed
            && agreed.second.on_pong(content, Instant::now())
        {
            return;
        }
        self.inner.on_event(event, cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let Some(running) = &self.resuming.running {
            out.add(FAREWELL, running.end(), Interest::READ);
        }
        if let Some(agreed) = &self.resuming.agreed {
            for (index, attempt) in agreed.attempts.iter().enumerate() {
                out.add(ATTEMPTS + index, attempt.wake().as_fd(), Interest::READ);
            }
            if let Some(attempt) = agreed.second.attempt() {
                out.add(SECOND, attempt.wake().as_fd(), Interest::READ);
            }
            if let Some(changes) = agreed.path.changes() {
                out.add(NETWORK, changes, Interest::READ);
            }
            if let Some(sleeps) = agreed.path.sleeps() {
                out.add(SLEEP, sleeps, Interest::READ);
            }
        }
        self.inner.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        match token {
            FAREWELL => {
                self.resuming.is_leaving = true;
                cx.stop(255);
            }
            ATTEMPTS.. => self.resuming.on_report(token - ATTEMPTS, cx),
            SECOND => self.resuming.on_second_report(),
            NETWORK | SLEEP => self.resuming.look_at_network(cx),
            _ => self.inner.on_ready(token, ready, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.resuming.next_deadline(), self.inner.next_deadline()].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        // [`Resuming`] acts before each wait, so only the inner control's deadline is handled here.
        if self.inner.next_deadline().is_some_and(|deadline| deadline <= cx.now()) {
            self.inner.on_timeout(cx);
        }
    }

    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        self.inner.before_wait(cx);
        self.resuming.turn(cx);
    }
}
