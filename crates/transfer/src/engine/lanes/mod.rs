//! More channels than one, for large files, to and from servers whose limits are of each channel.
//!
//! OpenSSH's server grants 2 MiB for each channel and no more: over 50 ms that is 40 MB/s up. But it grants them for each channel of a
//! login, and each runs an SFTP server of its own. Down, what a server may be asked at a time is limited for each channel: one
//! that answers small READs only is soon left with nothing to do. So a large file is opened on several, and each request goes where
//! there is room. Whatever the number of channels, offsets are given out in order. A file that is written under its final name
//! has what is under way within [`SPAN`]: one that was cut off is right up to its length less that, and one of full length is complete, because its last
//! piece goes when everything before it has been confirmed. A file that grows under a name of ours needs no such care.
//!
//! Only plain files are copied so: in a pipe the order would be lost.

mod loss;
mod stripes;

use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_sftp::extension;
use lh_wire::Output;

use crate::end::{Handle, Op};
use crate::flow::MAX_REQUESTS;
use crate::remote::Remote;
use crate::table::Key;
use crate::{Direction, Event};

use super::file::{File, Phase};
use super::write::Unfinished;
use super::{Engine, QUEUE_LIMIT, Side, Token};

/// Less than this is not worth opening a file several times.
pub(super) const LEAST_LEFT: u64 = 8 << 20;

/// How far requests may be ahead of what is confirmed without a gap, in a file that goes over several channels.
pub(super) const SPAN: u64 = 32 << 20;

/// On a shorter path a closed window means that the server is busy, and several would make it busier.
const LEAST_RTT: Duration = Duration::from_millis(2);

/// Channels at most: OpenSSH's server allows ten sessions (`MaxSessions`).
const MOST: usize = 10;

/// See [`Engine::turn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    front: Option<Key>,
    files: usize,
    room: bool,
    held_back: bool,
    again: bool,
}

/// An additional channel to the remote end, and what is half sent on it.
#[derive(Debug)]
pub(super) struct Lane {
    remote: Remote,
    unfinished: Option<Unfinished>,
}

/// The additional channels.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// Asked for and not yet heard of.
    asked: usize,
    /// Channels there may be, further ones only.
    most: Option<usize>,
    /// Channels whose window was found shut since there are so many, by number.
    shut: u64,
    /// The shortest round trip.
    rtt: Option<Duration>,
}

/// What is known of a file on one of the additional channels.
#[derive(Debug, Default)]
pub(super) enum Stripe {
    #[default]
    Unknown,
    /// Being opened, not to be had, or closed.
    Without,
    Open(Handle),
}

/// Whether a file may go over several channels.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    #[default]
    Unknown,
    /// Not, or not known yet.
    No,
    Yes,
}

impl Lanes {
    /// On each of them.
    pub(super) fn open_one_at_a_time(&mut self) {
        self.all.iter_mut().for_each(|lane| lane.remote.open_one_at_a_time());
    }

    /// How many there are, those that are gone included.
    pub(super) const fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn clear_unfinished(&mut self) {
        for lane in &mut self.all {
            lane.unfinished = None;
        }
    }

    /// The remote end of channel `lane`; 0 is the first one.
    pub(super) fn remote<'a>(
        &'a mut self,
        first: &'a mut Option<Remote>,
        lane: usize,
    ) -> Option<&'a mut Remote> {
        match lane.checked_sub(1) {
            None => first.as_mut(),
            Some(at) => self.all.get_mut(at).map(|lane| &mut lane.remote),
        }
    }

    /// The place for what is half sent on channel `lane`.
    pub(super) fn unfinished<'a>(
        &'a mut self,
        first: &'a mut Option<Unfinished>,
        lane: usize,
    ) -> Option<&'a mut Option<Unfinished>> {
        match lane.checked_sub(1) {
            None => Some(first),
            Some(at) => self.all.get_mut(at).map(|lane| &mut lane.unfinished),
        }
    }
}

impl File {
    /// The handle on channel `lane`, of the end that has several.
    pub(super) fn handle_on(&self, side: Side, lane: usize) -> Option<&Handle> {
        match lane.checked_sub(1) {
            None if side == Side::Source => self.source.as_ref(),
            None => self.target.as_ref(),
            Some(at) => match self.stripes.get(at)? {
                Stripe::Open(handle) => Some(handle),
                Stripe::Unknown | Stripe::Without => None,
            },
        }
    }

    /// Where requests have to stop for now.
    pub(super) fn request_end(&self, chunk: u64) -> u64 {
        if self.stripes.is_empty() || self.to_eof || self.place.growing().is_some() {
            return self.size;
        }
        let last = self.size.saturating_sub(chunk);
        let end = if self.prefix < last { last } else { self.size };
        end.min(self.prefix.saturating_add(SPAN)).max(self.requested)
    }

