//! One connection does not fill the path although no window, buffer or loss holds it back: its congestion
//! control, or what limits that.

use super::facts::{Facts, OtherControl};
use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, JudgedDirection};
use crate::flow::{Direction, Sender};
use crate::stats::{rate, size};

/// Part of what the path holds in a round trip, up to which a window that the kernel was told is small.
const SMALL: f64 = 0.5;
/// Segments more that a congestion window may have than its limit permits: it is read at one moment.
const SLACK: f64 = 2.0;
/// Controls that fill a path by themselves: others are what to change.
const USUAL: [&str; 2] = ["cubic", "bbr"];
/// Part of the weight where no setting was found.
const UNKNOWN: f64 = 0.6;

/// What holds the congestion window.
struct Held {
    title: String,
    evidence: Vec<String>,
    change: String,
}

/// Several connections are `factor` times as fast as one.
pub(super) fn judge(judged: &JudgedDirection<'_>, factor: f64) -> Finding {
    let held = by_route(judged).or_else(|| by_metrics(judged)).or_else(|| by_control(judged));
    if let Some(undecided) = judged.undecided().filter(|_| held.is_none()) {
        return undecided;
    }
    let weight = if held.is_some() { 1.0 } else { UNKNOWN } * weight_of_factor(factor);
    let copies = "copy with lhscp -j 4".to_owned();
    let (title, evidence, change) = match held {
        Some(Held { title, evidence, change }) => (title, evidence, vec![change, format!("or {copies}")]),
        None => (
            format!("One connection does not fill the path on {}s.", judged.direction.name()),
            Vec::new(),
            vec![copies],
        ),
    };
    let gain = match measured(judged) {
        Some((name, times)) => format!("{times:.1} times, measured with {name}; {}", judged.gain()),
        None => judged.gain(),
    };
    let no_limit = "no window and no buffer was at its limit".to_owned();
    Finding {
        cause: "congestion_control",
        title,
        evidence: [judged.measured(), no_limit].into_iter().chain(window(judged)).chain(evidence).collect(),
        gain,
        change,
        weight,
    }
}

/// The control and its window, as evidence.
fn window(judged: &JudgedDirection<'_>) -> Option<String> {
    let sender = judged.sender()?;
    let (control, bytes) = (sender.congestion_control.as_deref()?, sender.congestion_window?);
    Some(format!(
        "{control} of {} had a congestion window of {} ({:.0} segments) at the end",
        judged.direction.sender(),
        size(bytes),
        bytes / sender.segment.max(1.0)
    ))
}

/// A name of the congestion control, with how many times faster uploads with it are.
fn measured<'a>(judged: &JudgedDirection<'a>) -> Option<(&'a str, f64)> {
    match judged.other_control()? {
        OtherControl::Measured { name, rate, .. } => {
            let times = rate / judged.flow.rate.max(1.0);
            (times >= EACH_IS_LIMITED).then_some((name, times))
        }
        OtherControl::Overruled { .. } => None,
    }
}

/// True where the congestion window is held at about this many segments.
fn is_held_at(sender: &Sender, segments: f64) -> bool {
    sender.congestion_window.is_none_or(|bytes| bytes <= (segments + SLACK) * sender.segment)
}

/// True where so many segments are few for the path.
fn are_few(judged: &JudgedDirection<'_>, sender: &Sender, segments: f64) -> bool {
    let holds = judged.facts.throughput.together(judged.direction).unwrap_or(0.0) * judged.facts.round_trip();
    segments * sender.segment < SMALL * holds
}

/// The route to the other end limits the window, or where it stops growing fast.
fn by_route(judged: &JudgedDirection<'_>) -> Option<Held> {
    let (system, sender) = (judged.facts.systems.sending(judged.direction), judged.sender()?);
    let is_limit = |(name, segments): &(&str, f64)| {
        let is_held = *name == "ssthresh" || is_held_at(sender, *segments);
        is_held && are_few(judged, sender, *segments)
    };
    let limit = |name: &'static str| Some((name, system.route_number(name)?));
    let (name, segments) = ["cwnd", "ssthresh"].into_iter().filter_map(limit).find(is_limit)?;
    let end = judged.direction.sender();
    Some(Held {
        title: format!(
            "A route of {end} limits the congestion window of {}s ({name} {segments:.0}, {}).",
            judged.direction.name(),
            size(segments * sender.segment)
        ),
        evidence: vec![format!("ip route get there: {}", system.text("route").unwrap_or_default())],
        change: match system.route_command(name, "") {
            Some(command) => format!(
                "on {end}: {command}; ip tcp_metrics flush (a route without \"{name} {segments:.0}\", to this host; the second \
                 command forgets it)"
            ),
            None => format!(
                "on {end}: ip route change PREFIX … without \"{name} lock {segments:.0}\"; then ip tcp_metrics flush, which \
                 forgets it"
            ),
        },
    })
}

/// What the kernel remembers of earlier connections limits it.
fn by_metrics(judged: &JudgedDirection<'_>) -> Option<Held> {
    let (system, sender) = (judged.facts.systems.sending(judged.direction), judged.sender()?);
    let remembered = system.text("metrics")?;
    let number = |name: &'static str| {
        let segments: f64 =
            remembered.split_whitespace().skip_while(|word| *word != name).nth(1)?.parse().ok()?;
        Some((name, segments))
    };
    // Kernels remember the threshold for later connections only where they were told to.
    let uses_threshold = system.text("tcp_no_ssthresh_metrics_save") == Some("0");
    let threshold = number("ssthresh").filter(|_| uses_threshold);
    let window = number("cwnd").filter(|(_, segments)| is_held_at(sender, *segments));
    let (name, segments) =
        [window, threshold].into_iter().flatten().find(|(_, segments)| are_few(judged, sender, *segments))?;
    let (end, address) = (judged.direction.sender(), remembered.split_whitespace().next()?);
    let address = lh_client::sanitise(address);
    Some(Held {
        title: format!(
            "{end} limits the congestion window of {}s to what it remembers of earlier connections ({name} {segments:.0}, {}).",
            judged.direction.name(),
            size(segments * sender.segment),
            end = capital(end)
        ),
        evidence: vec![format!("ip tcp_metrics show there: {}", lh_client::sanitise(remembered))],
        change: format!("on {end}: ip tcp_metrics flush {address}"),
    })
}

