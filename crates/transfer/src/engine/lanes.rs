//! More channels than one, for large uploads to servers whose windows do not grow.
//!
//! OpenSSH's server grants 2 MiB for each channel and no more: over 50 ms that is 40 MB/s. But it grants them for each channel of a
//! login, and each runs an SFTP server of its own. So a large file is opened on several, and each WRITE goes where there
//! is room. Whatever the number of channels, offsets are given out in order, and what is under way stays within
//! [`SPAN`]: a file that was cut off is right up to its length less that, and one of full length is complete, because its last
//! piece goes when everything before it has been confirmed.
//!
//! Only plain files are written so: in a pipe the order would be lost.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_sftp::extension;
use lh_sftp::server::Output;

use crate::end::{Done, Fault, FaultKind, Handle, Info, Kind, Op, Outcome};
use crate::remote::Remote;
use crate::table::Key;
use crate::{Direction, Event};

use super::file::{File, FileStep, Phase};
use super::write::Unfinished;
use super::{Engine, Side, Token};

/// Less than this is not worth opening a file several times.
pub(super) const LEAST_LEFT: u64 = 8 << 20;

/// How far requests may be ahead of what is confirmed without a gap, in a file that goes over several channels.
pub(super) const SPAN: u64 = 32 << 20;

/// On a shorter path a closed window means that the server is busy, and several would make it busier.
const LEAST_RTT: Duration = Duration::from_millis(2);

/// Channels at most: OpenSSH's server allows ten sessions (`MaxSessions`).
const MOST: usize = 10;

/// A further channel to the target, and what is half sent on it.
#[derive(Debug)]
pub(super) struct Lane {
    remote: Remote,
    unfinished: Option<Unfinished>,
}

/// The further channels.
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

/// What is known of a file on one of the further channels.
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
    /// The target's handle on channel `lane`.
    pub(super) fn target_on(&self, lane: usize) -> Option<&Handle> {
        match lane.checked_sub(1) {
            None => self.target.as_ref(),
            Some(at) => match self.stripes.get(at)? {
                Stripe::Open(handle) => Some(handle),
                Stripe::Unknown | Stripe::Without => None,
            },
        }
    }

    /// Where requests have to stop for now.
    pub(super) fn request_end(&self, chunk: u64) -> u64 {
        if self.stripes.is_empty() || self.to_eof {
            return self.size;
        }
        let last = self.size.saturating_sub(chunk);
        let end = if self.prefix < last { last } else { self.size };
        end.min(self.prefix.saturating_add(SPAN)).max(self.requested)
    }

    /// Waits for confirmations and not for room.
    pub(super) fn holds_back(&self, chunk: u64) -> bool {
        let end = self.request_end(chunk);
        !self.failed && self.requested >= end && end < self.size
    }
}

