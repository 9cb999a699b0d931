//! Accepted connections that wait for their session process, and the order in which they get one.
//!
//! Starting a process takes the listener milliseconds. In order of arrival, one client would wait for the
//! processes of hundreds of clients that reconnect together. Here the source with the fewest unauthenticated
//! connections is served first.

use std::collections::HashMap;
use std::hash::Hash;

use rustix::process::{Resource, getrlimit};

/// Each fourth start serves the connection that has waited longest, so that no connection waits for ever.
const OLDEST_EVERY: u32 = 4;

/// Largest number of connections that wait here. Further ones wait in the kernel's backlog.
const MOST_WAITING: u64 = 1024;

/// Number of connections that may wait: a quarter of this process's descriptor limit, because each session
/// needs one too.
pub(crate) fn most_waiting() -> usize {
    let most = getrlimit(Resource::Nofile).current.map_or(MOST_WAITING, |limit| MOST_WAITING.min(limit / 4));
    usize::try_from(most).unwrap_or(usize::MAX).max(1)
}

/// The precedence of one source, compared field by field in this order; the lowest is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Number of unauthenticated connections that the source already has.
    pub(crate) held: usize,
    /// No user has logged in from this source lately.
    pub(crate) unknown: bool,
}

/// Bound of the sources that have logged in before and have no unauthenticated connection.
pub(crate) const WELCOME: Rank = Rank { held: 0, unknown: true };

/// Bound of the sources that have no unauthenticated connection.
pub(crate) const NEW: Rank = Rank { held: 1, unknown: false };

/// The waiting connections in order of arrival. `S` is a source, `T` a connection.
pub(crate) struct Arrivals<S, T> {
    waiting: Vec<(S, T)>,
    most: usize,
    starts: u32,
}

impl<S: Copy + Eq + Hash, T> Arrivals<S, T> {
    /// Returns a queue for at most `most` connections.
    pub(crate) const fn new(most: usize) -> Self {
        Self { waiting: Vec::new(), most, starts: 0 }
    }

