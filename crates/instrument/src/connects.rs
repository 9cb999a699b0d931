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
    last_failure: Option<Instant>,
}

/// What ends the message about a connection that was not accepted. A name that does not resolve and a network
/// without a route are faults of another kind.
const NOT_ACCEPTED: [&str; 3] =
    [": Connection refused", ": Connection reset by peer", ": Connection timed out"];

/// Returns true for a message about a connection that was not accepted.
pub(crate) fn is_not_accepted(words: &str) -> bool {
    NOT_ACCEPTED.iter().any(|end| words.trim_end().ends_with(end))
}

/// Connections that were not accepted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TurnedAway {
    /// Why the first one was not, in the system's words.
    pub(crate) words: String,
    /// Number of refused connections.
    pub(crate) failed: usize,
    /// Logins before the first of them, and the seconds since the first login.
    pub(crate) made: usize,
    pub(crate) seconds: f64,
    /// Logins whose TCP handshake took a second and more.
    pub(crate) late: usize,
    /// A single outage does not explain them: one began after another one had failed, or a login was
    /// completed beside one.
    pub(crate) is_repeated: bool,
}

/// The beginning of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    at: Instant,
    made: usize,
}

impl Connects {
    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that the server has closed a connection in place of its greeting.
    pub(crate) fn on_refusal(&self) {
        self.with(|counts| counts.refused += 1);
    }

    /// Records a complete login; TCP's handshake took this many seconds.
    pub(crate) fn on_login(&self, handshake: f64) {
        self.with(|counts| {
            counts.made += 1;
            counts.late += usize::from(handshake >= SENT_AGAIN.as_secs_f64());
            counts.first.get_or_insert_with(Instant::now);
        });
    }

    /// Records the begin of a connection.
    pub(crate) fn begin(&self) -> Begun {
        self.with(|counts| Begun { at: Instant::now(), made: counts.made })
    }

    /// Records a connection that was not accepted.
    pub(crate) fn on_failure(&self, words: String, begun: Begun) {
        self.with(|counts| {
            let seconds = counts.first.map_or(0.0, |first| first.elapsed().as_secs_f64());
            let made = counts.made;
            let is_repeated = made > begun.made || counts.last_failure.is_some_and(|last| last <= begun.at);
            let first = || TurnedAway { words, made, seconds, ..TurnedAway::default() };
            let turned_away = counts.turned_away.get_or_insert_with(first);
            turned_away.failed += 1;
            turned_away.is_repeated |= is_repeated;
            counts.last_failure = Some(Instant::now());
        });
    }

    /// Connections that the server closed in place of its greeting.
    pub(crate) fn refused(&self) -> usize {
        self.with(|counts| counts.refused)
    }

    /// Returns the number of logins.
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
        let at_a_time = [connects.begin(), connects.begin()];
        connects.on_failure("refused".to_owned(), at_a_time[0]);
        connects.on_failure("timed out".to_owned(), at_a_time[1]);
        assert!(!connects.turned_away().unwrap().is_repeated);
        connects.on_login(0.01);
        let got = connects.turned_away().unwrap();
        assert_eq!((got.words.as_str(), got.failed, got.made, got.late), ("refused", 2, 2, 1));
        assert_eq!((connects.made(), connects.refused()), (3, 0));
    }

    #[test]
    fn failures_apart_and_those_beside_a_login_are_repeated() {
        let apart = Connects::default();
        apart.on_failure("timed out".to_owned(), apart.begin());
        apart.on_failure("timed out".to_owned(), apart.begin());
        assert!(apart.turned_away().unwrap().is_repeated);
        let beside = Connects::default();
        let begun = beside.begin();
        beside.on_login(0.01);
        beside.on_failure("timed out".to_owned(), begun);
        assert!(beside.turned_away().unwrap().is_repeated);
    }

    #[test]
    fn names_and_routes_are_no_limit_of_connections() {
        let to = "ssh: connect to host h port 22";
        for end in ["Connection refused", "Connection reset by peer", "Connection timed out"] {
            assert!(is_not_accepted(&format!("{to}: {end}")), "{end}");
        }
        for words in [
            "ssh: Could not resolve hostname h: Temporary failure in name resolution".to_owned(),
            format!("{to}: No route to host"),
            format!("{to}: Network is unreachable"),
        ] {
            assert!(!is_not_accepted(&words), "{words}");
        }
    }
}
