//! DSCP marks (`IPQoS`) that the path throttles: transfers with and without them, in turns.
//!
//! Uploads carry the marks of this machine, which asks for each of them. Downloads carry those of the server, which marks a
//! connection by its sessions: with a terminal, without one, or none at all. So three kinds of connections are compared.

use super::facts::{Facts, Mark};
use super::finding::{Finding, weight_of_factor};
use super::transfers::{SHORT_FLOW, one_flow};
use crate::far_end::FarEnd;
use crate::fault::Fault;
use crate::flow::{Direction, Flow};
use crate::stats::{median, rate};
use crate::target::{Remote, Target};

/// Ratio of two rates from which further rounds are worth their time, and of all rounds from which a mark is throttled.
const DIFFERS: f64 = 1.5;
/// Ratio of the slowest transfer without the mark to the fastest one with it.
const APART: f64 = 1.4;
/// Rounds of transfers for a verdict.
const ROUNDS: usize = 3;
/// Cores of an SSH process from which its processor may be what makes two downloads differ.
const BUSY: f64 = 0.7;

const COMMANDS: &str = "copies and commands";
const TERMINALS: &str = "sessions with a terminal";

/// Measures the marks of both directions.
///
/// # Errors
/// The configuration cannot be read, or an upload cannot be measured.
pub(super) fn measure(target: &Target, facts: &mut Facts) -> Result<(), Fault> {
    if facts.is_proxied {
        facts
            .missing
            .push("the marks of uploads (IPQoS): the jump host or proxy marks their packets".to_owned());
    } else {
        uploads(target, facts)?;
    }
    downloads(target, facts);
    Ok(())
}

