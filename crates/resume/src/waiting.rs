//! The server's table of sessions that wait for their client: time limits, size limits, and the session that
//! ends when a limit is reached.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Handle;

/// Limits of the number of sessions that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Limit for one user.
    pub per_user: usize,
    /// Limit for this host.
    pub total: usize,
}

/// A session that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The user that the session belongs to.
    pub user: String,
    /// Time at which its connection was lost.
    pub since: Instant,
    /// Time at which it ends.
    pub until: Instant,
}

/// Sort key of sessions: the time at which the connection was lost, then the order of [`Waiting::begin`].
type Order = (Instant, u64);

/// Table of the sessions that wait.
///
/// When a limit is reached, the user with the most waiting sessions loses the one that has waited longest. So
/// a user who loses many connections ends sessions of other users only while they have more.
#[derive(Debug)]
pub struct Waiting {
    limits: Limits,
    /// Sessions with their sort keys, which are also the keys in `users`.
    sessions: BTreeMap<Handle, (Order, Waiter)>,
    users: BTreeMap<String, BTreeMap<Order, Handle>>,
    arrivals: u64,
}

impl Waiting {
    /// Creates an empty table.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, sessions: BTreeMap::new(), users: BTreeMap::new(), arrivals: 0 }
    }

    /// Adds a session that lost its connection at the time `since`. It may wait for `grace` from then on
    /// (`ResumeGrace`; zero: not at all). Returns the sessions to end now, which may include this one.
    pub fn begin(&mut self, handle: Handle, user: &str, grace: Duration, since: Instant) -> Vec<Handle> {
        self.remove(&handle);
        let until = match since.checked_add(grace) {
            Some(until) if !grace.is_zero() => until,
            _ => return vec![handle],
        };
        let order = (since, self.arrivals);
        self.arrivals += 1;
        self.sessions.insert(handle, (order, Waiter { user: user.to_owned(), since, until }));
        self.users.entry(user.to_owned()).or_default().insert(order, handle);
        let mut ended = Vec::new();
        while self.waiting_of(user) > self.limits.per_user {
            ended.extend(self.remove_oldest(user));
        }
        while self.sessions.len() > self.limits.total {
            let Some(heaviest) = self.heaviest(user) else { break };
            ended.extend(self.remove_oldest(&heaviest));
        }
        ended
    }

    /// Returns the user with the most sessions. On a tie with `newcomer` it is `newcomer`, so that no other
    /// user pays.
    fn heaviest(&self, newcomer: &str) -> Option<String> {
        let heaviest = self.users.iter().max_by_key(|(user, sessions)| (sessions.len(), *user == newcomer));
        heaviest.map(|(user, _)| user.clone())
    }

    fn remove_oldest(&mut self, user: &str) -> Option<Handle> {
        let handle = *self.users.get(user)?.values().next()?;
        self.remove(&handle);
        Some(handle)
    }

    /// Removes a session that continues over another connection or has ended. Returns its entry.
    pub fn remove(&mut self, handle: &Handle) -> Option<Waiter> {
        let (order, waiter) = self.sessions.remove(handle)?;
        if let Some(sessions) = self.users.get_mut(&waiter.user) {
            sessions.remove(&order);
            if sessions.is_empty() {
                self.users.remove(&waiter.user);
            }
        }
        Some(waiter)
    }

    /// Removes and returns the sessions whose time has passed.
    pub fn expired(&mut self, now: Instant) -> Vec<Handle> {
        let over = self.sessions.iter().filter(|(_, (_, waiter))| waiter.until <= now);
        let over: Vec<Handle> = over.map(|(handle, _)| *handle).collect();
        for handle in &over {
            self.remove(handle);
        }
        over
    }

    /// Returns the time at which to call [`expired`](Self::expired).
    pub fn next_deadline(&self) -> Option<Instant> {
        self.sessions.values().map(|(_, waiter)| waiter.until).min()
    }

    /// Returns a session that waits.
    pub fn get(&self, handle: &Handle) -> Option<&Waiter> {
        self.sessions.get(handle).map(|(_, waiter)| waiter)
    }

    /// Returns all sessions that wait.
    pub fn iter(&self) -> impl Iterator<Item = (&Handle, &Waiter)> {
        self.sessions.iter().map(|(handle, (_, waiter))| (handle, waiter))
    }

    /// Returns the number of sessions of a user that wait.
    pub fn waiting_of(&self, user: &str) -> usize {
        self.users.get(user).map_or(0, BTreeMap::len)
    }

    /// Returns the number of sessions that wait.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns true when no session waits.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(600);

    fn handle(number: u32) -> Handle {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        Handle(bytes)
    }

    fn table(per_user: usize, total: usize) -> (Waiting, Instant) {
        (Waiting::new(Limits { per_user, total }), Instant::now())
    }

    #[test]
    fn sessions_end_when_their_time_is_over() {
        let (mut waiting, now) = table(10, 10);
        assert_eq!(waiting.begin(handle(1), "alice", GRACE, now), []);
        assert_eq!(waiting.begin(handle(2), "alice", GRACE / 2, now), []);
        assert_eq!(waiting.begin(handle(3), "alice", Duration::ZERO, now), [handle(3)]);
        assert_eq!(waiting.next_deadline(), Some(now + GRACE / 2));
        assert_eq!(waiting.expired(now + GRACE / 2), [handle(2)]);
        assert_eq!(waiting.remove(&handle(1)).map(|waiter| waiter.since), Some(now));
        assert!(waiting.is_empty() && waiting.next_deadline().is_none());
    }

    #[test]
    fn a_user_loses_his_oldest_session_first() {
        let (mut waiting, now) = table(2, 100);
        for number in 0..4 {
            // The order of handles differs from the order of time.
            waiting.begin(handle(100 - number), "alice", GRACE, now);
        }
        assert_eq!(waiting.begin(handle(5), "bob", GRACE, now), []);
        let mut left: Vec<_> = waiting.iter().map(|(handle, _)| *handle).collect();
        left.sort();
        assert_eq!(left, [handle(5), handle(97), handle(98)]);
    }

    #[test]
    fn sessions_are_as_old_as_their_wait() {
        let (mut waiting, now) = table(2, 100);
        let seconds = Duration::from_secs;
        waiting.begin(handle(1), "alice", GRACE, now + seconds(30));
        waiting.begin(handle(2), "alice", GRACE, now + seconds(10));
        assert_eq!(waiting.begin(handle(3), "alice", GRACE, now + seconds(20)), [handle(2)]);
        assert_eq!(waiting.begin(handle(4), "alice", GRACE, now), [handle(4)]);
        assert_eq!(waiting.get(&handle(3)).unwrap().until, now + seconds(20) + GRACE);
    }

    #[test]
    fn one_user_cannot_end_the_sessions_of_another() {
        let (mut waiting, now) = table(50, 60);
        for number in 0..30 {
            waiting.begin(handle(number), "bob", GRACE, now);
        }
        for number in 1000..11_000 {
            waiting.begin(handle(number), "mallory", GRACE, now);
        }
        assert_eq!((waiting.len(), waiting.waiting_of("bob"), waiting.waiting_of("mallory")), (60, 30, 30));
        // A user with fewer sessions displaces one of the user with the most.
        assert_eq!(waiting.begin(handle(1), "bob", GRACE, now), [], "the same session again");
        let ended = waiting.begin(handle(50_000), "carol", GRACE, now);
        assert_eq!((ended.len(), waiting.len(), waiting.waiting_of("carol")), (1, 60, 1));
    }

    #[test]
    fn a_full_table_of_single_sessions_takes_no_more() {
        let (mut waiting, now) = table(5, 100);
        for number in 0..100 {
            waiting.begin(handle(number), &format!("user{number}"), GRACE, now);
        }
        assert_eq!(waiting.begin(handle(100), "user100", GRACE, now), [handle(100)]);
        assert_eq!((waiting.len(), waiting.waiting_of("user100")), (100, 0));
    }
}
