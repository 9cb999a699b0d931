//! When an additional connection is worth having, where the user has not set their number. Pure: what was
//! measured goes in, what to do comes out.
//!
//! One connection is enough for most paths: its windows grow, and a large file goes over several channels
//! where they do not. It is not where something is shared by all channels of a connection: the congestion
//! window, which loss keeps small, and the one thread at each end that lays out and takes apart its packets.
//! The first two limits are seen at this end, five times a second ([`Load`]). The other end's thread is not:
//! a rate that only fast machines reach, with neither loss nor a busy thread here, stands for it. When one of
//! the three has held a copy up for a while, at a rate that no longer rises, with enough left to make up for
//! a login, one more connection is asked for. It is kept at work, and another one may follow, only if the
//! rate rose with it; if not, this was not the limit, and nothing is tried again for a long while.

use std::time::{Duration, Instant};

/// The time between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// From this part of a core on the connection's thread is what limits.
const BUSY: f64 = 0.9;

/// From this part of the segments on loss does: at 50 ms 1 in 2,000 keeps CUBIC at a few MB/s.
const LOSS: f64 = 0.0005;

/// From this rate on, bytes/s, the other end's thread may be what limits: OpenSSH's server fills a core with
/// 400 to 900 MB/s. Hard disks and networks of 1 Gb/s are slower, and gain nothing from another connection.
const FAST: f64 = 350e6;

/// When one was not worth it; twice as long each time.
const REST: Duration = Duration::from_secs(120);

/// Most connections that are opened without the user's request.
const MOST: usize = 4;

/// Looks of the longest [`Limit::timeout`].
const LONGEST: usize = 10;

/// Load of the first connection and its thread since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// The part of a core that its thread has used.
    pub busy: f64,
    /// There are cores to spare for the threads of others.
    pub spare_cores: bool,
    /// The part of the segments that had to be sent again, or came behind a gap.
    pub lost: f64,
}

/// What limits one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The thread of this end.
    Core,
    /// Presumably the thread of the other end. It cannot be measured from here: this limit is assumed at a
    /// high rate without loss and without a busy thread of our own.
    OtherEnd,
    /// The congestion window, because the path loses packets.
    Loss,
}

impl Limit {
    /// Returns the limit of a copy with this load and rate (bytes/s).
    fn of(load: Load, rate: f64) -> Option<Self> {
        if load.lost >= LOSS {
            Some(Self::Loss)
        } else if !load.spare_cores {
            None
        } else if load.busy >= BUSY {
            Some(Self::Core)
        } else {
            (rate >= FAST).then_some(Self::OtherEnd)
        }
    }

    /// Looks in a row at which it has to hold the copy up. Loss comes in bursts, and TCP recovers from them;
    /// a thread is busy or is not.
    const fn timeout(self) -> usize {
        match self {
            Self::Loss => LONGEST,
            Self::Core | Self::OtherEnd => 3,
        }
    }

    /// Looks until a new connection shows what it is worth: with loss, TCP has to find its rate.
    const fn ramp(self) -> usize {
        match self {
            Self::Loss => 10,
            Self::Core | Self::OtherEnd => 2,
        }
    }

    /// Factor by which the rate must rise for an additional connection to be worth keeping.
    const fn worth(self) -> f64 {
        match self {
            Self::Loss => 1.2,
            Self::Core | Self::OtherEnd => 1.1,
        }
    }

