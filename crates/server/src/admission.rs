//! Admission of unauthenticated connections when there are more than `MaxStartups` allows: fair by source
//! address.
//!
//! OpenSSH drops new connections, so an attacker who holds connections open keeps all others out. Here
//! (`FairStartups`) the source with the most unauthenticated connections loses its oldest one first. A tenth
//! of the places is reserved for sources that have logged in before. Times and random numbers are arguments.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::penalties::Source;
use crate::startups::MaxStartups;

/// Age from which a connection may be ended for one of a source that holds equally many. Programs log in
/// within a second or two. A person who types a password needs longer, and is disturbed only while all
/// sources hold equally many.
const OLD: Duration = Duration::from_secs(20);
/// Time that a source stays known after a login.
const KNOWN_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Largest number of known sources.
const MOST_KNOWN: usize = 16_384;
/// One place in this many is reserved for known sources, once there are any.
const RESERVE: usize = 10;

/// The decision about a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer<K> {
    /// Admit the connection.
    Admit,
    /// Let it in, and end the connection with this key.
    Replace(K),
    /// Refuse the connection.
    Refuse,
}

/// An unauthenticated connection and its source.
struct Waiting<K> {
    key: K,
    source: Source,
    since: Instant,
}

/// The connections of one source: their number and the oldest one's time and key.
struct Holder<K> {
    count: usize,
    known: bool,
    oldest: Instant,
    key: K,
}

/// Admission of connections: the unauthenticated ones, and the sources that have logged in. `K` is a
/// connection's key.
pub(crate) struct Admission<K> {
    limit: MaxStartups,
    fair: bool,
    waiting: Vec<Waiting<K>>,
    known: HashMap<Source, Instant>,
}

impl<K: Copy + PartialEq> Admission<K> {
    pub(crate) fn new(limit: MaxStartups, fair: bool) -> Self {
        Self { limit, fair, waiting: Vec::new(), known: HashMap::new() }
    }

    /// Returns the number of unauthenticated connections.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Records a connection that has been admitted.
    pub(crate) fn begin(&mut self, key: K, source: Source, now: Instant) {
        self.waiting.push(Waiting { key, source, since: now });
    }

    /// Removes a connection that has logged in or has ended.
    pub(crate) fn end(&mut self, key: K) {
        self.waiting.retain(|one| one.key != key);
    }

