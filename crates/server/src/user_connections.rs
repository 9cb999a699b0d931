//! Limit on authenticated connections of one user account (`PerUserMaxConnections`).
//!
//! At the end of the login, a connection's monitor asks the listener, over the socket that reports the login.
//! The listener counts by user ids from monitors; no process of a user takes part. Without the keyword no
//! messages are sent.

use std::collections::HashMap;
use std::hash::Hash as Hashable;

use lh_crypto::Hash;

/// First byte of a monitor's message about its user.
pub(crate) const USER: u8 = b'U';
/// Length of that message, bytes: kind, user id and limit.
pub(crate) const USER_LENGTH: usize = 1 + 4 + 4;

/// First byte of the message of a session that a new listener adopts, about its additional connections.
pub(crate) const MEMBER: u8 = b'P';
/// Length of that message, bytes: kind, user id and the session's key.
pub(crate) const MEMBER_LENGTH: usize = 1 + 4 + 8;

/// The limit on the wire for a user without one, and for a connection that is only counted.
const UNLIMITED: u32 = u32::MAX;

/// An authenticated connection and its user's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserConnection {
    pub(crate) uid: u32,
    /// Largest number of connections of the user, including this one; `None`: no limit.
    pub(crate) limit: Option<u32>,
}

impl UserConnection {
    /// Encodes the message.
    pub(crate) fn encode(self) -> [u8; USER_LENGTH] {
        let mut out = [USER; USER_LENGTH];
        let (uid, limit) = out[1..].split_at_mut(4);
        uid.copy_from_slice(&self.uid.to_be_bytes());
        limit.copy_from_slice(&self.limit.unwrap_or(UNLIMITED).to_be_bytes());
        out
    }

    /// Decodes the message.
    pub(crate) fn decode(message: &[u8; USER_LENGTH]) -> Option<Self> {
        let [USER, a, b, c, d, limit @ ..] = *message else { return None };
        let limit = Some(u32::from_be_bytes(limit)).filter(|limit| *limit != UNLIMITED);
        Some(Self { uid: u32::from_be_bytes([a, b, c, d]), limit })
    }
}

/// A connection of a session that has several, of which one is counted: the one that logged in, and those
/// that joined it by tickets. A listener that adopts them learns from this that they belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) uid: u32,
    /// Equal for all connections of the session.
    pub(crate) key: u64,
}

impl Member {
    /// Returns the message of a connection whose session began with this session identifier.
    pub(crate) fn new(uid: u32, session_id: &[u8]) -> Self {
        let digest = Hash::Sha256.digest(&[session_id]);
        let key = digest.as_ref().first_chunk().copied().map_or(0, u64::from_be_bytes);
        Self { uid, key }
    }

    /// Encodes the message.
    pub(crate) fn encode(self) -> [u8; MEMBER_LENGTH] {
        let mut out = [MEMBER; MEMBER_LENGTH];
        let (uid, key) = out[1..].split_at_mut(4);
        uid.copy_from_slice(&self.uid.to_be_bytes());
        key.copy_from_slice(&self.key.to_be_bytes());
        out
    }

    /// Decodes the message.
    pub(crate) fn decode(message: &[u8; MEMBER_LENGTH]) -> Option<Self> {
        let [MEMBER, a, b, c, d, key @ ..] = *message else { return None };
        Some(Self { uid: u32::from_be_bytes([a, b, c, d]), key: u64::from_be_bytes(key) })
    }
}

/// The listener's table.
#[derive(Debug)]
pub(crate) struct UserConnections<P> {
    /// The user id of each process's connection.
    counted: HashMap<P, u32>,
    /// The session of each connection that has joined one by a ticket.
    joined: HashMap<P, P>,
    /// The counted connection of each session that reports its [`Member`]s.
    sessions: HashMap<u64, P>,
}

impl<P> Default for UserConnections<P> {
    fn default() -> Self {
        Self { counted: HashMap::new(), joined: HashMap::new(), sessions: HashMap::new() }
    }
}

impl<P: Copy + Eq + Hashable> UserConnections<P> {
    /// Counts a connection, if its user may have one more. A connection that is counted already stays
    /// counted.
    pub(crate) fn admit(&mut self, process: P, connection: UserConnection) -> bool {
        let UserConnection { uid, limit } = connection;
        let others = self.counted.iter().filter(|(other, user)| **other != process && **user == uid).count();
        let admitted = limit.is_none_or(|limit| others < limit as usize);
        if admitted {
            self.counted.insert(process, uid);
        }
        admitted
    }

    /// Like [`admit`](Self::admit), but ends connections where the limit is reached: the first of `may_end`
    /// that are this user's, and only if that is enough. One that others have joined is not ended, because
    /// they would go on. Returns whether the connection is admitted, and those that end.
    pub(crate) fn admit_instead(
        &mut self,
        process: P,
        connection: UserConnection,
        may_end: impl IntoIterator<Item = P>,
    ) -> (bool, Vec<P>) {
        let mut ended: Vec<P> = Vec::new();
        let mut may_end = may_end.into_iter().filter(|one| *one != process);
        loop {
            if self.admit(process, connection) {
                return (true, ended);
            }
            let is_joined = |one: &P| self.joined.values().any(|owner| owner == one);
            let next = may_end.find(|one| self.counted.get(one) == Some(&connection.uid) && !is_joined(one));
            let Some(next) = next else { break };
            self.counted.remove(&next);
            ended.push(next);
        }
        self.counted.extend(ended.into_iter().map(|one| (one, connection.uid)));
        (false, Vec::new())
    }

