//! When an additional connection is worth having, where the user has not set their number. Pure: what was
//! measured goes in, what to do comes out.
//!
//! One connection is enough for most paths: its windows grow, and a large file goes over several channels where they do not. It is
//! not where something is shared by all channels of a connection: the congestion window, which loss keeps small, and
//! the one thread at each end that lays out and takes apart its packets. Both are seen here twice a second ([`Load`]). When one of
//! them has held a copy up for a while, at a rate that no longer rises, with enough left to make up for a login, one more connection is asked
//! for. It is kept at work, and another one may follow, only if the rate rose by a fifth with it; if not, this was not the
//! limit, and nothing is tried again for a long while.

use std::time::{Duration, Instant};

/// The time between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// Looks in a row at which something has to hold the copy up: two seconds.
const PATIENCE: usize = 4;

/// From this part of a core on the connection's thread is what limits.
const BUSY: f64 = 0.9;

/// From this part of the segments on loss does: at 50 ms 1 in 2,000 keeps CUBIC at a few MB/s.
const LOSS: f64 = 0.0005;

/// What the rate has to become times as high for a connection to have been worth it.
const WORTH: f64 = 1.2;

/// Least time that must be left at the present rate.
const LEAST_LEFT: Duration = Duration::from_secs(6);

/// Looks until a new connection shows what it is worth: TCP has to find its rate.
const RAMP: usize = 4;

/// When one was not worth it; twice as long each time.
const REST: Duration = Duration::from_secs(120);

/// Most connections that are opened without the user's request.
const MOST: usize = 4;

/// What is seen of the first connection and its thread since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// The part of a core that its thread has used.
    pub busy: f64,
    /// There are cores to spare for the threads of others.
    pub spare_cores: bool,
    /// The part of the segments that had to be sent again, or came behind a gap.
    pub lost: f64,
}

/// What one connection is held up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Core,
    Loss,
}

impl Load {
    fn limit(self) -> Option<Limit> {
        if self.lost >= LOSS {
            Some(Limit::Loss)
        } else if self.busy >= BUSY && self.spare_cores {
            Some(Limit::Core)
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Watching,
    /// Asked for; the rate was this.
    Asked(f64),
    /// It is there, since this many looks.
    Trying(f64, usize),
    /// Not before then.
    Resting(Instant),
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    phase: Phase,
    /// The last look, and the bytes confirmed then.
    seen: Option<(Instant, u64)>,
    /// Bytes a second between the last looks, the newest last.
    rates: Vec<f64>,
    limits: Vec<Option<Limit>>,
    /// Connections beside the first one.
    have: usize,
    disappointments: u32,
    refused: bool,
}

/// What a look has come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Nothing,
    Ask(Limit, f64),
    Worth(f64, f64),
    NotWorth(f64, f64),
}

impl Connections {
    pub(crate) fn look(&mut self, load: Load, bytes: u64, left: u64, now: Instant) -> Verdict {
        let Some((then, before)) = self.seen.replace((now, bytes)) else { return Verdict::Nothing };
        let passed = now.saturating_duration_since(then).as_secs_f64();
        self.rates.push(bytes.saturating_sub(before) as f64 / passed.max(1e-3));
        self.limits.push(load.limit());
        let surplus = self.rates.len().saturating_sub(2 * PATIENCE);
        self.rates.drain(..surplus);
        self.limits.drain(..surplus);
        match self.phase {
            Phase::Watching => self.watch(left),
            Phase::Resting(until) if now >= until => {
                self.phase = Phase::Watching;
                Verdict::Nothing
            }
            Phase::Resting(_) | Phase::Asked(_) => Verdict::Nothing,
            Phase::Trying(old, looks) if looks < RAMP + PATIENCE => {
                self.phase = Phase::Trying(old, looks + 1);
                Verdict::Nothing
            }
            Phase::Trying(old, _) => {
                let new = mean(self.last());
                if new >= old * WORTH {
                    self.phase = Phase::Watching;
                    Verdict::Worth(old, new)
                } else {
                    self.phase =
                        Phase::Resting(now + REST * 2_u32.saturating_pow(self.disappointments.min(8)));
                    self.disappointments += 1;
                    Verdict::NotWorth(old, new)
                }
            }
        }
    }

