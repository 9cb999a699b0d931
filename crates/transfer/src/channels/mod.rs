//! The additional channels of a copy.

pub(crate) mod unfinished;
pub(crate) mod wanted;

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
    /// The file is to be opened once more now, to find out what that does.
    pub(crate) reopens: bool,
}

/// Whether the server leaves a file as it is that OPEN opens once more to write to it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reopening {
    #[default]
    Unknown,
    /// Being found out with this file; no file bytes are sent meanwhile.
    Asking(Key),
    Keeps,
    /// It empties the file, or permits no second OPEN.
    Never,
}

/// An additional channel to the remote end, and what is half sent on it.
#[derive(Debug)]
pub(crate) struct AdditionalChannel {
    pub(crate) remote: Remote,
    pub(crate) unfinished: Option<Unfinished>,
}

/// The additional channels of a copy, and the decision about additional connections.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    pub(crate) all: Vec<AdditionalChannel>,
    /// Asked for, and neither open nor refused yet.
    pub(crate) asked: usize,
    /// Additional channels there may be.
    pub(crate) most: Option<usize>,
    /// Channels whose window was found shut since the last one was opened, by number.
    pub(crate) shut: u64,
    /// The shortest round trip.
    pub(crate) rtt: Option<Duration>,
    pub(crate) reopening: Reopening,
    pub(crate) connections: Connections,
}

impl Channels {
    /// On each of them.
    pub(crate) fn open_one_at_a_time(&mut self) {
        self.all.iter_mut().for_each(|channel| channel.remote.open_one_at_a_time());
    }

    /// How many there are, those that are gone included.
    pub(crate) const fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn clear_unfinished(&mut self) {
        for channel in &mut self.all {
            channel.unfinished = None;
        }
    }

    /// The remote end of channel number `channel`; 0 is the first one.
    pub(crate) fn remote<'a>(
        &'a mut self,
        first: &'a mut Option<Remote>,
        channel: usize,
    ) -> Option<&'a mut Remote> {
        match channel.checked_sub(1) {
            None => first.as_mut(),
            Some(at) => self.all.get_mut(at).map(|channel| &mut channel.remote),
        }
    }

    /// The place for what is half sent on channel number `channel`.
    pub(crate) fn unfinished<'a>(
        &'a mut self,
        first: &'a mut Option<Unfinished>,
        channel: usize,
    ) -> Option<&'a mut Option<Unfinished>> {
        match channel.checked_sub(1) {
            None => Some(first),
            Some(at) => self.all.get_mut(at).map(|channel| &mut channel.unfinished),
        }
    }

    /// The channels that are in use.
    pub(crate) fn channels_up(&self) -> usize {
        1 + self.all.iter().filter(|channel| channel.remote.ready() && !channel.remote.lost()).count()
    }

    pub(crate) fn channel(&mut self, channel: usize) -> Option<&mut Remote> {
        self.all.get_mut(channel.checked_sub(1)?).map(|channel| &mut channel.remote)
    }
}
