//! Small messages of a task, whose answers tell the round trip of SSH.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::timer::Timer;

/// Messages under way at most beside data: a few, so that a full queue is seen.
const BESIDE_DATA: usize = 4;

/// The small messages of a task.
#[derive(Debug)]
pub(super) struct Pings {
    /// Time of the next message; `None` where none are sent.
    timer: Option<Timer>,
    /// When those without an answer were sent.
    sent: VecDeque<Instant>,
    /// Answers that are still to come to messages of the task before.
    stale: usize,
    /// Answers to wait for, where pings are all there is.
    left: Option<usize>,
}

impl Pings {
    /// Messages beside data. `stale` is the number of answers to come to messages of the task before.
    pub(super) fn beside_data(every: Option<Duration>, now: Instant, stale: usize) -> Self {
        Self { timer: every.map(|every| Timer::new(every, now)), sent: VecDeque::new(), stale, left: None }
    }

    /// Messages on an idle connection, one at a time, until `count` of them are answered.
    pub(super) fn alone(every: Option<Duration>, now: Instant, stale: usize, count: usize) -> Self {
        Self { left: Some(count), ..Self::beside_data(every, now, stale) }
    }

    /// Returns whether pings are all there is.
    pub(super) const fn are_alone(&self) -> bool {
        self.left.is_some()
    }

    /// Returns the time of the next message.
    pub(super) fn due(&self) -> Option<Instant> {
        self.timer.map(|timer| timer.due)
    }

    /// Returns whether a message is to be sent, which is then noted as sent.
    pub(super) fn send(&mut self, now: Instant) -> bool {
        let most = if self.are_alone() { 1 } else { BESIDE_DATA };
        let is_sent = self.timer.as_mut().is_some_and(|timer| timer.fires(now)) && self.sent.len() < most;
        if is_sent {
            self.sent.push_back(Instant::now());
        }
        is_sent
    }

    /// Notes an answer; returns when its message was sent, for messages of this task.
    pub(super) fn on_answer(&mut self) -> Option<Instant> {
        if self.stale > 0 {
            self.stale -= 1;
            return None;
        }
        let sent = self.sent.pop_front()?;
        self.left = self.left.map(|left| left.saturating_sub(1));
        Some(sent)
    }

    /// Returns whether all answers that are waited for have come.
    pub(super) fn are_complete(&self) -> bool {
        self.left == Some(0)
    }

    /// Answers still to come to messages of the task before, and to those of this task.
    pub(super) fn unanswered(&self) -> (usize, usize) {
        (self.stale, self.sent.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(20);

    #[test]
    fn answers_to_the_task_before_are_not_counted() {
        let now = Instant::now();
        let mut pings = Pings::alone(Some(EVERY), now, 2, 1);
        assert!(pings.send(now));
        assert_eq!((pings.on_answer(), pings.unanswered()), (None, (1, 1)));
        assert_eq!((pings.on_answer(), pings.unanswered()), (None, (0, 1)));
        assert!(!pings.are_complete());
        assert!(pings.on_answer().is_some() && pings.are_complete());
        assert_eq!((pings.on_answer(), pings.unanswered()), (None, (0, 0)), "nothing was sent");
    }

    #[test]
    fn few_messages_are_under_way() {
        let now = Instant::now();
        let sent = |pings: &mut Pings| (0..9).filter(|n| pings.send(now + EVERY * *n)).count();
        assert_eq!(sent(&mut Pings::alone(Some(EVERY), now, 0, 9)), 1);
        assert_eq!(sent(&mut Pings::beside_data(Some(EVERY), now, 0)), 4);
        assert_eq!(sent(&mut Pings::beside_data(None, now, 0)), 0);
        // Not before the time of the next one.
        let mut pings = Pings::beside_data(Some(EVERY), now, 0);
        assert!(pings.send(now) && !pings.send(now));
        assert_eq!(pings.due(), Some(now + EVERY));
    }
}
