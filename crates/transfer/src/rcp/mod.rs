//! The protocol `scp` spoke before SFTP, and speaks with `-O`: that of rcp(1) of 4.3BSD.
//!
//! One side is the *source*, the other the *sink*; which is which was settled on the command line of the
//! remote `scp` (`-f` or `-t`). They take turns: the source sends a record and waits until the sink has
//! acknowledged it. A file costs several round trips, so SFTP is to be preferred; some devices have nothing
//! else.
//!
//! Both are state machines without sockets, as the [engine](crate::Engine) is. A client runs them on a
//! channel ([`Handler`]), the remote side on its standard input and output ([`run`]).
//!
//! What the remote side may do to the local one has a history, and the [`Sink`] takes none of it: names that
//! lead out of the target, names that were not asked for, directories without `-r`, sizes and lines without
//! end.

mod channel;
mod inbox;
mod receiving;
mod record;
mod relay;
mod request;
mod sink;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod violation;

use std::time::Instant;

use bytes::Bytes;
use lh_wire::Output;

use crate::Current;

#[cfg(fuzzing)]
pub(crate) use record::fuzz as fuzz_record;

pub use channel::{Handler, Outcome, Report};
pub use relay::{Peer, RelayError, relay};
pub use request::Request;
pub use sink::Sink;
pub use source::Source;
pub use stream::run;
pub use violation::{Field, Violation};

/// How to copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Directories too (`-r`).
    pub recursive: bool,
    /// Times and modes too (`-p`).
    pub preserve: bool,
    /// The target must be a directory (`-d`); for a sink.
    pub target_must_be_dir: bool,
    /// This is the remote side: failures are reported to the peer only.
    pub remote_side: bool,
    /// At most this many bits per second.
    pub bits_per_second: Option<u64>,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file is complete.
    FileDone {
        /// Identifies the file, as in [`RcpRole::current`].
        id: u64,
        /// Its path at this side.
        path: Vec<u8>,
        /// Its name at the peer.
        name: Vec<u8>,
        /// Bytes copied.
        size: u64,
        /// When its data began to move.
        started: Instant,
    },
    /// A file was not copied, or not all of it. For usage records: the message for the user is a
    /// [`Failed`](Self::Failed) event.
    FileFailed {
        /// Its path at this side.
        path: Vec<u8>,
        /// Bytes of the file that were copied before the failure.
        moved: u64,
        /// When its turn came.
        started: Instant,
        /// What went wrong.
        why: String,
    },
    /// A file of this side was written to while it was copied.
    Changed {
        /// Its path.
        path: Vec<u8>,
        /// Message for the user.
        text: String,
    },
    /// Something failed at this side or at the peer: a line to show the user as it is. Control characters are
    /// escaped already.
    Failed(String),
    /// Shown with `-v`.
    Debug(String),
}

/// A source or a sink.
pub trait RcpRole: Send {
    /// Bytes came from the peer.
    fn received(&mut self, data: Bytes, now: Instant);

    /// Nothing more will come from the peer.
    fn closed(&mut self);

    /// The peer takes nothing more. What a sink has not acknowledged by then is of no use to a source that
    /// has gone: its files are complete all the same.
    fn refused(&mut self) {}

    /// Does what can be done now and sends what can be sent.
    fn advance(&mut self, out: &mut dyn Output, now: Instant);

    /// What has happened since the last call; call until `None`.
    fn poll_event(&mut self) -> Option<Event>;

    /// The file whose data move.
    fn current(&self) -> Option<Current<'_>>;

    /// Nothing is left to do or to send.
    fn is_finished(&self) -> bool;

    /// When [`advance`](Self::advance) wants to be called although nothing has come: a rate limit.
    fn next_deadline(&self) -> Option<Instant>;

    /// Returns the number of failures so far. The exit status is 1 if there was any, or if the role has not
    /// [finished](Self::is_finished).
    fn failures(&self) -> u64;
}

/// Bytes that wait to be sent.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// Nobody takes it: it is thrown away.
    is_closed: bool,
}

impl Outbox {
    fn push(&mut self, bytes: &[u8]) {
        if !self.is_closed {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn close(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.is_closed = true;
    }

    fn is_empty(&self) -> bool {
        self.sent >= self.bytes.len()
    }

    /// Sends what the peer takes; true when nothing is left.
    fn flush(&mut self, out: &mut dyn Output) -> bool {
        while self.sent < self.bytes.len() {
            let rest = self.bytes.get(self.sent..).unwrap_or_default();
            let want = out.budget().min(rest.len());
            let taken = if want == 0 { 0 } else { out.send(&rest[..want]) };
            if taken == 0 {
                return false;
            }
            self.sent += taken;
        }
        self.bytes.clear();
        self.sent = 0;
        true
    }
}