    /// Bytes that the next request may be about: up to where requests have to stop, or the data end.
    pub(super) fn requestable(&self, chunk: u64) -> u64 {
        self.request_end(chunk).min(self.data_end()).saturating_sub(self.requested)
    }

    /// Waits for confirmations and not for room.
    pub(super) fn holds_back(&self, chunk: u64) -> bool {
        let end = self.request_end(chunk);
        !self.failed && self.requested >= end && end < self.size
    }
}

impl Engine {
    /// The end that there may be several channels to.
    pub(super) const fn striped_side(&self) -> Side {
        match self.plan.direction {
            Direction::Download => Side::Source,
            Direction::Upload | Direction::Relay => Side::Target,
        }
    }

    /// The remote end of channel `lane` of that end.
    pub(super) fn remote_on(&mut self, lane: usize) -> Option<&mut Remote> {
        match self.plan.direction {
            Direction::Download => self.lanes.remote(&mut self.source, lane),
            Direction::Upload | Direction::Relay => self.lanes.remote(&mut self.target, lane),
        }
    }

    /// The remote end of channel `lane` of the end `side`.
    pub(super) fn remote_of(&mut self, side: Side, lane: usize) -> Option<&mut Remote> {
        if lane == 0 { self.remote(side) } else { self.lane(lane) }
    }

    /// How many more channels would help now. Each is to be answered by [`Engine::open_lane`] or
    /// [`Engine::lane_refused`].
    pub fn lanes_wanted(&mut self) -> usize {
        let big = self.sending.front().and_then(|&key| self.files.get(key)).is_some_and(Self::is_big);
        let many = self.options.channels.is_some() && self.batches_to_share();
        let one_open = self.remote(self.striped_side()).is_some_and(|remote| remote.one_at_a_time());
        if self.plan.direction == Direction::Relay || !(big || many) || self.lanes.asked > 0 || one_open {
            return 0;
        }
        let have = self.lanes.all.len();
        let goal = match self.options.channels {
            Some(channels) => channels.max(1) - 1,
            None => self.lanes_by_measure(have),
        };
        let most = self.lanes.most.unwrap_or(usize::MAX);
        let wanted = goal.min(most).saturating_sub(have);
        if wanted > 0 {
            self.lanes.asked = wanted;
            self.tell_lanes(have + wanted + 1);
        }
        wanted
    }

    /// The user has not said how many channels there are to be.
    pub(crate) const fn chooses_channels(&self) -> bool {
        self.options.channels.is_none()
    }

    /// Twice as many, if all there are were found full: their windows shut, or as many requests on their way as are good for
    /// one.
    fn lanes_by_measure(&self, have: usize) -> usize {
        let first = if self.striped_side() == Side::Source { &self.source } else { &self.target };
        let grows = first.as_ref().is_some_and(|remote| remote.session().supports(extension::PUT_FILES));
        let long = self.lanes.rtt.is_some_and(|rtt| rtt >= LEAST_RTT);
        let all_shut = self.lanes.shut.count_ones() as usize > have;
        match (have + 1) * 2 {
            _ if grows || !long || !all_shut || self.flow.has_rate() => have,
            2 => 3,
            twice => twice.min(MOST) - 1,
        }
    }

    fn tell_lanes(&mut self, channels: usize) {
        let (deed, why) = match self.plan.direction {
            Direction::Download => ("downloading", "one takes no more requests"),
            Direction::Upload | Direction::Relay => ("uploading", "the server's window is shut"),
        };
        let text = match (self.options.channels, self.lanes.rtt) {
            (None, Some(rtt)) => format!(
                "{deed} over {channels} channels: {why}, at a round trip of {:.1} ms",
                rtt.as_secs_f64() * 1e3
            ),
            _ => format!("{deed} over {channels} channels"),
        };
        self.events.push_back(Event::Told { text });
    }

    fn is_big(file: &File) -> bool {
        let left = file.size.saturating_sub(file.requested);
        file.phase == Phase::Copying && !file.failed && !file.to_eof && left >= LEAST_LEFT
    }

    /// Bytes of requests that wait to be sent on channel `lane`; 0 is the first one.
    pub(crate) fn lane_queue(&mut self, lane: usize) -> usize {
        self.remote_on(lane).map_or(0, |remote| remote.queued())
    }

    /// What channels that have nothing to do may be waiting for to change.
    pub(crate) fn turn(&self) -> Turn {
        let front = self.sending.front().copied();
        let file = front.and_then(|key| self.files.get(key));
        Turn {
            front,
            files: self.files.len(),
            room: self.room_in_flight(),
            held_back: file.is_some_and(|file| file.holds_back(self.request_bytes(self.striped_side()))),
            again: file.is_some_and(|file| !file.again.is_empty()),
        }
    }

    /// An additional channel is open and the SFTP subsystem runs on it; returns its number, from 1.
    pub fn open_lane(&mut self) -> usize {
        let mut remote = Remote::new();
        remote.start(false);
        self.lanes.asked = self.lanes.asked.saturating_sub(1);
        self.lanes.shut = 0;
        self.lanes.all.push(Lane { remote, unfinished: None });
        self.lanes.all.len()
    }

