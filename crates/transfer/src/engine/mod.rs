//! The engine: which end gets which request, in which order, and the reaction to each answer.
//!
//! | module | what |
//! |---|---|
//! | [`parts`] | what is known of the copy |
//! | [`schedule`] | acting on answers, and beginning what may be begun |
//! | [`adopt`] | working on a session that the caller has opened, and giving it back |
//! | [`dirs`] | directories: listing, making, finishing |
//! | [`files`] | one file from stat to close |
//! | [`mod@file_work`] | file bytes, and reading, writing and hashing that threads do without the engine |
//! | [`steps`] | what follows for a file from its names and from comparing it |
//! | [`batch`] | small files by the hundred: reports how they have ended |
//! | [`names`] | symbolic links, and other names of a file: reports them |
//! | [`channels`] | additional channels for large files |
//! | [`connections`] | when an additional connection is worth having |
//! | [`same_handle`] | servers that give one handle to two open files |
//! | [`finished`] | access to the scheduler, the end of the copy, and what the journal keeps when this process ends |
//! | [`sync`] | copying only what differs |
//! | [`unanswered`] | requests that a server has dropped |

mod adopt;
mod batch;
mod channels;
mod connections;
mod dirs;
mod file_work;
mod files;
mod finished;
mod names;
mod parts;
mod same_handle;
mod schedule;
mod steps;
mod sync;
mod unanswered;

use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_wire::Output;

use crate::end::{Fault, FaultKind};
use crate::ends::GivenUp;
use crate::engine::parts::Parts;
use crate::file_work::SendWork;
use crate::progress::Current;
use crate::remote::Remote;
use crate::token::Side;
use crate::{Direction, Event, Options, Plan, Summary, Totals, Waits, wording};

/// One copy, of a [`Plan`]'s sources to its target.
///
/// Give each remote end an open SFTP channel and call [`Engine::open`]; then [`Engine::received`] for what
/// arrives and [`Engine::advance`] after that, when the channel becomes writable, and at
/// [`Engine::next_deadline`]. With two remote ends, what one receives gives the other something to send.
/// After each call look at [`Engine::poll_event`] and [`Engine::is_finished`].
#[derive(Debug)]
pub struct Engine {
    parts: Parts,
}

impl Engine {
    /// An engine that will carry out `plan`.
    pub fn new(plan: Plan, options: Options, now: Instant) -> Self {
        Self { parts: Parts::new(plan, options, now) }
    }

    /// Returns the sources of an upload of which something was not copied, so far.
    pub fn failed_sources(&self) -> Vec<Vec<u8>> {
        self.parts.report.failed_sources().map(<[u8]>::to_vec).collect()
    }

    /// Takes in the round-trip time that the kernel has measured for the connection.
    pub fn expect_round_trip(&mut self, took: Duration) {
        self.parts.flow.expect_round_trip(took);
    }

    /// Nothing has been done and nothing will be.
    pub fn leave_unbegun(&mut self) {
        if let Some(journal) = self.parts.leftovers.journal.take() {
            journal.leave();
        }
    }

    /// The channel of a remote end is open and the SFTP subsystem runs on it.
    pub fn open(&mut self, side: Side) {
        self.parts.ends.open(side, false);
    }

    /// Like [`Engine::open`], with a server that takes requests before it has answered the first message.
    pub fn open_early(&mut self, side: Side) {
        self.parts.ends.open(side, true);
    }

    /// The server of `side` can answer from now on: the login is over. It counts as lost if it does not
    /// answer the first message `within` this time, or [`crate::Timeouts::answer`] where that is longer;
    /// [`crate::Timeouts::first_answer`] replaces both.
    pub fn expect_version(&mut self, side: Side, within: Option<Duration>) {
        let timeouts = self.parts.options.timeouts;
        let within = within.map(|within| timeouts.for_first_answer(within));
        if let Some(remote) = self.parts.ends.remote(side) {
            remote.expect_version(within);
        }
    }

    /// The wait for the first message of `side` begins again, if it has not come: the server's program shows
    /// otherwise that it works, or the connection is interrupted.
    pub fn extend_wait_for_version(&mut self, side: Side, now: Instant) {
        if let Some(remote) = self.parts.ends.remote(side) {
            remote.extend_wait_for_version(now);
        }
    }

