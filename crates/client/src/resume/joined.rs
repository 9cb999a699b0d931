//! A connection that has joined a session by a ticket. It is not resumed: when it is lost, the others take
//! over its work. So that this happens soon, it is asked for an answer when the session has needed another
//! link, and given up without one.

use std::time::Instant;

use lh_driver::{Control, ControlCx, ControlEvent, Interests, Ready};

use super::path::{PathState, PathWatch};
use crate::resumptions::Resumptions;

/// Watches the path of a joined connection.
pub(crate) struct JoinedWatch {
    path: PathWatch,
    resumptions: Resumptions,
    /// Number of resumptions for which this connection was asked.
    asked: u64,
    /// The session has got another link, and this connection has not answered since.
    is_doubted: bool,
}

impl JoinedWatch {
    /// Starts to watch the connection. `resumptions`: those of the session that it has joined.
    pub(crate) fn begin(resumptions: &Resumptions, cx: &ControlCx<'_>) -> Self {
        let (resumptions, asked) = (resumptions.clone(), resumptions.so_far());
        Self { path: PathWatch::of_link(cx), resumptions, asked, is_doubted: false }
    }

    fn turn(&mut self, cx: &mut ControlCx<'_>) {
        let (now, resumptions) = (Instant::now(), self.resumptions.so_far());
        if resumptions != self.asked {
            (self.asked, self.is_doubted) = (resumptions, true);
            self.path.ask_after_change(cx, now);
        }
        match self.path.check(cx, now) {
            PathState::Good => self.is_doubted &= self.path.is_asking(),
            PathState::Silent | PathState::Dead if self.is_doubted => cx.stop(255),
            PathState::Silent | PathState::Dead => {}
        }
    }
}

/// The program's control, combined with the watch of its connection's path.
pub(crate) struct Joined<'a> {
    pub(crate) inner: &'a mut dyn Control,
    pub(crate) watch: &'a mut JoinedWatch,
}

impl Control for Joined<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        self.inner.on_event(event, cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.inner.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        self.inner.on_ready(token, ready, cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.watch.path.next_deadline(), self.inner.next_deadline()].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        // The watch acts before each wait, so only the inner control's deadline is handled here.
        if self.inner.next_deadline().is_some_and(|deadline| deadline <= cx.now()) {
            self.inner.on_timeout(cx);
        }
    }

    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        self.inner.before_wait(cx);
        self.watch.turn(cx);
    }
}
