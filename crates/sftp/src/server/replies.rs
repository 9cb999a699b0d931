//! Replies that wait to be sent.

use lh_wire::{Output, Reservation};

use crate::protocol::MAX_DATA;
use crate::{ReplyWriter, StatusCode};

/// While more than this many bytes of replies wait for the client, no further request is served.
pub(super) const MAX_PENDING: usize = 64 * 1024;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Those from `sent` on wait to be sent.
    pending: Vec<u8>,
    sent: usize,
    /// The present request was answered with PERMISSION_DENIED, and nothing records it yet.
    pub(super) denied: bool,
}

impl Replies {
    /// True when nothing waits to be sent.
    pub(super) const fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes that wait to be sent.
    pub(super) const fn waiting(&self) -> usize {
        self.pending.len() - self.sent
    }

    /// Sends replies that wait.
    pub(super) fn flush(&mut self, output: &mut dyn Output) {
        while let Some(rest) = self.pending.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match output.send(rest) {
                0 => return,
                n => self.sent += n,
            }
        }
        self.pending.clear();
        // Memory for one of the largest replies is kept, so that it is not allocated for each reply.
        self.pending.shrink_to(MAX_DATA + 2 * MAX_PENDING);
        self.sent = 0;
    }

    /// Returns the writer of replies.
    pub(super) const fn writer(&mut self) -> ReplyWriter<'_> {
        ReplyWriter(&mut self.pending)
    }

    /// Space for a reply of `len` bytes.
    pub(super) fn reserve(&mut self, len: usize) -> Option<Reservation<'_>> {
        Output::reserve(&mut self.pending, len)
    }

    /// Appends STATUS.
    pub(super) fn status(&mut self, id: u32, code: StatusCode, text: &str) {
        self.denied |= code == StatusCode::PERMISSION_DENIED;
        self.writer().status(id, code, text);
    }

    /// Takes the replies out while one is built that needs the server, for [`Replies::put_back`].
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Puts the replies back, in front of those that came meanwhile.
    pub(super) fn put_back(&mut self, mut pending: Vec<u8>) {
        pending.append(&mut self.pending);
        self.pending = pending;
    }
}
