//! The engine: who is asked what, in which order, and what an answer leads to.
//!
//! | module | what |
//! |---|---|
//! | [`adopt`] | working on a session that somebody else has opened, and giving it back |
//! | [`prepare`] | the target and the sources: `~`, patterns, is it a directory |
//! | [`dirs`] | directories: listing, making, finishing |
//! | [`early`] | what is asked and done before it is known to be right |
//! | [`files`] | one file from stat to close |
//! | [`mod@place`] | the name under which a file grows, and its way to the final one |
//! | [`check`] | is what is there already right, is what was written right |
//! | [`proof`] | reading back what was written |
//! | [`batch`] | small files by the hundred |
//! | [`data`] | file bytes: which READ or WRITE goes next |
//! | [`content`] | sums over the content of files, and what is told of each copy |
//! | [`holes`] | sparse files |
//! | [`extras`] | owner, extended attributes: what is kept by requests of its own |
//! | [`names`] | symbolic links, and further names of a file |
//! | [`lanes`] | additional channels for large files |
//! | [`connections`] | when an additional connection is worth having |
//! | [`same_handle`] | servers that give one handle to two open files |
//! | [`progress`] | how far the copy is, and what it waits for |
//! | [`source_after`] | whether a source changed while it was read |
//! | [`item`] | something to copy |
//! | [`sync`] | copying only what differs |
//! | [`unanswered`] | requests that a server has dropped |
//! | [`mod@write`] | how a WRITE gets into the send buffer |

mod adopt;
mod batch;
mod check;
mod connections;
mod content;
mod data;
mod dirs;
mod early;
mod extras;
mod file;
mod files;
mod holes;
mod item;
mod lanes;
mod names;
mod place;
mod prepare;
mod progress;
mod proof;
mod same_handle;
mod source_after;
mod sync;
mod unanswered;
mod write;

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use lh_wire::Output;

use crate::additional::Connections;
use crate::end::{Fault, FaultKind, Op, Outcome};
use crate::flow::{Flow, Limits};
use crate::journal::Journal;
use crate::remote::Remote;
use crate::table::{Key, Table};
use crate::{Direction, Event, Options, Plan, Summary, Waits, display_name, local};

pub(crate) use dirs::Item;
pub use dirs::MAX_LISTS;
use dirs::{Dir, DirStep};
use file::{File, FileStep};
pub(crate) use lanes::Turn;
use prepare::{Prepare, PrepareStep};
pub use progress::Current;
use progress::Wait;

/// Handles on a server that has not said how many it has.
const HANDLES_UNKNOWN: usize = 128;

/// Files at most that are named when a connection is lost.
const LOSSES_TOLD: usize = 5;

/// Queued request bytes from which on nothing new is begun.
const QUEUE_LIMIT: usize = 128 * 1024;

/// One of the two ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where files come from.
    Source,
    /// Where they go.
    Target,
}

/// Whose answer is awaited.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Token {
    Prepare(PrepareStep),
    Dir(Key, DirStep),
    File(Key, FileStep),
    Batch(Key),
    Name(Key, names::NameStep),
    Sync(Key, sync::SyncStep),
    Removal(Key, sync::RemovalStep),
    /// Something is moved out of the way of a copy.
    Backup(Key),
    Extra(extras::Whose, extras::ExtraStep),
    /// Whether the target's server lets anybody rename.
    Renames,
    /// As whom the target's server works.
    Us(place::OwnerStep),
    /// Something of ours was to be removed.
    Removed(Key),
    /// Whether the server answers at all on this channel.
    Probe(Side, usize),
    /// The answer does not matter.
    Nothing,
}

