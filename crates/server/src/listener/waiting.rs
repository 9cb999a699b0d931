//! Sessions that have lost their connections and wait for their clients (`ResumeGrace`). Limits their number,
//! the memory that they keep, and the connections that their clients may lose without a penalty while they
//! reconnect.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use lh_config::server_values::NetBlockSize;
use lh_resume::{Handle, Limits, Waiting};
use lh_session_list::Id;
use rustix::process::Pid;

use super::reserve::Reserve;
use crate::penalties::Source;
use crate::resuming::Notice;

/// The process that reports for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// A session process of this listener.
    Process(Pid),
    /// The monitor of a session that an earlier listener started.
    Adopted(Id),
}

/// The waiting sessions. See the module documentation.
#[derive(Debug)]
pub(super) struct WaitingSessions {
    waiting: Waiting,
    owners: HashMap<Handle, Owner>,
    /// Bytes that each session keeps for its client.
    kept: HashMap<Handle, u64>,
    most_kept: u64,
    reserves: HashMap<Handle, (Source, Reserve)>,
    block: NetBlockSize,
}

impl WaitingSessions {
    /// `limits`: how many may wait (`ResumeMaxSessions`). Each keeps its monitor, its session process, with
    /// PAM the PAM session holder, its programs, and the data that its client has not acknowledged.
    /// `most_kept`: how much of that data all keep together, bytes (`ResumeMaxMemory`). `block`: which
    /// addresses count as one source (`PerSourceNetBlockSize`).
    pub(super) fn new(limits: Limits, most_kept: u64, block: NetBlockSize) -> Self {
        let waiting = Waiting::new(limits);
        let (owners, kept, reserves) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { waiting, owners, kept, most_kept, reserves, block }
    }