    /// Returns whether no more connections should be accepted for now.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.most
    }

    /// Returns whether no connection waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a connection of this source.
    pub(crate) fn push(&mut self, source: S, connection: T) {
        self.waiting.push((source, connection));
    }

    /// Removes and returns the connection to serve next. Calls `rank` once for each source.
    pub(crate) fn next(&mut self, rank: impl FnMut(S, &T) -> Rank) -> Option<T> {
        if self.waiting.is_empty() {
            return None;
        }
        self.starts = self.starts.wrapping_add(1);
        if self.starts.is_multiple_of(OLDEST_EVERY) {
            return Some(self.waiting.remove(0).1);
        }
        let (_, first) = self.first(rank)?;
        Some(self.waiting.remove(first).1)
    }

    /// Like [`next`](Self::next), but returns only a connection of a lower rank than `bound`.
    pub(crate) fn next_below(&mut self, bound: Rank, rank: impl FnMut(S, &T) -> Rank) -> Option<T> {
        let (rank, first) = self.first(rank)?;
        (rank < bound).then(|| self.waiting.remove(first).1)
    }

    /// Returns the rank and the index of the connection with the lowest rank.
    fn first(&self, mut rank: impl FnMut(S, &T) -> Rank) -> Option<(Rank, usize)> {
        let mut ranks: HashMap<S, Rank> = HashMap::new();
        let ranked = self.waiting.iter().enumerate().map(|(at, (source, connection))| {
            (*ranks.entry(*source).or_insert_with(|| rank(*source, connection)), at)
        });
        ranked.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server: each source keeps its started connections until it logs in.
    #[derive(Default)]
    struct Scene {
        held: HashMap<char, usize>,
        known: Vec<char>,
    }

    impl Scene {
        fn rank(&self, source: char) -> Rank {
            Rank {
                held: self.held.get(&source).copied().unwrap_or(0),
                unknown: !self.known.contains(&source),
            }
        }

        fn start(&mut self, queue: &mut Arrivals<char, u32>) -> Option<u32> {
            let found =
                queue.waiting.iter().map(|(source, number)| (*number, *source)).collect::<HashMap<_, _>>();
            let next = queue.next(|source, _| self.rank(source))?;
            *self.held.entry(found[&next]).or_default() += 1;
            Some(next)
        }
    }

    #[test]
    fn a_newcomer_passes_sources_that_hold_connections() {
        let mut scene = Scene { held: HashMap::from([('a', 4), ('b', 3)]), known: Vec::new() };
        let mut queue = Arrivals::new(1000);
        for number in 0..200 {
            queue.push(if number % 2 == 0 { 'a' } else { 'b' }, number);
        }
        queue.push('h', 200);
        assert_eq!(scene.start(&mut queue), Some(200));
        // Next is the source with fewer connections, in order of arrival, until both have equally many.
        assert_eq!(scene.start(&mut queue), Some(1));
        assert_eq!(scene.start(&mut queue), Some(0));
    }

    #[test]
    fn sources_that_have_logged_in_come_first_among_equals() {
        let mut scene = Scene { held: HashMap::new(), known: vec!['k'] };
        let mut queue = Arrivals::new(1000);
        (0..50).for_each(|number| queue.push(char::from_u32(0x4e00 + number).expect("a character"), number));
        queue.push('k', 50);
        assert_eq!(scene.start(&mut queue), Some(50));
        assert_eq!(scene.start(&mut queue), Some(0));
        // The source has one connection now.
        queue.push('k', 51);
        assert_eq!(scene.start(&mut queue), Some(1));
    }

    #[test]
    fn only_known_sources_without_connections_are_welcome() {
        let scene = Scene { held: HashMap::from([('l', 1)]), known: vec!['k', 'l'] };
        let rank = |source: char, _: &u32| scene.rank(source);
        let mut queue = Arrivals::new(1000);
        assert_eq!(queue.next_below(WELCOME, rank), None);
        queue.push('a', 1);
        queue.push('l', 2);
        assert_eq!(queue.next_below(WELCOME, rank), None);
        queue.push('k', 3);
        assert_eq!(queue.next_below(WELCOME, rank), Some(3));
        assert_eq!(queue.next_below(WELCOME, rank), None);
        assert_eq!(queue.next(rank), Some(1));
    }

    #[test]
    fn sources_without_connections_are_new() {
        let scene = Scene { held: HashMap::from([('l', 1)]), known: vec!['l'] };
        let rank = |source: char, _: &u32| scene.rank(source);
        let mut queue = Arrivals::new(1000);
        queue.push('l', 1);
        assert_eq!(queue.next_below(NEW, rank), None);
        queue.push('a', 2);
        assert_eq!(queue.next_below(NEW, rank), Some(2));
    }

    #[test]
    fn a_source_with_many_connections_is_served_too() {
        let mut scene = Scene { held: HashMap::from([('n', 100)]), known: Vec::new() };
        let mut queue = Arrivals::new(1000);
        queue.push('n', 1_000_000);
        let mut starts = 0;
        // After each start, another source without connections is served first.
        for number in 0.. {
            queue.push(char::from_u32(0x4e00 + number).expect("a character"), number);
            starts += 1;
            if scene.start(&mut queue) == Some(1_000_000) {
                break;
            }
        }
        assert_eq!(starts, OLDEST_EVERY);
    }

    #[test]
    fn one_source_is_served_in_the_order_of_arrival() {
        let mut scene = Scene::default();
        let mut queue = Arrivals::new(100);
        assert!(queue.is_empty());
        (0..100).for_each(|number| queue.push('a', number));
        assert!(queue.is_full() && !queue.is_empty());
        let order: Vec<u32> = std::iter::from_fn(|| scene.start(&mut queue)).collect();
        assert_eq!(order, (0..100).collect::<Vec<u32>>());
        assert!(queue.is_empty() && !queue.is_full());
    }

    #[test]
    fn an_honest_login_passes_a_full_queue() {
        let mut scene = Scene { held: HashMap::new(), known: vec!['h'] };
        let mut queue = Arrivals::new(1000);
        // Fifty sources with four connections each renew all of them without end; the honest client logs in
        // at once.
        let mut number = 0;
        for round in 0..100_u32 {
            while !queue.is_full() {
                queue.push(char::from(b'0' + u8::try_from(number % 50).unwrap_or(0)), number);
                number += 1;
            }
            let honest = u32::MAX - round;
            queue.most += 1;
            queue.push('h', honest);
            let starts =
                std::iter::from_fn(|| scene.start(&mut queue)).take_while(|&next| next != honest).count();
            assert!(starts <= 1, "{starts} others in round {round}");
            queue.most -= 1;
            scene.held.insert('h', 0);
            for _ in 0..20 {
                let _ = scene.start(&mut queue);
            }
        }
    }
}
