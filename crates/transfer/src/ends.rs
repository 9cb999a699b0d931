//! The two ends of a copy: where operations are started, and where their answers wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lh_sftp::link_order::{Known, LinkOrder};
use lh_sftp::{PacketType, extension};

use crate::changed::Precision;
use crate::channels::data_channels::DataChannels;
use crate::channels::homes::{self, Homes};
use crate::end::{Handle, Op, Outcome};
use crate::file_work::{FileWork, Job, SlowOp};
use crate::flow::{Next, Servers, most_on_a_channel};
use crate::remote::Remote;
use crate::report::Reporter;
use crate::table::Key;
use crate::target_facts::TargetFacts;
use crate::token::{AttributeSubject, Side, Token};
use crate::{Direction, local};

/// Queued request bytes from which on nothing new is begun.
pub(crate) const QUEUE_LIMIT: usize = 128 * 1024;

/// Handles that a server is presumed to have if it has not told its limit, and its identification says that
/// it accepts many requests.
const HANDLES_PRESUMED: usize = 128;

/// Handles that any other server is presumed to have. Maverick Synergy answers requests for more than 50 with
/// "permission denied".
const HANDLES_UNKNOWN: usize = 48;

/// An end whose server has not answered INIT in this time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GivenUp {
    pub(crate) side: Side,
    pub(crate) after: Duration,
}

/// Both ends; one without a [`Remote`] is this host.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) source: Option<Remote>,
    pub(crate) target: Option<Remote>,
    /// Additional channels to one of them.
    pub(crate) channels: DataChannels,
    /// Which of them each file goes over.
    pub(crate) homes: Homes,
    pub(crate) facts: TargetFacts,
    opened: [bool; 2],
    /// Answers not yet acted upon.
    done: VecDeque<(Token, Outcome)>,
    /// Work on this host's files, to be carried out without the engine.
    pub(crate) file_work: VecDeque<FileWork>,
}

impl Ends {
    pub(crate) fn new(direction: Direction) -> Self {
        let both = direction == Direction::Relay;
        let remote = |wanted: bool| wanted.then(|| if both { Remote::of_two() } else { Remote::new() });
        Self {
            source: remote(direction != Direction::Upload),
            target: remote(direction != Direction::Download),
            channels: DataChannels::new(direction.side_with_channels()),
            homes: Homes::default(),
            facts: TargetFacts::default(),
            opened: [false; 2],
            done: VecDeque::new(),
            file_work: VecDeque::new(),
        }
    }

    pub(crate) const fn get(&self, side: Side) -> Option<&Remote> {
        match side {
            Side::Source => self.source.as_ref(),
            Side::Target => self.target.as_ref(),
        }
    }

    /// Returns true where this end is a server other than ours.
    pub(crate) fn is_foreign(&self, side: Side) -> bool {
        self.get(side).is_some_and(|remote| !remote.is_ours())
    }

    pub(crate) const fn remote(&mut self, side: Side) -> Option<&mut Remote> {
        match side {
            Side::Source => self.source.as_mut(),
            Side::Target => self.target.as_mut(),
        }
    }

