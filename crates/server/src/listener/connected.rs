//! Sessions that have a connection and could outlive it (`ResumeGrace`), and how many connections their
//! clients may lose before the server notices that the path is broken.
//!
//! A client often notices first. The connections that it loses until then are no offence, up to a number for
//! each source, which only a login or a resumption resets. Once the server has noticed, the session waits and
//! has a reserve of its own ([`WaitingSessions`](super::waiting::WaitingSessions)).

use std::collections::HashMap;

use super::waiting::Owner;
use crate::penalties::Source;

/// Number of connections that a source with resumable sessions may lose before the login. A client makes 82
/// in the 80 seconds after which the server notices a silent path: one a second, and three more at first.
const RESERVE: u32 = 84;

/// The connected sessions and the reserve of each source. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct ConnectedSessions {
    sessions: HashMap<Owner, Source>,
    reserves: HashMap<Source, Reserve>,
}

/// The sessions of a source and its reserve of connections.
#[derive(Debug, Default)]
struct Reserve {
    sessions: usize,
    /// Number of connections that may still be lost.
    left: u32,
}

impl ConnectedSessions {
    /// Records that a session of this source has logged in, or has been resumed from there.
    pub(super) fn begin(&mut self, owner: Owner, source: Source) {
        self.end(owner);
        self.sessions.insert(owner, source);
        let reserve = self.reserves.entry(source).or_default();
        reserve.sessions += 1;
        reserve.left = RESERVE;
    }

    /// Records that the session has lost its connection or has ended.
    pub(super) fn end(&mut self, owner: Owner) {
        let Some(source) = self.sessions.remove(&owner) else { return };
        let Some(reserve) = self.reserves.get_mut(&source) else { return };
        reserve.sessions -= 1;
        if reserve.sessions == 0 {
            self.reserves.remove(&source);
        }
    }

    /// Takes a connection that only asked for a resumption from the source's reserve. Returns false where the
    /// source has no such session, or an empty reserve.
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
    use crate::penalties::{Consequence, Offence, Table};
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
                    penalties.punish(address, source, Offence::GraceExceeded, now),
                    Consequence::Activated(..)
                )
        };
        (1..1000).find(is_lost).unwrap()
    }

    #[test]
    fn a_client_comes_back_before_the_break_is_noticed() {
        let (mut sessions, start) = (ConnectedSessions::default(), Instant::now());
        sessions.begin(owner(1), source("192.0.2.7"));
        // Each attempt reaches the server, and its connection is lost at once.
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
        // Several sessions of a source share one reserve, and another address gains nothing.
        for number in 1..10 {
            sessions.begin(owner(number), source("192.0.2.7"));
        }
        assert_eq!(locked_out(&mut sessions, "192.0.2.8"), 2);
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), RESERVE + 2);
        // A session that ends does not refill the reserve; one that logs in or resumes does.
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
        // The session is resumed from another network.
        sessions.begin(owner(2), source("198.51.100.9"));
        assert!(!sessions.excuse(source("192.0.2.7")) && sessions.excuse(source("198.51.100.9")));
        sessions.end(owner(2));
        sessions.end(owner(2));
        assert!(!sessions.excuse(source("198.51.100.9")));
        assert!(sessions.sessions.is_empty() && sessions.reserves.is_empty());
    }
}