/// One copy, of a [`Plan`]'s sources to its target.
///
/// Give each remote end an open SFTP channel and call [`Engine::open`]; then [`Engine::received`] for what
/// arrives and [`Engine::advance`] after that, when the channel becomes writable, and at
/// [`Engine::next_deadline`]. With two remote ends, what one receives gives the other something to send. After
/// each call look at [`Engine::poll_event`] and [`Engine::is_finished`].
#[derive(Debug)]
pub struct Engine {
    plan: Plan,
    options: Options,
    source: Option<Remote>,
    target: Option<Remote>,
    opened: [bool; 2],
    /// Answers not yet acted upon.
    done: VecDeque<(Token, Outcome)>,
    events: VecDeque<Event>,
    prepare: Prepare,
    early: early::Early,
    files: Table<File>,
    dirs: Table<Dir>,
    /// Directories that still have entries to be started; the deepest is last.
    walk: Vec<Key>,
    /// Some directory of `walk` may have nothing left to be started.
    walk_changed: bool,
    waiting: dirs::Waiting,
    /// Directories being made or listed for the first time.
    starting_dirs: usize,
    /// Top-level items that wait to be started.
    top: VecDeque<dirs::Item>,
    /// Files whose data are not all requested, in the order in which they will be.
    sending: VecDeque<Key>,
    /// Relay: files with data that have come and are not written, in order of their first data.
    writing: VecDeque<Key>,
    /// The WRITE that the window ended in the middle of.
    unfinished: Option<write::Unfinished>,
    flow: Flow,
    batches: batch::Batches,
    habits: place::Habits,
    lanes: lanes::Lanes,
    connections: Connections,
    names: Table<names::Name>,
    shared: names::SharedFiles,
    sync: sync::SyncState,
    /// What was told not to be kept.
    lacks: Vec<extras::Lack>,
    /// The ends have been asked to tell more.
    asked_for_more: bool,
    /// The target's server lets nobody rename: every file is written under its final name.
    renames_barred: bool,
    us: place::Us,
    /// Files of ours that are being removed, by their paths.
    removing: Table<Vec<u8>>,
    /// That a server gives one handle to two files has been told.
    told_same_handle: bool,
    next_file_id: u64,
    /// How many of these ids went to what turned out to be directories.
    not_files: u64,
    /// Bytes of all files that have been opened.
    bytes_found: u64,
    summary: Summary,
    waits: Waits,
    waiting_since: Option<(Wait, Instant)>,
    /// What is done and how far the rest has come, where that is to survive this process.
    journal: Option<Journal>,
    /// What has failed since the connection was lost.
    losses: usize,
    /// The user has had enough: what fails from now on goes without a word.
    cancelled: bool,
    /// Paths of the manifest that no listing has had yet.
    expected: HashSet<Vec<u8>>,
    now: Instant,
}

impl Engine {
    /// An engine that will carry out `plan`.
    pub fn new(plan: Plan, options: Options, now: Instant) -> Self {
        let remote = |wanted: bool| wanted.then(Remote::new);
        let limits = Limits {
            bytes: options.max_bytes_in_flight,
            requests: options.max_requests,
            bits_per_second: options.bits_per_second,
            descriptors: local::max_open(),
            open_files: options.max_open_files,
        };
        let mut journal = options
            .journal
            .as_deref()
            .filter(|_| options.atomic && !options.dry_run)
            .and_then(|path| Journal::open(path, plan.direction != Direction::Download, options.sums));
        if let Some(journal) = &mut journal {
            journal.note_command(&options.journal_command);
        }
        Self {
            source: remote(plan.direction != Direction::Upload),
            target: remote(plan.direction != Direction::Download),
            opened: [false; 2],
            done: VecDeque::new(),
            events: VecDeque::new(),
            prepare: Prepare::new(&plan),
            early: early::Early::default(),
            files: Table::new(),
            dirs: Table::new(),
            walk: Vec::new(),
            walk_changed: false,
            waiting: dirs::Waiting::default(),
            starting_dirs: 0,
            top: VecDeque::new(),
            sending: VecDeque::new(),
            writing: VecDeque::new(),
            unfinished: None,
            flow: Flow::new(limits, now),
            batches: batch::Batches::new(),
            habits: place::Habits::default(),
            lanes: lanes::Lanes::default(),
            connections: Connections::default(),
            names: Table::new(),
            shared: names::SharedFiles::new(),
            sync: sync::SyncState::new(options.tree_sync.as_ref()),
            lacks: Vec::new(),
            asked_for_more: false,
            renames_barred: false,
            us: place::Us::default(),
            removing: Table::new(),
            told_same_handle: false,
            next_file_id: 0,
            not_files: 0,
            bytes_found: 0,
            summary: Summary::default(),
            waits: Waits::default(),
            waiting_since: None,
            journal,
            losses: 0,
            cancelled: false,
            expected: options.select.expected(),
            now,
            plan,
            options,
        }
    }

