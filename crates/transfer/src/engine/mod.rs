//! The engine: which end gets which request, in which order, and the reaction to each answer.
//!
//! | module | what |
//! |---|---|
//! | [`schedule`] | acting on answers, and beginning what may be begun |
//! | [`adopt`] | working on a session that the caller has opened, and giving it back |
//! | [`prepare`] | the target and the sources: `~`, patterns, is it a directory |
//! | [`dirs`] | directories: listing, making, finishing |
//! | [`files`] | one file from stat to close |
//! | [`mod@file_work`] | file bytes, and reading, writing and hashing that threads do without the engine |
//! | [`steps`] | what follows for a file from its names and from comparing it |
//! | [`batch`] | small files by the hundred: reports how they have ended |
//! | [`mod@requests`] | how much may be asked for or sent |
//! | [`names`] | symbolic links, and other names of a file: reports them |
//! | [`channels`] | additional channels for large files |
//! | [`connections`] | when an additional connection is worth having |
//! | [`same_handle`] | servers that give one handle to two open files |
//! | [`finished`] | has the copy come to its end, and the journal |
//! | [`sync`] | copying only what differs |
//! | [`unanswered`] | requests that a server has dropped |

mod adopt;
mod batch;
mod channels;
mod connections;
mod copy_again;
mod dirs;
mod file_work;
mod files;
mod finished;
mod names;
mod prepare;
mod requests;
mod same_handle;
mod schedule;
mod steps;
mod sync;
mod unanswered;

use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_wire::Output;

use crate::batch::Batches;
use crate::channels::Channels;
use crate::end::{Fault, FaultKind};
use crate::ends::{Ends, GivenUp};
use crate::file_work::SendWork;
use crate::flow::{Flow, Limits};
use crate::journal::Journal;
use crate::leftovers::Leftovers;
use crate::links::Links;
use crate::links::new_names::Kept;
use crate::names::display_name;
use crate::plan::Prepare;
use crate::progress::{Current, Progress, Wait};
use crate::report::Reporter;
use crate::sync::SyncState;
use crate::task::queues::Tasks;
use crate::token::Side;
use crate::tree::walk::Tree;
use crate::{Direction, Event, Options, Plan, Summary, Totals, Waits, local, wording};

/// One copy, of a [`Plan`]'s sources to its target.
///
/// Give each remote end an open SFTP channel and call [`Engine::open`]; then [`Engine::received`] for what
/// arrives and [`Engine::advance`] after that, when the channel becomes writable, and at
/// [`Engine::next_deadline`]. With two remote ends, what one receives gives the other something to send.
/// After each call look at [`Engine::poll_event`] and [`Engine::is_finished`].
#[derive(Debug)]
pub struct Engine {
    plan: Plan,
    options: Options,
    ends: Ends,
    prepare: Prepare,
    tasks: Tasks,
    tree: Tree,
    flow: Flow,
    batches: Batches,
    channels: Channels,
    links: Links,
    sync: SyncState,
    report: Reporter,
    progress: Progress,
    leftovers: Leftovers,
}

impl Engine {
    /// An engine that will carry out `plan`.
    pub fn new(plan: Plan, options: Options, now: Instant) -> Self {
        let limits = Limits {
            bytes: options.max_bytes_in_flight,
            requests: options.max_requests,
            request_bytes: options.request_bytes,
            bits_per_second: options.bits_per_second,
            relay: plan.direction == Direction::Relay,
            descriptors: local::max_open(),
            open_files: options.max_open_files,
        };
        let kept = Kept { times: options.preserve, ids: options.keep.owner && options.keep.group };
        let mut journal = options
            .journal
            .as_deref()
            .filter(|_| options.atomic && !options.dry_run)
            .and_then(|path| Journal::open(path, plan.direction != Direction::Download, options.sums));
        if let Some(journal) = &mut journal {
            journal.note_command(&options.journal_command);
        }
        let mut ends = Ends::new(plan.direction);
        if options.tells_links() {
            ends.tell_links();
        }
        Self {
            ends,
            prepare: Prepare::new(&plan),
            tasks: Tasks::default(),
            tree: Tree::new(options.select.expected()),
            flow: Flow::new(limits, now),
            batches: Batches::new(),
            channels: Channels::default(),
            links: Links::new(kept, options.max_shared_files),
            sync: SyncState::new(&options),
            leftovers: Leftovers::new(journal),
            report: Reporter::new(&options),
            progress: Progress::new(now),
            plan,
            options,
        }
    }

