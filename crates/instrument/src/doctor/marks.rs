//! DSCP marks (`IPQoS`) that the path throttles: transfers with and without them, in turns.
//!
//! Uploads carry the marks of this machine, which asks for each of them. Downloads carry those of the server,
//! which marks a connection by its sessions: with a terminal, without one, or none at all. So three kinds of
//! connections are compared.

use super::budget;
use super::facts::{Facts, Mark};
use super::finding::{Finding, weight_of_factor};
use super::instruments::{Carrier, Instruments, PLAIN, Place, Settings, Transfer, prepared_flow};
use super::starved;
use crate::fault::Fault;
use crate::flow::Direction;
use crate::stats::{median, rate};

/// Ratio of two rates from which they are measured in turns.
const SUSPICIOUS: f64 = 1.3;
/// Ratio of two rates from which they are measured in turns even if that takes the most time of a run.
const FAR_APART: f64 = 5.0;
/// Ratio of two rates from which further rounds are worth their time, and of all rounds from which a mark is
/// throttled.
const DIFFERS: f64 = 1.5;
/// Ratio of the slowest transfer without the mark to the fastest one with it.
const APART: f64 = 1.4;
/// Rounds of transfers for a verdict.
const ROUNDS: usize = 3;
/// Transfers for which there has to be time where some are measured in turns: the last of all rounds may end
/// later.
const IN_TURNS: f64 = 5.0;
/// Cores of an SSH process from which its processor may be what makes two downloads differ.
const BUSY: f64 = 0.7;

const COMMANDS: &str = "copies and commands";
const TERMINALS: &str = "sessions with a terminal";

/// Connections for a first comparison of each direction, which are set up while something else is measured.
pub(super) struct Prepared<C> {
    /// Where the upload that was judged has a mark.
    unmarked: Option<C>,
    /// With the mark of terminals.
    interactive: Option<(u8, C)>,
}

impl<C> Prepared<C> {
    /// Begins the connections for uploads.
    pub(super) fn begin<I: Instruments<Connection = C>>(instruments: &mut I, facts: &Facts) -> Self {
        let (bulk, interactive) = wanted(&instruments.settings());
        let is_needed = !facts.path.is_proxied;
        let unmarked = bulk.filter(|_| is_needed).map(|_| marked(instruments, 0));
        let interactive = interactive.filter(|_| is_needed).map(|mark| (mark, marked(instruments, mark)));
        Self { unmarked, interactive }
    }
}

/// The marks in use for bulk data, and for terminals where it is another one.
fn wanted(settings: &Settings) -> (Option<u8>, Option<u8>) {
    let [bulk, interactive] =
        [settings.bulk_mark, settings.interactive_mark].map(|mark| mark.filter(|mark| *mark != 0));
    (bulk, interactive.filter(|mark| Some(*mark) != bulk))
}

fn value(mark: u8) -> String {
    if mark == 0 { "cs0 cs0".to_owned() } else { format!("0x{mark:02x} 0x{mark:02x}") }
}

/// Begins a connection whose uploads have this mark.
fn marked<I: Instruments>(instruments: &mut I, mark: u8) -> I::Connection {
    instruments.prepare(Place::Server, &[&[("IPQoS", value(mark).as_str())], &PLAIN[..]].concat(), false)
}

/// Measures the marks of both directions.
///
/// # Errors
/// An upload cannot be measured.
pub(super) fn measure<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    prepared: Prepared<I::Connection>,
) -> Result<(), Fault> {
    let of_downloads = Downloads::begin(instruments, facts);
    if facts.path.is_proxied {
        facts
            .run
            .missing
            .push("the marks of uploads (IPQoS): the jump host or proxy marks their packets".to_owned());
    } else {
        uploads(instruments, facts, prepared)?;
    }
    if let Some(of_downloads) = of_downloads {
        downloads(instruments, facts, of_downloads);
    }
    Ok(())
}

