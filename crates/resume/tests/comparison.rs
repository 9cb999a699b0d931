//! Tests of stalled links in virtual time: a first link carries a session, and a second one may replace it,
//! over paths whose rates change.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lh_resume::{Advice, Comparison, PROBE_INTERVAL, PROBE_LEN, Probe};
use lh_testkit::Seeded;
use proptest::prelude::*;

/// Step of the simulation.
const TICK: Duration = Duration::from_millis(100);
/// Bytes of the session queued in front of an answer while the sender has more data than the path carries.
const QUEUE: f64 = 64_000.0;
/// The value of [`QUEUE`] for a path with a short queue.
const SHORT_QUEUE: f64 = 6000.0;
/// Bytes of a key exchange.
const HANDSHAKE: f64 = 8000.0;
/// Size of a TCP segment, bytes: bytes are delivered in multiples of it.
const SEGMENT: f64 = 1448.0;

/// One link: a queue that its path drains at a rate.
#[derive(Default)]
struct Line {
    queued: f64,
    taken: f64,
    /// Answers, each with the number of bytes to drain before it arrives.
    answers: VecDeque<(f64, usize)>,
}

impl Line {
    fn send(&mut self, bytes: f64) {
        self.queued += bytes;
    }

    fn ask(&mut self, len: usize) {
        self.send(len as f64 + 60.0);
        self.answers.push_back((self.taken + self.queued, len));
    }

    /// Moves bytes for one tick. Returns the answer that has arrived.
    fn step(&mut self, rate: f64) -> Option<usize> {
        let bytes = self.queued.min(rate * TICK.as_secs_f64());
        self.queued -= bytes;
        self.taken += bytes;
        let (at, len) = *self.answers.front()?;
        (self.taken + 0.5 >= at).then(|| {
            self.answers.pop_front();
            len
        })
    }

    /// Returns the bytes that TCP has delivered, in whole segments.
    fn delivered(&self) -> u64 {
        ((self.taken / SEGMENT).floor() * SEGMENT) as u64
    }
}

/// Traffic of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Load {
    /// Nothing.
    Idle,
    /// Sends as much as the path carries.
    Bulk,
    /// Like [`Bulk`](Self::Bulk), with fewer bytes in flight.
    ShortBulk,
    /// Five keystrokes per second.
    Typed,
}

/// Actions with their times in seconds.
type Acts = Vec<(u64, Advice)>;

/// Simulates a session and returns the actions. `rates` returns the rates of the first link's path and of a
/// new link's path, bytes/s, at each second. `shared`: both links share one path and get half of its rate
/// each.
fn play(load: Load, shared: bool, seconds: u64, rates: impl Fn(u64) -> (f64, f64)) -> Acts {
    let start = Instant::now();
    let mut comparison = Comparison::default();
    let (mut first, mut second) = (Line::default(), None::<(Line, Probe, Option<Instant>, f64)>);
    let (mut messages, mut acts, mut first_is_new) = (1, Vec::new(), false);
    // Bytes that both links delivered in each of the last seconds.
    let mut lately = VecDeque::new();
    for tick in 0..seconds * 10 {
        let now = start + TICK * u32::try_from(tick).unwrap();
        let (old, new) = rates(tick / 10);
        let mut rate = if first_is_new { new } else { old };
        let mut beside = new;
        if shared && second.as_ref().is_some_and(|(line, ..)| line.queued > 0.0) && first.queued > 0.0 {
            (rate, beside) = (rate / 2.0, rate / 2.0);
        }
        match load {
            Load::Idle => {}
            Load::Bulk | Load::ShortBulk => {
                let queue = if load == Load::Bulk { QUEUE } else { SHORT_QUEUE };
                first.send((queue - first.queued).max(0.0));
                messages += 1;
            }
            Load::Typed => {
                first.send(if tick % 2 == 0 { 100.0 } else { 0.0 });
                messages += tick % 2;
            }
        }
        let mut advice = first.step(rate).and_then(|_| comparison.on_answer(now));
        if let Some((line, probe, asked, handshake)) = &mut second {
            if let Some(len) = line.step(beside) {
                probe.on_answer(len, now);
            }
            let is_up = line.taken >= *handshake;
            if is_up && line.answers.is_empty() && asked.is_none_or(|asked| now >= asked + PROBE_INTERVAL) {
                line.ask(PROBE_LEN);
                probe.on_asked(now);
                *asked = Some(now);
            }
            comparison.set_probe(*probe);
        }
        if tick % 10 == 0 {
            lately.push_back((first.taken, second.as_ref().map_or(0.0, |(line, ..)| line.taken)));
            while lately.len() > 11 {
                lately.pop_front();
            }
        }
        advice = advice.or_else(|| comparison.poll(messages, || Some(first.delivered()), now));
        match advice {
            None => {}
            Some(Advice::Ask) => first.ask(0),
            Some(Advice::Open) => {
                let mut line = Line::default();
                line.send(HANDSHAKE);
                second = Some((line, Probe::default(), None, HANDSHAKE));
            }
            Some(Advice::Replace) => {
                let (line, ..) = second.take().expect("a second link");
                let (first_then, second_then) = *lately.front().unwrap();
                let moved = (first.taken - first_then, line.taken - second_then);
                assert!(moved.0 * 3.0 < moved.1, "{moved:?} bytes in ten seconds");
                first = line;
                first_is_new = true;
                comparison.on_new_link();
            }
            Some(Advice::Close) => assert!(second.take().is_some(), "a second link is closed"),
        }
        if let Some(advice) = advice.filter(|advice| *advice != Advice::Ask) {
            acts.push((tick / 10, advice));
        }
    }
    acts
}

