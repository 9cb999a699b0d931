//! The additional channels of a copy, and what decides about them.
//!
//! | module | what |
//! |---|---|
//! | [`data_channels`] | the channels themselves |
//! | [`homes`] | small files, each on one of them |
//! | [`reopening`] | what another OPEN does to a file that is being written |
//! | [`spread`] | one file on several channels |
//! | [`unfinished`] | a WRITE that is half sent on one |
//! | [`wanted`] | how many there are to be |

pub(crate) mod data_channels;
pub(crate) mod homes;
pub(crate) mod reopening;
pub(crate) mod spread;
pub(crate) mod unfinished;
pub(crate) mod wanted;

use std::time::Duration;

use crate::additional::Connections;
use crate::channels::reopening::Reopening;
use crate::table::Key;

/// Work of a channel in its next turn; see [`crate::Engine`].
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

/// State that decides about additional channels and connections of a copy.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// Asked for, and neither open nor refused yet.
    asked: usize,
    /// Additional channels there may be.
    most: Option<usize>,
    /// Channels whose window was found shut since the last one was opened, by number.
    shut: u64,
    /// The shortest round trip.
    rtt: Option<Duration>,
    /// Others share the connection, and the sessions that its server permits.
    pub(crate) shared: bool,
    pub(crate) reopening: Reopening,
    pub(crate) connections: Connections,
}

impl Channels {
    /// An additional channel is open.
    pub(crate) const fn on_opened(&mut self) {
        self.asked = self.asked.saturating_sub(1);
        self.shut = 0;
    }

    /// There is to be none beyond the `have` that there are. Returns true the first time.
    pub(crate) const fn refused(&mut self, have: usize) -> bool {
        self.asked = self.asked.saturating_sub(1);
        self.most.replace(have).is_none()
    }

    /// The window of channel number `channel` is shut, or as many requests are on their way there as its
    /// server is good for.
    pub(crate) const fn note_full(&mut self, channel: usize) {
        if channel < 64 {
            self.shut |= 1 << channel;
        }
    }

    /// Takes in the round-trip time of a request about a file.
    pub(crate) fn round_trip(&mut self, took: Duration) {
        let shortest = self.rtt.get_or_insert(took);
        *shortest = took.min(*shortest);
    }
}
