//! Transfer quotas (`PerUserTransferQuota`): the bytes that all connections of a user account have
//! transferred.
//!
//! Monitors report to the listener, which keeps the sum of each account for its period. User session
//! processes count the bytes and report them every few seconds during transfers and at their end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::time::{Duration, Instant};

use lh_config::server_values::TransferQuota;

/// First byte of a monitor's report of transferred bytes.
pub(crate) const MOVED: u8 = b'Q';
/// Length of the report, bytes: kind, user id, bytes transferred, quota in bytes, period in seconds.
pub(crate) const MOVED_LENGTH: usize = 1 + 4 + 3 * 8;

/// Number of accounts from which expired periods are removed.
const MANY: usize = 1024;

/// The bytes that connections of a user have transferred since the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) uid: u32,
    pub(crate) bytes: u64,
    pub(crate) quota: TransferQuota,
}

impl Moved {
    /// Encodes the report.
    pub(crate) fn encode(self) -> [u8; MOVED_LENGTH] {
        let mut out = [MOVED; MOVED_LENGTH];
        let (uid, numbers) = out[1..].split_at_mut(4);
        uid.copy_from_slice(&self.uid.to_be_bytes());
        let values = [self.bytes, self.quota.bytes, self.quota.period.as_secs()];
        for (slot, value) in numbers.chunks_exact_mut(8).zip(values) {
            slot.copy_from_slice(&value.to_be_bytes());
        }
        out
    }

    /// Decodes the report.
    pub(crate) fn decode(message: &[u8; MOVED_LENGTH]) -> Option<Self> {
        let [MOVED, a, b, c, d, numbers @ ..] = message else { return None };
        let mut numbers =
            numbers.chunks_exact(8).filter_map(|chunk| chunk.try_into().ok()).map(u64::from_be_bytes);
        let (bytes, quota, period) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let quota = TransferQuota { bytes: quota, period: Duration::from_secs(period) };
        Some(Self { uid: u32::from_be_bytes([*a, *b, *c, *d]), bytes, quota })
    }
}

/// The bytes that an account has transferred in its period.
#[derive(Debug, Clone, Copy)]
struct Sum {
    bytes: u64,
    since: Instant,
    period: Duration,
}

impl Sum {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= self.period
    }
}

/// The listener's table of sums, and of the sessions that have to end when a quota is used up. All sessions
/// of an account end, not only those that move bytes: each could move more before its next report.
#[derive(Debug)]
pub(crate) struct Quotas<Owner> {
    /// By user id.
    sums: HashMap<u32, Sum>,
    /// User id and quota in bytes of each session.
    sessions: HashMap<Owner, (u32, u64)>,
    /// The sessions that were not ended, by user id and quota.
    running: HashMap<u32, BTreeMap<u64, HashSet<Owner>>>,
}

impl<Owner> Default for Quotas<Owner> {
    fn default() -> Self {
        Self { sums: HashMap::new(), sessions: HashMap::new(), running: HashMap::new() }
    }
}

impl<Owner: Copy + Eq + Hash> Quotas<Owner> {
    /// Records a session of an account with a quota.
    pub(crate) fn begin(&mut self, owner: Owner, moved: &Moved) {
        let Moved { uid, quota, .. } = *moved;
        if self.sessions.contains_key(&owner) {
            return;
        }
        self.sessions.insert(owner, (uid, quota.bytes));
        self.running.entry(uid).or_default().entry(quota.bytes).or_default().insert(owner);
    }

    /// Forgets a session that has ended.
    pub(crate) fn end(&mut self, owner: &Owner) {
        let Some((uid, bytes)) = self.sessions.remove(owner) else { return };
        let Some(of_user) = self.running.get_mut(&uid) else { return };
        if let Some(equal) = of_user.get_mut(&bytes) {
            equal.remove(owner);
            if equal.is_empty() {
                of_user.remove(&bytes);
            }
        }
        if of_user.is_empty() {
            self.running.remove(&uid);
        }
    }

    /// Returns the sessions of this account whose quotas are used up, each of them once.
    pub(crate) fn used_up(&mut self, uid: u32) -> Vec<Owner> {
        let sum = self.sums.get(&uid).map_or(0, |sum| sum.bytes);
        let Some(of_user) = self.running.get_mut(&uid) else { return Vec::new() };
        let mut ended = Vec::new();
        while let Some(least) = of_user.first_entry().filter(|least| *least.key() <= sum) {
            ended.extend(least.remove());
        }
        if of_user.is_empty() {
            self.running.remove(&uid);
        }
        ended
    }