fn count(acts: &Acts, advice: Advice) -> usize {
    acts.iter().filter(|(_, each)| *each == advice).count()
}

const WELL: f64 = 5_000_000.0;

#[test]
fn a_stalled_link_is_replaced_by_one_that_proves_faster() {
    // Typed text needs a lower rate than that at which bulk data counts as stalled.
    for (load, stalled) in [(Load::Bulk, 1000.0), (Load::ShortBulk, 3000.0), (Load::Typed, 100.0)] {
        let acts = play(load, false, 200, |second| (if second < 20 { WELL } else { stalled }, WELL));
        let [(opened, Advice::Open), (replaced, Advice::Replace)] = acts[..] else {
            panic!("{load:?}: {acts:?}")
        };
        assert!(opened < 40 && (10..16).contains(&(replaced - opened)), "{load:?}: {acts:?}");
    }
}

#[test]
fn a_slow_path_is_not_left_and_seldom_compared() {
    // Each of these is one path, which a second link would only share: a modem, a radio link, a stalled
    // network.
    for rate in [200.0, 1000.0, 3000.0, 6000.0, 30_000.0] {
        for load in [Load::Bulk, Load::ShortBulk, Load::Typed] {
            let acts = play(load, true, 3600, |_| (rate, rate));
            assert_eq!(count(&acts, Advice::Replace), 0, "{rate} {load:?}: {acts:?}");
            assert!(count(&acts, Advice::Open) <= 8, "{rate} {load:?}: {acts:?}");
        }
    }
}

#[test]
fn a_little_faster_is_not_enough() {
    let acts = play(Load::Bulk, false, 600, |second| (if second < 20 { WELL } else { 4000.0 }, 8000.0));
    assert_eq!(count(&acts, Advice::Replace), 0, "{acts:?}");
}

#[test]
fn a_link_that_recovers_is_kept() {
    let acts =
        play(Load::Bulk, false, 200, |second| (if (20..34).contains(&second) { 1000.0 } else { WELL }, WELL));
    assert!(matches!(acts[..], [(_, Advice::Open), (34..38, Advice::Close)]), "{acts:?}");
}

#[test]
fn fast_and_idle_links_have_no_second_one() {
    for load in [Load::Idle, Load::Bulk, Load::Typed] {
        assert_eq!(play(load, false, 600, |_| (WELL, WELL)), [], "{load:?}");
    }
    assert_eq!(play(Load::Idle, false, 600, |_| (100.0, WELL)), []);
    // A silent path is handled by `Silence`.
    assert_eq!(play(Load::Bulk, false, 600, |second| (if second < 20 { WELL } else { 0.0 }, WELL)), []);
}

#[test]
fn an_idle_session_is_not_asked() {
    let start = Instant::now();
    let mut comparison = Comparison::default();
    let asked = (0..600).filter(|second| {
        let now = start + Duration::from_secs(*second);
        let advice = comparison.poll(7, || Some(1000), now);
        let _ = advice.and_then(|_| comparison.on_answer(now));
        advice.is_some()
    });
    assert_eq!(asked.count(), 1);
    assert_eq!(comparison.next_deadline(), None);
}

#[test]
fn sockets_of_which_nothing_is_known_are_not_compared() {
    let mut comparison = Comparison::default();
    let start = Instant::now();
    for second in 0..100 {
        let now = start + Duration::from_secs(second);
        assert_eq!(comparison.poll(second, || None, now), None);
    }
}

/// Simulates an hour of bulk data over paths whose rates change every `every` seconds. Second connections are
/// rare, and each replacement is checked against the measured rates (see [`play`]).
fn changing_paths(seed: u64, shared: bool, every: u64) {
    let mut random = Seeded::new(seed);
    let rates: Vec<(f64, f64)> = (0..3600 / every + 1)
        .map(|_| {
            let mut rate = || [0.0, 300.0, 1000.0, 3500.0, 20_000.0, WELL][random.below(6)];
            (rate(), rate())
        })
        .collect();
    let acts = play(Load::Bulk, shared, 3600, |second| rates[(second / every) as usize]);
    let opens: Vec<u64> = acts.iter().filter(|(_, act)| *act == Advice::Open).map(|(at, _)| *at).collect();
    assert!(opens.windows(2).all(|pair| pair[1] - pair[0] >= 60), "{acts:?}");
    // There is one second connection at a time, and each one ends.
    for pair in acts.windows(2) {
        assert_eq!(pair[0].1 == Advice::Open, pair[1].1 != Advice::Open, "{acts:?}");
    }
}

#[test]
fn second_link_without_data_does_not_replace_the_first() {
    changing_paths(11_131_201_143_553_384_922, false, 20);
}

#[test]
fn data_that_was_sent_before_does_not_count() {
    // The second connection of the second attempt starts fast and becomes as slow as the first one. An answer
    // arrives within the ten compared seconds, but most of its data was sent before them.
    for (until, rate) in
        (106..116).flat_map(|until| [1000.0, 1300.0, 1500.0, 1700.0].map(|rate| (until, rate)))
    {
        let new = |second| match second {
            0..100 => 0.0,
            100..110 => WELL,
            _ if second < until + 10 => rate,
            _ => 300.0,
        };
        let acts =
            play(Load::Bulk, false, 200, |second| (if second < 20 { WELL } else { 300.0 }, new(second)));
        // Its replacement was faster (see [`play`]).
        assert_eq!(acts[2], (108, Advice::Open), "{until} {rate} {acts:?}");
    }
}

proptest! {
    #[test]
    fn paths_that_change_make_no_flapping(seed: u64, shared: bool, every in 1u64..120) {
        changing_paths(seed, shared, every);
    }
}