    /// The rates of the last looks that count.
    fn last(&self) -> &[f64] {
        &self.rates[self.rates.len().saturating_sub(PATIENCE)..]
    }

    fn watch(&mut self, left: u64) -> Verdict {
        if self.refused || 1 + self.have >= MOST || self.rates.len() < 2 * PATIENCE {
            return Verdict::Nothing;
        }
        let limits = &self.limits[self.limits.len() - PATIENCE..];
        let Some(limit) = limits[0].filter(|first| limits.iter().all(|limit| *limit == Some(*first))) else {
            return Verdict::Nothing;
        };
        let (earlier, rate) = (mean(&self.rates[..PATIENCE]), mean(self.last()));
        let rising = rate > earlier * 1.1;
        if rising || rate <= 0.0 || (left as f64) < rate * LEAST_LEFT.as_secs_f64() {
            return Verdict::Nothing;
        }
        self.phase = Phase::Asked(rate);
        Verdict::Ask(limit, rate)
    }

    pub(crate) fn came(&mut self) {
        if let Phase::Asked(rate) = self.phase {
            self.have += 1;
            self.phase = Phase::Trying(rate, 0);
        }
    }

    pub(crate) fn refuse(&mut self) {
        self.refused = true;
        self.phase = Phase::Watching;
    }
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: f64 = 1e6;
    const LOSSY: Load = Load { busy: 0.1, spare_cores: true, lost: 0.002 };

    /// Looks at rates, one after the other; says what came of them.
    struct Run {
        connections: Connections,
        now: Instant,
        bytes: u64,
    }

    impl Run {
        fn new() -> Self {
            let mut run = Self { connections: Connections::default(), now: Instant::now(), bytes: 0 };
            assert_eq!(run.connections.look(LOSSY, 0, u64::MAX, run.now), Verdict::Nothing);
            run
        }

        fn look(&mut self, load: Load, rate: f64, left: u64) -> Verdict {
            self.now += LOOK;
            self.bytes += (rate * LOOK.as_secs_f64()) as u64;
            self.connections.look(load, self.bytes, left, self.now)
        }

        /// The first thing that happens in that number of looks.
        fn until(&mut self, looks: usize, load: Load, rate: f64) -> Verdict {
            (0..looks)
                .map(|_| self.look(load, rate, u64::MAX))
                .find(|verdict| *verdict != Verdict::Nothing)
                .unwrap_or(Verdict::Nothing)
        }
    }

    #[test]
    fn one_that_helps_is_followed_by_another_up_to_a_bound() {
        let mut run = Run::new();
        let mut rate = 10.0 * MB;
        for _ in 1..MOST {
            assert!(matches!(run.until(20, LOSSY, rate), Verdict::Ask(Limit::Loss, _)));
            // Nothing is asked for twice.
            assert_eq!(run.until(20, LOSSY, rate), Verdict::Nothing);
            run.connections.came();
            rate *= 1.5;
            assert!(matches!(run.until(20, LOSSY, rate), Verdict::Worth(..)));
        }
        assert_eq!(run.until(200, LOSSY, rate), Verdict::Nothing);
    }

    #[test]
    fn one_that_does_not_help_is_the_last_for_a_long_while() {
        let mut run = Run::new();
        assert!(matches!(run.until(20, LOSSY, 10.0 * MB), Verdict::Ask(..)));
        run.connections.came();
        assert!(matches!(run.until(20, LOSSY, 11.0 * MB), Verdict::NotWorth(..)));
        let rest = (REST.as_millis() / LOOK.as_millis()) as usize;
        assert_eq!(run.until(rest - 1, LOSSY, 11.0 * MB), Verdict::Nothing);
        assert!(matches!(run.until(20, LOSSY, 11.0 * MB), Verdict::Ask(..)));
        run.connections.came();
        assert!(matches!(run.until(20, LOSSY, 11.0 * MB), Verdict::NotWorth(..)));
        assert_eq!(run.until(2 * rest - 1, LOSSY, 11.0 * MB), Verdict::Nothing, "twice as long");
    }

