//! The sending half of a channel, as the producers of its data see it.

use crate::Slices;

/// The sending half of a channel, or of a pipe in its place.
///
/// Bulk data takes three steps: [`reserve`](Self::reserve) memory of the packets to be sent, fill
/// [`Reservation::slices`], and [`commit`](Reservation::commit) the bytes that were filled. A file is read
/// into the memory in which it is sealed and from which it is sent.
///
/// The owner calls the producer again once more bytes can be sent than the latest call of these methods
/// reported.
pub trait Output {
    /// Returns the number of bytes of bulk that may be produced now: 0 while the queue towards the socket is
    /// too long, and never more than [`window`](Self::window).
    fn budget(&mut self) -> usize;

    /// Returns the number of bytes that the peer takes now. A message that is begun while
    /// [`budget`](Self::budget) is above 0 may use all of it. Sending it at once makes the queue a little
    /// longer than the budget allows, but keeping it for later would cost a copy.
    fn window(&mut self) -> usize {
        self.budget()
    }

    /// Sends bytes. Returns the number of bytes taken, from the start.
    fn send(&mut self, data: &[u8]) -> usize;

    /// Reserves memory for up to `want` bytes (at most [`window`](Self::window)), or for less where one call
    /// cannot lay out so much. `None` when nothing can be sent.
    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>>;

    /// Returns true when nothing can be sent because the peer's window is used up, where the output knows the
    /// reason.
    fn peer_is_full(&mut self) -> bool {
        false
    }
}

/// Memory of an [`Output`] for data that is not sent yet. Dropped without [`commit`](Self::commit), it sends
/// nothing.
#[must_use = "nothing is sent before `commit`"]
pub struct Reservation<'a> {
    memory: &'a mut dyn Reserved,
    total: usize,
    committed: bool,
}

impl<'a> Reservation<'a> {
    /// Lends `total` bytes that `memory` has reserved; for implementers of [`Output`].
    pub fn new(memory: &'a mut dyn Reserved, total: usize) -> Self {
        Self { memory, total, committed: false }
    }

    /// Returns the memory, to be filled from its start.
    pub fn slices(&mut self) -> Slices<'_> {
        self.memory.slices(self.total)
    }

    /// Returns the length of the memory, bytes.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Sends the first `used` bytes; 0 sends nothing. Returns the number of bytes sent, which is smaller only
    /// for an output that has failed.
    pub fn commit(mut self, used: usize) -> usize {
        self.committed = true;
        self.memory.commit(self.total, used.min(self.total))
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.committed {
            self.memory.commit(self.total, 0);
        }
    }
}

/// The part of an [`Output`] that a [`Reservation`] uses. Each call gets the `total` bytes reserved.
pub trait Reserved {
    /// Returns the reserved memory.
    fn slices(&mut self, total: usize) -> Slices<'_>;

    /// Ends the reservation and sends its first `used` bytes. Returns the number of bytes sent.
    fn commit(&mut self, total: usize, used: usize) -> usize;
}

/// An unlimited output, for tests and for owners that have a buffer of their own. Reserved memory is the end
/// of the vector.
impl Output for Vec<u8> {
    fn budget(&mut self) -> usize {
        usize::MAX
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.extend_from_slice(data);
        data.len()
    }

    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
        self.resize(self.len() + want, 0);
        Some(Reservation::new(self, want))
    }
}

impl Reserved for Vec<u8> {
    fn slices(&mut self, total: usize) -> Slices<'_> {
        let start = self.len().saturating_sub(total);
        self.get_mut(start..).into_iter().collect()
    }

    fn commit(&mut self, total: usize, used: usize) -> usize {
        self.truncate(self.len().saturating_sub(total) + used);
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_sends_what_is_committed() {
        let mut output = b"before".to_vec();
        let mut reservation = Output::reserve(&mut output, 10).unwrap();
        assert_eq!(reservation.total(), 10);
        assert_eq!(reservation.slices().put(b"0123456789"), 10);
        assert_eq!(reservation.commit(4), 4);
        drop(Output::reserve(&mut output, 10));
        let reservation = Output::reserve(&mut output, 1).unwrap();
        assert_eq!(reservation.commit(2), 1);
        assert_eq!(output, b"before0123\0");
    }
}
