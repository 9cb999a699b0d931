//! Requests that wait to be sent.

use lh_sftp::Session;
use lh_wire::Output;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Requests in order; the first `sent` bytes are gone.
    pub(super) queue: Vec<u8>,
    sent: usize,
    /// End of the half-sent request in `queue`.
    request_end: usize,
    /// Part of a WRITE is sent; only its rest may follow.
    mid_message: bool,
    /// The channel has taken something since [`take_progress`](Self::take_progress).
    progress: bool,
}

impl Outgoing {
    /// Bytes of requests that are not sent.
    pub(super) fn queued(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Returns true when nothing is to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.queued() == 0 && !self.mid_message
    }

    /// Returns true while part of a WRITE is sent.
    pub(super) const fn mid_message(&self) -> bool {
        self.mid_message
    }

    /// A WRITE begins or ends.
    pub(super) const fn set_mid_message(&mut self, mid_message: bool) {
        (self.mid_message, self.progress) = (mid_message, true);
    }

    /// Returns true where the channel has taken something since the last call.
    pub(super) const fn take_progress(&mut self) -> bool {
        std::mem::replace(&mut self.progress, false)
    }

    /// Sends requests, as far as the channel takes them; true when nothing is left. `many`: one packet may
    /// have several.
    pub(super) fn flush(&mut self, many: bool, out: &mut dyn Output) -> bool {
        if self.mid_message {
            return false;
        }
        while self.sent < self.queue.len() {
            if self.request_end <= self.sent {
                self.request_end = self.sent + Session::first_message(&self.queue[self.sent..]);
            }
            let end = if many { self.queue.len() } else { self.request_end };
            let want = out.budget().min(end - self.sent);
            let taken = if want == 0 { 0 } else { out.send(&self.queue[self.sent..self.sent + want]) };
            if taken == 0 {
                // Keep the front from growing without bound while the window is shut.
                if self.sent > 64 * 1024 {
                    self.queue.drain(..self.sent);
                    self.request_end = self.request_end.saturating_sub(self.sent);
                    self.sent = 0;
                }
                return false;
            }
            self.sent += taken;
            self.progress = true;
        }
        self.queue.clear();
        (self.sent, self.request_end) = (0, 0);
        true
    }
}
