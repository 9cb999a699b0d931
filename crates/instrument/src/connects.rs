//! Connections of a run, counted: those that were refused before the server's greeting, and those that
//! nothing accepted although others were.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time of TCP's handshake from which its first packet was sent again, besides round trips (RFC 6298 section
/// 2).
const SENT_AGAIN: Duration = Duration::from_millis(900);

/// The counts, shared by all connections of a run.
#[derive(Debug, Default)]
pub(crate) struct Connects(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    refused: usize,
    made: usize,
    late: usize,
    first: Option<Instant>,
    turned_away: Option<TurnedAway>,
}

/// Connections that were not accepted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TurnedAway {
    /// Why the first one was not, in the system's words.
    pub(crate) words: String,
    /// How many there were.
    pub(crate) failed: usize,
    /// Logins before the first of them, and the seconds since the first login.
    pub(crate) made: usize,
    pub(crate) seconds: f64,
    /// Logins whose TCP handshake took a second and more.
    pub(crate) late: usize,
}

impl Connects {
    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server has closed a connection in place of its greeting.
    pub(crate) fn on_refusal(&self) {
        self.with(|counts| counts.refused += 1);
    }

    /// A login is complete; TCP's handshake took this many seconds.
    pub(crate) fn on_login(&self, handshake: f64) {
        self.with(|counts| {
            counts.made += 1;
            counts.late += usize::from(handshake >= SENT_AGAIN.as_secs_f64());
            counts.first.get_or_insert_with(Instant::now);
        });
    }

    /// A connection was not accepted.
    pub(crate) fn on_failure(&self, words: String) {
        self.with(|counts| {
            let seconds = counts.first.map_or(0.0, |first| first.elapsed().as_secs_f64());
            let made = counts.made;
            let first = || TurnedAway { words, failed: 0, made, seconds, late: 0 };
            counts.turned_away.get_or_insert_with(first).failed += 1;
        });
    }

    /// Connections that the server closed in place of its greeting.
    pub(crate) fn refused(&self) -> usize {
        self.with(|counts| counts.refused)
    }

    /// All logins.
    pub(crate) fn made(&self) -> usize {
        self.with(|counts| counts.made)
    }

    /// Connections that were not accepted, where there are some.
    pub(crate) fn turned_away(&self) -> Option<TurnedAway> {
        self.with(|counts| Some(TurnedAway { late: counts.late, ..counts.turned_away.clone()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_fail_are_counted_from_the_first() {
        let connects = Connects::default();
        connects.on_login(0.01);
        connects.on_login(3.0);
        assert_eq!(connects.turned_away(), None);
        connects.on_failure("refused".to_owned());
        connects.on_failure("timed out".to_owned());
        connects.on_login(0.01);
        let got = connects.turned_away().unwrap();
        assert_eq!((got.words.as_str(), got.failed, got.made, got.late), ("refused", 2, 2, 1));
        assert_eq!((connects.made(), connects.refused()), (3, 0));
    }
}
