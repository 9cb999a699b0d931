//! Requests that wait for their answers.

use std::collections::{HashSet, VecDeque};

use lh_sftp::PacketType;

use crate::answers::Shape;
use crate::remote::listed::Look;
use crate::token::Token;

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    pub(super) token: Token,
    pub(super) shape: Shape,
    pub(super) what: What,
    pub(super) kind: PacketType,
}

/// Effect of a request on handles, or further uses of its answer besides its token's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Opens,
    Closes,
    /// A READDIR whose entries may have to be looked at.
    Lists,
    Looks(Look),
    Other,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Pending {
    /// By id: the first has id `first_id`. Answers mostly come in order, so this stays short.
    awaited: VecDeque<Option<Awaited>>,
    first_id: u32,
    /// The id of the last request that was answered.
    last_answered: Option<u32>,
    /// All answers came in the order of their requests.
    pub(super) in_order: bool,
    /// Requests that were taken for dropped: their answers may still come.
    given_up: HashSet<u32>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            awaited: VecDeque::new(),
            first_id: 0,
            last_answered: None,
            in_order: true,
            given_up: HashSet::new(),
        }
    }
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Number of awaited answers; slightly more when they come out of order.
    pub(super) fn len(&self) -> usize {
        self.awaited.len()
    }

    /// Returns the kind of the oldest request that waits.
    pub(super) fn oldest(&self) -> Option<PacketType> {
        self.awaited.iter().flatten().next().map(|awaited| awaited.kind)
    }

    /// The request with this id was sent.
    pub(super) fn push(&mut self, id: u32, awaited: Awaited) {
        if self.awaited.is_empty() {
            self.first_id = id;
        }
        let at = id.wrapping_sub(self.first_id) as usize;
        if at >= self.awaited.len() {
            self.awaited.resize(at + 1, None);
        }
        self.awaited[at] = Some(awaited);
    }

    /// Takes the request with this id out; `None` where no answer to it is awaited.
    pub(super) fn take(&mut self, id: u32) -> Option<Awaited> {
        let at = id.wrapping_sub(self.first_id) as usize;
        let awaited = self.awaited.get_mut(at)?.take();
        self.drop_answered();
        awaited
    }

    /// Notes the order of answers.
    pub(super) fn answered(&mut self, id: u32) {
        self.in_order &= self.last_answered.is_none_or(|last| id.wrapping_sub(last) as i32 > 0);
        self.last_answered = Some(id);
    }

    /// Takes out what was sent before the request that was answered last: it was dropped.
    pub(super) fn give_up_older(&mut self) -> Vec<(u32, Awaited)> {
        // After answers in order, the last one precedes all requests that wait: the difference is below zero.
        let ahead = self.last_answered.map_or(0, |last| last.wrapping_sub(self.first_id) as i32);
        let before = usize::try_from(ahead).unwrap_or(0);
        let mut older = Vec::new();
        for at in 0..before.min(self.awaited.len()) {
            let id = self.first_id.wrapping_add(at as u32);
            let Some(awaited) = self.awaited[at].take() else { continue };
            self.given_up.insert(id);
            older.push((id, awaited));
        }
        self.drop_answered();
        older
    }

    /// Returns true once for each request that was given up.
    pub(super) fn take_given_up(&mut self, id: u32) -> bool {
        self.given_up.remove(&id)
    }

    /// Takes out all.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Awaited> {
        self.awaited.drain(..).flatten()
    }

    fn drop_answered(&mut self) {
        while let Some(None) = self.awaited.front() {
            self.awaited.pop_front();
            self.first_id = self.first_id.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAITED: Awaited =
        Awaited { token: Token::Nothing, shape: Shape::Plain, what: What::Other, kind: PacketType::STAT };

    fn sent(first: u32, count: u32) -> Pending {
        let mut pending = Pending::default();
        (0..count).for_each(|n| pending.push(first.wrapping_add(n), AWAITED));
        pending
    }

    #[test]
    fn answers_in_any_order_find_their_requests() {
        // Across the end of the numbers.
        let first = u32::MAX - 1;
        let mut pending = sent(first, 4);
        for (id, len) in [(1, 4), (first, 3), (0, 3), (u32::MAX, 0)] {
            assert!(pending.take(id).is_some(), "{id}");
            pending.answered(id);
            assert!(pending.take(id).is_none(), "{id} is answered once");
            assert_eq!(pending.len(), len, "{id}");
        }
        assert!(pending.is_empty() && !pending.in_order);
    }

    #[test]
    fn older_requests_are_given_up_and_may_still_be_answered() {
        let mut pending = sent(7, 5);
        assert!(pending.take(9).is_some());
        pending.answered(9);
        let older: Vec<u32> = pending.give_up_older().into_iter().map(|(id, _)| id).collect();
        assert_eq!(older, [7, 8]);
        assert!(pending.take(7).is_none() && pending.take_given_up(7) && !pending.take_given_up(7));
        assert_eq!(pending.take_all().count(), 2);
        assert!(pending.in_order);
    }

    #[test]
    fn requests_sent_after_the_last_answered_one_are_not_older() {
        for first in [7, u32::MAX] {
            let mut pending = sent(first, 3);
            assert!(pending.take(first).is_some());
            pending.answered(first);
            assert!(pending.give_up_older().is_empty(), "{first}");
            assert_eq!(pending.take_all().count(), 2);
        }
    }
}
