//! Where replies go, and those that could not go yet.

use std::io::IoSliceMut;

/// The sending half of a channel, as the engine sees it.
///
/// Who implements it sees to it that [`super::Server::poll`] is called again when there is more room than the
/// last call of any of these methods found.
pub trait Output {
    /// How many bytes may be sent now: what the peer's window has left, or 0 while the queue towards the socket
    /// is too long. Not the smaller of the two: a reply that fits the window should go in place even if
    /// it makes the queue a little longer, while one that does not fit costs a copy.
    fn budget(&mut self) -> usize;

    /// Sends bytes; returns how many were taken, from the start.
    fn send(&mut self, data: &[u8]) -> usize;

    /// Sends up to `want` bytes (at most [`Output::budget`]) that `fill` writes where they are sealed and sent
    /// from. `fill` gets slices of `want` bytes together, or of less where one call cannot lay out so much, and
    /// returns how many bytes it used, from the start; at 0 nothing is sent. Returns what `fill`
    /// returned, or 0 when there was no room after all and `fill` was not called. It is never called twice.
    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize;
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
