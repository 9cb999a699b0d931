//! More channels than one, for large files, to and from servers whose limits are of each channel.
//!
//! OpenSSH's server grants 2 MiB for each channel and no more: over 50 ms that is 40 MB/s up. But it grants them for each channel of a
//! login, and each runs an SFTP server of its own. Down, what a server may be asked at a time is limited for each channel: one
//! that answers small READs only is soon left with nothing to do. So a large file is opened on several, and each request goes where
//! there is room. Whatever the number of channels, offsets are given out in order. A file that is written under its final name
//! has what is under way within [`crate::task::stripes::SPAN`]: one that was cut off is right up to its length less that, and one of full length is complete, because its last
//! piece goes when everything before it has been confirmed. A file that grows under a name of ours needs no such care.
//!
//! Only plain files are copied so: in a pipe the order would be lost.

mod loss;
mod stripes;

use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_sftp::extension;
use lh_wire::Output;

use crate::channels::LEAST_LEFT;
use crate::channels::{Lane, Turn};
use crate::end::Op;
use crate::engine::{Engine, QUEUE_LIMIT};
use crate::file_work::SendWork;
use crate::flow::MAX_REQUESTS;
use crate::remote::Remote;
use crate::task::{File, Phase};
use crate::token::{Side, Token};
use crate::{Direction, Event};

/// On a shorter path a closed window means that the server is busy, and several would make it busier.
const LEAST_RTT: Duration = Duration::from_millis(2);

/// Channels at most: OpenSSH's server allows ten sessions (`MaxSessions`).
const MOST: usize = 10;

impl Engine {
    /// The user has not said how many channels there are to be.
    pub(crate) const fn chooses_channels(&self) -> bool {
        self.options.chooses_channels()
    }

    /// The remote end of channel `lane` of that end.
    pub(super) fn remote_on(&mut self, lane: usize) -> Option<&mut Remote> {
        match self.plan.direction {
            Direction::Download => self.channels.remote(&mut self.ends.source, lane),
            Direction::Upload | Direction::Relay => self.channels.remote(&mut self.ends.target, lane),
        }
    }

    /// The remote end of channel `lane` of the end `side`.
    pub(super) fn remote_of(&mut self, side: Side, lane: usize) -> Option<&mut Remote> {
        if lane == 0 { self.ends.remote(side) } else { self.channels.lane(lane) }
    }

    /// How many more channels would help now. Each is to be answered by [`Engine::open_lane`] or
    /// [`Engine::lane_refused`].
    pub fn lanes_wanted(&mut self) -> usize {
        let big =
            self.tasks.sending.front().and_then(|&key| self.tasks.files.get(key)).is_some_and(Self::is_big);
        let many = self.options.channels.is_some() && self.batches_to_share();
        let one_open =
            self.ends.remote(self.plan.striped_side()).is_some_and(|remote| remote.one_at_a_time());
        if self.plan.direction == Direction::Relay || !(big || many) || self.channels.asked > 0 || one_open {
            return 0;
        }
        let have = self.channels.all.len();
        let goal = match self.options.channels {
            Some(channels) => channels.max(1) - 1,
            None => self.lanes_by_measure(have),
        };
        let most = self.channels.most.unwrap_or(usize::MAX);
        let wanted = goal.min(most).saturating_sub(have);
        if wanted > 0 {
            self.channels.asked = wanted;
            self.tell_lanes(have + wanted + 1);
        }
        wanted
    }

    /// Twice as many, if all there are were found full: their windows shut, or as many requests on their way as are good for
    /// one.
    fn lanes_by_measure(&self, have: usize) -> usize {
        let first =
            if self.plan.striped_side() == Side::Source { &self.ends.source } else { &self.ends.target };
        let grows = first.as_ref().is_some_and(|remote| remote.session().supports(extension::PUT_FILES));
        let long = self.channels.rtt.is_some_and(|rtt| rtt >= LEAST_RTT);
        let all_shut = self.channels.shut.count_ones() as usize > have;
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
        let text = match (self.options.channels, self.channels.rtt) {
            (None, Some(rtt)) => format!(
                "{deed} over {channels} channels: {why}, at a round trip of {:.1} ms",
                rtt.as_secs_f64() * 1e3
            ),
            _ => format!("{deed} over {channels} channels"),
        };
        self.report.event(Event::Told { text });
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
        let front = self.tasks.sending.front().copied();
        let file = front.and_then(|key| self.tasks.files.get(key));
        Turn {
            front,
            files: self.tasks.files.len(),
            room: self.room_in_flight(),
            held_back: file.is_some_and(|file| file.holds_back(self.request_bytes(self.plan.striped_side()))),
            again: file.is_some_and(|file| !file.again.is_empty()),
        }
    }

    /// An additional channel is open and the SFTP subsystem runs on it; returns its number, from 1.
    pub fn open_lane(&mut self) -> usize {
        let mut remote = Remote::new();
        remote.start(false);
        self.channels.asked = self.channels.asked.saturating_sub(1);
        self.channels.shut = 0;
        self.channels.all.push(Lane { remote, unfinished: None });
        self.channels.all.len()
    }

