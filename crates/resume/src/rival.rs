//! A second connection beside one that is alive and stalled, and the decision which of them is used.
//!
//! Only the current connection carries the session. The second one exchanges keys and answers pings; claiming the
//! session on it is the replacement, after which the first is dead for both ends.

use std::time::{Duration, Instant};

/// Time without an answer after which a second connection is tried, at least.
const STALLED: Duration = Duration::from_secs(2);

/// The same, in round trips that the connection had when it was well.
const STALLED_ROUND_TRIPS: u32 = 4;

/// Time for which the second connection must be the faster one.
const PROVEN: Duration = Duration::from_secs(10);

/// The second connection is faster when its delay is below this fraction of the first one's.
const FASTER: u32 = 4;

/// Which connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The one that carries the session.
    Current,
    /// The one beside it.
    Second,
}

/// What the client is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Make a second connection.
    Open,
    /// Give up the current connection, and claim the session on the second one.
    Replace,
    /// Close the second connection.
    Close,
}

/// Answers on one connection.
#[derive(Debug, Clone, Copy, Default)]
struct Delay {
    /// Time of the oldest question without an answer.
    asked: Option<Instant>,
    last: Option<Duration>,
    /// Shortest round trip seen.
    best: Option<Duration>,
}

impl Delay {
    /// Returns the last round trip, or the age of the oldest question if that is longer.
    fn at(&self, now: Instant) -> Option<Duration> {
        self.last.max(self.asked.map(|asked| now.saturating_duration_since(asked)))
    }

    fn on_answered(&mut self, round_trip: Duration) {
        (self.asked, self.last) = (None, Some(round_trip));
        self.best = Some(self.best.map_or(round_trip, |best| best.min(round_trip)));
    }
}

/// The comparison, in virtual time. Ask both connections a question (a keepalive, a ping) each second while there
/// are two.
#[derive(Debug, Clone, Default)]
pub struct Rival {
    current: Delay,
    second: Option<Delay>,
    /// Time since which the second connection is the faster one, or is not.
    faster: Option<Instant>,
    slower: Option<Instant>,
}

impl Rival {
    /// A question was sent that the peer answers at once.
    pub fn on_asked(&mut self, which: Which, now: Instant) {
        if let Some(delay) = self.delay(which) {
            delay.asked.get_or_insert(now);
        }
    }

    /// The answer came after this time.
    pub fn on_answered(&mut self, which: Which, round_trip: Duration) {
        if let Some(delay) = self.delay(which) {
            delay.on_answered(round_trip);
        }
    }

    /// The second connection could not be made, or broke.
    pub fn on_second_failed(&mut self) {
        (self.second, self.faster, self.slower) = (None, None, None);
    }

    const fn delay(&mut self, which: Which) -> Option<&mut Delay> {
        match which {
            Which::Current => Some(&mut self.current),
            Which::Second => self.second.as_mut(),
        }
    }

    /// Returns what to do now, once. After [`Choice::Replace`] the second connection is the current one.
    pub fn poll(&mut self, now: Instant) -> Option<Choice> {
        let current = self.current.at(now)?;
        let Some(second) = self.second else {
            let usual = self.current.best.unwrap_or_default() * STALLED_ROUND_TRIPS;
            if current < STALLED.max(usual) {
                return None;
            }
            self.second = Some(Delay::default());
            self.slower = Some(now);
            return Some(Choice::Open);
        };
        // A connection that has answered nothing is not the faster one.
        let faster = second.last.is_some() && second.at(now).is_some_and(|delay| delay * FASTER < current);
        if faster {
            self.slower = None;
            let since = *self.faster.get_or_insert(now);
            if now.saturating_duration_since(since) >= PROVEN {
                *self = Self { current: second, ..Self::default() };
                return Some(Choice::Replace);
            }
        } else {
            self.faster = None;
            let since = *self.slower.get_or_insert(now);
            if now.saturating_duration_since(since) >= PROVEN && current < STALLED {
                self.on_second_failed();
                return Some(Choice::Close);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays seconds in which the connections answer after these times (`None`: not at all); returns choices with
    /// their seconds.
    fn play(answers: impl Fn(u64) -> [Option<u64>; 2], seconds: u64) -> Vec<(u64, Choice)> {
        let start = Instant::now();
        let mut rival = Rival::default();
        let mut choices = Vec::new();
        for second in 0..seconds {
            let now = start + Duration::from_secs(second);
            for (which, answer) in [Which::Current, Which::Second].into_iter().zip(answers(second)) {
                rival.on_asked(which, now);
                if let Some(answer) = answer {
                    rival.on_answered(which, Duration::from_millis(answer));
                }
            }
            choices.extend(rival.poll(now).map(|choice| (second, choice)));
        }
        choices
    }

    #[test]
    fn a_stalled_connection_is_replaced_after_ten_seconds() {
        let answers = |second| if second < 5 { [Some(50), None] } else { [None, Some(60)] };
        // After the replacement the second one is well, and alone.
        let played = play(|second| if second > 18 { [Some(60), None] } else { answers(second) }, 60);
        assert_eq!(played, [(7, Choice::Open), (18, Choice::Replace)]);
    }

    #[test]
    fn a_connection_that_recovers_is_kept() {
        let played = play(
            |second| if (5..12).contains(&second) { [None, Some(60)] } else { [Some(50), Some(60)] },
            60,
        );
        assert_eq!(played, [(7, Choice::Open), (22, Choice::Close)]);
    }

    #[test]
    fn a_second_connection_over_the_same_dead_path_does_not_win() {
        let played = play(|second| if second < 5 { [Some(50), None] } else { [None, None] }, 300);
        assert_eq!(played, [(7, Choice::Open)]);
    }

    #[test]
    fn long_paths_are_not_stalled_ones() {
        assert_eq!(play(|_| [Some(1900), None], 100), []);
        assert_eq!(play(|second| [Some(if second == 0 { 600 } else { 2300 }), None], 100), []);
    }

    #[test]
    fn a_little_faster_is_not_enough() {
        let played = play(|second| if second < 5 { [Some(50), None] } else { [Some(3000), Some(1000)] }, 100);
        assert_eq!(played, [(5, Choice::Open)]);
    }
}
