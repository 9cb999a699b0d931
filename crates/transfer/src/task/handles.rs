//! The handles of a file: of both ends, and on additional channels.

use crate::end::Handle;
use crate::token::Side;

/// Limit of how far requests may be ahead of the data confirmed without a gap, in a file that uses several
/// channels.
pub(crate) const SPAN: u64 = 32 << 20;

/// Less than this is not worth opening a file several times.
pub(crate) const LEAST_LEFT: u64 = 8 << 20;

/// State of a file on one of the additional channels.
#[derive(Debug, Default)]
pub(crate) enum OnChannel {
    #[default]
    Unknown,
    /// Being opened, not to be had, or closed.
    Without,
    /// The server refused it with this many files open, possibly for that reason: open it again with fewer.
    Refused(usize),
    /// Being opened for the second time.
    Again,
    Open(Handle),
}

impl OnChannel {
    /// Returns what it becomes when it is opened now, while `open` files are; `None` where it is not to be
    /// opened.
    pub(crate) const fn opening(&self, open: usize) -> Option<Self> {
        match *self {
            Self::Unknown => Some(Self::Without),
            Self::Refused(at) if open <= at / 2 || open <= 1 => Some(Self::Again),
            _ => None,
        }
    }
}

/// Whether the target is a plain file, so that it may use several channels.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plain {
    #[default]
    Unknown,
    /// Not, or not known yet.
    No,
    Yes,
}

/// Open handles of a file.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    pub(crate) source: Option<Handle>,
    pub(crate) target: Option<Handle>,
    /// Size of the target when it was opened, where that is known (local); `None` also for what has no size.
    pub(crate) old_size: Option<u64>,
    /// Bytes that the target had when it was opened to be continued: a failure leaves it no shorter.
    pub(crate) least: u64,
    /// Size of the target or part file, as the server told it before an OPEN that does not empty the file.
    pub(crate) told: u64,
    pub(crate) plain: Plain,
    /// By number of the additional channel, less one; empty while there is none.
    pub(crate) on_channels: Vec<OnChannel>,
    /// It has been opened on one of them to find out what that does.
    pub(crate) reopens: bool,
}

impl Handles {
    /// The channel on which its target is open: one of several for a small file, else the first.
    pub(crate) fn home(&self) -> usize {
        self.target.as_ref().map_or(0, Handle::channel)
    }

    /// The handle at one end, on the first channel or that of a small file.
    pub(crate) const fn at(&self, side: Side) -> Option<&Handle> {
        match side {
            Side::Source => self.source.as_ref(),
            Side::Target => self.target.as_ref(),
        }
    }

    /// The handle on channel number `channel`, of the end that has several.
    pub(crate) fn on_channel(&self, side: Side, channel: usize) -> Option<&Handle> {
        if let Some(handle) = self.at(side).filter(|handle| handle.channel() == channel) {
            return Some(handle);
        }
        match self.on_channels.get(channel.checked_sub(1)?)? {
            OnChannel::Open(handle) => Some(handle),
            _ => None,
        }
    }
}
