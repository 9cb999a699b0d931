//! Answers to global requests. They must be sent in the order of the requests, although some take longer than
//! others.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use lh_driver::ControlCx;

/// Largest number of requests that wait for their answer. Honest clients have a few.
const MOST: usize = 4096;

/// The answer to send: none yet, a failure, or a success with these fields.
enum Answer {
    Pending,
    Failure,
    Success(Vec<u8>),
}

#[derive(Default)]
struct Queue {
    /// Number of the request at the head of the queue.
    first: u64,
    answers: VecDeque<Answer>,
}

/// Unsent answers of a connection. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Replies(Rc<RefCell<Queue>>);

/// Number of a request; `None` where the client wants no answer.
pub(crate) type Slot = Option<u64>;

impl Replies {
    /// Returns whether too many requests wait for an answer.
    pub(crate) fn are_too_many(&self) -> bool {
        self.0.borrow().answers.len() >= MOST
    }

    /// Queues a request that has just been received.
    pub(crate) fn expect(&self, want_reply: bool) -> Slot {
        let mut queue = self.0.borrow_mut();
        want_reply.then(|| {
            queue.answers.push_back(Answer::Pending);
            queue.first + queue.answers.len() as u64 - 1
        })
    }

    /// Sets the answer: success with these fields, or failure. Sends all answers up to the first pending one.
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
