//! `ssh-add -x`: a lock that disables the agent until it gets the passphrase again.

use std::time::{Duration, Instant};

use lh_crypto::{Random as _, SystemRandom, Zeroizing, bcrypt_kdf};
use subtle::ConstantTimeEq as _;

const SALT_LEN: usize = 16;
const HASH_LEN: usize = 32;
/// Additional delay after each wrong passphrase, up to [`MOST_PENALTIES`] times; OpenSSH's rule.
const PENALTY: Duration = Duration::from_millis(100);
const MOST_PENALTIES: u32 = 100;

/// The lock and the delay for wrong passphrases.
#[derive(Default)]
pub(crate) struct Lock {
    /// Salt and hash of the passphrase while locked; the passphrase itself is not kept.
    closed: Option<([u8; SALT_LEN], Zeroizing<Vec<u8>>)>,
    failures: u32,
    not_before: Option<Instant>,
}

impl Lock {
    pub(crate) const fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Locks. False when it is already locked, or the passphrase is empty.
    pub(crate) fn close(&mut self, passphrase: &[u8]) -> bool {
        if self.is_closed() {
            return false;
        }
        let mut salt = [0; SALT_LEN];
        SystemRandom.fill(&mut salt);
        let Some(hash) = hash(passphrase, &salt) else { return false };
        self.closed = Some((salt, hash));
        true
    }

    /// Unlocks. False when it is not locked, or the passphrase is wrong.
    pub(crate) fn open(&mut self, passphrase: &[u8], now: Instant) -> bool {
        let Some((salt, expected)) = &self.closed else { return false };
        let right = hash(passphrase, salt).is_some_and(|found| bool::from(found.ct_eq(expected)));
        if right {
            *self = Self::default();
        } else {
            self.failures = (self.failures + 1).min(MOST_PENALTIES);
            self.not_before = Some(now + PENALTY * self.failures);
        }
        right
    }

    /// Time before which no attempt is permitted, on any connection.
    pub(crate) fn wait_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| *at > now)
    }
}

fn hash(passphrase: &[u8], salt: &[u8; SALT_LEN]) -> Option<Zeroizing<Vec<u8>>> {
    // One round: the delay slows guessing down, not the function.
    bcrypt_kdf(passphrase, salt, 1, HASH_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passphrases_delay_further_attempts() {
        let mut lock = Lock::default();
        let now = Instant::now();
        assert!(!lock.open(b"", now) && !lock.close(b""));
        assert!(lock.close(b"secret") && !lock.close(b"other"));
        assert!(!lock.open(b"Secret", now));
        let first = lock.wait_until(now).expect("a penalty") - now;
        assert!(!lock.open(b"", now));
        let second = lock.wait_until(now).expect("a penalty") - now;
        assert!(second > first);
        assert_eq!(lock.wait_until(now + second), None);
        assert!(lock.open(b"secret", now) && !lock.is_closed());
        assert_eq!(lock.wait_until(now), None);
    }
}