    /// Tells the end `side` which SSH server it talks to, by the server's identification line, as far as that
    /// is known. `own` is the line that the server has got.
    pub fn set_server(&mut self, side: Side, identification: Option<&str>, own: &str) {
        if let Some(remote) = self.parts.ends.remote(side) {
            remote.set_server(identification, own);
        }
    }

    /// Returns true when the SFTP server of `side` has sent its version.
    pub fn has_begun(&mut self, side: Side) -> bool {
        self.parts.ends.remote(side).is_some_and(|remote| remote.ready())
    }

    /// Returns true where `side` counts as lost because its server did not answer the first message in time.
    pub fn has_given_up(&self, side: Side) -> bool {
        self.parts.ends.get(side).is_some_and(Remote::has_given_up)
    }

    /// Bytes came on the channel of `side`.
    pub fn received(&mut self, side: Side, data: Bytes, now: Instant) {
        self.take_in(side, data, now);
        self.do_file_work();
    }

    /// Like [`Engine::received`], but leaves the work on files that follows for [`Engine::next_file_work`].
    pub fn take_in(&mut self, side: Side, data: Bytes, now: Instant) {
        self.parts.progress.now = now;
        self.receive(side, data, now);
        if self.parts.is_finished() {
            self.parts.keep_journal();
        }
    }

    fn receive(&mut self, side: Side, data: Bytes, now: Instant) {
        let Some(remote) = self.parts.ends.remote(side) else { return };
        if remote.lost() {
            return;
        }
        remote.input(data, now);
        loop {
            let Some(remote) = self.parts.ends.remote(side) else { return };
            match remote.poll() {
                Ok(None) => return,
                Ok(Some(came)) => self.scheduler().take(side, came),
                Err(error) => return self.end_lost(side, &error.to_string(), now),
            }
        }
    }

    /// The channel or the connection of `side` is gone. Everything unfinished fails with `reason` (such as
    /// `Connection closed`).
    pub fn lost(&mut self, side: Side, reason: &str, now: Instant) {
        self.end_lost(side, reason, now);
        self.do_file_work();
    }

    fn end_lost(&mut self, side: Side, reason: &str, now: Instant) {
        self.parts.progress.now = now;
        let finished = self.parts.is_finished();
        let Some(remote) = self.parts.ends.remote(side) else { return };
        if remote.lost() {
            return;
        }
        let tokens = remote.fail(reason);
        if side == Side::Target {
            self.parts.ends.channels.clear_unfinished();
        }
        if finished {
            return;
        }
        self.parts.report.summary.lost = true;
        let failures = self.parts.report.summary.failures;
        let fault = Fault { kind: FaultKind::Lost, text: reason.to_owned() };
        for token in tokens {
            self.parts.ends.answer((token, Err(fault.clone())));
        }
        self.channels_lost(reason, now);
        self.abandon(reason);
        self.scheduler().handle_answers();
        if self.parts.report.summary.failures == failures {
            self.parts.report.fail(reason.to_owned());
        }
        self.parts.report.report_more_losses(reason);
        self.parts.keep_journal();
    }

    /// Begins what can be begun and sends what can be sent on the channel of `side`.
    pub fn advance(&mut self, side: Side, out: &mut dyn Output, now: Instant) {
        let mut begin = true;
        while let Some(work) = self.advance_step(side, out, now, begin) {
            self.sent(work.carry_out(out));
            begin = false;
        }
        self.do_file_work();
    }

    /// Like [`Engine::advance`], up to where bytes of a file are to be read. Give the result of reading back
    /// ([`Engine::sent`]), and call again, no longer to `begin`; `None` is the end. The work on files that is
    /// left to [`Engine::next_file_work`] may make more to send.
    pub fn advance_step(
        &mut self,
        side: Side,
        out: &mut dyn Output,
        now: Instant,
        begin: bool,
    ) -> Option<SendWork> {
        if begin {
            self.parts.progress.end_wait(now);
        }
        if let Some(work) = self.work(side, out, now, begin) {
            return Some(work);
        }
        let (look_at, given_up) =
            self.parts.ends.look_for_answers(self.parts.options.timeouts.answer, now, &mut self.parts.report);
        self.parts.flow.look_for_answers_at(look_at);
        if let Some(GivenUp { side, after }) = given_up {
            self.end_lost(side, &wording::no_version(after), now);
        }
        if let Some(remote) = self.parts.ends.remote(side) {
            remote.flush(out);
        }
        self.parts.begin_wait(out.budget() == 0, now);
        self.parts.keep_journal();
        None
    }