    /// Records that a user has logged in from this source.
    pub(crate) fn logged_in(&mut self, source: Source, now: Instant) {
        if !self.fair {
            return;
        }
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&source) {
            self.known.retain(|_, last| now.saturating_duration_since(*last) < KNOWN_FOR);
            if self.known.len() >= MOST_KNOWN
                && let Some(first) =
                    self.known.iter().min_by_key(|(_, last)| **last).map(|(source, _)| *source)
            {
                self.known.remove(&first);
            }
        }
        self.known.insert(source, now);
    }

    /// Returns whether a user has logged in from this source within [`KNOWN_FOR`].
    pub(crate) fn is_known(&self, source: Source, now: Instant) -> bool {
        self.known.get(&source).is_some_and(|last| now.saturating_duration_since(*last) < KNOWN_FOR)
    }

    /// Returns the number of unauthenticated connections for each source that has any.
    pub(crate) fn held_by_source(&self) -> HashMap<Source, usize> {
        let mut held = HashMap::new();
        for one in &self.waiting {
            *held.entry(one.source).or_insert(0) += 1;
        }
        held
    }

    /// Number of unauthenticated connections of a source.
    pub(crate) fn held(&self, source: Source) -> usize {
        self.waiting.iter().filter(|one| one.source == source).count()
    }

    /// Returns the source with the most unauthenticated connections. Ties go to an unknown source, then to
    /// the source whose oldest connection is oldest.
    fn heaviest(&self, now: Instant) -> Option<Holder<K>> {
        let mut holders: HashMap<Source, Holder<K>> = HashMap::new();
        for one in &self.waiting {
            let fresh = || Holder {
                count: 0,
                known: self.is_known(one.source, now),
                oldest: one.since,
                key: one.key,
            };
            let holder = holders.entry(one.source).or_insert_with(fresh);
            holder.count += 1;
            if one.since < holder.oldest {
                (holder.oldest, holder.key) = (one.since, one.key);
            }
        }
        holders
            .into_values()
            .max_by_key(|holder| (holder.count, !holder.known, now.saturating_duration_since(holder.oldest)))
    }

    /// Decides about a new connection from `source`. `random` is uniformly distributed over all `u32` values.
    pub(crate) fn decide(&self, source: Source, now: Instant, random: u32) -> Answer<K> {
        let total = self.waiting.len();
        if !self.fair {
            return if self.limit.drops(total, random) { Answer::Refuse } else { Answer::Admit };
        }
        if total < self.limit.start {
            return Answer::Admit;
        }
        let known = self.is_known(source, now);
        let reserve = if self.known.is_empty() || known { 0 } else { self.limit.full / RESERVE };
        let mine = self.held(source) + 1;
        let Some(heaviest) = self.heaviest(now) else { return Answer::Refuse };
        if total < self.limit.full.saturating_sub(reserve) {
            // A source with one connection, or with fewer than the heaviest source, is not dropped at random.
            let light = mine == 1 || mine < heaviest.count;
            return if light || !self.limit.drops(total, random) { Answer::Admit } else { Answer::Refuse };
        }
        let old = now.saturating_duration_since(heaviest.oldest) >= OLD;
        let before = known && !heaviest.known;
        let gives_way = mine < heaviest.count || (mine == heaviest.count && (old || before));
        if gives_way { Answer::Replace(heaviest.key) } else { Answer::Refuse }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_config::server_values::NetBlockSize;

    const BLOCK: NetBlockSize = NetBlockSize { ipv4: 32, ipv6: 64 };
    const DEFAULT: MaxStartups = MaxStartups { start: 10, rate: 30, full: 100 };
    /// The random number that is dropped first; `BEST` is the one that is dropped last.
    const WORST: u32 = 0;
    const BEST: u32 = 99;

    struct Scene {
        admission: Admission<u32>,
        start: Instant,
        next: u32,
    }

    fn source(address: &str) -> Source {
        Source::of(address.parse().unwrap(), BLOCK)
    }

    fn attacker(number: usize) -> Source {
        source(&format!("192.0.2.{number}"))
    }

    impl Scene {
        fn new(limit: MaxStartups, fair: bool) -> Self {
            Self { admission: Admission::new(limit, fair), start: Instant::now(), next: 0 }
        }

        fn at(&self, millis: u64) -> Instant {
            self.start + Duration::from_millis(millis)
        }

        /// A new connection; returns its number if it is admitted.
        fn comes(&mut self, from: Source, millis: u64, random: u32) -> Option<u32> {
            let now = self.at(millis);
            match self.admission.decide(from, now, random) {
                Answer::Refuse => return None,
                Answer::Replace(key) => self.admission.end(key),
                Answer::Admit => {}
            }
            self.next += 1;
            self.admission.begin(self.next, from, now);
            Some(self.next)
        }

        fn is_in(&self, key: u32) -> bool {
            self.admission.waiting.iter().any(|one| one.key == key)
        }

        fn most_held(&self) -> usize {
            self.admission.heaviest(self.start).map_or(0, |holder| holder.count)
        }
    }

    #[test]
    fn honest_logins_succeed_while_fifty_sources_flood() {
        let mut scene = Scene::new(DEFAULT, true);
        let honest = source("198.51.100.7");
        let mut logins = 0;
        // Each millisecond the attacker renews one of 200 connections, while a login takes a second.
        let mut mine = None;
        for millis in 0..60_000_u64 {
            scene.comes(attacker(millis as usize % 50), millis, (millis * 7919 % 100) as u32);
            assert!(scene.admission.waiting() <= DEFAULT.full);
            if millis >= 5_000 && millis % 2_000 == 0 {
                mine = Some(scene.comes(honest, millis, WORST).expect("turned away"));
            }
            if millis % 2_000 == 1_000
                && let Some(key) = mine.take()
            {
                assert!(scene.is_in(key), "thrown out at {millis}");
                scene.admission.end(key);
                let now = scene.at(millis);
                scene.admission.logged_in(honest, now);
                logins += 1;
            }
        }
        assert_eq!(logins, 27);
    }

    #[test]
    fn the_heaviest_source_loses_its_oldest_connection() {
        let mut scene = Scene::new(MaxStartups { start: 2, rate: 100, full: 6 }, true);
        let keys: Vec<u32> =
            (0..4).map(|at| scene.comes(attacker(1), at, BEST)).map_while(|key| key).collect();
        // At `start`, the random drop refuses further connections of a source that already holds some.
        assert_eq!(keys.len(), 2);
        for (number, millis) in [(2, 10), (3, 11), (4, 12), (5, 13)] {
            assert!(scene.comes(attacker(number), millis, WORST).is_some());
        }
        assert_eq!(scene.admission.waiting(), 6);
        assert!(scene.comes(attacker(6), 20, WORST).is_some());
        assert!(!scene.is_in(keys[0]) && scene.is_in(keys[1]));
        // Now each source holds one connection: no young one gives way, and a second one of a source is
        // refused.
        assert_eq!(scene.most_held(), 1);
        assert_eq!(scene.comes(attacker(7), 30, BEST), None);
        assert_eq!(scene.comes(attacker(2), 30_000, BEST), None);
        assert!(scene.comes(attacker(7), 30_000, WORST).is_some());
        assert!(!scene.is_in(keys[1]));
        assert_eq!(scene.admission.waiting(), 6);
    }

    #[test]
    fn places_are_kept_for_sources_that_have_logged_in() {
        let mut scene = Scene::new(DEFAULT, true);
        let friend = source("198.51.100.7");
        let now = scene.start;
        scene.admission.logged_in(friend, now);
        // As many sources as there are places, all at once.
        let admitted = (0..120).filter(|number| scene.comes(attacker(*number), 1, WORST).is_some()).count();
        assert_eq!(admitted, 90);
        for millis in 2..12 {
            assert!(scene.comes(friend, millis, BEST).is_some());
        }
        assert_eq!(scene.admission.waiting(), 100);
        // The next one would be the source's eleventh where others hold one.
        assert_eq!(scene.comes(friend, 20, BEST), None);
        let other = source("198.51.100.8");
        let now = scene.start;
        scene.admission.logged_in(other, now);
        assert!(scene.comes(other, 21, WORST).is_some());
        assert_eq!(scene.admission.waiting(), 100);
    }

    #[test]
    fn one_source_alone_meets_the_old_rule() {
        for fair in [false, true] {
            let mut scene = Scene::new(DEFAULT, fair);
            let only = attacker(1);
            for millis in 0..10 {
                assert!(scene.comes(only, millis, WORST).is_some(), "{fair} {millis}");
            }
            assert_eq!(scene.comes(only, 10, WORST), None);
            for millis in 10..100 {
                assert!(scene.comes(only, millis, BEST).is_some(), "{fair} {millis}");
            }
            assert_eq!(scene.comes(only, 100, BEST), None);
            assert_eq!(scene.admission.waiting(), 100);
        }
    }

    #[test]
    fn switched_off_newcomers_are_drawn_by_lot() {
        let mut scene = Scene::new(DEFAULT, false);
        for millis in 0..100 {
            scene.comes(attacker(1), millis, BEST);
        }
        assert_eq!(scene.comes(source("198.51.100.7"), 200, WORST), None);
    }

    #[test]
    fn neighbours_in_a_block_are_one_source() {
        let mut scene = Scene::new(MaxStartups { start: 1, rate: 100, full: 4 }, true);
        for number in 1..=3 {
            scene.comes(source(&format!("2001:db8::{number}")), number, BEST);
        }
        assert_eq!(scene.admission.waiting(), 1);
        assert!(scene.comes(source("2001:db8:0:1::1"), 10, WORST).is_some());
    }

    #[test]
    fn known_sources_are_bounded_and_forgotten() {
        let mut admission: Admission<u32> = Admission::new(DEFAULT, true);
        let start = Instant::now();
        let address = |number: usize| {
            Source::of(std::net::Ipv4Addr::from(u32::try_from(number).unwrap()).into(), BLOCK)
        };
        for number in 0..MOST_KNOWN + 3 {
            admission.logged_in(address(number), start + Duration::from_millis(number as u64));
        }
        assert_eq!(admission.known.len(), MOST_KNOWN);
        let soon = start + Duration::from_secs(60);
        assert!(!admission.is_known(address(2), soon) && admission.is_known(address(3), soon));
        assert!(!admission.is_known(address(3), soon + KNOWN_FOR));
    }
}
