//! The additional channels of a copy.

pub(crate) mod unfinished;

use std::time::Duration;

use crate::additional::Connections;
use crate::channels::unfinished::Unfinished;
use crate::remote::Remote;
use crate::table::Key;

/// Less than this is not worth opening a file several times.
pub(crate) const LEAST_LEFT: u64 = 8 << 20;

/// What a channel has to do; see [`crate::Engine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) front: Option<Key>,
    pub(crate) files: usize,
    pub(crate) room: bool,
    pub(crate) held_back: bool,
    pub(crate) again: bool,
}

/// An additional channel to the remote end, and what is half sent on it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) remote: Remote,
    pub(crate) unfinished: Option<Unfinished>,
}

/// The additional channels of a copy, and the decision about additional connections.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    pub(crate) all: Vec<Lane>,
    /// Asked for and not yet heard of.
    pub(crate) asked: usize,
    /// Channels there may be, further ones only.
    pub(crate) most: Option<usize>,
    /// Channels whose window was found shut since there are so many, by number.
    pub(crate) shut: u64,
    /// The shortest round trip.
    pub(crate) rtt: Option<Duration>,
    pub(crate) connections: Connections,
}

impl Channels {
    /// On each of them.
    pub(crate) fn open_one_at_a_time(&mut self) {
        self.all.iter_mut().for_each(|lane| lane.remote.open_one_at_a_time());
    }

    /// How many there are, those that are gone included.
    pub(crate) const fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn clear_unfinished(&mut self) {
        for lane in &mut self.all {
            lane.unfinished = None;
        }
    }

    /// The remote end of channel `lane`; 0 is the first one.
    pub(crate) fn remote<'a>(
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
    pub(crate) fn unfinished<'a>(
        &'a mut self,
        first: &'a mut Option<Unfinished>,
        lane: usize,
    ) -> Option<&'a mut Option<Unfinished>> {
        match lane.checked_sub(1) {
            None => Some(first),
            Some(at) => self.all.get_mut(at).map(|lane| &mut lane.unfinished),
        }
    }

    /// The channels that are in use.
    pub(crate) fn channels_up(&self) -> usize {
        1 + self.all.iter().filter(|lane| lane.remote.ready() && !lane.remote.lost()).count()
    }

    pub(crate) fn lane(&mut self, lane: usize) -> Option<&mut Remote> {
        self.all.get_mut(lane.checked_sub(1)?).map(|lane| &mut lane.remote)
    }
}