/// A control that is slow by itself.
fn by_control(judged: &JudgedDirection<'_>) -> Option<Held> {
    let control = judged.sender()?.congestion_control.as_deref()?;
    let (end, name) = (judged.direction.sender(), judged.direction.name());
    let better = measured(judged);
    let is_usual = USUAL.iter().any(|usual| control.starts_with(usual));
    let is_slow = !is_usual && (!grows_by_segments(control) || fills_late(judged));
    if better.is_none() && !is_slow {
        return None;
    }
    let other = better.map_or("cubic", |(name, _)| name);
    let tried = judged.other_control().and_then(|tried| match tried {
        OtherControl::Measured { name, rate: reached, .. } => {
            Some(format!("the same upload with {name}: {}", rate(*reached)))
        }
        OtherControl::Overruled { .. } => None,
    });
    Some(Held {
        title: format!("The congestion control {control} of {end} does not fill the path on {name}s."),
        evidence: habit(control).into_iter().map(str::to_owned).chain(tried).collect(),
        change: choice_of(judged, other),
    })
}

/// The change that has the sending end use another congestion control. That of a route overrules the sysctl,
/// and a locked one also what programs choose.
pub(super) fn choice_of(judged: &JudgedDirection<'_>, other: &str) -> String {
    let (end, system) = (judged.direction.sender(), judged.facts.systems.sending(judged.direction));
    let file = if judged.direction == Direction::Up { "ssh_config" } else { "lhsshd's sshd_config" };
    let may_choose =
        judged.direction == Direction::Down || judged.facts.systems.here.permits_congestion_control(other);
    let program = may_choose.then(|| format!("or TcpCongestion {other} in {file}"));
    let route = system.text("route").filter(|route| route.contains(" congctl "));
    let is_locked = matches!(judged.other_control(), Some(OtherControl::Overruled { .. }))
        || route.is_some_and(|route| route.contains(" congctl lock "));
    if route.is_none() && !is_locked {
        let is_there = other != "bbr" || system.has_congestion_control(other);
        let load = if is_there { "" } else { "modprobe tcp_bbr; " };
        let program = program.map_or_else(String::new, |program| format!(" ({program})"));
        return format!("on {end}: {load}sysctl -w net.ipv4.tcp_congestion_control={other}{program}");
    }
    let (choice, why) = if is_locked {
        (
            format!("congctl lock {other}"),
            "a congctl lock, which overrules the sysctl and TcpCongestion".to_owned(),
        )
    } else {
        let program = program.map_or_else(String::new, |program| format!("; {program}"));
        (format!("congctl {other}"), format!("a congctl, which overrules the sysctl{program}"))
    };
    let command = system.route_command("congctl", &choice);
    let command = command.unwrap_or_else(|| format!("ip route change PREFIX … {choice}"));
    format!("on {end}: {command} (the route to the other end has {why})")
}

/// Seconds in which a control that grows by one segment in each round trip fills half a path, from which it
/// is slow.
const LATE: f64 = 1.0;

/// Returns whether a control that grows by one segment in each round trip needs long, after a loss, to fill
/// the path again. On a short one it does not.
fn fills_late(judged: &JudgedDirection<'_>) -> bool {
    let round_trip = judged.facts.round_trip();
    let holds = judged.facts.throughput.together(judged.direction).unwrap_or(0.0) * round_trip;
    let segments = judged.sender().map_or(0.0, |sender| holds / sender.segment.max(1.0));
    0.5 * segments * round_trip >= LATE
}

/// True for controls that grow by one segment in each round trip.
fn grows_by_segments(control: &str) -> bool {
    ["reno", "westwood", "veno"].contains(&control)
}

/// How a control behaves, as evidence.
fn habit(control: &str) -> Option<&'static str> {
    match control {
        "lp" | "ledbat" => {
            Some("it yields to all other traffic, and slows down where packets begin to queue")
        }
        "vegas" | "nv" | "cdg" => Some("it slows down where round trips get longer, also by chance"),
        control if grows_by_segments(control) => {
            Some("it grows by one segment in each round trip: on long paths it takes minutes")
        }
        _ => None,
    }
}

fn capital(end: &str) -> String {
    let mut letters = end.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The congestion control that an upload is to be tried with, where one connection does not fill the path.
pub(super) fn alternative(facts: &Facts) -> Option<&'static str> {
    let flow = facts.throughput.up.flow.as_ref()?;
    let uses = flow.tcp.sender.as_ref()?.congestion_control.as_deref().unwrap_or_default();
    let judged = JudgedDirection { facts, direction: Direction::Up, flow };
    if by_route(&judged).or_else(|| by_metrics(&judged)).is_some() {
        return None;
    }
    // CUBIC is everywhere, and is no worse to others.
    let candidates = if USUAL.contains(&uses) { ["bbr", "cubic"] } else { ["cubic", "bbr"] };
    candidates
        .into_iter()
        .find(|name| uses != *name && facts.systems.here.may_choose_congestion_control(name))
}
