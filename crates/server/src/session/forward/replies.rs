//! Answers to global requests, which must leave in the order of the requests though some take longer than others.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use lh_driver::ControlCx;

/// Most requests whose answers wait for that to an earlier one. Honest clients have a few.
const MOST: usize = 4096;

/// What is to be said: nothing for now, a failure, or a success with fields.
enum Answer {
    Pending,
    Failure,
    Success(Vec<u8>),
}

#[derive(Default)]
struct Queue {
    /// Number of the first one in the queue.
    first: u64,
    answers: VecDeque<Answer>,
}

/// The answers that are owed. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Replies(Rc<RefCell<Queue>>);

/// A place in the order; `None` where no answer is wanted.
pub(crate) type Slot = Option<u64>;

impl Replies {
    /// True when a client has asked for too much that cannot be answered yet.
    pub(crate) fn are_too_many(&self) -> bool {
        self.0.borrow().answers.len() >= MOST
    }

    /// Takes the place of a request that has arrived now.
    pub(crate) fn expect(&self, want_reply: bool) -> Slot {
        let mut queue = self.0.borrow_mut();
        want_reply.then(|| {
            queue.answers.push_back(Answer::Pending);
            queue.first + queue.answers.len() as u64 - 1
        })
    }

    /// Answers with success and these fields, or with failure, as soon as all earlier ones are answered.
    pub(crate) fn answer(&self, slot: Slot, answer: Option<Vec<u8>>, cx: &mut ControlCx<'_>) {
        let mut queue = self.0.borrow_mut();
        let Some(slot) = slot else { return };
        let index = usize::try_from(slot.saturating_sub(queue.first)).unwrap_or(usize::MAX);
        if let Some(place) = queue.answers.get_mut(index) {
            *place = answer.map_or(Answer::Failure, Answer::Success);
        }
        while let Some(answer) = queue.answers.pop_front() {
            match answer {
                Answer::Pending => {
                    queue.answers.push_front(Answer::Pending);
                    return;
                }
                Answer::Failure => cx.reply_global(false, b""),
                Answer::Success(fields) => cx.reply_global(true, &fields),
            }
            queue.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_wait_are_bounded() {
        let replies = Replies::default();
        for _ in 0..MOST {
            assert!(!replies.are_too_many());
            replies.expect(false);
            replies.expect(true);
        }
        assert!(replies.are_too_many());
    }
}