    /// Records a connection that joins the session of `owner`, which is counted for both.
    pub(crate) fn join(&mut self, process: P, owner: P) {
        self.joined.insert(process, owner);
    }

    /// Records an adopted connection of a session with several: the first of them that reports is counted,
    /// and the others join it.
    pub(crate) fn adopt(&mut self, process: P, member: Member) {
        let counted = *self.sessions.entry(member.key).or_insert(process);
        if counted == process {
            self.counted.insert(process, member.uid);
        } else {
            self.counted.remove(&process);
            self.join(process, counted);
        }
    }

    /// Removes a connection that has ended. If others have joined it, one of them is counted in its place.
    /// Otherwise a client could log in, join, and end the connection that is counted, again and again.
    pub(crate) fn end(&mut self, process: &P) {
        self.joined.remove(process);
        let uid = self.counted.remove(process);
        let mut left = self.joined.iter_mut().filter(|(_, owner)| *owner == process);
        let Some(heir) = left.next().map(|(heir, _)| *heir) else {
            self.sessions.retain(|_, counted| counted != process);
            return;
        };
        left.for_each(|(_, owner)| *owner = heir);
        self.sessions.values_mut().filter(|counted| *counted == process).for_each(|counted| *counted = heir);
        self.joined.remove(&heir);
        if let Some(uid) = uid {
            self.counted.insert(heir, uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_each_user_are_counted() {
        let mut table = UserConnections::default();
        let two = |uid| UserConnection { uid, limit: Some(2) };
        assert!(table.admit(1, two(7)) && table.admit(2, two(7)) && !table.admit(3, two(7)));
        // A repeated question counts once; another user has a limit of its own.
        assert!(table.admit(2, two(7)) && table.admit(4, two(8)));
        // Without a limit, one more connection is counted and admitted.
        assert!(table.admit(5, UserConnection { uid: 7, limit: None }));
        table.end(&1);
        assert!(!table.admit(3, two(7)));
        table.end(&5);
        assert!(table.admit(3, two(7)));
        assert!(!table.admit(9, UserConnection { uid: 9, limit: Some(0) }));
    }

    #[test]
    fn joined_connections_are_counted_when_their_session_has_ended() {
        let mut table = UserConnections::default();
        let one = UserConnection { uid: 7, limit: Some(1) };
        assert!(table.admit(1, one));
        (2..5).for_each(|joined| table.join(joined, 1));
        table.end(&4);
        assert_eq!(table.admit_instead(6, one, [1]), (false, vec![]));
        table.end(&1);
        // The two that are left count as one session.
        assert!(!table.admit(5, one) && table.admit(5, UserConnection { limit: Some(2), ..one }));
        table.end(&5);
        table.end(&2);
        assert!(!table.admit(5, one));
        table.end(&3);
        assert!(table.admit(5, one));
        assert!(table.joined.is_empty());
    }

    #[test]
    fn adopted_connections_of_one_session_count_once() {
        let one = UserConnection { uid: 7, limit: Some(1) };
        let member = Member::new(7, b"session");
        // In each order of the one that logged in (1) and those that joined it (2 and 3).
        for order in [[1, 2, 3], [2, 1, 3], [3, 2, 1]] {
            let mut table = UserConnections::default();
            for process in order {
                if process == 1 {
                    assert!(table.admit(process, UserConnection { limit: None, ..one }));
                }
                table.adopt(process, member);
            }
            assert!(table.admit(9, UserConnection { limit: Some(2), ..one }), "{order:?}");
            table.end(&9);
            for process in [1, 3, 2] {
                assert!(!table.admit(9, one), "{order:?}: {process} is left");
                table.end(&process);
            }
            assert!(table.admit(9, one), "{order:?}");
            assert!(table.joined.is_empty() && table.sessions.is_empty());
        }
        // Another session has a place of its own.
        let mut table = UserConnections::default();
        table.adopt(1, member);
        table.adopt(2, Member::new(7, b"another"));
        assert!(!table.admit(9, UserConnection { limit: Some(2), ..one }));
        assert_eq!(Member::decode(&member.encode()), Some(member));
        assert_eq!(Member::decode(&[USER; MEMBER_LENGTH]), None);
    }

    #[test]
    fn connections_that_may_end_make_room() {
        let mut table = UserConnections::default();
        let any = |uid| UserConnection { uid, limit: None };
        for (process, uid) in [(1, 7), (2, 7), (3, 7), (4, 8)] {
            assert!(table.admit(process, any(uid)));
        }
        let at_most = |limit| UserConnection { uid: 7, limit: Some(limit) };
        // With room for one more, none ends.
        assert_eq!(table.admit_instead(5, at_most(4), [1, 2]), (true, vec![]));
        // Another user's does not make room, and one that is not counted neither.
        assert_eq!(table.admit_instead(6, at_most(4), [4, 9, 2, 1]), (true, vec![2]));
        // Where those that may end are too few, none ends.
        assert_eq!(table.admit_instead(7, at_most(1), [1, 3]), (false, vec![]));
        assert_eq!(table.admit_instead(7, at_most(3), [1, 3, 5]), (true, vec![1, 3]));
        assert_eq!(table.admit_instead(8, at_most(0), [5, 6, 7]), (false, vec![]));
        assert!(!table.admit(8, at_most(3)) && table.admit(8, at_most(4)));
    }

    #[test]
    fn messages_say_user_and_limit() {
        for limit in [None, Some(0), Some(70_000)] {
            let connection = UserConnection { uid: 0x0102_0304, limit };
            assert_eq!(UserConnection::decode(&connection.encode()), Some(connection));
        }
        assert_eq!(UserConnection::decode(&[b'J'; USER_LENGTH]), None);
    }
}
