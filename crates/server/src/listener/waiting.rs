//! Sessions that have lost their connections and wait for their clients (`ResumeGrace`): how many there may be, and
//! how many connections their clients may lose on the way back without a penalty for their address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use lh_config::server_values::NetBlockSize;
use lh_resume::{Handle, Limits, Waiting};
use lh_session_list::Id;
use rustix::process::Pid;

use crate::penalties::Source;
use crate::resuming::Notice;

/// Connections that the client of a waiting session may lose before the login. A client makes 120 in the first two
/// minutes of an outage, one a second.
const RESERVE: u32 = 128;

/// Time after which it may lose one more: a client makes one attempt in this time when it has been away for longer.
const RENEWAL: Duration = Duration::from_secs(5);

/// Who speaks for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A process of this listener's.
    Process(Pid),
    /// The monitor of a session that an earlier listener has begun.
    Adopted(Id),
}

/// Connections that may end without a login and without a penalty.
#[derive(Debug, Clone, Copy)]
struct Reserve {
    source: Source,
    left: u32,
    /// When [`RENEWAL`] was counted last.
    at: Instant,
}

impl Reserve {
    /// Takes one, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        while self.left < RESERVE && self.at + RENEWAL <= now {
            self.left += 1;
            self.at += RENEWAL;
        }
        if self.left == RESERVE {
            self.at = now;
        }
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct WaitingSessions {
    waiting: Waiting,
    owners: HashMap<Handle, Owner>,
    reserves: HashMap<Handle, Reserve>,
    block: NetBlockSize,
}

impl WaitingSessions {
    /// `limits`: how many may wait (`ResumeMaxSessions`). Each keeps its monitor, its session process (and,
    /// with PAM, the holder of the PAM session), its programs and, at most, the memory for what its client
    /// has not acknowledged. `block`: which addresses count as one (`PerSourceNetBlockSize`).
    pub(super) fn new(limits: Limits, block: NetBlockSize) -> Self {
        Self { waiting: Waiting::new(limits), owners: HashMap::new(), reserves: HashMap::new(), block }
    }

    /// Takes a connection from `source` out of the reserve of a session that waits for a client there: its end before
    /// the login is no offence. False where there is no such session, or nothing is left of its reserve.
    pub(super) fn excuse(&mut self, source: Source, now: Instant) -> bool {
        self.reserves.values_mut().any(|reserve| reserve.source == source && reserve.take(now))
    }

    /// A session waits, or goes on. Returns the sessions that have to end for it.
    pub(super) fn hear(&mut self, from: Owner, notice: Notice, now: Instant) -> Vec<Owner> {
        match notice {
            Notice::GoesOn(handle) => {
                if self.owners.get(&handle) == Some(&from) {
                    self.forget(&handle);
                }
                Vec::new()
            }
            Notice::Waits { handle, user, address, waited, grace } => {
                // A session that says it again, or names one of another process, changes nothing for the other.
                if self.owners.get(&handle).is_some_and(|owner| *owner != from) {
                    return Vec::new();
                }
                self.owners.insert(handle, from);
                self.note_address(handle, address, now);
                let ended = self.waiting.begin(handle, &user, grace, now.checked_sub(waited).unwrap_or(now));
                ended
                    .iter()
                    .filter_map(|ended| {
                        self.reserves.remove(ended);
                        self.owners.remove(ended)
                    })
                    .collect()
            }
        }
    }

    /// Begins a session's reserve. One that says again that it waits gets no other.
    fn note_address(&mut self, handle: Handle, address: IpAddr, now: Instant) {
        let source = Source::of(address, self.block);
        let reserve = Reserve { source, left: RESERVE, at: now };
        self.reserves.entry(handle).or_insert(reserve);
    }

    /// The session has ended.
    pub(super) fn gone(&mut self, from: Owner) {
        let of_owner = self.owners.iter().find(|(_, owner)| **owner == from).map(|(handle, _)| *handle);
        if let Some(handle) = of_owner {
            self.forget(&handle);
        }
    }