    /// Nothing has been done and nothing will be.
    pub fn leave_unbegun(&mut self) {
        if let Some(journal) = self.leftovers.journal.take() {
            journal.leave();
        }
    }

    /// The channel of a remote end is open and the SFTP subsystem runs on it.
    pub fn open(&mut self, side: Side) {
        self.ends.open(side, false);
    }

    /// Like [`Engine::open`], with a server that takes requests before it has answered the first message.
    pub fn open_early(&mut self, side: Side) {
        self.ends.open(side, true);
    }

    /// The server of `side` can answer from now on: the login is over. It counts as lost if it does not answer
    /// the first message `within` this time, or [`Options::answer_timeout`] where that is longer.
    pub fn expect_version(&mut self, side: Side, within: Option<Duration>) {
        if let Some(remote) = self.ends.remote(side) {
            remote.expect_version(within);
        }
    }

    /// Tells the end `side` which SSH server it talks to, by the server's identification line, as far as that
    /// is known.
    pub fn set_server(&mut self, side: Side, identification: Option<&str>) {
        if let Some(remote) = self.ends.remote(side) {
            remote.set_server(identification);
        }
    }

    /// Returns true when the SFTP server of `side` has sent its version.
    pub fn has_begun(&mut self, side: Side) -> bool {
        self.ends.remote(side).is_some_and(|remote| remote.ready())
    }

    /// Bytes came on the channel of `side`.
    pub fn received(&mut self, side: Side, data: Bytes, now: Instant) {
        self.take_in(side, data, now);
        self.do_file_work();
    }

    /// Like [`Engine::received`], but leaves the work on files that follows for [`Engine::next_file_work`].
    pub fn take_in(&mut self, side: Side, data: Bytes, now: Instant) {
        self.progress.now = now;
        self.receive(side, data, now);
        if self.is_finished() {
            self.keep_journal();
        }
    }