    /// There is to be no additional channel.
    pub fn lane_refused(&mut self) {
        self.lanes.asked = self.lanes.asked.saturating_sub(1);
        if self.lanes.most.is_none() {
            let text = "the server allows no more channels".to_owned();
            self.events.push_back(Event::Told { text });
        }
        self.lanes.most = Some(self.lanes.all.len());
    }

    /// Bytes came on an additional channel.
    pub fn lane_received(&mut self, lane: usize, data: Bytes, now: Instant) {
        self.now = now;
        let Some(remote) = self.lane(lane).filter(|remote| !remote.lost()) else { return };
        remote.input(data, now);
        loop {
            match self.lane(lane).map(Remote::poll) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some(came))) => self.take(self.striped_side(), came),
                Some(Err(reason)) => return self.lane_lost(lane, &reason, now),
            }
        }
    }

    /// As [`Engine::advance`], on an additional channel.
    pub fn advance_lane(&mut self, lane: usize, out: &mut dyn Output, now: Instant) {
        self.now = now;
        loop {
            self.settle();
            self.stripe_front();
            match self.plan.direction {
                Direction::Download => self.request_stripes(lane, out),
                Direction::Upload | Direction::Relay => self.send_stripes(lane, out),
            }
            self.settle();
            let Some(remote) = self.lane(lane).filter(|remote| !remote.lost()) else { return };
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        self.look_at_window(lane, out);
        let look_at = self.look_for_answers(now);
        self.flow.look_for_answers_at(look_at);
        if let Some(remote) = self.lane(lane) {
            remote.flush(out);
        }
    }

    /// Notes that nothing can go because the server's window is shut, or has as many requests as it may.
    pub(super) fn look_at_window(&mut self, lane: usize, out: &mut dyn Output) {
        let full = match self.plan.direction {
            Direction::Download => self.options.max_requests.is_none() && self.lane_is_full(lane),
            Direction::Upload | Direction::Relay => out.peer_is_full() && self.room_in_flight(),
        };
        if full && lane < 64 {
            self.lanes.shut |= 1 << lane;
        }
    }

    /// As many requests are on their way on this channel as any server is good for.
    fn lane_is_full(&mut self, lane: usize) -> bool {
        self.remote_on(lane).is_some_and(|remote| remote.awaited() >= MAX_REQUESTS)
    }

    /// The channel with the least on its way.
    pub(super) fn idlest_lane(&self) -> usize {
        let first = match self.striped_side() {
            Side::Source => &self.source,
            Side::Target => &self.target,
        };
        let laden = |remote: &Remote| (remote.queued() > QUEUE_LIMIT, remote.awaited());
        let additional = self.lanes.all.iter().enumerate().map(|(at, lane)| (at + 1, &lane.remote));
        let all = first.iter().map(|remote| (0, remote)).chain(additional);
        let usable = all.filter(|(lane, remote)| *lane == 0 || (remote.ready() && !remote.lost()));
        usable.min_by_key(|(_, remote)| laden(remote)).map_or(0, |(lane, _)| lane)
    }

    /// Bytes of requests that wait to be sent there.
    pub(super) fn idlest_queue(&mut self) -> usize {
        let lane = self.idlest_lane();
        self.lane_queue(lane)
    }

    /// The channels that are in use.
    pub(super) fn channels_up(&self) -> usize {
        1 + self.lanes.all.iter().filter(|lane| lane.remote.ready() && !lane.remote.lost()).count()
    }

    /// What one of several channels may have on its way, so that all have something to do; any number where there is one.
    pub(super) fn lane_has_room(&mut self, lane: usize, chunk: u64) -> bool {
        let channels = self.channels_up();
        if channels < 2 {
            return true;
        }
        let most = self.flow.share(chunk, self.max_requests(), channels);
        self.remote_on(lane).is_some_and(|remote| (remote.awaited() as u64) < most)
    }

    /// What a question about a file has taken that was asked of the end `side` then.
    pub(super) fn note_round_trip(&mut self, side: Side, asked: Instant) {
        if self.remote(side).is_none() {
            // An end that is here says nothing about the path.
            return;
        }
        let took = self.now.saturating_duration_since(asked);
        self.flow.round_trip(took);
        let shortest = self.lanes.rtt.get_or_insert(took);
        *shortest = took.min(*shortest);
    }

    fn lane(&mut self, lane: usize) -> Option<&mut Remote> {
        self.lanes.all.get_mut(lane.checked_sub(1)?).map(|lane| &mut lane.remote)
    }

    /// Starts an operation on channel `lane`.
    pub(super) fn perform_on(&mut self, lane: usize, op: Op<'_>, token: Token) {
        let outcome = self.remote_on(lane).and_then(|remote| remote.perform(op, token));
        self.done.extend(outcome.map(|outcome| (token, outcome)));
    }
}