    /// Least time that must be left at the present rate.
    const fn least_left(self) -> Duration {
        match self {
            Self::Loss => Duration::from_secs(6),
            Self::Core | Self::OtherEnd => Duration::from_secs(2),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Watching,
    /// The last connection was worth it for this reason, so the rate has just risen: if the limit is the
    /// same, the next may follow.
    Encouraged(Limit),
    /// Asked for; the rate was this.
    Asked(Limit, f64),
    /// It is there, since this many looks.
    Trying(Limit, f64, usize),
    /// No further connection is asked for before this time.
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

/// Result of a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Nothing,
    Ask(Limit, f64),
    Worth(f64, f64),
    NotWorth(f64, f64),
}

impl Connections {
    pub(crate) fn evaluate(&mut self, load: Load, bytes: u64, left: u64, now: Instant) -> Verdict {
        let Some((then, before)) = self.seen.replace((now, bytes)) else { return Verdict::Nothing };
        let passed = now.saturating_duration_since(then).as_secs_f64();
        let rate = bytes.saturating_sub(before) as f64 / passed.max(1e-3);
        self.rates.push(rate);
        self.limits.push(Limit::of(load, rate));
        let surplus = self.rates.len().saturating_sub(2 * LONGEST);
        self.rates.drain(..surplus);
        self.limits.drain(..surplus);
        match self.phase {
            Phase::Watching => self.watch(left, None),
            Phase::Encouraged(limit) => self.watch(left, Some(limit)),
            Phase::Resting(until) if now >= until => {
                self.phase = Phase::Watching;
                Verdict::Nothing
            }
            Phase::Resting(_) | Phase::Asked(..) => Verdict::Nothing,
            Phase::Trying(limit, old, looks) if looks < limit.ramp() + limit.timeout() => {
                self.phase = Phase::Trying(limit, old, looks + 1);
                Verdict::Nothing
            }
            Phase::Trying(limit, old, _) => {
                let new = mean(self.last(limit.timeout()));
                if new >= old * limit.worth() {
                    self.phase = Phase::Encouraged(limit);
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

    /// The rates of the last `looks`.
    fn last(&self, looks: usize) -> &[f64] {
        &self.rates[self.rates.len().saturating_sub(looks)..]
    }

    /// The limit at the last look, if it has been the same for its whole patience.
    fn lasting(&self) -> Option<Limit> {
        let limit = (*self.limits.last()?)?;
        let from = self.limits.len().checked_sub(limit.timeout())?;
        self.limits[from..].iter().all(|other| *other == Some(limit)).then_some(limit)
    }

    /// `encouraged`: by a connection that was worth it, against this limit.
    fn watch(&mut self, left: u64, encouraged: Option<Limit>) -> Verdict {
        if self.refused || 1 + self.have >= MOST {
            return Verdict::Nothing;
        }
        let Some(limit) = self.lasting() else { return Verdict::Nothing };
        let Some(from) = self.rates.len().checked_sub(2 * limit.timeout()) else { return Verdict::Nothing };
        let (earlier, latest) = self.rates[from..].split_at(limit.timeout());
        let rate = mean(latest);
        let rising = encouraged != Some(limit) && rate > mean(earlier) * 1.1;
        if rising || rate <= 0.0 || (left as f64) < rate * limit.least_left().as_secs_f64() {
            return Verdict::Nothing;
        }
        self.phase = Phase::Asked(limit, rate);
        Verdict::Ask(limit, rate)
    }

    pub(crate) fn on_connected(&mut self) {
        if let Phase::Asked(limit, rate) = self.phase {
            self.have += 1;
            self.phase = Phase::Trying(limit, rate, 0);
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
    /// Looks until something must have happened.
    const LONG: usize = 50;
    const BUSY_HERE: Load = Load { busy: 0.97, spare_cores: true, lost: 0.0 };
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
            assert_eq!(run.connections.evaluate(LOSSY, 0, u64::MAX, run.now), Verdict::Nothing);
            run
        }

        fn evaluate(&mut self, load: Load, rate: f64, left: u64) -> Verdict {
            self.now += LOOK;
            self.bytes += (rate * LOOK.as_secs_f64()) as u64;
            self.connections.evaluate(load, self.bytes, left, self.now)
        }

        /// The first thing that happens in that number of looks.
        fn until(&mut self, looks: usize, load: Load, rate: f64) -> Verdict {
            (0..looks)
                .map(|_| self.evaluate(load, rate, u64::MAX))
                .find(|verdict| *verdict != Verdict::Nothing)
                .unwrap_or(Verdict::Nothing)
        }
    }

    #[test]
    fn one_that_helps_is_followed_by_another_up_to_a_bound() {
        let mut run = Run::new();
        let mut rate = 10.0 * MB;
        for _ in 1..MOST {
            assert!(matches!(run.until(LONG, LOSSY, rate), Verdict::Ask(Limit::Loss, _)));
            // Nothing is asked for twice.
            assert_eq!(run.until(LONG, LOSSY, rate), Verdict::Nothing);
            run.connections.on_connected();
            rate *= 1.5;
            assert!(matches!(run.until(LONG, LOSSY, rate), Verdict::Worth(..)));
        }
        assert_eq!(run.until(200, LOSSY, rate), Verdict::Nothing);
    }

    #[test]
    fn one_that_does_not_help_is_the_last_for_a_long_while() {
        let mut run = Run::new();
        assert!(matches!(run.until(LONG, LOSSY, 10.0 * MB), Verdict::Ask(..)));
        run.connections.on_connected();
        assert!(matches!(run.until(LONG, LOSSY, 11.0 * MB), Verdict::NotWorth(..)));
        let rest = (REST.as_millis() / LOOK.as_millis()) as usize;
        assert_eq!(run.until(rest - 1, LOSSY, 11.0 * MB), Verdict::Nothing);
        assert!(matches!(run.until(LONG, LOSSY, 11.0 * MB), Verdict::Ask(..)));
        run.connections.on_connected();
        assert!(matches!(run.until(LONG, LOSSY, 11.0 * MB), Verdict::NotWorth(..)));
        assert_eq!(run.until(2 * rest - 1, LOSSY, 11.0 * MB), Verdict::Nothing, "twice as long");
    }

    #[test]
    fn no_connection_is_opened_without_a_reason_or_near_the_end() {
        let idle = Load { busy: 0.5, spare_cores: true, lost: 0.0 };
        let alone = Load { busy: 1.0, spare_cores: false, lost: 0.0 };
        for load in [idle, alone] {
            assert_eq!(Run::new().until(100, load, 100.0 * MB), Verdict::Nothing);
        }
        assert_eq!(Run::new().until(100, alone, 2.0 * FAST), Verdict::Nothing);
        // What comes and goes is no reason.
        let mut run = Run::new();
        for n in 0..100 {
            let load = if n % 3 == 0 { idle } else { LOSSY };
            assert_eq!(run.evaluate(load, 10.0 * MB, u64::MAX), Verdict::Nothing);
        }
        let (mut run, mut rate) = (Run::new(), MB);
        for _ in 0..40 {
            rate *= 1.05;
            assert_eq!(run.evaluate(LOSSY, rate, u64::MAX), Verdict::Nothing);
        }
        let mut run = Run::new();
        for _ in 0..40 {
            assert_eq!(run.evaluate(LOSSY, 10.0 * MB, 50_000_000), Verdict::Nothing);
            assert_eq!(run.evaluate(BUSY_HERE, 10.0 * MB, 15_000_000), Verdict::Nothing);
        }
    }

    #[test]
    fn threads_at_their_limit_get_help_within_seconds() {
        let idle = Load { busy: 0.5, spare_cores: true, lost: 0.0 };
        for (load, limit) in [(BUSY_HERE, Limit::Core), (idle, Limit::OtherEnd)] {
            let (mut run, mut rate) = (Run::new(), 1.5 * FAST);
            let begun = run.now;
            for _ in 1..MOST {
                let asked = run.until(20, load, rate);
                assert!(matches!(asked, Verdict::Ask(found, _) if found == limit), "{asked:?}");
                run.connections.on_connected();
                rate *= 1.2;
                assert!(matches!(run.until(20, load, rate), Verdict::Worth(..)));
            }
            let took = run.now.saturating_duration_since(begun);
            assert!(took < Duration::from_secs(6), "{took:?}");
            assert_eq!(run.until(200, load, rate), Verdict::Nothing, "there are enough");
        }
    }

    proptest! {
        #[test]
        fn random_loads_open_few_connections_each_with_a_reason(
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
                reasons = match Limit::of(load, rate) {
                    Some(limit) if Some(limit) == waiting => reasons + 1,
                    limit => {
                        waiting = limit;
                        usize::from(limit.is_some())
                    }
                };
                match run.evaluate(load, rate, u64::MAX) {
                    Verdict::Nothing => {}
                    Verdict::Ask(limit, _) => {
                        prop_assert!(reasons >= limit.timeout() && Some(limit) == waiting);
                        prop_assert!(not_before.is_none_or(|then| run.now >= then));
                        prop_assert!(asked < refused_at.max(1) && run.connections.have < MOST - 1);
                        asked += 1;
                        // Nothing is asked for twice.
                        prop_assert_eq!(run.until(LONG, LOSSY, rate), Verdict::Nothing);
                        (reasons, waiting) = (LONG, Some(Limit::Loss));
                        if asked >= refused_at {
                            run.connections.refuse();
                        } else {
                            run.connections.on_connected();
                        }
                    }
                    Verdict::Worth(old, new) => prop_assert!(new >= old * Limit::Core.worth()),
                    Verdict::NotWorth(old, new) => {
                        prop_assert!(new < old * Limit::Loss.worth());
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
        assert!(matches!(run.until(LONG, LOSSY, 10.0 * MB), Verdict::Ask(..)));
        run.connections.refuse();
        assert_eq!(run.until(1000, LOSSY, 10.0 * MB), Verdict::Nothing);
    }
}
