//! The remote end of each channel: which one takes the next request.

use std::time::Instant;

use lh_wire::Output;

use crate::Direction;
use crate::end::Op;
use crate::engine::{Engine, QUEUE_LIMIT};
use crate::flow::most_on_a_channel;
use crate::remote::Remote;
use crate::token::{Side, Token};

impl Engine {
    /// The remote end of channel number `channel` of that end.
    pub(in crate::engine) fn remote_on(&mut self, channel: usize) -> Option<&mut Remote> {
        match self.plan.direction {
            Direction::Download => self.channels.remote(&mut self.ends.source, channel),
            Direction::Upload | Direction::Relay => self.channels.remote(&mut self.ends.target, channel),
        }
    }

    /// The remote end of channel number `channel` of the end `side`.
    pub(in crate::engine) fn remote_of(&mut self, side: Side, channel: usize) -> Option<&mut Remote> {
        if channel == 0 { self.ends.remote(side) } else { self.channels.channel(channel) }
    }

    /// Bytes of requests that wait to be sent on channel number `channel`; 0 is the first one.
    pub(crate) fn channel_queue(&mut self, channel: usize) -> usize {
        self.remote_on(channel).map_or(0, |remote| remote.queued())
    }

    /// Notes that nothing can go because the server's window is shut, or has as many requests as it may.
    pub(in crate::engine) fn look_at_window(&mut self, channel: usize, out: &mut dyn Output) {
        let full = match self.plan.direction {
            Direction::Download => self.options.max_requests.is_none() && self.channel_is_full(channel),
            Direction::Upload | Direction::Relay => out.peer_is_full() && self.room_in_flight(),
        };
        if full && channel < 64 {
            self.channels.shut |= 1 << channel;
        }
    }

    /// As many requests are on their way on this channel as its server is good for.
    pub(in crate::engine) fn channel_is_full(&mut self, channel: usize) -> bool {
        self.remote_on(channel).is_some_and(|remote| {
            remote.awaited() >= most_on_a_channel(remote.session().takes_many_requests())
        })
    }

    /// The channel with the least on its way.
    pub(in crate::engine) fn idlest_channel(&self) -> usize {
        let first = match self.plan.side_with_channels() {
            Side::Source => &self.ends.source,
            Side::Target => &self.ends.target,
        };
        let laden = |remote: &Remote| (remote.queued() > QUEUE_LIMIT, remote.awaited());
        let additional = self.channels.all.iter().enumerate().map(|(at, channel)| (at + 1, &channel.remote));
        let all = first.iter().map(|remote| (0, remote)).chain(additional);
        let usable = all.filter(|(channel, remote)| *channel == 0 || (remote.ready() && !remote.lost()));
        usable.min_by_key(|(_, remote)| laden(remote)).map_or(0, |(channel, _)| channel)
    }

    /// Bytes of requests that wait to be sent there.
    pub(in crate::engine) fn idlest_queue(&mut self) -> usize {
        let channel = self.idlest_channel();
        self.channel_queue(channel)
    }

    /// What one of several channels may have on its way, so that all have something to do; any number where there is one.
    pub(in crate::engine) fn channel_has_space(&mut self, channel: usize, chunk: u64) -> bool {
        let channels = self.channels.channels_up();
        if channels < 2 {
            return true;
        }
        let most = self.flow.share(chunk, self.max_requests(), channels);
        self.remote_on(channel).is_some_and(|remote| (remote.awaited() as u64) < most)
    }

    /// What a question about a file has taken that was asked of the end `side` then.
    pub(in crate::engine) fn note_round_trip(&mut self, side: Side, asked: Instant) {
        if self.ends.remote(side).is_none() {
            // An end that is here says nothing about the path.
            return;
        }
        let took = self.progress.now.saturating_duration_since(asked);
        self.flow.round_trip(took);
        let shortest = self.channels.rtt.get_or_insert(took);
        *shortest = took.min(*shortest);
    }

    /// Starts an operation on channel number `channel`.
    pub(in crate::engine) fn perform_on(&mut self, channel: usize, op: Op<'_>, token: Token) {
        let outcome = self.remote_on(channel).and_then(|remote| remote.perform(op, token));
        self.ends.answer_if_known(token, outcome);
    }
}
