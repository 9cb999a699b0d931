//! Copies on a session that the caller has opened: `sftp` talks to its server before, between and after them.
//!
//! The channel of that session stays with its owner, which gives the job the bytes that arrive and lets it
//! send. It does so directly ([`Job::received`], [`Job::advance`]) or, on a driver, by passing events on to a
//! [`JobHandler`] ([`JobHandler::take_over`]). In the second case the copy may have additional channels and
//! connections like any other.

use std::time::Instant;

use bytes::Bytes;
use lh_driver::{ChannelCx, Interest, Interests};
use lh_sftp::Session;
use lh_wire::Output;

use crate::{Direction, Engine, Options, Side};

use super::{Job, JobHandler, Report};

impl Job {
    /// A job for copies whose names are settled ([`Engine::for_pairs`]), on a session that is lent
    /// ([`Job::adopt`]).
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn for_pairs(
        direction: Direction,
        pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        options: Options,
        report: Box<dyn Report>,
    ) -> std::io::Result<Self> {
        let job = Self::of(Engine::for_pairs(direction, pairs, options, Instant::now()), false, report)?;
        job.lock().lent = true;
        Ok(job)
    }

    /// Uses `session` for the end `side`; see [`Engine::adopt`].
    pub fn adopt(&self, side: Side, session: Session) {
        self.lock().engine.adopt(side, session);
    }

    /// Gives the session back; see [`Engine::release`]. The copy's [`Report`] gets its end.
    pub fn release(&self, side: Side) -> Option<Session> {
        let mut state = self.lock();
        let session = state.engine.release(side);
        let summary = state.engine.summary();
        state.report.ended(&summary, Instant::now());
        session
    }

    /// Bytes came on the lent session.
    pub fn received(&self, side: Side, data: Bytes, now: Instant) {
        let mut state = self.lock();
        state.engine.take_in(side, data, now);
        drop(self.do_file_work(state));
    }

    /// Sends on the lent session what can be sent, and reports how far the copy is.
    pub fn advance(&self, side: Side, out: &mut dyn Output, now: Instant) {
        let mut state = self.advance_first(self.lock(), side, out, now);
        state.follow(now);
    }

    /// Returns the time at which [`Job::advance`] is to be called although nothing has come.
    pub fn next_deadline(&self) -> Option<Instant> {
        let state = self.lock();
        [state.engine.next_deadline(), state.report.next_deadline()].into_iter().flatten().min()
    }

    /// Calls the copy off; see [`Engine::cancel`].
    pub fn cancel(&self, now: Instant) {
        self.lock().engine.cancel(now);
        self.notify(|_| true);
    }

    /// Returns true when the copy is finished and no answer is awaited; see [`Engine::is_quiet`].
    pub fn is_quiet(&self) -> bool {
        self.lock().engine.is_quiet()
    }
}

impl JobHandler {
    /// Begins on a channel that is open already, and is not closed at the end.
    pub fn take_over(&mut self, cx: &mut ChannelCx<'_>) {
        self.opened(cx.id(), false);
        self.run(cx);
    }

    /// Descriptor that becomes readable when another connection has made something to do here.
    pub fn bell_interest<'a>(&'a self, token: usize, out: &mut Interests<'a>) {
        if let Some(waker) = &self.waker {
            out.add(token, waker.fd(), Interest::READ);
        }
    }

    /// To be called when that descriptor is readable, before an event is passed on.
    pub fn drain_notifications(&self) {
        if let Some(waker) = &self.waker {
            waker.drain();
        }
    }
}