    fn receive(&mut self, side: Side, data: Bytes, now: Instant) {
        let Some(remote) = self.ends.remote(side) else { return };
        if remote.lost() {
            return;
        }
        remote.input(data, now);
        loop {
            let Some(remote) = self.ends.remote(side) else { return };
            match remote.poll() {
                Ok(None) => return,
                Ok(Some(came)) => self.take(side, came),
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
        self.progress.now = now;
        let finished = self.is_finished();
        let Some(remote) = self.ends.remote(side) else { return };
        if remote.lost() {
            return;
        }
        let tokens = remote.fail(reason);
        if side == Side::Target {
            self.ends.channels.clear_unfinished();
        }
        if finished {
            return;
        }
        self.report.summary.lost = true;
        let failures = self.report.summary.failures;
        let fault = Fault { kind: FaultKind::Lost, text: reason.to_owned() };
        for token in tokens {
            self.ends.answer((token, Err(fault.clone())));
        }
        self.channels_lost(reason, now);
        self.abandon(reason);
        self.handle_answers();
        if self.report.summary.failures == failures {
            self.report.fail(reason.to_owned());
        }
        self.report.report_more_losses(reason);
        self.keep_journal();
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
            self.progress.end_wait(now);
        }
        if let Some(work) = self.work(side, out, now, begin) {
            return Some(work);
        }
        let (look_at, given_up) =
            self.ends.look_for_answers(self.options.answer_timeout, now, &mut self.report);
        self.flow.look_for_answers_at(look_at);
        if let Some(GivenUp { side, after }) = given_up {
            self.end_lost(side, &wording::no_version(after), now);
        }
        if let Some(remote) = self.ends.remote(side) {
            remote.flush(out);
        }
        self.begin_wait(out.budget() == 0, now);
        self.keep_journal();
        None
    }

    fn work(&mut self, side: Side, out: &mut dyn Output, now: Instant, mut begin: bool) -> Option<SendWork> {
        self.progress.now = now;
        if begin && (side == Side::Source || self.plan.direction == Direction::Upload) {
            self.flow.try_again();
        }
        loop {
            if std::mem::replace(&mut begin, true) {
                self.handle_answers();
                self.begin_work();
            }
            if let Some(work) = self.move_data(side, 0, out) {
                return Some(work);
            }
            self.handle_answers();
            let remote = self.ends.remote(side)?;
            // Work that waited for the full queue can continue once the queue is empty.
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        if self.plan.direction != Direction::Relay {
            self.look_at_window(0, out);
        }
        None
    }

    /// Returns true when a call of [`Engine::advance`] for `side` would have something to send, if the
    /// channel takes it.
    pub fn wants_to_send(&self, side: Side) -> bool {
        self.ends
            .get(side)
            .is_some_and(|remote| !remote.lost() && (remote.queued() > 0 || remote.mid_message()))
            || match (self.plan.direction, side) {
                (Direction::Upload, Side::Target) => {
                    !self.tasks.sending.is_empty() && !self.flow.is_held_back()
                }
                (Direction::Relay, Side::Target) => !self.tasks.writing.is_empty(),
                (Direction::Relay, Side::Source) => !self.tasks.sending.is_empty() && self.room_in_flight(),
                _ => false,
            }
    }

    /// Returns the time at which [`Engine::advance`] is to be called although nothing has come: for a rate
    /// limit, or a server that does not answer.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.flow.next_deadline()
    }

    /// Returns the next event since the last call; call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.report.is_empty() && !self.tree.expected.is_empty() && self.is_finished() {
            self.report_expected();
        }
        self.report.poll()
    }

    /// Says which paths of the manifest are not in any tree. Of a copy that did not see all of them nothing
    /// is known.
    fn report_expected(&mut self) {
        let mut missing: Vec<Vec<u8>> = std::mem::take(&mut self.tree.expected).into_iter().collect();
        if self.report.is_over() {
            return;
        }
        missing.sort_unstable();
        for path in missing {
            self.report.fail(format!("{}: named in the manifest, not found", display_name(&path)));
            self.report.missed(Some(path));
        }
    }

    /// Returns the numbers of the copy, so far.
    pub const fn summary(&self) -> Summary {
        self.report.summary
    }

    /// The file whose data move: its id, name, confirmed bytes and size.
    pub fn current(&self) -> Option<Current<'_>> {
        self.tasks.current()
    }

    /// Progress of the whole copy.
    pub fn totals(&self) -> Totals {
        let waiting = self.tree.waiting_files();
        let kept = self.report.summary.kept + self.tasks.kept();
        let all_found = self.prepare.finished() && self.tree.is_exhausted();
        Totals {
            files: self.report.summary.files,
            files_found: self.progress.files_found() + waiting as u64,
            bytes: self.report.summary.bytes + kept,
            bytes_found: self.progress.bytes_found,
            kept,
            in_flight: self.tasks.files.len(),
            all_found,
            all_opened: all_found && waiting == 0,
        }
    }

    /// Time that the copy has waited so far, by cause.
    pub const fn waits(&self) -> Waits {
        self.progress.waits
    }

    /// Notes why nothing more can be done now.
    fn begin_wait(&mut self, no_room: bool, now: Instant) {
        let upload = self.plan.direction == Direction::Upload;
        let to_send = self.ends.channels.is_first_unfinished() || !self.tasks.sending.is_empty();
        if upload && no_room && to_send {
            self.progress.begin_wait(Wait::Window, now);
        } else if self.flow.requests() > 0 && (!upload || !self.room_in_flight()) {
            self.progress.begin_wait(Wait::Answers, now);
        }
    }

    /// Gives up what has not been started: the connection is gone.
    fn abandon(&mut self, reason: &str) {
        let mut waiting = self.tree.top.len();
        self.tree.top.clear();
        for key in std::mem::take(&mut self.tree.walk) {
            waiting += self.tree.abandon_dir(key);
        }
        waiting += self.drop_batch();
        self.sync.comparisons.abandon();
        self.carry_out_comparisons();
        self.stop_deletions();
        for key in self.tree.dirs.keys() {
            self.finish_dir_if_done(key);
        }
        let unresolved = self.prepare.abandon();
        // Files that wait for nothing from the lost end fail too.
        for key in self.tasks.files.keys() {
            self.file_lost(key, reason);
        }
        if waiting + unresolved > 0 {
            self.report.fail(reason.to_owned());
        }
    }
}