    /// Adds transferred bytes; returns false when the quota is used up. The first byte starts a period.
    pub(crate) fn add(&mut self, moved: Moved, now: Instant) -> bool {
        let Moved { uid, bytes, quota } = moved;
        if self.sums.len() >= MANY {
            self.sums.retain(|_, sum| !sum.is_over(now));
        }
        let period = quota.period;
        let sum = self.sums.entry(uid).or_insert(Sum { bytes: 0, since: now, period });
        sum.period = period;
        if sum.is_over(now) {
            *sum = Sum { bytes: 0, since: now, period };
        }
        sum.bytes = sum.bytes.saturating_add(bytes);
        if sum.bytes == 0 {
            self.sums.remove(&uid);
            return true;
        }
        sum.bytes < quota.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_period_begins_with_its_first_byte() {
        let (mut quotas, start) = (Quotas::<u8>::default(), Instant::now());
        let quota = TransferQuota { bytes: 100, period: DAY };
        let moved = |uid, bytes| Moved { uid, bytes, quota };
        // A question without bytes starts no period.
        assert!(quotas.add(moved(1, 0), start));
        let first = start + DAY / 2;
        assert!(quotas.add(moved(1, 60), first) && quotas.add(moved(2, 99), first));
        assert!(!quotas.add(moved(1, 40), start + DAY));
        assert!(!quotas.add(moved(1, 0), start + DAY) && quotas.add(moved(2, 0), start + DAY));
        assert!(quotas.add(moved(1, 0), first + DAY) && quotas.add(moved(1, 99), first + DAY));
        assert!(!quotas.add(moved(1, u64::MAX), first + DAY));
        // With another quota for the account, the sum stays.
        let more = TransferQuota { bytes: u64::MAX, period: DAY };
        assert!(!quotas.add(Moved { uid: 1, bytes: 0, quota: more }, first + DAY));
    }

    #[test]
    fn a_used_up_quota_ends_all_sessions_of_the_account_once() {
        let (mut quotas, now) = (Quotas::default(), Instant::now());
        let moved =
            |uid, bytes, quota| Moved { uid, bytes, quota: TransferQuota { bytes: quota, period: DAY } };
        // The sessions 1 to 3 have moved nothing; the third one has a higher quota.
        for (session, uid, quota) in [(1, 7, 100), (2, 7, 100), (3, 7, 200), (4, 7, 100), (5, 8, 100)] {
            quotas.begin(session, &moved(uid, 0, quota));
        }
        let mut report = |session, uid, bytes| {
            quotas.begin(session, &moved(uid, bytes, 100));
            quotas.add(moved(uid, bytes, 100), now);
            if session == 4 {
                quotas.end(&4);
            }
            let mut ended = quotas.used_up(uid);
            ended.sort_unstable();
            ended
        };
        assert_eq!(report(1, 7, 99), [0; 0]);
        assert_eq!(report(4, 7, 1), [1, 2], "not the one that has ended itself");
        assert_eq!(report(2, 7, 99), [0; 0], "once");
        assert_eq!(report(1, 7, 1), [3]);
        assert_eq!(report(5, 8, 100), [5]);
        // A session that is not known yet is one of an earlier listener.
        assert_eq!(report(6, 7, 1), [6]);
        (1..=6).for_each(|session| quotas.end(&session));
        assert!(quotas.sessions.is_empty() && quotas.running.is_empty());
    }

    #[test]
    fn accounts_whose_period_is_over_are_forgotten() {
        let (mut quotas, now) = (Quotas::<u8>::default(), Instant::now());
        let quota = TransferQuota { bytes: 100, period: DAY };
        for uid in 0..5000 {
            quotas.add(Moved { uid, bytes: 1, quota }, now + Duration::from_secs(u64::from(uid) * 1000));
        }
        assert!(quotas.sums.len() <= MANY, "{}", quotas.sums.len());
    }

    #[test]
    fn messages_say_what_has_moved() {
        let quota = TransferQuota { bytes: 1 << 40, period: DAY };
        let moved = Moved { uid: 0x0102_0304, bytes: 77, quota };
        assert_eq!(Moved::decode(&moved.encode()), Some(moved));
        assert_eq!(Moved::decode(&[b'J'; MOVED_LENGTH]), None);
    }
}