    fn work(&mut self, side: Side, out: &mut dyn Output, now: Instant, mut begin: bool) -> Option<SendWork> {
        self.parts.progress.now = now;
        if begin && (side == Side::Source || self.parts.plan.direction == Direction::Upload) {
            self.parts.flow.rate.try_again();
        }
        loop {
            if std::mem::replace(&mut begin, true) {
                self.scheduler().handle_answers();
                self.scheduler().begin_work();
            }
            if let Some(work) = self.move_data(side, 0, out) {
                return Some(work);
            }
            self.scheduler().handle_answers();
            let remote = self.parts.ends.remote(side)?;
            // Work that waited for the full queue can continue once the queue is empty.
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        if self.parts.plan.direction != Direction::Relay {
            self.parts.look_at_window(0, out);
        }
        None
    }

    /// Returns true when a call of [`Engine::advance`] for `side` would have something to send, if the
    /// channel takes it.
    pub fn wants_to_send(&self, side: Side) -> bool {
        self.parts
            .ends
            .get(side)
            .is_some_and(|remote| !remote.lost() && (remote.queued() > 0 || remote.mid_message()))
            || match (self.parts.plan.direction, side) {
                (Direction::Upload, Side::Target) => {
                    !self.parts.tasks.sending.is_empty() && !self.parts.flow.rate.holds_back()
                }
                (Direction::Relay, Side::Target) => !self.parts.tasks.writing.is_empty(),
                (Direction::Relay, Side::Source) => {
                    !self.parts.tasks.sending.is_empty() && self.parts.room_in_flight()
                }
                _ => false,
            }
    }

    /// Returns the time at which [`Engine::advance`] is to be called although nothing has come: for a rate
    /// limit, or a server that does not answer.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.parts.flow.next_deadline()
    }

    /// Returns the next event since the last call; call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.parts.report_in_order();
        if self.parts.report.is_empty() && !self.parts.tree.expected.is_empty() && self.parts.is_finished() {
            self.parts.report_expected();
        }
        self.parts.report.poll()
    }

    /// Returns the numbers of the copy, so far.
    pub const fn summary(&self) -> Summary {
        self.parts.report.summary
    }

    /// The file whose data move: its id, name, confirmed bytes and size.
    pub fn current(&self) -> Option<Current<'_>> {
        self.parts.tasks.current()
    }

    /// Progress of the whole copy.
    pub fn totals(&self) -> Totals {
        let waiting = self.parts.tree.waiting_files();
        let kept = self.parts.report.summary.kept + self.parts.tasks.kept();
        let all_found = self.parts.prepare.finished() && self.parts.tree.is_exhausted();
        Totals {
            files: self.parts.report.summary.files,
            files_found: self.parts.progress.files_found() + waiting as u64,
            bytes: self.parts.report.summary.bytes + kept,
            bytes_found: self.parts.progress.bytes_found,
            kept,
            in_flight: self.parts.tasks.files.len(),
            all_found,
            all_opened: all_found && waiting == 0,
        }
    }

    /// Time that the copy has waited so far, by cause.
    pub const fn waits(&self) -> Waits {
        self.parts.progress.waits
    }

    /// Gives up what has not been started: the connection is gone.
    fn abandon(&mut self, reason: &str) {
        let mut waiting = self.parts.tree.top.len();
        self.parts.tree.top.clear();
        for key in std::mem::take(&mut self.parts.tree.walk) {
            waiting += self.parts.tree.abandon_dir(key);
        }
        waiting += self.scheduler().drop_batch();
        self.parts.sync.comparisons.abandon();
        self.scheduler().carry_out_comparisons();
        self.scheduler().stop_deletions();
        for key in self.parts.tree.dirs.keys() {
            self.scheduler().finish_dir_if_done(key);
        }
        let unresolved = self.parts.prepare.abandon();
        // Files that wait for nothing from the lost end fail too.
        for key in self.parts.tasks.files.keys() {
            self.scheduler().file_lost(key, reason);
        }
        if waiting + unresolved > 0 {
            self.parts.report.fail(reason.to_owned());
        }
    }
}