    /// The ends that are not this host.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = &Remote> {
        [&self.source, &self.target].into_iter().flatten()
    }

    /// The channel of `side` is open. `first_flight`: its server takes requests before it has sent its
    /// version.
    pub(crate) fn open(&mut self, side: Side, first_flight: bool) {
        let at = side as usize;
        if let (false, Some(remote)) = (self.opened[at], self.remote(side)) {
            remote.start(first_flight);
            self.opened[at] = true;
        }
    }

    /// Makes all listings of servers tell links from their targets.
    pub(crate) fn tell_links(&mut self) {
        for remote in [&mut self.source, &mut self.target].into_iter().flatten() {
            remote.tell_links();
        }
    }

    /// Uses a session that is open already.
    pub(crate) fn adopt(&mut self, side: Side, session: lh_sftp::Session) {
        self.opened[side as usize] = true;
        if let Some(remote) = self.remote(side) {
            remote.adopt(session);
        }
    }

    /// Starts an operation at one end; [`Ends::next_answer`] returns its answer. An operation on this host is
    /// carried out at once, unless it reads much or waits for the disk ([`SlowOp`]): then it is queued as
    /// [`FileWork`]. One about a file goes over the channel of the file.
    pub(crate) fn start(&mut self, side: Side, op: Op<'_>, token: Token) {
        let channel = if side == self.channels.side() { self.channel_for(&op, &token) } else { 0 };
        if channel > 0 {
            return self.start_on(channel, op, token);
        }
        let outcome = match self.remote(side) {
            Some(remote) => remote.perform(op, token),
            None => match SlowOp::of(op, &self.file_work) {
                Ok(slow) => {
                    self.file_work.push_back(FileWork(Job::Operation(token, slow)));
                    None
                }
                Err(op) => Some(local::perform(op)),
            },
        };
        self.answer_if_known(token, outcome);
    }

    /// Starts an operation at the target whose answer does not matter, before what comes next about the file
    /// `key`.
    pub(crate) fn start_before_others(&mut self, key: Key, op: Op<'_>) {
        // A download's channels lead to its source.
        let channel = if self.channels.side() == Side::Target { self.home_of(key) } else { 0 };
        match channel {
            0 => self.start(Side::Target, op, Token::Nothing),
            channel => self.start_on(channel, op, Token::Nothing),
        }
    }

    /// The file `key`, which has this size and about which the target's end was not asked anything that it
    /// has not answered, goes over any of the channels from now on, if it is small.
    pub(crate) fn choose_home(&mut self, key: Key, size: Option<u64>) {
        let small = size.is_some_and(|size| size <= homes::LARGEST);
        let any = small && self.channels.count() > 0 && self.may_share_small_files();
        self.homes.begin(key, any);
    }

    /// The file `key` begins: what is asked about it goes over the first channel.
    pub(crate) fn begin_on_first(&mut self, key: Key) {
        self.homes.begin(key, false);
    }

    /// Returns true where small files may go over several channels: up, to a recent server of OpenSSH's,
    /// which has told its limits. Longhaul's takes hundreds of files in a message.
    pub(crate) fn may_share_small_files(&self) -> bool {
        let shares = |remote: &Remote| {
            let session = remote.session();
            // asyncssh tells limits as well, and is one process however many channels there are.
            let is_openssh = session.takes_many_requests() && session.supports(extension::LSETSTAT);
            is_openssh && session.has_told_limits() && !remote.is_ours()
        };
        self.source.is_none() && self.target.as_ref().is_some_and(shares) && !self.is_one_at_a_time()
    }

    fn channel_for(&mut self, op: &Op<'_>, token: &Token) -> usize {
        match (op.handle(), token) {
            (Some(handle), _) => handle.channel(),
            (None, Token::File(key, _) | Token::Preserve(AttributeSubject::File(key), _)) => {
                self.home_of(*key)
            }
            _ => 0,
        }
    }

    fn home_of(&mut self, key: Key) -> usize {
        let Self { target, channels, homes, .. } = self;
        homes.of(key, || {
            // One whose server has not told its limits yet would get each request in a packet of its own.
            let ready = channels.usable().filter(|(_, remote)| remote.session().has_told_limits());
            idlest(target.as_ref().map(|remote| (0, remote)).into_iter().chain(ready))
        })
    }

    /// Like [`Ends::answer`]. `None`: the answer is still to come.
    pub(crate) fn answer_if_known(&mut self, token: Token, outcome: Option<Outcome>) {
        self.done.extend(outcome.map(|outcome| (token, outcome)));
    }

    /// The remote end on channel number `channel` of the end `side`; 0 is the first channel.
    pub(crate) fn on_channel(&mut self, side: Side, channel: usize) -> Option<&mut Remote> {
        if channel == 0 { self.remote(side) } else { self.channels.get_mut(channel) }
    }

    /// Starts an operation on channel number `channel` of the end that may have several.
    pub(crate) fn start_on(&mut self, channel: usize, op: Op<'_>, token: Token) {
        let side = self.channels.side();
        let outcome = self.on_channel(side, channel).and_then(|remote| remote.perform(op, token));
        self.answer_if_known(token, outcome);
    }

    /// The channels to the end that may have several and that are in use, with their numbers.
    fn channels_in_use(&self) -> impl Iterator<Item = (usize, &Remote)> {
        self.get(self.channels.side()).map(|remote| (0, remote)).into_iter().chain(self.channels.usable())
    }

    /// Number of channels in use.
    pub(crate) fn channels_up(&self) -> usize {
        1 + self.channels.usable().count()
    }

    /// Bytes of requests that wait to be sent on channel number `channel`.
    pub(crate) fn queue_of(&self, channel: usize) -> usize {
        let first = self.get(self.channels.side()).filter(|_| channel == 0);
        first.or_else(|| self.channels.get(channel)).map_or(0, Remote::queued)
    }

    /// The channel with the least on its way.
    pub(crate) fn idlest_channel(&self) -> usize {
        idlest(self.channels_in_use())
    }

    /// Requests on their way on channel number `channel`, and how many its server is good for.
    pub(crate) fn requests_on(&mut self, channel: usize) -> Option<(usize, usize)> {
        let remote = self.on_channel(self.channels.side(), channel)?;
        Some((remote.awaited(), most_on_a_channel(remote.session().takes_many_requests())))
    }

    /// Returns true where the end that may have several channels has one file open at a time, so that more
    /// channels are of no use.
    pub(crate) fn is_one_at_a_time(&self) -> bool {
        self.get(self.channels.side()).is_some_and(Remote::one_at_a_time)
    }

    /// From now on `side` opens nothing while something is open.
    pub(crate) fn open_one_at_a_time(&mut self, side: Side) {
        if let Some(remote) = self.remote(side) {
            remote.open_one_at_a_time();
        }
        if side == self.channels.side() {
            self.channels.open_one_at_a_time();
        }
    }

    /// Probes each channel whose server has been silent for `timeout`, and reports once one that has been
    /// silent for half of it. Returns when to look again, and an end whose server is to be given up.
    pub(crate) fn look_for_answers(
        &mut self,
        timeout: Duration,
        now: Instant,
        report: &mut Reporter,
    ) -> (Option<Instant>, Option<GivenUp>) {
        let first = [(Side::Source, 0), (Side::Target, 0)];
        let side = self.channels.side();
        let more = (1..=self.channels.count()).map(|channel| (side, channel));
        let mut next: Option<Instant> = None;
        let (mut unanswered, mut given_up) = (None, None);
        for (side, channel) in first.into_iter().chain(more) {
            let Some(remote) = self.on_channel(side, channel) else { continue };
            let mut look = remote.look_for_answers(timeout, now);
            if let Next::Tell(kind) = look {
                unanswered = unanswered.or(Some(kind));
                look = remote.look_for_answers(timeout, now);
            }
            match look {
                Next::Nothing | Next::Tell(_) => {}
                Next::GiveUp(after) => given_up = Some(GivenUp { side, after }),
                Next::LookAgain(at) => next = Some(next.map_or(at, |next| next.min(at))),
                Next::Probe => {
                    let token = Token::Probe(side, channel);
                    let outcome = remote.perform(Op::RealPath(b"."), token);
                    self.answer_if_known(token, outcome);
                }
            }
        }
        if let Some(kind) = unanswered {
            let reported = match kind {
                PacketType::INIT => &mut self.facts.reported_no_version,
                _ => &mut self.facts.reported_silence,
            };
            if !std::mem::replace(reported, true) {
                report.skip(kind.waiting_for_answer(timeout / 2));
            }
        }
        (next, given_up)
    }

    /// Returns true while an end has more than [`QUEUE_LIMIT`] bytes of requests to send.
    pub(crate) fn is_a_queue_full(&self) -> bool {
        self.remotes().any(|remote| remote.queued() > QUEUE_LIMIT)
    }

    /// Returns the properties that all servers of the copy have in common.
    pub(crate) fn servers(&self) -> Servers {
        Servers {
            told_limits: self.remotes().all(|remote| remote.session().has_told_limits()),
            take_many: self.remotes().all(|remote| remote.session().takes_many_requests()),
            // A server of ours reads files when the window is open.
            measured: self.is_foreign(Side::Source),
            // What it is sent is of no concern: its own answers fill the window.
            stops_at_full_window: self
                .get(Side::Source)
                .is_some_and(|remote| remote.session().stops_at_full_window()),
            channels: self.channels_up(),
        }
    }

    /// Number of handles that the server of `side` grants us.
    pub(crate) fn handles(&self, side: Side) -> Option<usize> {
        let session = self.get(side)?.session();
        Some(match session.limits().max_handles {
            0 if session.takes_many_requests() => HANDLES_PRESUMED,
            0 => HANDLES_UNKNOWN,
            handles => usize::try_from(handles).unwrap_or(usize::MAX),
        })
    }

    /// The fewest handles that one of the servers has for us.
    pub(crate) fn fewest_handles(&self) -> Option<usize> {
        [Side::Source, Side::Target].into_iter().filter_map(|side| self.handles(side)).min()
    }

    /// Bytes of one READ or WRITE that the server of `side` takes.
    pub(crate) fn request_bytes(&self, side: Side) -> u32 {
        self.get(side).map_or(0, |remote| match side {
            Side::Source => remote.session().read_len(),
            Side::Target => remote.session().write_len(),
        })
    }

    /// Bytes of the next WRITE to `target` on channel number `channel`, `most` at most: a long
    /// handle leaves less room in the message.
    pub(crate) fn write_bytes(&mut self, channel: usize, target: Option<&Handle>, most: u64) -> u64 {
        let Some(Handle::Remote(handle, _)) = target else {
            return most;
        };
        let remote = self.on_channel(Side::Target, channel);
        remote.map_or(most, |remote| most.min(remote.session().write_len_with(handle.len()).into()))
    }

    /// Adds an answer that has come, or is known without asking.
    pub(crate) fn answer(&mut self, answer: (Token, Outcome)) {
        self.done.push_back(answer);
    }

    /// Returns the next answer to act upon.
    pub(crate) fn next_answer(&mut self) -> Option<(Token, Outcome)> {
        self.done.pop_front()
    }

    /// Returns true when no answer waits to be acted upon. Work on files may be left.
    pub(crate) fn no_answer_waits(&self) -> bool {
        self.done.is_empty()
    }

    /// Returns true when no answer waits to be acted upon, and no work on files is left.
    pub(crate) fn all_answered(&self) -> bool {
        self.done.is_empty() && self.file_work.is_empty()
    }

    /// Returns true when each server has sent its version and extensions.
    pub(crate) fn are_ready(&self) -> bool {
        self.remotes().all(Remote::ready)
    }

    /// Returns true where the extended attributes of files can be read and set at both ends.
    pub(crate) fn have_xattrs(&self) -> bool {
        self.remotes().all(|remote| {
            remote.session().supports(extension::GET_XATTRS)
                && remote.session().supports(extension::SET_XATTRS)
        })
    }

    /// Returns true where both ends have digests of open files.
    pub(crate) fn can_digest(&self) -> bool {
        let ends = [&self.source, &self.target];
        ends.into_iter().flatten().all(|remote| remote.session().supports(extension::CHECK_FILE_HANDLE))
    }

    /// Returns true where the target's server might close a file, or set its times, before it has written
    /// what came before: Go's `pkg/sftp` writes with several workers, and servers on Node's ssh2 carry
    /// requests out side by side. Servers that tell their limits take one request after the other.
    pub(crate) fn waits_for_writes(&self) -> bool {
        self.target.as_ref().is_some_and(|remote| !remote.session().has_told_limits())
    }

    /// Returns true where the server's only rename is the protocol's own, which must not replace anything.
    pub(crate) fn rename_is_simple(&self) -> bool {
        let posix = extension::POSIX_RENAME;
        self.target.as_ref().is_some_and(|remote| !remote.session().supports(posix))
    }

    /// Returns true where the target's server may take names for one that differ by case. A server of ours is
    /// asked for files in other ways.
    pub(crate) fn may_fold_names(&self) -> bool {
        self.is_foreign(Side::Target)
    }

    /// Returns true where the target's server answers requests in order: those that know
    /// [`extension::PUT_FILES`] do.
    pub(crate) fn target_keeps_order(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.session().supports(extension::PUT_FILES))
    }

    /// Returns true where the target can give a file another name.
    pub(crate) fn target_has_hard_links(&self) -> bool {
        self.target.as_ref().is_none_or(|target| target.session().supports(extension::HARDLINK))
    }

    /// Returns the order in which the target reads the strings of SYMLINK, as far as known.
    pub(crate) fn link_order(&self) -> Known {
        let here = Known::Always(LinkOrder::TargetFirst);
        self.target.as_ref().map_or(here, |target| target.session().link_order())
    }

    /// Resolution with which the source's end reports changes of a file.
    pub(crate) fn source_precision(&self) -> Precision {
        if self.is_foreign(Side::Source) { Precision::Later } else { Precision::Exact }
    }

    /// Returns true where both ends have times in full.
    pub(crate) fn times_are_full(&self) -> bool {
        self.remotes().all(|remote| remote.full())
    }
}

