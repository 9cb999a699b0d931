//! The keys that the agent holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lh_agent::{AddedKey, Constraints, Destination, SecurityKey};
use lh_crypto::{PrivateKey, PublicKey};

use crate::hardware::Rules;
use crate::lock::Lock;
use crate::token::{Library, Opened};

/// Upper limit of keys; further ones are refused, the others stay usable.
const MOST_KEYS: usize = lh_agent::MAX_IDENTITIES;

/// A key and its constraints.
pub(crate) struct Held {
    /// Public key under which it is listed: the key, or a certificate for it.
    pub(crate) public: PublicKey,
    pub(crate) private: Private,
    pub(crate) comment: String,
    pub(crate) expires: Option<Instant>,
    pub(crate) confirm: bool,
    pub(crate) destinations: Vec<Destination>,
}

/// Source of the signatures.
pub(crate) enum Private {
    /// A key in memory.
    Here(PrivateKey),
    /// A security key, and its provider library.
    Hardware(SecurityKey, String),
    /// A token.
    Token(Arc<Library>),
}

/// Why a key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It names a provider library but is not a security key.
    NotHardware,
    /// The agent holds the maximum of keys.
    Full,
}

/// All keys, and the agent's lock.
pub(crate) struct Keyring {
    keys: Vec<Held>,
    pub(crate) lock: Lock,
    lifetime: Option<Duration>,
    pub(crate) rules: Rules,
}

impl Keyring {
    /// An empty keyring; keys without a lifetime get this one.
    pub(crate) fn new(lifetime: Option<Duration>, rules: Rules) -> Self {
        Self { keys: Vec::new(), lock: Lock::default(), lifetime, rules }
    }

    /// Adds a key; an existing one gets the new comment and constraints.
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
                let named = constraints.sk_provider.clone();
                let provider = named.unwrap_or_else(|| lh_security_key::INTERNAL.to_owned());
                Private::Hardware(key.clone(), provider)
            }
            _ if constraints.sk_provider.is_some() => return Err(Refused::NotHardware),
            AddedKey::Plain(key) | AddedKey::Certified { key, .. } => Private::Here(key.clone()),
        };
        self.hold(public, private, comment, &constraints, now)
    }

    /// Adds the keys of a token, each also with those of the certificates that are for it.
    pub(crate) fn add_token(&mut self, opened: Opened, now: Instant) -> Result<(), Refused> {
        let Opened { library, keys, constraints } = opened;
        let certs = constraints.associated_certs.as_ref();
        for (key, label) in keys {
            let private = || Private::Token(Arc::clone(&library));
            let of_key = |certificate: &&PublicKey| certificate.plain() == &key;
            for certificate in certs.iter().flat_map(|certs| &certs.certificates).filter(of_key) {
                self.hold(certificate.clone(), private(), label.clone(), &constraints, now)?;
            }
            if !certs.is_some_and(|certs| certs.certs_only) {
                self.hold(key, private(), label, &constraints, now)?;
            }
        }
        Ok(())
    }

    /// Removes the keys of a token's library; true when there were any.
    pub(crate) fn remove_token(&mut self, path: &str) -> bool {
        let before = self.keys.len();
        self.keys.retain(|held| !matches!(&held.private, Private::Token(library) if library.path == path));
        self.keys.len() < before
    }

    fn hold(
        &mut self,
        public: PublicKey,
        private: Private,
        comment: String,
        constraints: &Constraints,
        now: Instant,
    ) -> Result<(), Refused> {
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
            destinations: constraints.destinations.clone(),
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

    /// Removes a key; true when it was held.
    pub(crate) fn remove(&mut self, blob: &[u8]) -> bool {
        let before = self.keys.len();
        self.keys.retain(|held| held.public.blob() != blob);
        self.keys.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }

    /// Removes expired keys.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.keys.retain(|held| held.expires.is_none_or(|at| at > now));
    }

    /// Time at which [`expire`](Self::expire) has keys to remove.
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
    fn keys_expire_after_their_lifetime() {
        let now = Instant::now();
        let mut ring = Keyring::new(Some(Duration::from_secs(100)), Rules::default());
        let short = Constraints { lifetime: Some(10), ..Constraints::default() };
        ring.add(&key(), "short".to_owned(), short, now).expect("added");
        ring.add(&key(), "default".to_owned(), Constraints::default(), now).expect("added");
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
    fn adding_a_key_again_replaces_its_constraints() {
        let now = Instant::now();
        let mut ring = Keyring::new(None, Rules::default());
        let key = key();
        ring.add(&key, "a".to_owned(), Constraints::default(), now).expect("added");
        let confirm = Constraints { confirm: true, ..Constraints::default() };
        ring.add(&key, "b".to_owned(), confirm, now).expect("added");
        let held: Vec<_> = ring.iter().map(|held| (held.comment.as_str(), held.confirm)).collect();
        assert_eq!(held, [("b", true)]);
        assert!(ring.remove(key.public().blob()) && !ring.remove(key.public().blob()));
    }
}