    #[test]
    fn nothing_is_asked_for_without_a_reason_while_the_rate_rises_or_near_the_end() {
        let idle = Load { busy: 0.5, spare_cores: true, lost: 0.0 };
        let alone = Load { busy: 1.0, spare_cores: false, lost: 0.0 };
        for load in [idle, alone] {
            assert_eq!(Run::new().until(100, load, 100.0 * MB), Verdict::Nothing);
        }
        // What comes and goes is no reason.
        let mut run = Run::new();
        for n in 0..100 {
            let load = if n % 3 == 0 { idle } else { LOSSY };
            assert_eq!(run.look(load, 10.0 * MB, u64::MAX), Verdict::Nothing);
        }
        let (mut run, mut rate) = (Run::new(), MB);
        for _ in 0..40 {
            rate *= 1.05;
            assert_eq!(run.look(LOSSY, rate, u64::MAX), Verdict::Nothing);
        }
        let mut run = Run::new();
        for _ in 0..40 {
            assert_eq!(run.look(LOSSY, 10.0 * MB, 50_000_000), Verdict::Nothing);
        }
        let busy = Load { busy: 0.97, spare_cores: true, lost: 0.0 };
        assert!(matches!(Run::new().until(20, busy, 400.0 * MB), Verdict::Ask(Limit::Core, _)));
    }

    proptest! {
        #[test]
        fn whatever_is_seen_little_is_asked_for_and_only_with_a_reason(
            looks in proptest::collection::vec((0..3_u8, 0.0..1e9_f64), 1..600),
            refused_at in 0..8_usize,
        ) {
            let (mut run, mut asked, mut not_before) = (Run::new(), 0, None);
            let (mut reasons, mut waiting) = (0, None);
            for (kind, rate) in looks {
                let load = match kind {
                    0 => Load { busy: 0.1, spare_cores: true, lost: 0.0 },
                    1 => LOSSY,
                    _ => Load { busy: 1.0, spare_cores: true, lost: 0.0 },
                };
                // Reasons count from the same kind only.
                reasons = match load.limit() {
                    Some(limit) if Some(limit) == waiting => reasons + 1,
                    limit => {
                        waiting = limit;
                        usize::from(limit.is_some())
                    }
                };
                match run.look(load, rate, u64::MAX) {
                    Verdict::Nothing => {}
                    Verdict::Ask(limit, _) => {
                        prop_assert!(reasons >= PATIENCE && Some(limit) == waiting);
                        prop_assert!(not_before.is_none_or(|then| run.now >= then));
                        prop_assert!(asked < refused_at.max(1) && run.connections.have < MOST - 1);
                        asked += 1;
                        // Nothing is asked for twice.
                        prop_assert_eq!(run.until(40, LOSSY, rate), Verdict::Nothing);
                        if asked >= refused_at {
                            run.connections.refuse();
                        } else {
                            run.connections.came();
                        }
                    }
                    Verdict::Worth(old, new) => prop_assert!(new >= old * WORTH),
                    Verdict::NotWorth(old, new) => {
                        prop_assert!(new < old * WORTH);
                        not_before = Some(run.now + REST);
                    }
                }
            }
            prop_assert!(run.connections.have < MOST);
        }
    }

    #[test]
    fn a_refusal_is_final() {
        let mut run = Run::new();
        assert!(matches!(run.until(20, LOSSY, 10.0 * MB), Verdict::Ask(..)));
        run.connections.refuse();
        assert_eq!(run.until(1000, LOSSY, 10.0 * MB), Verdict::Nothing);
    }
}
