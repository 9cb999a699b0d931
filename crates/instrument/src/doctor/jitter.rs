//! Round trips that vary although nothing is transferred (jitter).

use super::facts::{PathAtRest, Throughput};
use super::finding::{Finding, weight_of_time};
use super::stopped;
use crate::stats::{lowest, median, time};

/// Round trips for a verdict, and those for the question whether to measure more.
const LEAST: usize = 20;
const FEW: usize = 5;
/// How far nine of ten round trips may be above the shortest: a part of that, and seconds; the larger one
/// applies.
const STEADY: (f64, f64) = (0.2, 0.01);

/// Part of the shortest round trip by which it must vary to slow a congestion control down, and the part of
/// the segments that may be lost meanwhile. More losses need no jitter to do so.
const HOLDS_UP: f64 = 0.5;
const FEW_LOST: f64 = 0.003;

/// Part of the time by which small messages are late on average that must be left, less what their ends
/// waited for a processor, for a property of the path.
const LEFT: f64 = 0.3;
/// Part of a transfer's time that an SSH process waits for its turn at a processor from which late answers
/// may be its own, where it is not known how long it waited with small messages; also the part that the
/// hypervisor takes.
const WAITED: f64 = 0.15;

/// Round trips without load, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) shortest: f64,
    pub(super) usual: f64,
    /// Nine of ten are not longer.
    pub(super) long: f64,
}

impl Spread {
    fn of(idle: &[f64], least: usize) -> Option<Self> {
        let mut all = idle.to_vec();
        all.sort_by(f64::total_cmp);
        let long = *all.get((all.len() * 9 / 10).min(all.len().checked_sub(1)?))?;
        let spread =
            Self { shortest: lowest(all.iter().copied())?, usual: median(all.iter().copied())?, long };
        (all.len() >= least).then_some(spread)
    }

    fn varies(&self) -> bool {
        let (part, least) = STEADY;
        // The median must vary, too: a few late answers of a busy machine are no jitter.
        self.long - self.shortest > (part * self.shortest).max(least)
            && self.usual - self.shortest > 0.25 * (part * self.shortest).max(least)
    }
}

/// The shortest, the middle and the longest of nine in ten round trips, seconds.
pub(super) fn quantiles(idle: &[f64]) -> Option<[f64; 3]> {
    Spread::of(idle, FEW).map(|spread| [spread.shortest, spread.usual, spread.long])
}

/// Returns whether the first round trips differ so much that further ones are measured.
pub(super) fn is_in_doubt(idle: &[f64]) -> bool {
    Spread::of(idle, FEW).is_some_and(|spread| spread.varies())
}

/// The round trips without load, where they vary much.
pub(super) fn spread(path: &PathAtRest) -> Option<Spread> {
    Spread::of(&path.pings, LEAST).filter(Spread::varies)
}

/// Returns whether both ends' waits for a processor are most of the time by which small messages are late;
/// `None` where they are not known.
fn is_of_processors(path: &PathAtRest, shortest: f64) -> Option<bool> {
    let waited = path.pings_waited?;
    let late = path.pings.iter().map(|took| took - shortest).sum::<f64>() / path.pings.len().max(1) as f64;
    let (part, least) = STEADY;
    let left = late - waited;
    Some(left < LEFT * late || left < (part * shortest).max(least))
}

/// The finding; none where a processor, also that of a jump host, explains late answers.
pub(super) fn judge(path: &PathAtRest, throughput: &Throughput, found: &mut Vec<Finding>) {
    let Some(Spread { shortest, usual, long }) = spread(path) else { return };
    let of_processors = is_of_processors(path, shortest);
    let explains = |finding: &Finding| {
        finding.cause == "jump_host" || (of_processors.is_none() && finding.cause.starts_with("processor"))
    };
    // On a busy machine, small messages may wait for their turn, too, although a path that is full limits the
    // transfers. A process that only answers them waits less than one that moves data.
    let flows = || throughput.flows();
    let turns = || flows().flat_map(|flow| [flow.client.turns, flow.server.turns]).flatten();
    let stolen = || flows().flat_map(|flow| [flow.client.stolen, flow.server.stolen]).flatten();
    let is_busy = of_processors.unwrap_or_else(|| turns().any(|turns| turns.waited >= WAITED))
        || stolen().any(|part| part >= WAITED);
    // Where the server tells nothing of its processors, a little jitter may be theirs.
    let is_untold = of_processors.is_none() && turns().next().is_none();
    if is_untold && long - shortest < HOLDS_UP * shortest {
        return;
    }
    let is_stopped = flows().any(|flow| stopped::much(&flow.server).is_some());
    if is_busy || is_stopped || found.iter().any(explains) {
        return;
    }
    let extra = long - shortest;
    let lost = flows().filter_map(|flow| flow.loss()).fold(0.0, f64::max);
    // A late answer looks like a queue to a congestion control, and what was held up overflows the next one.
    let is_held_up = |finding: &&Finding| {
        extra >= HOLDS_UP * shortest
            && (finding.cause == "congestion_control" || (finding.cause == "loss" && lost < FEW_LOST))
    };
    let held_up = found.iter().filter(is_held_up).map(|finding| finding.weight).reduce(f64::max);
    let mut evidence = vec![format!(
        "of {} small messages on idle connections, the fastest was answered after {}, half of them after {}, nine of ten \
         after {}",
        path.pings.len(),
        time(shortest),
        time(usual),
        time(long)
    )];
    evidence.extend(path.pings_waited.map(|waited| {
        format!("for each of them, both ends waited {} for their turn at a processor", time(waited))
    }));
    if held_up.is_some() {
        evidence.push(
            "TCP takes late answers for a queue and slows down: one connection does not fill the path"
                .to_owned(),
        );
    }
    let own = weight_of_time(extra) * 0.9;
    found.push(Finding {
        cause: "jitter",
        title: format!(
            "The round trip varies between {} and {} while nothing is transferred ({}).",
            time(shortest),
            time(long),
            if is_untold { "jitter, or a busy server" } else { "jitter" }
        ),
        evidence,
        gain: format!("keystrokes that are answered up to {} sooner", time(extra)),
        change: vec![
            "look for a radio link (Wi-Fi, mobile) or a busy line on the way: ping from both ends of each part, or by cable"
                .to_owned(),
            "a server that is busy answers as unevenly: uptime and vmstat 1 there".to_owned(),
        ],
        weight: held_up.map_or(own, |weight| own.max(weight + 0.1)),
    });
}
