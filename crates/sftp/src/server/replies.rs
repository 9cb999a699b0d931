//! Replies that wait to be sent.

use lh_wire::{Output, Reservation};

use crate::protocol::MAX_DATA;
use crate::{ReplyWriter, StatusCode};

/// Number of bytes of waiting replies above which no further request is served.
pub(super) const MAX_PENDING: usize = 64 * 1024;

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Encoded replies; the bytes from `sent` on wait to be sent.
    pending: Vec<u8>,
    sent: usize,
    /// The current request was answered with PERMISSION_DENIED, and this is not recorded yet.
    pub(super) denied: bool,
}

impl Replies {
    /// Returns true when no replies wait to be sent.
    pub(super) const fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the number of bytes that wait to be sent.
    pub(super) const fn waiting(&self) -> usize {
        self.pending.len() - self.sent
    }

    /// Sends waiting replies.
    pub(super) fn flush(&mut self, output: &mut dyn Output) {
        while let Some(rest) = self.pending.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match output.send(rest) {
                0 => return,
                n => self.sent += n,
            }
        }
        self.pending.clear();
        // Keep the memory of one of the largest replies, instead of allocating it for each reply.
        self.pending.shrink_to(MAX_DATA + 2 * MAX_PENDING);
        self.sent = 0;
    }

    /// Returns a writer that appends replies.
    pub(super) const fn writer(&mut self) -> ReplyWriter<'_> {
        ReplyWriter(&mut self.pending)
    }

    /// Reserves space for a reply of `len` bytes.
    pub(super) fn reserve(&mut self, len: usize) -> Option<Reservation<'_>> {
        Output::reserve(&mut self.pending, len)
    }

    /// Appends STATUS.
    pub(super) fn status(&mut self, id: u32, code: StatusCode, text: &str) {
        self.denied |= code == StatusCode::PERMISSION_DENIED;
        self.writer().status(id, code, text);
    }

    /// Takes the waiting replies out, while a reply is built that needs the whole server.
    /// [`Replies::put_back`] ends this.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Puts the waiting replies back, before those added meanwhile.
    pub(super) fn put_back(&mut self, mut pending: Vec<u8>) {
        pending.append(&mut self.pending);
        self.pending = pending;
    }
}