/// The number of the channel with the least on its way; 0 where there is none.
fn idlest<'a>(channels: impl Iterator<Item = (usize, &'a Remote)>) -> usize {
    let laden = |remote: &Remote| (remote.queued() > QUEUE_LIMIT, remote.awaited());
    channels.min_by_key(|(_, remote)| laden(remote)).map_or(0, |(channel, _)| channel)
}

#[cfg(test)]
mod tests {
    use crate::end::{Done, FaultKind, Kind};

    use super::*;

    #[test]
    fn this_host_answers_at_once_and_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_string_lossy().into_owned().into_bytes();
        let mut ends = Ends::new(Direction::Upload);
        assert!(ends.get(Side::Source).is_none() && ends.get(Side::Target).is_some());
        ends.start(Side::Source, Op::Stat(&path), Token::Nothing);
        ends.start(Side::Source, Op::Stat(&[&path[..], b"/none"].concat()), Token::Renames);
        assert!(!ends.all_answered());
        let (token, outcome) = ends.next_answer().expect("an answer");
        assert!(matches!(token, Token::Nothing));
        assert!(matches!(outcome, Ok(Done::Info(info)) if info.kind == Kind::Dir));
        let (token, outcome) = ends.next_answer().expect("an answer");
        assert!(matches!(token, Token::Renames));
        assert!(outcome.is_err_and(|fault| fault.kind == FaultKind::NotFound));
        assert!(ends.next_answer().is_none() && ends.all_answered());
    }

    /// A server must not be asked to remove a file that has this name here.
    #[test]
    fn what_comes_before_others_is_done_at_the_target() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("part");
        std::fs::write(&path, "x").expect("a file");
        let mut ends = Ends::new(Direction::Download);
        ends.open(Side::Source, false);
        let queued = ends.queue_of(0);
        ends.start_before_others(0, Op::Remove(path.to_string_lossy().as_bytes()));
        assert!(!path.exists() && ends.queue_of(0) == queued);
        for direction in [Direction::Upload, Direction::Relay] {
            let mut ends = Ends::new(direction);
            let awaited = |ends: &Ends| ends.get(Side::Target).map(Remote::awaited);
            ends.start_before_others(0, Op::Remove(b"part"));
            assert_eq!(awaited(&ends), Some(1));
        }
    }

    #[test]
    fn additional_channels_lead_to_the_end_that_may_have_several() {
        for (direction, side, other) in [
            (Direction::Download, Side::Source, Side::Target),
            (Direction::Upload, Side::Target, Side::Source),
            (Direction::Relay, Side::Target, Side::Source),
        ] {
            let mut ends = Ends::new(direction);
            ends.open(side, false);
            assert_eq!(ends.channels.add(), 1);
            assert!(ends.on_channel(side, 0).is_some() && ends.on_channel(side, 2).is_none());
            assert_eq!(ends.on_channel(other, 0).is_some(), direction == Direction::Relay);
            let before = ends.queue_of(1);
            ends.start_on(1, Op::Stat(b"x"), Token::Nothing);
            assert!(
                ends.queue_of(1) > before && ends.requests_on(1).is_some_and(|(awaited, _)| awaited == 1)
            );
            // One whose server has not answered is not in use yet.
            assert_eq!((ends.channels_up(), ends.idlest_channel()), (1, 0));
        }
    }

    #[test]
    fn the_fewest_handles_of_two_servers_count() {
        assert_eq!(Ends::new(Direction::Relay).fewest_handles(), Some(HANDLES_UNKNOWN));
        assert_eq!(Ends::new(Direction::Upload).handles(Side::Source), None);
    }

    #[test]
    fn an_end_is_opened_once() {
        let mut ends = Ends::new(Direction::Download);
        ends.open(Side::Source, false);
        let queued = ends.get(Side::Source).map(Remote::queued);
        assert!(queued.is_some_and(|queued| queued > 0), "its version");
        ends.open(Side::Source, false);
        assert_eq!(ends.get(Side::Source).map(Remote::queued), queued);
        assert!(!ends.are_ready());
    }
}