    fn forget(&mut self, handle: &Handle) {
        self.waiting.remove(handle);
        self.owners.remove(handle);
        self.reserves.remove(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::penalties::{Consequence, Misdeed, Table};

    const BLOCK: NetBlockSize = NetBlockSize { ipv4: 32, ipv6: 64 };
    const ADDRESS: &str = "192.0.2.7";

    fn sessions() -> WaitingSessions {
        WaitingSessions::new(Limits { per_user: 64, total: 1024 }, BLOCK)
    }

    fn waits(number: u16, user: &str) -> (Owner, Notice) {
        let mut handle = Handle([0; 16]);
        handle.0[..2].copy_from_slice(&number.to_be_bytes());
        let grace = Duration::from_secs(600);
        // Every third one has been adopted.
        let owner = match number % 3 {
            0 => Owner::Adopted(Id::new(number.into())),
            _ => Owner::Process(Pid::from_raw(i32::from(number) + 1).unwrap()),
        };
        let address = ADDRESS.parse().unwrap();
        (owner, Notice::Waits { handle, user: user.to_owned(), address, waited: Duration::ZERO, grace })
    }

    #[test]
    fn sessions_beyond_the_limit_end_the_oldest_first() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let mut ended = Vec::new();
        for number in 0..100 {
            let (owner, notice) = waits(number, "ada");
            ended.extend(sessions.hear(owner, notice, now));
        }
        let expected: Vec<_> = (0..36).map(|number| waits(number, "ada").0).collect();
        assert_eq!(ended, expected);
        // One that goes on and one that has ended make place for two.
        let (owner, _) = waits(99, "ada");
        sessions.gone(owner);
        let (owner, Notice::Waits { handle, .. }) = waits(98, "ada") else { unreachable!() };
        sessions.hear(owner, Notice::GoesOn(handle), now);
        for number in 200..202 {
            let (owner, notice) = waits(number, "ada");
            assert_eq!(sessions.hear(owner, notice, now), []);
        }
        let (owner, notice) = waits(202, "ada");
        assert_eq!(sessions.hear(owner, notice, now).len(), 1);
    }

    #[test]
    fn another_process_cannot_speak_for_a_session() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let (owner, notice) = waits(1, "ada");
        let Notice::Waits { handle, .. } = notice else { unreachable!() };
        sessions.hear(owner, notice, now);
        let (other, notice) = (Owner::Process(Pid::from_raw(77).unwrap()), waits(1, "bob").1);
        assert_eq!(sessions.hear(other, notice, now), []);
        assert_eq!(sessions.hear(other, Notice::GoesOn(handle), now), []);
        assert_eq!(sessions.waiting.waiting_of("ada"), 1);
    }

    #[test]
    fn ten_thousand_sessions_keep_what_the_limit_allows() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let mut ended = Vec::new();
        for number in 0..10_000 {
            let (owner, notice) = waits(number, &format!("user{}", number % 200));
            ended.extend(sessions.hear(owner, notice, now));
            assert!(sessions.owners.len() <= 1024 && sessions.waiting.len() == sessions.owners.len());
        }
        assert_eq!((ended.len(), sessions.owners.len()), (10_000 - 1024, 1024));
        // As many of each user wait, give or take one.
        let of_users = (0..200).map(|user| sessions.waiting.waiting_of(&format!("user{user}")));
        assert!(of_users.clone().min() >= Some(5) && of_users.max() <= Some(6));
        for number in 0..10_000 {
            sessions.gone(waits(number, "").0);
        }
        assert!(sessions.waiting.is_empty() && sessions.owners.is_empty() && sessions.reserves.is_empty());
    }

    /// What becomes of connections that end without an attempt to log in, one in each `pause`. Returns the number of
    /// the first one after which the address is locked out.
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
                    penalties.punish(address, source, Misdeed::GraceExceeded, now),
                    Consequence::Activated(..)
                )
        })
    }

    #[test]
    fn a_bad_path_does_not_lock_out_a_waiting_session() {
        let (mut sessions, now) = (sessions(), Instant::now());
        let (owner, notice) = waits(1, "ada");
        sessions.hear(owner, notice, now);
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
        sessions.hear(owner, notice, now);
        // Saying it again begins no other reserve.
        let flood = Duration::from_millis(1);
        assert_eq!(locked_out(&mut sessions, ADDRESS, now, flood), Some(RESERVE + 2));
        sessions.hear(owner, waits(1, "ada").1, now);
        assert_eq!(locked_out(&mut sessions, ADDRESS, now + Duration::from_secs(2), flood), Some(2));
        // With the session the reserve is gone.
        let later = now + Duration::from_secs(300);
        assert!(sessions.excuse(Source::of(ADDRESS.parse().unwrap(), BLOCK), later));
        sessions.hear(owner, Notice::GoesOn(handle), later);
        assert_eq!(locked_out(&mut sessions, ADDRESS, later, flood), Some(2));
    }
}