/// Compares an unmarked upload with the one that was judged, which has the mark of bulk data if any, and with
/// one that has the mark of terminals. Those that differ are measured again, in turns.
fn uploads<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    prepared: Prepared<I::Connection>,
) -> Result<(), Fault> {
    let round_trip = facts.round_trip();
    let alone = facts.throughput.rate(Direction::Up);
    let without = match prepared.unmarked {
        Some(connection) => {
            let transfer = Transfer::compared(Direction::Up, round_trip, alone);
            if !budget::begin(instruments, facts, "upload without a mark", transfer.time.as_secs_f64()) {
                return Ok(());
            }
            prepared_flow(instruments, connection, &transfer)?.rate
        }
        None => alone,
    };
    let mut all = Vec::new();
    if let (Some(bulk), _) = wanted(&instruments.settings()) {
        all.push((bulk, COMMANDS, alone));
    }
    let transfer = Transfer::compared(Direction::Up, round_trip, without);
    let seconds = transfer.time.as_secs_f64();
    if let Some((mark, connection)) = prepared.interactive
        && budget::begin(instruments, facts, "upload with the mark of terminals", seconds)
    {
        all.push((mark, TERMINALS, prepared_flow(instruments, connection, &transfer)?.rate));
    }
    for (mark, used_for, with) in all {
        let full = Transfer::full(Direction::Up, round_trip);
        let is_measured = begin_turns(instruments, facts, "a mark in turns", without / with.max(1.0), &full);
        let (with, without) = if !is_measured {
            (vec![with], vec![without])
        } else {
            in_turns(|is_marked| {
                let connection = marked(instruments, if is_marked { mark } else { 0 });
                Ok(prepared_flow(instruments, connection, &full)?.rate)
            })?
        };
        let (service, others) = (Some(mark), "uploads without it");
        facts.throughput.marks.push(Mark {
            direction: Direction::Up,
            service,
            used_for,
            others,
            with,
            without,
        });
    }
    Ok(())
}

/// Begins the transfers in turns if the ratio of the first two rates asks for them and there is time.
fn begin_turns<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    name: &str,
    ratio: f64,
    transfer: &Transfer,
) -> bool {
    let seconds = IN_TURNS * transfer.time.as_secs_f64();
    if ratio >= FAR_APART {
        budget::begin_for_large_difference(instruments, facts, name, seconds)
    } else {
        ratio >= SUSPICIOUS && budget::begin(instruments, facts, name, seconds)
    }
}

/// Rates of transfers with the mark and without it.
///
/// # Errors
/// A transfer cannot be measured.
fn in_turns(mut transfer: impl FnMut(bool) -> Result<f64, Fault>) -> Result<(Vec<f64>, Vec<f64>), Fault> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // The order changes, so that a path that gets faster or slower favours neither.
        for is_marked in [round % 2 == 0, round % 2 != 0] {
            let rate = transfer(is_marked)?;
            if is_marked { &mut with } else { &mut without }.push(rate);
        }
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        if sum(&without) / sum(&with).max(1.0) < DIFFERS {
            break;
        }
    }
    Ok((with, without))
}

/// Connections that a server marks differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Command,
    /// A terminal is open beside the download.
    Terminal,
    /// A forward without a session: no server marks it before a session begins.
    Forward,
}

impl Kind {
    const fn used_for(self) -> &'static str {
        match self {
            Self::Command | Self::Forward => COMMANDS,
            Self::Terminal => TERMINALS,
        }
    }

    /// The downloads of such connections.
    const fn downloads(self) -> &'static str {
        match self {
            Self::Command => "downloads without a terminal",
            Self::Terminal => "downloads beside a session with a terminal",
            Self::Forward => "downloads through a forward without a session",
        }
    }
}

/// One download by a kind of connection.
#[derive(Debug, Clone, Copy)]
struct Download {
    kind: Kind,
    /// The mark of its packets, where the server tells.
    mark: Option<u8>,
    rate: f64,
}

impl Kind {
    const fn carrier(self) -> Carrier {
        match self {
            Self::Command => Carrier::Command,
            Self::Terminal => Carrier::AmongTerminals,
            Self::Forward => Carrier::Forward,
        }
    }
}

/// First results of the comparison of downloads.
struct Downloads<C> {
    usual: Download,
    others: Vec<(Kind, C)>,
}

