//! Copies on a session that is open already: `sftp` talks to its server before, between and after them.

use std::time::Instant;

use lh_sftp::Session;

use crate::end::Info;
use crate::engine::Engine;
use crate::item::Item;
use crate::remote::Remote;
use crate::token::Side;
use crate::{Direction, Options, Plan};

impl Engine {
    /// An engine for copies whose names are settled: each source goes to the path beside it, or into it where
    /// both are directories. Nothing is a pattern, `~` is a name like any other. Follow with
    /// [`Engine::adopt`].
    pub fn for_pairs(
        direction: Direction,
        pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
        options: Options,
        now: Instant,
    ) -> Self {
        let plan = Plan { direction, sources: Vec::new(), target: Vec::new(), target_must_be_dir: false };
        let mut engine = Self::new(plan, options, now);
        engine.parts.tree.top =
            pairs.into_iter().map(|(source, target)| Item::top(source, target, Info::UNKNOWN)).collect();
        engine
    }

    /// Uses `session`, whose version and limits are known and that owes no answer, for the end `side`.
    /// Instead of [`Engine::open`].
    pub fn adopt(&mut self, side: Side, session: Session) {
        self.parts.ends.adopt(side, session);
    }

    /// Gives the session of `side` back, once the copy is finished and every answer has come; `None` before
    /// that, and for a session that was lost.
    pub fn release(&mut self, side: Side) -> Option<Session> {
        if !self.is_quiet() {
            return None;
        }
        // The next copy may be to the same names, and would find it taken.
        self.parts.leftovers.journal = None;
        let place = match side {
            Side::Source => &mut self.parts.ends.source,
            Side::Target => &mut self.parts.ends.target,
        };
        place.take_if(|remote| !remote.lost()).map(Remote::into_session)
    }

    /// Finished, and no answer is awaited that says nothing either.
    pub fn is_quiet(&self) -> bool {
        let ends = [&self.parts.ends.source, &self.parts.ends.target];
        self.parts.is_finished() && ends.into_iter().flatten().all(|remote| remote.lost() || remote.quiet())
    }

    /// Stops: nothing new is begun, what is open is cut to what is known to be right, and closed. Go on as
    /// before until [`Engine::is_quiet`]; what had been asked for has to come in first.
    pub fn cancel(&mut self, now: Instant) {
        self.parts.progress.now = now;
        self.parts.report.cancelled = true;
        let mut given_up = self.parts.prepare.abandon() + self.parts.tree.top.len();
        self.parts.tree.top.clear();
        for key in std::mem::take(&mut self.parts.tree.walk) {
            given_up += self.parts.tree.abandon_dir(key);
        }
        given_up += self.scheduler().drop_batch();
        self.parts.sync.comparisons.stop();
        self.scheduler().stop_deletions();
        for key in self.parts.tree.dirs.keys() {
            self.parts.tree.list_more(key, &mut self.parts.ends);
            self.scheduler().finish_dir_if_done(key);
        }
        for key in self.parts.tasks.files.keys() {
            self.parts.file_failed_with(key, String::new());
            self.scheduler().move_on(key);
        }
        self.scheduler().handle_answers();
        self.do_file_work();
        if given_up > 0 {
            self.parts.report.fail(String::new());
        }
    }
}
