//! The cap on authentication requests that do not fail: a key that would do, a prompt, a step of Kerberos, a right step of several.
//!
//! `MaxAuthTries` counts failures only. Each of these requests costs the monitor a file, a transaction of PAM or a step of a library,
//! with root's rights, so a client that repeats them is slowed down and then disconnected.

use std::time::Duration;

/// Most such requests of one connection. (OpenSSH allows 1024 requests of any kind.) Agents with many accepted keys, several
/// methods in a row and long dialogues together stay far below.
const MOST: u32 = 128;
/// Requests that are answered at once.
const FREE: u32 = 16;
/// What each further request waits longer than the one before it.
const STEP: Duration = Duration::from_millis(5);

/// What the count asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toll {
    /// Answer after this time.
    Wait(Duration),
    /// End the connection.
    TooMany,
}

/// Counts the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Unfailing {
    seen: u32,
}

impl Unfailing {
    /// Counts one more request.
    pub(super) fn count(&mut self) -> Toll {
        self.seen = self.seen.saturating_add(1);
        if self.seen > MOST {
            return Toll::TooMany;
        }
        Toll::Wait(STEP * self.seen.saturating_sub(FREE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_cost_more_and_more_and_end() {
        let mut count = Unfailing::default();
        for _ in 0..FREE {
            assert_eq!(count.count(), Toll::Wait(Duration::ZERO));
        }
        let mut before = Duration::ZERO;
        for _ in FREE..MOST {
            let Toll::Wait(wait) = count.count() else { panic!("ended early") };
            assert!(wait > before);
            before = wait;
        }
        assert_eq!(before, STEP * (MOST - FREE));
        assert_eq!(count.count(), Toll::TooMany);
        assert_eq!(count.count(), Toll::TooMany);
    }
}
