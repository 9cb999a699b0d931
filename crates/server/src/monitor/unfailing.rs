//! Limit on authentication requests that do not fail: an acceptable key, a prompt, a step of Kerberos, one of
//! several required methods.
//!
//! `MaxAuthTries` counts failures only. Each of these requests costs the monitor reading a file, a PAM
//! transaction or a library call, with root's rights. So repeated requests are delayed more and more, and
//! finally end the connection.

use std::time::Duration;

/// Largest number of these requests per connection. (OpenSSH allows 1024 requests of any kind.) Agents with
/// many accepted keys, several methods in a row and long dialogues together stay far below.
const MOST: u32 = 128;
/// Number of requests that are answered without delay.
const FREE: u32 = 16;
/// Additional delay of each further request.
const STEP: Duration = Duration::from_millis(5);

/// How to answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Throttle {
    /// Answer after this delay.
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
    pub(super) fn count(&mut self) -> Throttle {
        self.seen = self.seen.saturating_add(1);
        if self.seen > MOST {
            return Throttle::TooMany;
        }
        Throttle::Wait(STEP * self.seen.saturating_sub(FREE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_cost_more_and_more_and_end() {
        let mut count = Unfailing::default();
        for _ in 0..FREE {
            assert_eq!(count.count(), Throttle::Wait(Duration::ZERO));
        }
        let mut before = Duration::ZERO;
        for _ in FREE..MOST {
            let Throttle::Wait(wait) = count.count() else { panic!("ended early") };
            assert!(wait > before);
            before = wait;
        }
        assert_eq!(before, STEP * (MOST - FREE));
        assert_eq!(count.count(), Throttle::TooMany);
        assert_eq!(count.count(), Throttle::TooMany);
    }
}
