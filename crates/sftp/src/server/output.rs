//! Where replies go, and those that could not go yet.

use std::io::IoSliceMut;

/// The sending half of a channel, as the engine sees it.
pub trait Output {
    /// How many bytes [`Output::send`] and [`Output::send_in_place`] would take now: what the peer's window has
    /// left, or 0 while the queue towards the socket is too long. Not the smaller of the two: a reply that fits
    /// the window should go in place even if it makes the queue a little longer.
    fn budget(&mut self) -> usize;

    /// Sends bytes; returns how many were taken, from the start.
    fn send(&mut self, data: &[u8]) -> usize;

    /// Sends up to `want` bytes that `fill` writes where they are sealed and sent from. `want` is at most
    /// [`Output::budget`]. `fill` gets slices of `want` bytes together and returns how many it used, from the
    /// start; at 0 nothing is sent. Returns what `fill` returned. `fill` must be called at most once, and when
    /// it is not (no room after all), 0 is returned.
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
