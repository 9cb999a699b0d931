//! The keys.

use std::time::{Duration, Instant};

use lh_agent::{AddedKey, Constraints, Destination, SecurityKey};
use lh_crypto::{PrivateKey, PublicKey};

use crate::hardware::Rules;
use crate::lock::Lock;

/// Most keys that are held; a client that fills the agent is refused, others go on.
const MOST_KEYS: usize = lh_agent::MAX_IDENTITIES;

/// A key and what it may be used for.
pub(crate) struct Held {
    /// Under which it is listed: the key, or a certificate for it.
    pub(crate) public: PublicKey,
    pub(crate) private: Private,
    pub(crate) comment: String,
    pub(crate) expires: Option<Instant>,
    pub(crate) confirm: bool,
    pub(crate) destinations: Vec<Destination>,
}

/// What signs.
pub(crate) enum Private {
    /// A key in memory.
    Here(PrivateKey),
    /// A security key, through this library.
    Hardware(SecurityKey, String),
}

/// Why a key was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It comes with a library for security keys, and is in none.
    NotHardware,
    /// There are as many as there may be.
    Full,
}

/// All keys, and the lock.
pub(crate) struct Keyring {
    keys: Vec<Held>,
    pub(crate) lock: Lock,
    lifetime: Option<Duration>,
    pub(crate) rules: Rules,
}

impl Keyring {
    /// Empty; keys that come without a lifetime get this one.
    pub(crate) fn new(lifetime: Option<Duration>, rules: Rules) -> Self {
        Self { keys: Vec::new(), lock: Lock::default(), lifetime, rules }
    }

    /// Takes a key; one that is there already gets the new comment and constraints.
    pub(crate) fn add(
        &mut self,
        key: &AddedKey,
        comment: String,
        constraints: Constraints,
        now: Instant,
    ) -> Result<(), Refused> {
        let public = key.public().clone();
        let private = match key {
            AddedKey::Security(key) => {
                let provider =
                    constraints.sk_provider.unwrap_or_else(|| lh_security_key::INTERNAL.to_owned());
                Private::Hardware(key.clone(), provider)
            }
            _ if constraints.sk_provider.is_some() => return Err(Refused::NotHardware),
            AddedKey::Plain(key) | AddedKey::Certified { key, .. } => Private::Here(key.clone()),
        };
        let lifetime = constraints.lifetime.map(|seconds| Duration::from_secs(seconds.into()));
        let held = Held {
            public,
            private,
            comment,
            // 0 seconds mean the default, as in OpenSSH.
            expires: lifetime
                .filter(|time| !time.is_zero())
                .or(self.lifetime)
                .and_then(|time| now.checked_add(time)),
            confirm: constraints.confirm,
            destinations: constraints.destinations,
        };
        let full = self.keys.len() >= MOST_KEYS;
        match self.keys.iter_mut().find(|known| known.public == held.public) {
            Some(known) => *known = held,
            None if full => return Err(Refused::Full),
            None => self.keys.push(held),
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.keys.iter()
    }

    pub(crate) fn find(&self, blob: &[u8]) -> Option<&Held> {
        self.keys.iter().find(|held| held.public.blob() == blob)
    }

    /// True when it was there.
    pub(crate) fn remove(&mut self, blob: &[u8]) -> bool {
        let before = self.keys.len();
        self.keys.retain(|held| held.public.blob() != blob);
        self.keys.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }

    /// Forgets what has lived long enough.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.keys.retain(|held| held.expires.is_none_or(|at| at > now));
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.keys.iter().filter_map(|held| held.expires).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::KeyType;

    fn key() -> AddedKey {
        AddedKey::Plain(PrivateKey::generate(KeyType::Ed25519, None).expect("a key"))
    }

    #[test]
    fn keys_live_as_long_as_they_may() {
        let now = Instant::now();
        let mut ring = Keyring::new(Some(Duration::from_secs(100)), Rules::default());
        let short = Constraints { lifetime: Some(10), ..Constraints::default() };
        ring.add(&key(), "short".to_owned(), short, now).expect("room");
        ring.add(&key(), "default".to_owned(), Constraints::default(), now).expect("room");
        let names = |ring: &Keyring| ring.iter().map(|held| held.comment.clone()).collect::<Vec<_>>();
        assert_eq!(ring.next_expiry(), Some(now + Duration::from_secs(10)));
        ring.expire(now + Duration::from_secs(9));
        assert_eq!(names(&ring), ["short", "default"]);
        ring.expire(now + Duration::from_secs(10));
        assert_eq!(names(&ring), ["default"]);
        ring.expire(now + Duration::from_secs(100));
        assert!(names(&ring).is_empty() && ring.next_expiry().is_none());
    }

    #[test]
    fn a_key_that_is_added_again_gets_its_new_constraints() {
        let now = Instant::now();
        let mut ring = Keyring::new(None, Rules::default());
        let key = key();
        ring.add(&key, "a".to_owned(), Constraints::default(), now).expect("room");
        let confirm = Constraints { confirm: true, ..Constraints::default() };
        ring.add(&key, "b".to_owned(), confirm, now).expect("room");
        let held: Vec<_> = ring.iter().map(|held| (held.comment.as_str(), held.confirm)).collect();
        assert_eq!(held, [("b", true)]);
        assert!(ring.remove(key.public().blob()) && !ring.remove(key.public().blob()));
    }
}
