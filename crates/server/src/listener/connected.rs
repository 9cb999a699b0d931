//! Sessions that have a connection and could outlive it (`ResumeGrace`), and how many connections their
//! clients may lose before the server notices that the path is broken.
//!
//! A client often notices first: the server does when it has something to send, or by `ClientAliveInterval`.
//! The connections that the client loses until then are no offence, up to a number for each source. A login
//! or a resumption resets it. Once the server has noticed, the session waits and has a reserve of its own
//! ([`WaitingSessions`](super::waiting::WaitingSessions)).

use std::collections::HashMap;
use std::time::Instant;

use super::reserve::Reserve;
use super::waiting::Owner;
use crate::penalties::Source;

/// The connected sessions and the reserve of each source. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct ConnectedSessions {
    sessions: HashMap<Owner, Source>,
    /// The number of sessions of each source, and its reserve.
    reserves: HashMap<Source, (usize, Reserve)>,
}

impl ConnectedSessions {
    /// Records that a session of this source has logged in, or has been resumed from there.
    pub(super) fn begin(&mut self, owner: Owner, source: Source, now: Instant) {
        self.end(owner);
        self.sessions.insert(owner, source);
        let (sessions, reserve) = self.reserves.entry(source).or_insert((0, Reserve::new(now)));
        *sessions += 1;
        *reserve = Reserve::new(now);
    }

    /// Records that the session has lost its connection or has ended.
    pub(super) fn end(&mut self, owner: Owner) {
        let Some(source) = self.sessions.remove(&owner) else { return };
        let Some((sessions, _)) = self.reserves.get_mut(&source) else { return };
        *sessions -= 1;
        if *sessions == 0 {
            self.reserves.remove(&source);
        }
    }

    /// Takes a connection that only asked for a resumption from the source's reserve. Returns false where the
    /// source has no such session, or an empty reserve.
    pub(super) fn excuse(&mut self, source: Source, now: Instant) -> bool {
        self.reserves.get_mut(&source).is_some_and(|(_, reserve)| reserve.take(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lh_config::server_values::NetBlockSize;
    use lh_resume::{Action, Failure, Reconnect};
    use rustix::process::Pid;

    use super::super::reserve::RESERVE;
    use super::*;
    use crate::penalties::{Consequence, Offence, Table};

    /// How long the client tries to come back.
    const GRACE: Duration = Duration::from_secs(600);

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
            !sessions.excuse(source, now)
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
        sessions.begin(owner(1), source("192.0.2.7"), start);
        // Each attempt reaches the server, and its connection is lost at once.
        let mut client = Reconnect::new(GRACE);
        client.on_broken(start);
        let (mut now, mut attempts) = (start, 0);
        while let Some(next) = client.next_deadline().filter(|next| *next < start + GRACE) {
            match client.poll(now) {
                Some(Action::Connect(id)) => {
                    client.on_failed(id, Failure::Path, now);
                    attempts += 1;
                    assert!(sessions.excuse(source("192.0.2.7"), now), "attempt {attempts}");
                }
                Some(action) => panic!("{action:?}"),
                None => now = next,
            }
        }
        assert!(attempts > RESERVE, "{attempts}");
    }

    #[test]
    fn the_reserve_of_connected_sessions_is_bounded() {
        let (mut sessions, now) = (ConnectedSessions::default(), Instant::now());
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), 2);
        // Several sessions of a source share one reserve, and another address gains nothing.
        for number in 1..10 {
            sessions.begin(owner(number), source("192.0.2.7"), now);
        }
        assert_eq!(locked_out(&mut sessions, "192.0.2.8"), 2);
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), RESERVE + 2);
        // A session that ends does not refill the reserve; one that logs in or resumes does.
        sessions.end(owner(2));
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), 2);
        sessions.begin(owner(1), source("192.0.2.7"), now);
        assert_eq!(locked_out(&mut sessions, "192.0.2.7"), RESERVE + 2);
    }

    #[test]
    fn the_reserve_ends_with_the_last_connected_session() {
        let (mut sessions, now) = (ConnectedSessions::default(), Instant::now());
        sessions.begin(owner(1), source("192.0.2.7"), now);
        sessions.begin(owner(2), source("192.0.2.7"), now);
        sessions.end(owner(1));
        assert!(sessions.excuse(source("192.0.2.7"), now));
        // The session is resumed from another network.
        sessions.begin(owner(2), source("198.51.100.9"), now);
        assert!(!sessions.excuse(source("192.0.2.7"), now) && sessions.excuse(source("198.51.100.9"), now));
        sessions.end(owner(2));
        sessions.end(owner(2));
        assert!(!sessions.excuse(source("198.51.100.9"), now));
        assert!(sessions.sessions.is_empty() && sessions.reserves.is_empty());
    }
}