    /// There is to be no additional channel.
    pub fn lane_refused(&mut self) {
        self.channels.asked = self.channels.asked.saturating_sub(1);
        if self.channels.most.is_none() {
            let text = "the server allows no more channels".to_owned();
            self.report.event(Event::Told { text });
        }
        self.channels.most = Some(self.channels.all.len());
    }

    /// Bytes came on an additional channel.
    pub fn lane_received(&mut self, lane: usize, data: Bytes, now: Instant) {
        self.lane_take_in(lane, data, now);
        self.do_file_work();
    }

    /// As [`Engine::take_in`], on an additional channel.
    pub fn lane_take_in(&mut self, lane: usize, data: Bytes, now: Instant) {
        self.progress.now = now;
        let Some(remote) = self.channels.lane(lane).filter(|remote| !remote.lost()) else { return };
        remote.input(data, now);
        loop {
            match self.channels.lane(lane).map(Remote::poll) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some(came))) => self.take(self.plan.striped_side(), came),
                Some(Err(reason)) => return self.one_lane_lost(lane, &reason, now),
            }
        }
    }

    /// As [`Engine::advance`], on an additional channel.
    pub fn advance_lane(&mut self, lane: usize, out: &mut dyn Output, now: Instant) {
        while let Some(work) = self.advance_lane_step(lane, out, now) {
            self.sent(work.carry_out(out));
        }
        self.do_file_work();
    }

    /// As [`Engine::advance_step`], on an additional channel.
    pub fn advance_lane_step(&mut self, lane: usize, out: &mut dyn Output, now: Instant) -> Option<SendWork> {
        self.progress.now = now;
        loop {
            self.handle_answers();
            self.stripe_front();
            match self.plan.direction {
                Direction::Download => self.request_stripes(lane, out),
                Direction::Upload | Direction::Relay => {
                    if let Some(work) = self.send_stripes(lane, out) {
                        return Some(work);
                    }
                }
            }
            self.handle_answers();
            let remote = self.channels.lane(lane).filter(|remote| !remote.lost())?;
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        self.look_at_window(lane, out);
        let look_at = self.look_for_answers(now);
        self.flow.look_for_answers_at(look_at);
        if let Some(remote) = self.channels.lane(lane) {
            remote.flush(out);
        }
        None
    }

    /// Notes that nothing can go because the server's window is shut, or has as many requests as it may.
    pub(super) fn look_at_window(&mut self, lane: usize, out: &mut dyn Output) {
        let full = match self.plan.direction {
            Direction::Download => self.options.max_requests.is_none() && self.lane_is_full(lane),
            Direction::Upload | Direction::Relay => out.peer_is_full() && self.room_in_flight(),
        };
        if full && lane < 64 {
            self.channels.shut |= 1 << lane;
        }
    }

    /// As many requests are on their way on this channel as any server is good for.
    fn lane_is_full(&mut self, lane: usize) -> bool {
        self.remote_on(lane).is_some_and(|remote| remote.awaited() >= MAX_REQUESTS)
    }

    /// The channel with the least on its way.
    pub(super) fn idlest_lane(&self) -> usize {
        let first = match self.plan.striped_side() {
            Side::Source => &self.ends.source,
            Side::Target => &self.ends.target,
        };
        let laden = |remote: &Remote| (remote.queued() > QUEUE_LIMIT, remote.awaited());
        let additional = self.channels.all.iter().enumerate().map(|(at, lane)| (at + 1, &lane.remote));
        let all = first.iter().map(|remote| (0, remote)).chain(additional);
        let usable = all.filter(|(lane, remote)| *lane == 0 || (remote.ready() && !remote.lost()));
        usable.min_by_key(|(_, remote)| laden(remote)).map_or(0, |(lane, _)| lane)
    }

    /// Bytes of requests that wait to be sent there.
    pub(super) fn idlest_queue(&mut self) -> usize {
        let lane = self.idlest_lane();
        self.lane_queue(lane)
    }

    /// What one of several channels may have on its way, so that all have something to do; any number where there is one.
    pub(super) fn lane_has_room(&mut self, lane: usize, chunk: u64) -> bool {
        let channels = self.channels.channels_up();
        if channels < 2 {
            return true;
        }
        let most = self.flow.share(chunk, self.max_requests(), channels);
        self.remote_on(lane).is_some_and(|remote| (remote.awaited() as u64) < most)
    }

    /// What a question about a file has taken that was asked of the end `side` then.
    pub(super) fn note_round_trip(&mut self, side: Side, asked: Instant) {
        if self.ends.remote(side).is_none() {
            // An end that is here says nothing about the path.
            return;
        }
        let took = self.progress.now.saturating_duration_since(asked);
        self.flow.round_trip(took);
        let shortest = self.channels.rtt.get_or_insert(took);
        *shortest = took.min(*shortest);
    }

    /// Starts an operation on channel `lane`.
    pub(super) fn perform_on(&mut self, lane: usize, op: Op<'_>, token: Token) {
        let outcome = self.remote_on(lane).and_then(|remote| remote.perform(op, token));
        self.ends.answer_if_known(token, outcome);
    }
}
