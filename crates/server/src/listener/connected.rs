//! Sessions that have their connections and could go on over others (`ResumeGrace`): how many connections
//! their clients may lose before the server notices that the path is broken.
//!
//! A client often notices first. What it loses on the way back until then is no offence, up to a number for
//! each source that only a login or a resumption fills again. Later the session waits, and has a reserve of
//! its own ([`WaitingSessions`](super::waiting::WaitingSessions)).

use std::collections::HashMap;

use super::waiting::Owner;
use crate::penalties::Source;

/// Connections that a source with such sessions may lose before the login. A client makes 82 in the 80
/// seconds after which the server notices a silent path: one a second, and three more at first.
const RESERVE: u32 = 84;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct ConnectedSessions {
    sessions: HashMap<Owner, Source>,
    reserves: HashMap<Source, Reserve>,
}

/// What a source has that has sessions.
#[derive(Debug, Default)]
struct Reserve {
    sessions: usize,
    /// Connections that may still be lost.
    left: u32,
}

impl ConnectedSessions {
    /// A session of this source has logged in, or goes on over a connection from there.
    pub(super) fn begin(&mut self, owner: Owner, source: Source) {
        self.end(owner);
        self.sessions.insert(owner, source);
        let reserve = self.reserves.entry(source).or_default();
        reserve.sessions += 1;
        reserve.left = RESERVE;
    }

    /// The session has lost its connection, or is over.
    pub(super) fn end(&mut self, owner: Owner) {
        let Some(source) = self.sessions.remove(&owner) else { return };
        let Some(reserve) = self.reserves.get_mut(&source) else { return };
        reserve.sessions -= 1;
        if reserve.sessions == 0 {
            self.reserves.remove(&source);
        }
    }

    /// Takes a connection that asked for nothing but a resumption out of the source's reserve. False where
    /// the source has no such session, or nothing is left.
    pub(super) fn excuse(&mut self, source: Source) -> bool {
        let Some(reserve) = self.reserves.get_mut(&source) else { return false };
        let any = reserve.left > 0;
        reserve.left = reserve.left.saturating_sub(1);
        any
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use lh_config::server_values::NetBlockSize;
    use lh_resume::{Action, Failure, Reconnect};
    use rustix::process::Pid;

    use super::*;
    use crate::penalties::{Consequence, Misdeed, Table};
    use crate::resuming::SILENCE_NOTICED;

    fn source(address: &str) -> Source {
        Source::of(address.parse().unwrap(), NetBlockSize { ipv4: 32, ipv6: 64 })
    }

    fn owner(number: i32) -> Owner {
        Owner::Process(Pid::from_raw(number).unwrap())
    }

    /// Loses connections until the address is locked out; returns how many were lost.
    fn locked_out(sessions: &mut ConnectedSessions, address: &str) -> u32 {
        let rules = crate::testing::settings("PerSourcePenalties yes").per_source_penalties.value.clone();
        let (mut penalties, now) = (Table::new(rules, None), Instant::now());
        let address = address.parse().unwrap();
        let source = Source::of(address, NetBlockSize { ipv4: 32, ipv6: 64 });
        let is_lost = |_: &u32| {
            !sessions.excuse(source)
                && matches!(
                    penalties.punish(address, source, Misdeed::GraceExceeded, now),
                    Consequence::Activated(..)
                )
        };
        (1..1000).find(is_lost).unwrap()
    }

    #[test]
    fn a_client_comes_back_before_the_break_is_noticed() {
        let (mut sessions, start) = (ConnectedSessions::default(), Instant::now());
        sessions.begin(owner(1), source("192.0.2.7"));
        // Each attempt reaches the server and is lost at once.
        let mut client = Reconnect::new(Duration::from_secs(600));
        client.on_broken(start);
        let (mut now, mut attempts) = (start, 0);
        while now.duration_since(start) < SILENCE_NOTICED {
            match client.poll(now) {
                Some(Action::Connect(id)) => {
                    client.on_failed(id, Failure::Path, now);
                    attempts += 1;
                    assert!(sessions.excuse(source("192.0.2.7")), "attempt {attempts}");
                }
                Some(action) => panic!("{action:?}"),
                None => now = client.next_deadline().unwrap(),
            }
        }
        assert!((80..=RESERVE).contains(&attempts), "{attempts}");
    }

    #[test]
    fn the_reserve_of_connected_sessions_is_bounded() {
        let mut sessions = ConnectedSessions::default();
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), 2);
        // Several sessions of a source have one reserve, and another address gains nothing.
        for number in 1..10 {
            sessions.begin(owner(number), source("192.0.2.7"));
        }
        assert_eq!(locked_out(&mut sessions, "192.0.2.8"), 2);
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), RESERVE + 2);
        // Sessions that end fill nothing; one that logs in or goes on does.
        sessions.end(owner(2));
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), 2);
        sessions.begin(owner(1), source("192.0.2.7"));
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), RESERVE + 2);
    }

    #[test]
    fn the_reserve_ends_with_the_last_connected_session() {
        let mut sessions = ConnectedSessions::default();
        sessions.begin(owner(1), source("192.0.2.7"));
        sessions.begin(owner(2), source("192.0.2.7"));
        sessions.end(owner(1));
        assert!(sessions.excuse(source("192.0.2.7")));
        // It goes on from another network.
        sessions.begin(owner(2), source("198.51.100.9"));
        assert!(!sessions.excuse(source("192.0.2.7")) && sessions.excuse(source("198.51.100.9")));
        sessions.end(owner(2));
        sessions.end(owner(2));
        assert!(!sessions.excuse(source("198.51.100.9")));
        assert!(sessions.sessions.is_empty() && sessions.reserves.is_empty());
    }
}