/// Uploads with each mark in use, in turns with unmarked ones. Further rounds only where the first one differs.
fn uploads(target: &Target, facts: &mut Facts) -> Result<(), Fault> {
    let options = target.options(&[])?;
    let qos = &options.config.ip_qos;
    let mut wanted: Vec<(u8, &'static str)> = Vec::new();
    for (service, used_for) in [(qos.bulk, COMMANDS), (qos.interactive, TERMINALS)] {
        if let Some(service) = service.filter(|service| *service != 0)
            && !wanted.iter().any(|(known, _)| *known == service)
        {
            wanted.push((service, used_for));
        }
    }
    for (service, used_for) in wanted {
        let measured = in_turns(|is_marked| marked_upload(target, if is_marked { service } else { 0 }));
        let (with, without) = measured?;
        let (service, others) = (Some(service), "uploads without it");
        facts.marks.push(Mark { direction: Direction::Up, service, used_for, others, with, without });
    }
    Ok(())
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

fn marked_upload(target: &Target, service: u8) -> Result<f64, Fault> {
    let value = format!("0x{service:02x} 0x{service:02x}");
    let value = if service == 0 { "cs0 cs0" } else { &value };
    Ok(one_flow(target, &[("IPQoS", value)], Direction::Up, SHORT_FLOW)?.rate)
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

/// Downloads by each kind of connection, and the slowest and the fastest of them again, in turns, where they differ.
fn downloads(target: &Target, facts: &mut Facts) {
    let Some(flow) = facts.down.as_ref().filter(|flow| flow.is_significant()) else { return };
    let usual = Download { kind: Kind::Command, mark: flow.mark, rate: flow.rate };
    let is_busy = [flow.client_cpu, flow.server_cpu].into_iter().flatten().any(|cores| cores > BUSY);
    // The processors need different times for different kinds.
    if is_busy {
        return;
    }
    let helper = if usual.mark == Some(0) { None } else { FarEnd::start(target, None).ok() };
    let helper = helper.as_ref();
    let mut kinds = vec![usual];
    for kind in [Kind::Terminal, Kind::Forward] {
        kinds.extend(download(target, kind, helper).ok().flatten());
    }
    let Some((slow, fast)) = extremes(&kinds) else { return };
    let measured = if fast.rate < DIFFERS * slow.rate {
        Ok((vec![slow.rate], vec![fast.rate]))
    } else {
        in_turns(|is_marked| {
            let kind = if is_marked { slow.kind } else { fast.kind };
            let measured = download(target, kind, helper)?;
            measured.map(|download| download.rate).ok_or(Fault::Late("a download broke off"))
        })
    };
    if let Ok((with, without)) = measured {
        facts.marks.push(Mark {
            direction: Direction::Down,
            service: slow.mark,
            used_for: slow.kind.used_for(),
            others: fast.kind.downloads(),
            with,
            without,
        });
    }
}

/// The slowest download whose packets may be marked, and the fastest one with another mark.
fn extremes(all: &[Download]) -> Option<(Download, Download)> {
    let may_be_marked = |each: &&Download| each.mark != Some(0) && each.kind != Kind::Forward;
    let slow = all.iter().filter(may_be_marked).min_by(|a, b| a.rate.total_cmp(&b.rate))?;
    let has_another =
        |each: &&Download| each.kind != slow.kind && (each.mark.is_none() || each.mark != slow.mark);
    let fast = all.iter().filter(has_another).max_by(|a, b| a.rate.total_cmp(&b.rate))?;
    Some((*slow, *fast))
}

/// A download by this kind of connection; `None` where it is not possible.
///
/// # Errors
/// There is no connection.
fn download(target: &Target, kind: Kind, helper: Option<&FarEnd>) -> Result<Option<Download>, Fault> {
    let flow = match (kind, helper) {
        (Kind::Command, _) => one_flow(target, &[], Direction::Down, SHORT_FLOW)?,
        (Kind::Terminal, _) => {
            alone(target, |remote| remote.flow_among_terminals(Direction::Down, SHORT_FLOW))?
        }
        (Kind::Forward, Some(helper)) => alone(target, |remote| {
            remote.forwarded_download(helper.address, helper.request(Direction::Down), SHORT_FLOW)
        })?,
        (Kind::Forward, None) => return Ok(None),
    };
    Ok(flow.is_significant().then_some(Download { kind, mark: flow.mark, rate: flow.rate }))
}

/// A flow over a connection of its own.
///
/// # Errors
/// There is no connection.
fn alone(target: &Target, flow: impl FnOnce(&mut Remote) -> Flow) -> Result<Flow, Fault> {
    let mut remote = target.connect(&[("Compression", "no")])?;
    let flow = flow(&mut remote);
    remote.client.close();
    Ok(flow)
}

/// Median rates with the mark and without it, where the path throttles it: every marked transfer was slower than
/// every unmarked one.
fn throttled(mark: &Mark) -> Option<(f64, f64)> {
    let (with, without) = (median(mark.with.iter().copied())?, median(mark.without.iter().copied())?);
    let fastest = mark.with.iter().copied().reduce(f64::max)?;
    let slowest = mark.without.iter().copied().reduce(f64::min)?;
    let is_throttled =
        mark.with.len() >= ROUNDS && slowest > APART * fastest && without >= DIFFERS * with.max(1.0);
    is_throttled.then_some((with, without))
}

/// True where the transfers of this direction carry a mark that is throttled.
pub(super) fn is_throttled(facts: &Facts, direction: Direction) -> bool {
    let of_copies = |mark: &&Mark| mark.direction == direction && mark.used_for == COMMANDS;
    facts.marks.iter().filter(of_copies).any(|mark| throttled(mark).is_some())
}

/// True for causes that packets with a throttled mark seem to show.
pub(super) fn explains(cause: &str) -> bool {
    ["policer", "path", "loss", "congestion_control", "bufferbloat"].contains(&cause)
}

/// Marks that the path treats worse.
pub(super) fn judge(facts: &Facts, out: &mut Vec<Finding>) {
    for mark in &facts.marks {
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