impl<C> Downloads<C> {
    /// Begins the connections; `None` where there is nothing to compare.
    fn begin<I: Instruments<Connection = C>>(instruments: &mut I, facts: &Facts) -> Option<Self> {
        let flow = facts.throughput.significant(Direction::Down)?;
        let usual = Download { kind: Kind::Command, mark: flow.packets.mark, rate: flow.rate };
        let is_busy = [flow.client.cpu, flow.server.cpu].into_iter().flatten().any(|cores| cores > BUSY);
        // The processors need different times for different kinds; a forward needs no command.
        if is_busy || starved::is_starved(flow, facts.round_trip()) {
            return None;
        }
        let mut kinds = vec![Kind::Terminal];
        if usual.mark != Some(0) {
            instruments.prepare_helper();
            kinds.push(Kind::Forward);
        }
        let prepare = |kind| (kind, instruments.prepare(Place::Server, &PLAIN, false));
        Some(Self { usual, others: kinds.into_iter().map(prepare).collect() })
    }
}

/// Downloads by each kind of connection, and the slowest and the fastest of them again, in turns, where they
/// differ.
fn downloads<I: Instruments>(instruments: &mut I, facts: &mut Facts, begun: Downloads<I::Connection>) {
    let round_trip = facts.round_trip();
    let mut kinds = vec![begun.usual];
    for (kind, connection) in begun.others {
        let transfer = Transfer::compared(Direction::Down, round_trip, begun.usual.rate);
        if !budget::begin(instruments, facts, kind.downloads(), transfer.time.as_secs_f64()) {
            return;
        }
        kinds.extend(download(instruments, kind, connection, &transfer).ok().flatten());
    }
    let Some((slow, fast)) = extremes(&kinds) else { return };
    let full = Transfer::full(Direction::Down, round_trip);
    let ratio = fast.rate / slow.rate.max(1.0);
    let measured = if !begin_turns(instruments, facts, "a mark of the server in turns", ratio, &full) {
        Ok((vec![slow.rate], vec![fast.rate]))
    } else {
        in_turns(|is_marked| {
            let kind = if is_marked { slow.kind } else { fast.kind };
            let connection = instruments.prepare(Place::Server, &PLAIN, false);
            let measured = download(instruments, kind, connection, &full)?;
            measured.map(|download| download.rate).ok_or(Fault::Late("a download broke off"))
        })
    };
    if let Ok((with, without)) = measured {
        facts.throughput.marks.push(Mark {
            direction: Direction::Down,
            service: slow.mark,
            used_for: slow.kind.used_for(),
            others: fast.kind.downloads(),
            with,
            without,
        });
    }
}

/// Returns the slowest download whose packets may be marked, and the fastest one with another mark.
fn extremes(all: &[Download]) -> Option<(Download, Download)> {
    let may_be_marked = |each: &&Download| each.mark != Some(0) && each.kind != Kind::Forward;
    let slow = all.iter().filter(may_be_marked).min_by(|a, b| a.rate.total_cmp(&b.rate))?;
    // Copies count more than terminals where both are throttled alike.
    let is_alike = |each: &&Download| each.kind == Kind::Command && each.rate < SUSPICIOUS * slow.rate;
    let slow = all.iter().filter(may_be_marked).find(is_alike).unwrap_or(slow);
    let has_another =
        |each: &&Download| each.kind != slow.kind && (each.mark.is_none() || each.mark != slow.mark);
    let fast = all.iter().filter(has_another).max_by(|a, b| a.rate.total_cmp(&b.rate))?;
    Some((*slow, *fast))
}

/// Measures a download by this kind of connection. `None` if too little data came to tell its rate.
///
/// # Errors
/// The connection broke, or the helper at the other end cannot be started.
fn download<I: Instruments>(
    instruments: &mut I,
    kind: Kind,
    connection: I::Connection,
    transfer: &Transfer,
) -> Result<Option<Download>, Fault> {
    let transfer = Transfer { carrier: kind.carrier(), ..*transfer };
    let flow = prepared_flow(instruments, connection, &transfer)?;
    Ok(flow.is_significant().then_some(Download { kind, mark: flow.packets.mark, rate: flow.rate }))
}

/// Median rates with the mark and without it, where the path throttles it: every marked transfer was slower
/// than every unmarked one.
fn throttled(mark: &Mark) -> Option<(f64, f64)> {
    let (with, without) = (median(mark.with.iter().copied())?, median(mark.without.iter().copied())?);
    let fastest = mark.with.iter().copied().reduce(f64::max)?;
    let slowest = mark.without.iter().copied().reduce(f64::min)?;
    let is_throttled =
        mark.with.len() >= ROUNDS && slowest > APART * fastest && without >= DIFFERS * with.max(1.0);
    is_throttled.then_some((with, without))
}

