//! Replies that cannot be sent yet.

use lh_wire::{Output, Reservation};

/// Replies for a pipe, with a limit of the bytes that wait. The owner of the pipe writes [`Backlog::rest`]
/// and reports the written bytes with [`Backlog::advance`].
#[derive(Debug)]
pub struct Backlog {
    bytes: Vec<u8>,
    /// Bytes at the front that have been written.
    sent: usize,
    most: usize,
}

impl Backlog {
    /// Returns an empty backlog with a limit of `most` bytes.
    pub const fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), sent: 0, most }
    }

    /// Changes the limit to `most` bytes. Waiting bytes stay, even beyond the limit.
    pub const fn set_bound(&mut self, most: usize) {
        self.most = most;
    }

    /// Moves the waiting bytes of `other` to the end of this backlog, without regard to the limit.
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

    /// Returns the waiting bytes.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Returns true when no bytes wait.
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
            // Otherwise a backlog that never becomes empty would keep all written bytes.
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

    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
        let want = want.min(self.budget());
        if want == 0 { None } else { Output::reserve(&mut self.bytes, want) }
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
        assert!(backlog.reserve(4).is_none());
        assert_eq!(backlog.rest(), b"gh01234567");
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