impl Engine {
    /// How many more channels to the target would help now. Each is to be answered by [`Engine::open_lane`] or
    /// [`Engine::lane_refused`].
    pub fn lanes_wanted(&mut self) -> usize {
        let big = self.sending.front().and_then(|&key| self.files.get(key)).is_some_and(Self::is_big);
        if self.plan.direction != Direction::Upload || !big || self.lanes.asked > 0 {
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

    /// Twice as many, if the windows of all there are were found shut.
    fn lanes_by_measure(&self, have: usize) -> usize {
        let grows =
            self.target.as_ref().is_some_and(|remote| remote.session().supports(extension::PUT_FILES));
        let long = self.lanes.rtt.is_some_and(|rtt| rtt >= LEAST_RTT);
        let all_shut = self.lanes.shut.count_ones() as usize > have;
        match (have + 1) * 2 {
            _ if grows || !long || !all_shut || self.flow.limiter.is_some() => have,
            2 => 3,
            twice => twice.min(MOST) - 1,
        }
    }

    fn tell_lanes(&mut self, channels: usize) {
        let text = match (self.options.channels, self.lanes.rtt) {
            (None, Some(rtt)) => format!(
                "uploading over {channels} channels: the server's window is shut, at a round trip of {:.1} ms",
                rtt.as_secs_f64() * 1e3
            ),
            _ => format!("uploading over {channels} channels"),
        };
        self.events.push_back(Event::Told { text });
    }

    fn is_big(file: &File) -> bool {
        let left = file.size.saturating_sub(file.requested);
        file.phase == Phase::Copying && !file.failed && !file.to_eof && left >= LEAST_LEFT
    }

    /// A further channel is open and the SFTP subsystem runs on it; returns its number, from 1.
    pub fn open_lane(&mut self) -> usize {
        let mut remote = Remote::new();
        remote.start();
        self.lanes.asked = self.lanes.asked.saturating_sub(1);
        self.lanes.shut = 0;
        self.lanes.all.push(Lane { remote, unfinished: None });
        self.lanes.all.len()
    }

    /// There is to be no further channel.
    pub fn lane_refused(&mut self) {
        self.lanes.asked = self.lanes.asked.saturating_sub(1);
        if self.lanes.most.is_none() {
            let text = "the server allows no more channels".to_owned();
            self.events.push_back(Event::Told { text });
        }
        self.lanes.most = Some(self.lanes.all.len());
    }

    /// Bytes came on a further channel.
    pub fn lane_received(&mut self, lane: usize, data: Bytes, now: Instant) {
        self.now = now;
        let Some(remote) = self.lane(lane).filter(|remote| !remote.lost()) else { return };
        remote.input(data);
        loop {
            match self.lane(lane).map(Remote::poll) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some((token, outcome)))) => {
                    self.done.push_back((token, outcome));
                    self.settle();
                }
                Some(Err(reason)) => return self.lane_lost(lane, &reason, now),
            }
        }
    }

    /// A further channel is gone. Files with bytes under way on it fail; the others go on without it.
    pub fn lane_lost(&mut self, lane: usize, reason: &str, now: Instant) {
        self.now = now;
        let Some(remote) = self.lane(lane).filter(|remote| !remote.lost()) else { return };
        let tokens = remote.fail(reason);
        if let Some(unfinished) = self.lanes.unfinished(&mut self.unfinished, lane) {
            let half_sent = unfinished.take();
            if let Some(file) = half_sent.and_then(|write| self.files.get_mut(write.key())) {
                file.mid_write -= 1;
            }
        }
        for file in self.files.values_mut() {
            if let Some(stripe) = file.stripes.get_mut(lane - 1) {
                *stripe = Stripe::Without;
            }
        }
        for token in tokens {
            let fault = Fault { kind: FaultKind::Other, text: reason.to_owned() };
            self.done.push_back((token, Err(fault)));
        }
        self.settle();
    }

    pub(super) fn lanes_lost(&mut self, reason: &str, now: Instant) {
        for lane in 1..=self.lanes.all.len() {
            self.lane_lost(lane, reason, now);
        }
    }

    /// As [`Engine::advance`], on a further channel.
    pub fn advance_lane(&mut self, lane: usize, out: &mut dyn Output, now: Instant) {
        self.now = now;
        loop {
            self.settle();
            self.stripe_front();
            self.send_stripes(lane, out);
            self.settle();
            let Some(remote) = self.lane(lane).filter(|remote| !remote.lost()) else { return };
            if remote.queued() == 0 || !remote.flush(out) {
                break;
            }
        }
        self.look_at_window(lane, out);
    }

    /// Notes that nothing can go because the server's window is shut.
    pub(super) fn look_at_window(&mut self, lane: usize, out: &mut dyn Output) {
        if out.peer_is_full() && self.room_in_flight() && lane < 64 {
            self.lanes.shut |= 1 << lane;
        }
    }

    /// What a question about a file that was asked when it was begun has taken.
    pub(super) fn note_round_trip(&mut self, asked: Instant) {
        let took = self.now.saturating_duration_since(asked);
        let shortest = self.lanes.rtt.get_or_insert(took);
        *shortest = took.min(*shortest);
    }

    fn lane(&mut self, lane: usize) -> Option<&mut Remote> {
        self.lanes.all.get_mut(lane.checked_sub(1)?).map(|lane| &mut lane.remote)
    }

    /// Opens the file whose data go next on the further channels.
    fn stripe_front(&mut self) {
        let Some(&key) = self.sending.front() else { return };
        let Some(file) = self.files.get_mut(key).filter(|file| Self::is_big(file)) else { return };
        match file.plain {
            Plain::Unknown => {
                file.plain = Plain::No;
                file.outstanding += 1;
                let path = file.written_path().to_vec();
                return self.start(Side::Target, Op::Stat(&path), Token::File(key, FileStep::IsPlain));
            }
            Plain::No => return,
            Plain::Yes => file.stripes.resize_with(self.lanes.all.len(), Stripe::default),
        }
        for (at, lane) in self.lanes.all.iter_mut().enumerate() {
            let usable = lane.remote.ready() && !lane.remote.lost();
            if usable && matches!(file.stripes[at], Stripe::Unknown) {
                file.stripes[at] = Stripe::Without;
                file.outstanding += 1;
                let token = Token::File(key, FileStep::OpenStripe { lane: at + 1 });
                // A server's sum is of one handle: of several there is none.
                file.sum = None;
                let outcome = lane.remote.perform(Op::OpenExisting(file.written_path()), token);
                self.done.extend(outcome.map(|outcome| (token, outcome)));
            }
        }
    }

    pub(super) fn plain_answer(&mut self, key: Key, outcome: Outcome) {
        if let (Some(file), Ok(Done::Info(Info { kind: Kind::File, .. }))) =
            (self.files.get_mut(key), outcome)
        {
            file.plain = Plain::Yes;
        }
    }

    /// What cannot be opened there is not striped there.
    pub(super) fn stripe_opened(&mut self, key: Key, lane: usize, outcome: Outcome) {
        let Some(file) = self.files.get_mut(key) else { return };
        if let (Some(stripe), Ok(Done::Opened(handle, _))) = (file.stripes.get_mut(lane - 1), outcome) {
            *stripe = Stripe::Open(handle);
        }
    }

    /// Closes what is open of a file on the further channels; true while answers about them are awaited.
    pub(super) fn close_stripes(&mut self, key: Key) -> bool {
        let Some(file) = self.files.get_mut(key) else { return false };
        if file.stripes.is_empty() {
            return false;
        }
        let mut closing = Vec::new();
        for (at, stripe) in file.stripes.iter_mut().enumerate() {
            if let Stripe::Open(handle) = std::mem::replace(stripe, Stripe::Without) {
                closing.push((at, handle));
            }
        }
        file.outstanding += closing.len() as u32;
        let waiting = file.outstanding > 0;
        for (at, handle) in closing {
            // What a server could not write before shows here, as on the first channel.
            let token = Token::File(key, FileStep::CloseTarget);
            let outcome =
                self.lanes.all.get_mut(at).and_then(|lane| lane.remote.perform(Op::Close(handle), token));
            self.done.extend(outcome.map(|outcome| (token, outcome)));
        }
        waiting
    }

    /// File bytes onto a further channel, as long as there is room.
    fn send_stripes(&mut self, lane: usize, out: &mut dyn Output) {
        let chunk = self.request_bytes(Side::Target);
        loop {
            self.settle();
            if !self.finish_write(lane, out) {
                return;
            }
            let Some(&key) = self.sending.front() else { return };
            let Some(file) = self.files.get(key) else { return };
            let left = file.request_end(chunk).saturating_sub(file.requested);
            if file.failed || file.all_requested || left == 0 || file.target_on(lane).is_none() {
                return;
            }
            if !self.within_rate() || !self.room_in_flight() {
                return;
            }
            let Some(remote) = self.lane(lane).filter(|remote| !remote.lost()) else { return };
            if !remote.flush(out) {
                return;
            }
            match self.write_from_file(key, lane, left.min(chunk) as usize, out) {
                Some(sent) => self.sent_file_data(key, sent),
                None => return,
            }
        }
    }
}
