//! `ChannelTimeout`: closes one channel that has carried no data for some time.

use std::time::{Duration, Instant};

/// Measures the idle time of one channel; part of its handler. Without a limit it never ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdleTimer {
    limit: Option<Duration>,
    /// Time of the last movement, while the timer runs.
    moved: Option<Instant>,
}

impl IdleTimer {
    /// Creates a timer that does not run yet.
    pub const fn new(limit: Option<Duration>) -> Self {
        Self { limit, moved: None }
    }

    /// Starts the timer: the channel is open.
    pub fn start(&mut self, now: Instant) {
        self.moved = self.limit.map(|_| now);
    }

    /// Records that the channel has carried data, if the timer runs.
    pub const fn touch(&mut self, now: Instant) {
        if self.moved.is_some() {
            self.moved = Some(now);
        }
    }

    /// Stops the timer: the channel is closed, or its owner has been told that it is idle.
    pub const fn stop(&mut self) {
        self.moved = None;
    }

    /// Returns the time at which the channel has been idle for the limit.
    pub fn deadline(&self) -> Option<Instant> {
        self.moved.zip(self.limit).and_then(|(moved, limit)| moved.checked_add(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_timer_has_a_deadline() {
        let (now, limit) = (Instant::now(), Duration::from_secs(7));
        let mut timer = IdleTimer::new(Some(limit));
        timer.touch(now);
        assert_eq!(timer.deadline(), None);
        timer.start(now);
        assert_eq!(timer.deadline(), Some(now + limit));
        timer.touch(now + limit);
        assert_eq!(timer.deadline(), Some(now + 2 * limit));
        timer.stop();
        timer.touch(now);
        assert_eq!(timer.deadline(), None);
        let mut unlimited = IdleTimer::new(None);
        unlimited.start(now);
        assert_eq!(unlimited.deadline(), None);
    }
}