    /// Nothing has been done and nothing will be.
    pub fn leave_unbegun(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.leave();
        }
    }

    /// The channel of a remote end is open and the SFTP subsystem runs on it.
    pub fn open(&mut self, side: Side) {
        self.open_as(side, false);
    }

    /// The same with a server that takes what stands behind the first words, before it has answered them.
    pub fn open_early(&mut self, side: Side) {
        self.open_as(side, true);
    }

    fn open_as(&mut self, side: Side, early: bool) {
        let at = side as usize;
        if let (false, Some(remote)) = (self.opened[at], self.remote(side)) {
            remote.start(early);
            self.opened[at] = true;
        }
    }

    /// Tells the end `side` which SSH server it talks to, by the server's identification line, as far as that is known.
    pub fn set_server(&mut self, side: Side, identification: Option<&str>) {
        if let Some(remote) = self.remote(side) {
            remote.set_server(identification);
        }
    }

    /// True when the SFTP server of `side` has sent its version.
    pub fn has_begun(&mut self, side: Side) -> bool {
        self.remote(side).is_some_and(|remote| remote.ready())
    }

    /// Bytes came on the channel of `side`.
    pub fn received(&mut self, side: Side, data: Bytes, now: Instant) {
        self.now = now;
        self.receive(side, data, now);
        if self.is_finished() {
            self.keep_journal();
        }
    }

    fn receive(&mut self, side: Side, data: Bytes, now: Instant) {
        let Some(remote) = self.remote(side) else { return };
        if remote.lost() {
            return;
        }
        remote.input(data, now);
        loop {
            let Some(remote) = self.remote(side) else { return };
            match remote.poll() {
                Ok(None) => return,
                Ok(Some(came)) => self.take(side, came),
                Err(reason) => return self.lost(side, &reason, now),
            }
        }
    }

    /// The channel or the connection of `side` is gone. Everything unfinished fails with `reason` (such as
    /// `Connection closed`).
    pub fn lost(&mut self, side: Side, reason: &str, now: Instant) {
        self.now = now;
        let finished = self.is_finished();
        let Some(remote) = self.remote(side) else { return };
        if remote.lost() {
            return;
        }
        let tokens = remote.fail(reason);
        if side == Side::Target {
            self.unfinished = None;
            self.lanes.clear_unfinished();
        }
        if finished {
            return;
        }
        self.summary.lost = true;
        let failures = self.summary.failures;
        let fault = Fault { kind: FaultKind::Lost, text: reason.to_owned() };
        for token in tokens {
            self.done.push_back((token, Err(fault.clone())));
        }
        self.lanes_lost(reason, now);
        self.abandon(reason);
        self.settle();
        if self.summary.failures == failures {
            self.fail(reason.to_owned());
        }
        if self.losses > LOSSES_TOLD && !self.cancelled {
            let text = format!("{} more files are not copied: {reason}", self.losses - LOSSES_TOLD);
            self.events.push_back(Event::Failed { text });
        }
        self.keep_journal();
    }

    /// Begins what can be begun and sends what can be sent on the channel of `side`.
    pub fn advance(&mut self, side: Side, out: &mut dyn Output, now: Instant) {
        self.end_wait(now);
        self.work(side, out, now);
        let look_at = self.look_for_answers(now);
        self.flow.look_for_answers_at(look_at);
        if let Some(remote) = self.remote(side) {
            remote.flush(out);
        }
        self.begin_wait(out.budget() == 0, now);
        self.keep_journal();
    }

    fn work(&mut self, side: Side, out: &mut dyn Output, now: Instant) {
        self.now = now;
        if side == Side::Source || self.plan.direction == Direction::Upload {
            self.flow.try_again();
        }
        loop {
            self.settle();
            self.begin_work();
            match (self.plan.direction, side) {
                (Direction::Upload, _) => self.send_file_data(out),
                (_, Side::Source) => self.request_data(out),
                (_, Side::Target) => self.send_held_data(out),
            }
            self.settle();
            let Some(remote) = self.remote(side) else { return };
            // What a full queue had held up can go on once the queue is gone.
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        if self.plan.direction != Direction::Relay {
            self.look_at_window(0, out);
        }
    }

    /// True when a call of [`Engine::advance`] for `side` would have something to send, given room.
    pub fn wants_to_send(&self, side: Side) -> bool {
        let remote = match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        };
        remote.as_ref().is_some_and(|remote| !remote.lost() && (remote.queued() > 0 || remote.mid_message()))
            || match (self.plan.direction, side) {
                (Direction::Upload, Side::Target) => !self.sending.is_empty() && !self.flow.is_held_back(),
                (Direction::Relay, Side::Target) => !self.writing.is_empty(),
                (Direction::Relay, Side::Source) => !self.sending.is_empty() && self.room_in_flight(),
                _ => false,
            }
    }

    /// When [`Engine::advance`] wants to be called although nothing has come: a rate limit, or a server that does not answer.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.flow.next_deadline()
    }

    /// What has happened since the last call; call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() && !self.expected.is_empty() && self.is_finished() {
            self.tell_expected();
        }
        self.events.pop_front()
    }

    /// Says which paths of the manifest are not in any tree. Of a copy that did not see all of them nothing is known.
    fn tell_expected(&mut self) {
        let mut missing: Vec<Vec<u8>> = std::mem::take(&mut self.expected).into_iter().collect();
        if self.summary.lost || self.cancelled {
            return;
        }
        missing.sort_unstable();
        for path in missing {
            self.fail(format!("{}: named in the manifest, not found", display_name(&path)));
            self.tell_missed_path(Some(path));
        }
    }

    /// True when nothing is left to do: every file is closed or has failed. The answers to CLOSEs of source files
    /// may still be missing; they say nothing.
    pub fn is_finished(&self) -> bool {
        self.prepare.finished()
            && self.top.is_empty()
            && self.files.len() == 0
            && self.dirs.len() == 0
            && self.batches.is_empty()
            && self.names.len() == 0
            && self.sync.is_finished()
            && self.removing.len() == 0
            && self.done.is_empty()
    }

    /// How it went, so far.
    pub const fn summary(&self) -> Summary {
        self.summary
    }

    fn remote(&mut self, side: Side) -> Option<&mut Remote> {
        match side {
            Side::Source => self.source.as_mut(),
            Side::Target => self.target.as_mut(),
        }
    }

    /// Starts an operation on an end; its answer will be `settle`d.
    fn start(&mut self, side: Side, op: Op<'_>, token: Token) {
        let outcome = match self.remote(side) {
            Some(remote) => remote.perform(op, token),
            None => Some(local::perform(op)),
        };
        if let Some(outcome) = outcome {
            self.done.push_back((token, outcome));
        }
    }

    /// Acts on answers until there are none.
    fn settle(&mut self) {
        while let Some((token, outcome)) = self.done.pop_front() {
            match token {
                Token::Prepare(step) => self.prepared(step, outcome),
                Token::Dir(key, step) => self.dir_answer(key, step, outcome),
                Token::File(key, step) => self.file_answer(key, step, outcome),
                Token::Batch(key) => self.batch_answer(key, outcome),
                Token::Name(key, step) => self.name_answer(key, step, outcome),
                Token::Sync(key, step) => self.sync_answer(key, step, outcome),
                Token::Removal(key, step) => self.removal_answer(key, step, outcome),
                Token::Backup(key) => self.backup_answer(key, outcome),
                Token::Extra(whose, step) => self.extra_answer(whose, step, outcome),
                Token::Renames => self.renames_answer(&outcome),
                Token::Us(step) => self.us_answer(step, outcome),
                Token::Removed(key) => self.part_removed(key, &outcome),
                Token::Probe(side, lane) => self.probe_answered(side, lane),
                Token::Nothing => {}
            }
        }
    }

    /// Starts directories and files while there is room for more.
    fn begin_work(&mut self) {
        let ready = [&self.source, &self.target].into_iter().flatten().all(|remote| remote.ready());
        if ready && !std::mem::replace(&mut self.asked_for_more, true) {
            self.ask_for_full_attrs();
            self.ask_about_renames();
        }
        if !self.prepare.finished() {
            self.prepare_more();
        }
        for side in [Side::Source, Side::Target] {
            if self.remote(side).is_some_and(|remote| remote.queued() > QUEUE_LIMIT) {
                return;
            }
        }
        self.begin_items();
        self.sync_deletions();
    }

    /// Gives up what has not been started: the connection is gone.
    fn abandon(&mut self, reason: &str) {
        let mut waiting = self.top.len();
        self.top.clear();
        for key in std::mem::take(&mut self.walk) {
            waiting += self.abandon_dir(key);
        }
        waiting += self.drop_batch();
        self.leave_comparisons();
        self.leave_deletions();
        for key in self.dirs.keys() {
            self.finish_dir_if_done(key);
        }
        let unresolved = self.prepare.abandon();
        // Files that wait for nothing from the lost end must hear of it too.
        for key in self.files.keys() {
            self.file_lost(key, reason);
        }
        if waiting + unresolved > 0 {
            self.fail(reason.to_owned());
        }
    }

    fn fail(&mut self, text: String) {
        self.summary.failures += 1;
        if self.summary.lost {
            self.losses += 1;
        }
        // Of a loss all files under way are to say the same.
        if !self.cancelled && self.losses <= LOSSES_TOLD {
            self.events.push_back(Event::Failed { text });
        }
    }

    fn skip(&mut self, text: String) {
        self.events.push_back(Event::Skipped { text });
    }
}
