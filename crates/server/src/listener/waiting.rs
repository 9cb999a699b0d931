//! Sessions that have lost their connections and wait for their clients (`ResumeGrace`): how many there may be.

use std::collections::HashMap;
use std::time::Instant;

use lh_resume::{Handle, Limits, Waiting};
use lh_session_list::Id;
use rustix::process::Pid;

use crate::resuming::Notice;

/// Who speaks for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A process of this listener's.
    Process(Pid),
    /// The monitor of a session that an earlier listener has begun.
    Adopted(Id),
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct WaitingSessions {
    waiting: Waiting,
    owners: HashMap<Handle, Owner>,
}

impl WaitingSessions {
    /// `limits`: how many may wait (`ResumeMaxSessions`). Each is three processes and, at most, the memory for what
    /// its client has not acknowledged.
    pub(super) fn new(limits: Limits) -> Self {
        Self { waiting: Waiting::new(limits), owners: HashMap::new() }
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
            Notice::Waits { handle, user, waited, grace } => {
                // A session that says it again, or names one of another process, changes nothing for the other.
                if self.owners.get(&handle).is_some_and(|owner| *owner != from) {
                    return Vec::new();
                }
                self.owners.insert(handle, from);
                let ended = self.waiting.begin(handle, &user, grace, now.checked_sub(waited).unwrap_or(now));
                ended.iter().filter_map(|ended| self.owners.remove(ended)).collect()
            }
        }
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sessions() -> WaitingSessions {
        WaitingSessions::new(Limits { per_user: 64, total: 1024 })
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
        (owner, Notice::Waits { handle, user: user.to_owned(), waited: Duration::ZERO, grace })
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
        assert!(sessions.waiting.is_empty() && sessions.owners.is_empty());
    }
}