/// Returns whether the transfers of this direction carry a mark that is throttled.
pub(super) fn is_throttled(marks: &[Mark], direction: Direction) -> bool {
    let of_copies = |mark: &&Mark| mark.direction == direction && mark.used_for == COMMANDS;
    marks.iter().filter(of_copies).any(|mark| throttled(mark).is_some())
}

/// Returns true for causes that packets with a throttled mark seem to show.
pub(super) fn explains(cause: &str) -> bool {
    ["policer", "path", "loss", "congestion_control", "busy_machine", "bufferbloat"].contains(&cause)
}

/// Marks that the path treats worse.
pub(super) fn judge(marks: &[Mark], out: &mut Vec<Finding>) {
    for mark in marks {
        let Some((with, without)) = throttled(mark) else { continue };
        let name = mark.direction.name();
        let (end, file) = match mark.direction {
            Direction::Up => ("this machine", "ssh_config here"),
            Direction::Down => ("the server", "the server's sshd_config"),
        };
        let used_for = mark.used_for;
        let (name_of_mark, setting) = match mark.service {
            Some(service) => (
                format!("DSCP {} (the mark of {end} for {used_for})", service >> 2),
                format!("IPQoS 0x{service:02x}"),
            ),
            None => (format!("{end}'s mark for {used_for}"), "IPQoS".to_owned()),
        };
        let factor = without / with.max(1.0);
        out.push(Finding {
            cause: "dscp",
            title: format!(
                "The path throttles {name}s with {name_of_mark}: {} instead of {}.",
                rate(with),
                rate(without)
            ),
            evidence: vec![
                format!("{name}s with the mark ({setting}): {}", list(&mark.with)),
                format!("{}, in turns: {}", mark.others, list(&mark.without)),
            ],
            gain: format!("{factor:.1} times, measured, for {used_for}"),
            change: vec![format!("IPQoS none in {file}"), "or have the network carry the mark".to_owned()],
            weight: weight_of_factor(factor) + 0.5,
        });
    }
}

fn list(rates: &[f64]) -> String {
    rates.iter().map(|each| rate(*each)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn download(kind: Kind, mark: Option<u8>, rate: f64) -> Download {
        Download { kind, mark, rate }
    }

    #[test]
    fn downloads_with_different_marks_are_compared() {
        let of = |all: &[Download]| extremes(all).map(|(slow, fast)| (slow.kind, fast.kind));
        let command = download(Kind::Command, Some(32), 1.0);
        let terminal = download(Kind::Terminal, Some(72), 9.0);
        let forward = download(Kind::Forward, None, 8.0);
        assert_eq!(of(&[command, terminal, forward]), Some((Kind::Command, Kind::Terminal)));
        // Sessions with a terminal have the mark of the others.
        let terminal = download(Kind::Terminal, Some(32), 9.0);
        assert_eq!(of(&[command, terminal, forward]), Some((Kind::Command, Kind::Forward)));
        assert_eq!(of(&[command, terminal]), None);
        // Both are throttled.
        let terminal = download(Kind::Terminal, Some(32), 0.99);
        assert_eq!(of(&[command, terminal, forward]), Some((Kind::Command, Kind::Forward)));
        // What is not marked, or goes through the helper, is not throttled for its mark.
        let command = download(Kind::Command, Some(0), 1.0);
        assert_eq!(of(&[command, download(Kind::Forward, None, 0.5)]), None);
        assert_eq!(
            of(&[command, download(Kind::Terminal, Some(72), 0.2)]),
            Some((Kind::Terminal, Kind::Command))
        );
    }

    #[test]
    fn further_rounds_follow_a_difference_only() {
        let (with, without) = in_turns(|is_marked| Ok(if is_marked { 5.0 } else { 6.0 })).unwrap();
        assert_eq!((with.len(), without.len()), (1, 1));
        let (with, without) = in_turns(|is_marked| Ok(if is_marked { 1.0 } else { 6.0 })).unwrap();
        assert_eq!((with.len(), without.len()), (ROUNDS, ROUNDS));
    }
}
