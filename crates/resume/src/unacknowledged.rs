//! Sent messages that the peer has not acknowledged.

use std::collections::VecDeque;

/// A count from the peer that is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// The peer acknowledges messages that were not sent.
    #[error("peer acknowledges {count} messages, {sent} were sent")]
    NotSent {
        /// The peer's count.
        count: u64,
        /// Number of messages sent.
        sent: u64,
    },
    /// The peer takes back an acknowledgement.
    #[error("peer acknowledges {count} messages after {acknowledged}")]
    TakenBack {
        /// The peer's count.
        count: u64,
        /// The peer's largest count before.
        acknowledged: u64,
    },
}

/// The counted messages of one direction, from the first that the peer has not acknowledged.
///
/// Messages are numbered from 0 over the whole session. `T` is the data needed to send a message again.
#[derive(Debug)]
pub struct Unacknowledged<T> {
    /// Entries with the number of bytes that each keeps in memory, oldest first.
    entries: VecDeque<(T, usize)>,
    /// Number of messages that the peer has acknowledged: the number of the first entry.
    acknowledged: u64,
    bytes: usize,
}

impl<T> Unacknowledged<T> {
    /// Creates an empty list; the first message has the number `acknowledged`.
    pub const fn new(acknowledged: u64) -> Self {
        Self { entries: VecDeque::new(), acknowledged, bytes: 0 }
    }

    /// Appends a sent message that keeps `bytes` bytes in memory; returns its number.
    pub fn push(&mut self, entry: T, bytes: usize) -> u64 {
        let number = self.sent();
        self.entries.push_back((entry, bytes));
        self.bytes += bytes;
        number
    }

    /// Records that the peer has received the first `count` messages. `release` gets the entries that are no
    /// longer needed, oldest first.
    ///
    /// # Errors
    /// The count is impossible. The list is then unchanged.
    pub fn acknowledge(&mut self, count: u64, mut release: impl FnMut(T)) -> Result<(), CountError> {
        self.check(count)?;
        while self.acknowledged < count {
            let Some((entry, bytes)) = self.entries.pop_front() else { break };
            self.acknowledged += 1;
            self.bytes -= bytes;
            release(entry);
        }
        Ok(())
    }

    /// Returns an error for a count that [`acknowledge`](Self::acknowledge) refuses.
    ///
    /// # Errors
    /// The count is impossible.
    pub fn check(&self, count: u64) -> Result<(), CountError> {
        let (sent, acknowledged) = (self.sent(), self.acknowledged);
        if count > sent {
            return Err(CountError::NotSent { count, sent });
        }
        if count < acknowledged {
            return Err(CountError::TakenBack { count, acknowledged });
        }
        Ok(())
    }

    /// Removes and returns the oldest entry, to send it again.
    pub fn pop(&mut self) -> Option<T> {
        let (entry, bytes) = self.entries.pop_front()?;
        self.acknowledged += 1;
        self.bytes -= bytes;
        Some(entry)
    }

    /// Returns the oldest entry.
    pub fn front(&self) -> Option<&T> {
        self.entries.front().map(|(entry, _)| entry)
    }

    /// Returns the entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(entry, _)| entry)
    }

    /// Returns the number of messages sent in the session.
    pub fn sent(&self) -> u64 {
        self.acknowledged + self.entries.len() as u64
    }

    /// Returns the number of messages that the peer has acknowledged.
    pub const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the bytes that the entries keep in memory.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true when the peer has acknowledged everything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_messages_are_released_in_order() {
        let mut unacknowledged = Unacknowledged::new(7);
        for entry in ["a", "b", "c"] {
            unacknowledged.push(entry, 10);
        }
        let mut released = Vec::new();
        unacknowledged.acknowledge(9, |entry| released.push(entry)).unwrap();
        assert_eq!(released, ["a", "b"]);
        assert_eq!(
            (unacknowledged.acknowledged(), unacknowledged.sent(), unacknowledged.bytes()),
            (9, 10, 10)
        );
        unacknowledged.acknowledge(9, |_| unreachable!()).unwrap();
        assert_eq!(unacknowledged.iter().collect::<Vec<_>>(), [&"c"]);
    }

    #[test]
    fn impossible_counts_change_nothing() {
        let mut unacknowledged = Unacknowledged::new(0);
        unacknowledged.push((), 1);
        unacknowledged.push((), 1);
        unacknowledged.acknowledge(1, |()| {}).unwrap();
        assert_eq!(unacknowledged.acknowledge(3, |()| {}), Err(CountError::NotSent { count: 3, sent: 2 }));
        assert_eq!(
            unacknowledged.acknowledge(0, |()| {}),
            Err(CountError::TakenBack { count: 0, acknowledged: 1 })
        );
        assert_eq!(unacknowledged.acknowledge(u64::MAX, |()| {}), unacknowledged.check(u64::MAX));
        assert_eq!((unacknowledged.len(), unacknowledged.bytes()), (1, 1));
    }
}
