//! The destination of replies, and replies that cannot be sent yet.

use std::io::IoSliceMut;

/// The sending half of a channel, as the engine sees it.
///
/// Implementers call [`super::Server::poll`] again when more can be sent than the last call of any of these
/// methods found.
pub trait Output {
    /// How many bytes may be sent now: what the peer's window has left, or 0 while the queue towards the
    /// socket is too long. Not the smaller of the two: a reply that fits the window should go in place even
    /// if it makes the queue a little longer, while one that does not fit costs a copy.
    fn budget(&mut self) -> usize;

    /// Sends bytes; returns how many were taken, from the start.
    fn send(&mut self, data: &[u8]) -> usize;

    /// Sends up to `want` bytes (at most [`Output::budget`]) that `fill` writes where they are sealed and
    /// sent from. `fill` gets slices of `want` bytes together, or of less where one call cannot lay out so
    /// much, and returns how many bytes it used, from the start; at 0 nothing is sent. Returns what `fill`
    /// returned, or 0 when nothing could be sent after all and `fill` was not called. `fill` is called at
    /// most once.
    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize;

    /// Returns true when nothing can be sent because the peer's window is used up, where the channel knows
    /// the reason.
    fn peer_is_full(&mut self) -> bool {
        false
    }
}

/// An unlimited output, for tests and for owners that have a buffer of their own.
impl Output for Vec<u8> {
    fn budget(&mut self) -> usize {
        usize::MAX
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.extend_from_slice(data);
        data.len()
    }

    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize {
        let start = self.len();
        self.resize(start + want, 0);
        let used = fill(&mut [IoSliceMut::new(self.get_mut(start..).unwrap_or_default())]);
        self.truncate(start + used);
        used
    }
}

/// Replies that wait for a pipe: an output with a bound. The owner of the pipe writes [`Backlog::rest`] and
/// reports the written bytes with [`Backlog::advance`].
#[derive(Debug)]
pub struct Backlog {
    bytes: Vec<u8>,
    /// Bytes at the front that have been written.
    sent: usize,
    most: usize,
}

impl Backlog {
    /// Holds up to `most` bytes.
    pub const fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), sent: 0, most }
    }

    /// Changes the bound to `most` bytes. Bytes that wait already stay, even beyond the bound.
    pub const fn set_bound(&mut self, most: usize) {
        self.most = most;
    }

    /// Appends what waits in `other`, without regard to the bound.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(&mut self.bytes, &mut other.bytes);
            std::mem::swap(&mut self.sent, &mut other.sent);
        } else {
            self.bytes.extend_from_slice(other.rest());
        }
        other.bytes.clear();
        other.sent = 0;
    }

    /// What waits.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// True when nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Records that `count` more bytes have been written.
    pub fn advance(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.bytes.len());
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > self.most / 2 {
            // A backlog that never empties would keep its sent bytes for ever.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

impl Output for Backlog {
    fn budget(&mut self) -> usize {
        self.most.saturating_sub(self.rest().len())
    }

    fn send(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.budget());
        self.bytes.extend_from_slice(data.get(..taken).unwrap_or_default());
        taken
    }

    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize {
        let want = want.min(self.budget());
        if want == 0 { 0 } else { self.bytes.send_in_place(want, fill) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_keeps_order_and_bound() {
        let mut backlog = Backlog::new(10);
        assert_eq!(backlog.send(b"abcdefgh"), 8);
        backlog.advance(6);
        assert_eq!(backlog.budget(), 8);
        assert_eq!(backlog.rest(), b"gh");
        assert_eq!(backlog.send(b"0123456789"), 8);
        let sent = backlog.send_in_place(4, &mut |_| 4);
        assert_eq!((sent, backlog.rest()), (0, &b"gh01234567"[..]));
        backlog.advance(10);
        assert!(backlog.is_empty() && backlog.budget() == 10);
    }

    #[test]
    fn an_appended_backlog_keeps_order() {
        let (mut first, mut second) = (Backlog::new(10), Backlog::new(10));
        second.send(b"xab");
        second.advance(1);
        first.append(&mut second);
        assert!(second.is_empty());
        second.send(b"cd");
        first.append(&mut second);
        assert_eq!(first.budget(), 6);
        assert_eq!(first.rest(), b"abcd");
        first.set_bound(3);
        assert_eq!(first.budget(), 0);
        assert_eq!(first.rest(), b"abcd");
    }
}