    /// Returns the logged reason for sessions that end because of this notice.
    pub(super) const fn reason(notice: &Notice) -> &'static str {
        match notice {
            Notice::Keeps { .. } => "too much memory is kept for clients (ResumeMaxMemory)",
            Notice::Waits { .. } | Notice::GoesOn(_) | Notice::Connected(_) => {
                "too many wait for their clients"
            }
        }
    }

    /// Takes a connection from `source` out of the reserve of a session that waits for a client there; its
    /// end before the login is then no offence. False: there is no such session, or its reserve is empty.
    pub(super) fn excuse(&mut self, source: Source, now: Instant) -> bool {
        self.reserves.values_mut().any(|(of, reserve)| *of == source && reserve.take(now))
    }

    /// Returns the sessions, those first that have the least time left.
    pub(super) fn by_time_left(&self) -> Vec<Owner> {
        let mut waiting: Vec<_> = self.waiting.iter().collect();
        waiting.sort_by_key(|(_, waiter)| waiter.until);
        waiting.iter().filter_map(|(handle, _)| self.owners.get(handle).copied()).collect()
    }

    /// Records a session's notice. Returns the sessions that have to end so that the limits hold.
    pub(super) fn record(&mut self, from: Owner, notice: Notice, now: Instant) -> Vec<Owner> {
        match notice {
            Notice::GoesOn(handle) => {
                if self.owners.get(&handle) == Some(&from) {
                    self.forget(&handle);
                }
                Vec::new()
            }
            Notice::Keeps { handle, bytes } => {
                if self.owners.get(&handle) != Some(&from) {
                    return Vec::new();
                }
                self.kept.insert(handle, bytes);
                self.end_heaviest()
            }
            Notice::Connected(_) => Vec::new(),
            Notice::Waits { handle, user, address, waited, grace } => {
                // A handle belongs to the process that named it first; notices of another process change
                // nothing.
                if self.owners.get(&handle).is_some_and(|owner| *owner != from) {
                    return Vec::new();
                }
                self.owners.insert(handle, from);
                self.note_address(handle, address, now);
                let ended = self.waiting.begin(handle, &user, grace, now.checked_sub(waited).unwrap_or(now));
                ended
                    .iter()
                    .filter_map(|ended| {
                        self.kept.remove(ended);
                        self.reserves.remove(ended);
                        self.owners.remove(ended)
                    })
                    .collect()
            }
        }
    }

    /// Returns the sessions to end until the rest keep no more memory than allowed. Each time it chooses the
    /// user with the most memory, and of that user's sessions the largest. So a user is affected by others
    /// only while using more memory than they do.
    fn end_heaviest(&mut self) -> Vec<Owner> {
        let mut ended = Vec::new();
        while self.kept.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)) > self.most_kept {
            let mut users: HashMap<&str, (u64, u64, Handle)> = HashMap::new();
            for (handle, bytes) in &self.kept {
                let Some(waiter) = self.waiting.get(handle) else { continue };
                let (sum, most, heaviest) = users.entry(&waiter.user).or_insert((0, 0, *handle));
                *sum = sum.saturating_add(*bytes);
                if *bytes > *most {
                    (*most, *heaviest) = (*bytes, *handle);
                }
            }
            let Some(&(_, _, handle)) = users.values().max_by_key(|(sum, ..)| *sum) else { break };
            ended.extend(self.owners.get(&handle).copied());
            self.forget(&handle);
        }
        ended
    }

    /// Begins a session's reserve. A repeated notice does not refill it.
    fn note_address(&mut self, handle: Handle, address: IpAddr, now: Instant) {
        let source = Source::of(address, self.block);
        self.reserves.entry(handle).or_insert((source, Reserve::new(now)));
    }

    /// Removes the sessions of a process that has ended.
    pub(super) fn gone(&mut self, from: Owner) {
        let of_owner = self.owners.iter().find(|(_, owner)| **owner == from).map(|(handle, _)| *handle);
        if let Some(handle) = of_owner {
            self.forget(&handle);
        }
    }

    fn forget(&mut self, handle: &Handle) {
        self.waiting.remove(handle);
        self.owners.remove(handle);
        self.kept.remove(handle);
        self.reserves.remove(handle);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::reserve::RESERVE;
    use super::*;
    use crate::penalties::{Consequence, Offence, Table};

    const BLOCK: NetBlockSize = NetBlockSize { ipv4: 32, ipv6: 64 };
    const ADDRESS: &str = "192.0.2.7";

    pub(in crate::listener) fn sessions() -> WaitingSessions {
        WaitingSessions::new(Limits { per_user: 64, total: 1024 }, 1 << 30, BLOCK)
    }

    fn waits(number: u16, user: &str) -> (Owner, Notice) {
        let mut handle = Handle([0; 16]);
        handle.0[..2].copy_from_slice(&number.to_be_bytes());
        let grace = Duration::from_secs(600);
        // Every third session is an adopted one.
        let owner = match number % 3 {
            0 => Owner::Adopted(Id::new(number.into())),
            _ => Owner::Process(Pid::from_raw(i32::from(number) + 1).unwrap()),
        };
        let address = ADDRESS.parse().unwrap();
        (owner, Notice::Waits { handle, user: user.to_owned(), address, waited: Duration::ZERO, grace })
    }

    #[test]
    fn sessions_beyond_the_limit_are_ended_oldest_first() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let mut ended = Vec::new();
        for number in 0..100 {
            let (owner, notice) = waits(number, "ada");
            ended.extend(sessions.record(owner, notice, now));
        }
        let expected: Vec<_> = (0..36).map(|number| waits(number, "ada").0).collect();
        assert_eq!(ended, expected);
        // One session that resumes and one that ends make room for two.
        let (owner, _) = waits(99, "ada");
        sessions.gone(owner);
        let (owner, Notice::Waits { handle, .. }) = waits(98, "ada") else { unreachable!() };
        sessions.record(owner, Notice::GoesOn(handle), now);
        for number in 200..202 {
            let (owner, notice) = waits(number, "ada");
            assert_eq!(sessions.record(owner, notice, now), []);
        }
        let (owner, notice) = waits(202, "ada");
        assert_eq!(sessions.record(owner, notice, now).len(), 1);
    }

    #[test]
    fn another_process_cannot_speak_for_a_session() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let (owner, notice) = waits(1, "ada");
        let Notice::Waits { handle, .. } = notice else { unreachable!() };
        sessions.record(owner, notice, now);
        let (other, notice) = (Owner::Process(Pid::from_raw(77).unwrap()), waits(1, "bob").1);
        assert_eq!(sessions.record(other, notice, now), []);
        assert_eq!(sessions.record(other, Notice::GoesOn(handle), now), []);
        assert_eq!(sessions.waiting.waiting_of("ada"), 1);
    }

    #[test]
    fn ten_thousand_sessions_keep_what_the_limit_allows() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let mut ended = Vec::new();
        for number in 0..10_000 {
            let (owner, notice) = waits(number, &format!("user{}", number % 200));
            ended.extend(sessions.record(owner, notice, now));
            assert!(sessions.owners.len() <= 1024 && sessions.waiting.len() == sessions.owners.len());
        }
        assert_eq!((ended.len(), sessions.owners.len()), (10_000 - 1024, 1024));
        // About equally many sessions of each user wait.
        let of_users = (0..200).map(|user| sessions.waiting.waiting_of(&format!("user{user}")));
        assert!(of_users.clone().min() >= Some(5) && of_users.max() <= Some(6));
        for number in 0..10_000 {
            sessions.gone(waits(number, "").0);
        }
        assert!(sessions.waiting.is_empty() && sessions.owners.is_empty() && sessions.reserves.is_empty());
    }

    fn keeps(number: u16, bytes: u64) -> (Owner, Notice) {
        let (owner, Notice::Waits { handle, .. }) = waits(number, "") else { unreachable!() };
        (owner, Notice::Keeps { handle, bytes })
    }

    #[test]
    fn ten_thousand_sessions_keep_as_much_memory_as_allowed() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let mut ended = 0;
        for number in 0..10_000 {
            let (owner, notice) = waits(number, &format!("user{}", number % 200));
            ended += sessions.record(owner, notice, now).len();
            let (owner, notice) = keeps(number, 64 << 20);
            ended += sessions.record(owner, notice, now).len();
            assert!(sessions.kept.values().sum::<u64>() <= 1 << 30);
            assert!(sessions.kept.len() == sessions.owners.len().min(16), "{number}");
        }
        assert_eq!((ended, sessions.owners.len(), sessions.waiting.len()), (10_000 - 16, 16, 16));
        for number in 0..10_000 {
            sessions.gone(waits(number, "").0);
        }
        assert!(sessions.waiting.is_empty() && sessions.owners.is_empty() && sessions.kept.is_empty());
    }

    #[test]
    fn memory_ends_the_heaviest_users_heaviest_session() {
        let (mut sessions, now) = (sessions(), Instant::now());
        // Ada has the largest session, but bob's together are larger.
        for (number, user, mib) in [(0, "ada", 300), (1, "bob", 200), (2, "bob", 250), (3, "bob", 150)] {
            let (owner, notice) = waits(number, user);
            assert_eq!(sessions.record(owner, notice, now), []);
            let (owner, notice) = keeps(number, mib << 20);
            assert_eq!(sessions.record(owner, notice, now), []);
        }
        // A repeated notice counts once, and no other process can report for the session.
        let (owner, notice) = waits(0, "ada");
        assert_eq!(sessions.record(owner, notice, now), []);
        assert_eq!(sessions.record(keeps(1, 0).0, keeps(0, u64::MAX).1, now), []);
        let (owner, notice) = keeps(0, 424 << 20);
        assert_eq!(sessions.record(owner, notice, now), []);
        let (owner, notice) = keeps(0, 425 << 20);
        assert_eq!(sessions.record(owner, notice, now), [waits(2, "").0]);
        // A resumed session no longer counts as keeping memory; a false report ends the user's own sessions.
        let (owner, Notice::Waits { handle, .. }) = waits(0, "ada") else { unreachable!() };
        sessions.record(owner, Notice::GoesOn(handle), now);
        assert_eq!(sessions.kept.values().sum::<u64>(), 350 << 20);
        let (owner, notice) = waits(4, "eve");
        sessions.record(owner, notice, now);
        let (owner, notice) = keeps(4, u64::MAX);
        assert_eq!(sessions.record(owner, notice, now), [owner]);
    }

    /// Ends connections without an attempt to log in, one in each `pause`. Returns the number of the first
    /// one after which the address is locked out.
    fn locked_out(
        sessions: &mut WaitingSessions,
        address: &str,
        start: Instant,
        pause: Duration,
    ) -> Option<u32> {
        let settings = crate::testing::settings("PerSourcePenalties yes");
        let mut penalties = Table::new(settings.per_source_penalties.value.clone(), None);
        let address: IpAddr = address.parse().unwrap();
        let source = Source::of(address, BLOCK);
        (1..1000).find(|number| {
            let now = start + pause * *number;
            let excused = sessions.excuse(source, now);
            !excused
                && matches!(
                    penalties.punish(address, source, Offence::GraceExceeded, now),
                    Consequence::Activated(..)
                )
        })
    }

    #[test]
    fn a_bad_path_does_not_lock_out_a_waiting_session() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let (owner, notice) = waits(1, "ada");
        sessions.record(owner, notice, now);
        let second = Duration::from_secs(1);
        // The attempts of a client in ten minutes: one a second at first, then one in five seconds.
        let source = Source::of(ADDRESS.parse().unwrap(), BLOCK);
        let attempts = (0..120).chain((120..600).step_by(5));
        for at in attempts {
            assert!(sessions.excuse(source, now + second * at), "{at}");
        }
        // Another address gains nothing.
        assert_eq!(locked_out(&mut sessions, "192.0.2.8", now, second), Some(2));
    }

    #[test]
    fn the_reserve_of_a_waiting_session_is_bounded() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let (owner, notice) = waits(1, "ada");
        let Notice::Waits { handle, .. } = notice else { unreachable!() };
        sessions.record(owner, notice, now);
        // A repeated notice begins no new reserve.
        let flood = Duration::from_millis(1);
        assert_eq!(locked_out(&mut sessions, ADDRESS, now, flood), Some(RESERVE + 2));
        sessions.record(owner, waits(1, "ada").1, now);
        assert_eq!(locked_out(&mut sessions, ADDRESS, now + Duration::from_secs(2), flood), Some(2));
        // The reserve ends with the session.
        let later = now + Duration::from_secs(300);
        assert!(sessions.excuse(Source::of(ADDRESS.parse().unwrap(), BLOCK), later));
        sessions.record(owner, Notice::GoesOn(handle), later);
        assert_eq!(locked_out(&mut sessions, ADDRESS, later, flood), Some(2));
    }
}
