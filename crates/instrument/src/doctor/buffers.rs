//! Limits of TCP's windows and buffers at either end.

use super::facts::{FullWindow, OtherControl};
use super::finding::{Finding, weight_of_factor};
use super::judged::{JudgedDirection, MUCH};
use crate::flow::Direction;
use crate::shell::System;
use crate::stats::{percent, rate, size, time};

/// Part of the time from which waiting counts as the limit even where the system allows more.
const MOST: f64 = 0.6;
/// Part of what the system allows below which a program has set the buffer.
const OWN: f64 = 0.2;
/// Windows below this may be unscaled ones: the largest that fits 16 bits (RFC 9293), bytes.
const LARGEST_UNSCALED: f64 = 65_536.0;

/// A buffer that this path would not fill, bytes.
fn wanted_buffer(judged: &JudgedDirection<'_>, now: f64) -> u64 {
    let together = judged.facts.throughput.together(judged.direction).unwrap_or(0.0);
    let wanted = (3.0 * together * judged.facts.round_trip()).max(4.0 * now).max(6_291_456.0);
    (wanted as u64).next_power_of_two().min(1 << 30)
}

/// Part of a window that is under way in the round trip under load from which it was full.
const FULL: f64 = 0.6;
/// Part of the time up to which a receiving process that wants a processor is no slow one.
const IDLE: f64 = 0.6;

/// The receiver's window, where it was filled in each round trip. One that is small without being full
/// belongs to a slow receiver.
pub(super) fn full_window(judged: &JudgedDirection<'_>) -> Option<FullWindow> {
    let sender = judged.sender()?;
    let waited = sender.receive_window.filter(|share| *share >= MUCH)?;
    let bytes = sender.window.unwrap_or_else(|| judged.in_flight());
    let is_full = judged.in_flight() >= 0.4 * bytes || is_full_under_load(judged, waited, bytes);
    is_full.then_some(FullWindow { waited, bytes })
}

/// Returns whether a window was full in the round trip under load. Processors add to short round trips, so
/// that of an idle connection says little of what is under way. The receiver may not be what adds to it.
fn is_full_under_load(judged: &JudgedDirection<'_>, waited: f64, window: f64) -> bool {
    let loaded = judged.sender().and_then(|sender| sender.loaded_rtt).unwrap_or(0.0);
    let receiver = match judged.direction {
        Direction::Up => &judged.flow.server,
        Direction::Down => &judged.flow.client,
    };
    let takes_all = receiver.turns.is_some_and(|turns| turns.wanted() < IDLE)
        && judged.flow.application.unread.is_none_or(|part| part < MUCH);
    waited >= MOST && takes_all && judged.flow.rate * loaded >= FULL * window
}

fn waited_for_window(judged: &JudgedDirection<'_>, FullWindow { waited, bytes }: FullWindow) -> String {
    format!(
        "TCP of {} waited for the other end's window {} of the time; the largest window was {}",
        judged.direction.sender(),
        percent(waited),
        size(bytes)
    )
}

/// Windows end at 64 KiB, even where the buffers are larger.
pub(super) fn window_scaling(judged: &JudgedDirection<'_>) -> Option<Finding> {
    if judged.flow.tcp.scales_windows? {
        return None;
    }
    let window = full_window(judged).filter(|window| window.bytes < LARGEST_UNSCALED)?;
    let is_off = |system: &System| system.text("tcp_window_scaling") == Some("0");
    let ends = [("this machine", &judged.facts.systems.here), ("the server", &judged.facts.systems.there)];
    let mut change: Vec<String> = ends
        .into_iter()
        .filter(|(_, system)| is_off(system))
        .map(|(end, _)| {
            format!("on {end}: sysctl -w net.ipv4.tcp_window_scaling=1 (and in /etc/sysctl.d to keep it)")
        })
        .collect();
    if change.is_empty() {
        change.push("have the firewalls on the way let TCP's window scale option pass".to_owned());
    }
    Some(Finding {
        cause: "window_scaling",
        title: format!(
            "TCP's windows are not scaled: {}s have at most 64 KiB under way in a round trip.",
            judged.direction.name()
        ),
        evidence: vec![
            judged.measured(),
            waited_for_window(judged, window),
            "the ends of the connection have not agreed on window scaling".to_owned(),
        ],
        gain: judged.gain(),
        change,
        weight: judged.weight(),
    })
}

pub(super) fn receive_window(judged: &JudgedDirection<'_>) -> Option<Finding> {
    if let Some(found) = fixed_window(judged) {
        return Some(found);
    }
    let full = full_window(judged)?;
    let FullWindow { waited, bytes: window } = full;
    let limit = judged.facts.systems.receiving(judged.direction).buffer_limit("tcp_rmem");
    let receiver = judged.direction.receiver();
    let known =
        limit.map_or_else(String::new, |limit| format!("; net.ipv4.tcp_rmem allows {} there", size(limit)));
    let evidence = vec![judged.measured(), waited_for_window(judged, full) + &known];
    // A window far below what the system allows was not limited by it.
    let is_own = limit.is_some_and(|limit| window < OWN * limit);
    if is_own && !is_held_back(judged, waited, window) {
        return None;
    }
    let name = judged.direction.name();
    let (title, change) = if is_own {
        (
            format!(
                "The receive buffer of {receiver} limits {name}s: a program has set it to about {}.",
                size(window)
            ),
            own_buffer(receiver),
        )
    } else {
        let most = limit.map_or_else(String::new, |limit| format!(" ({} at most)", size(limit)));
        let wanted = wanted_buffer(judged, limit.unwrap_or(window));
        (
            format!("The receive buffer of {receiver} limits {name}s{most}."),
            vec![format!(
                "on {receiver}: sysctl -w net.ipv4.tcp_rmem='4096 131072 {wanted}' (and in /etc/sysctl.d to keep it)"
            )],
        )
    };
    Some(Finding {
        cause: "receive_buffer",
        title,
        evidence,
        gain: judged.gain(),
        change,
        weight: judged.weight(),
    })
}

/// Finds a window that the receiving system holds. TCP of the sending end does not always count what it waits
/// for, so a rate that is about such a window in each round trip counts as well, where several connections
/// are faster.
fn fixed_window(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (waited, window) = match full_window(judged) {
        Some(full) => (waited_for_window(judged, full), full.bytes),
        None if judged.factor()? >= 1.5 => {
            let window = judged.in_flight();
            (format!("{} were under way in each round trip", size(window)), window)
        }
        None => return None,
    };
    let (title, change) = fixed_buffer(judged, window)?;
    Some(Finding {
        cause: "receive_buffer",
        title,
        evidence: vec![judged.measured(), waited],
        gain: judged.gain(),
        change: vec![change],
        weight: judged.weight(),
    })
}

/// Settings of the receiving system that hold the window at about this size, bytes: what holds it, and the
/// change.
fn fixed_buffer(judged: &JudgedDirection<'_>, window: f64) -> Option<(String, String)> {
    let (system, receiver) = (judged.facts.systems.receiving(judged.direction), judged.direction.receiver());
    let name = judged.direction.name();
    if let Some(most) = system.route_window().filter(|most| (0.5 * most..=2.5 * most).contains(&window)) {
        return Some((
            format!("A route of {receiver} limits the receive window of {name}s (window {most:.0})."),
            match system.route_command("window", "") {
                Some(command) => {
                    format!("on {receiver}: {command} (a route without \"window {most:.0}\", to this host)")
                }
                None => format!("on {receiver}: ip route change PREFIX … without \"window {most:.0}\""),
            },
        ));
    }
    let first =
        system.first_buffer("tcp_rmem").filter(|first| (0.3 * first..=1.1 * first).contains(&window))?;
    (system.text("tcp_moderate_rcvbuf") == Some("0")).then(|| {
        (
            format!("The receive buffer of {receiver} limits {name}s: it stays at the {} that it begins with.", size(first)),
            format!(
                "on {receiver}: sysctl -w net.ipv4.tcp_moderate_rcvbuf=1 (and in /etc/sysctl.d to keep it), so that \
                 buffers grow with the path"
            ),
        )
    })
}

/// The change for a receive buffer that a program of this end has set.
fn own_buffer(receiver: &str) -> Vec<String> {
    let file = if receiver == "this machine" { "ssh_config" } else { "sshd_config" };
    vec![
        format!("take TcpRcvBuf out of {file}: the system then lets the buffer grow with the path"),
        format!("or have what else sets SO_RCVBUF on {receiver} leave it alone"),
    ]
}

/// Returns whether a buffer of this size, for which TCP waited for this share of the time, limits each
/// connection: it was full in each round trip, and several connections are faster.
fn is_held_back(judged: &JudgedDirection<'_>, share: f64, buffer: f64) -> bool {
    share >= MOST && judged.in_flight() >= 0.3 * buffer && judged.factor().is_some_and(|factor| factor >= 1.5)
}

pub(super) fn send_buffer(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.sender()?;
    let limit = judged.facts.systems.sending(judged.direction).buffer_limit("tcp_wmem");
    let told = sender.send_buffer.filter(|share| *share >= MUCH);
    let full = limit.is_some_and(|limit| {
        let flight = judged.in_flight();
        let could = sender.congestion_window.is_some_and(|window| window > 1.5 * flight);
        (0.15..=1.3).contains(&(flight / limit))
            && could
            && judged.factor().is_some_and(|factor| factor >= 1.5)
            && sender.receive_window.is_none_or(|share| share < MUCH)
    });
    if told.is_none() && !full {
        return None;
    }
    // The system's limit is more than this flow could fill.
    let is_own = limit.is_some_and(|limit| judged.in_flight() < 0.1 * limit);
    if is_own && !told.is_some_and(|share| is_held_back(judged, share, judged.in_flight())) {
        return None;
    }
    let (end, name) = (judged.direction.sender(), judged.direction.name());
    let waited = told.map(|share| {
        format!("TCP of {end} waited for space in its send buffer {} of the time", percent(share))
    });
    let under_way = format!(
        "{} were under way in each round trip{}",
        size(judged.in_flight()),
        limit.map_or_else(String::new, |limit| format!(
            "; net.ipv4.tcp_wmem allows buffers of {}",
            size(limit)
        ))
    );
    let (title, change) = if is_own {
        (
            format!(
                "The send buffer of {end} limits {name}s: a program has set it to about {}.",
                size(judged.in_flight())
            ),
            format!(
                "have what sets SO_SNDBUF on {end} leave it alone: the system then lets the buffer grow with the path"
            ),
        )
    } else {
        let most = limit.map_or_else(String::new, |limit| format!(" ({} at most)", size(limit)));
        let wanted = wanted_buffer(judged, limit.unwrap_or_else(|| judged.in_flight()));
        (
            format!("The send buffer of {end} limits {name}s{most}."),
            format!(
                "on {end}: sysctl -w net.ipv4.tcp_wmem='4096 16384 {wanted}' (and in /etc/sysctl.d to keep it)"
            ),
        )
    };
    Some(Finding {
        cause: "send_buffer",
        title,
        evidence: [Some(judged.measured()), waited, Some(under_way)].into_iter().flatten().collect(),
        gain: judged.gain(),
        change: vec![change],
        weight: judged.weight(),
    })
}

/// Largest round trip under load, as a multiple of the idle one, without a queue on the path.
const NO_QUEUE: f64 = 1.15;
/// How many times as much has to pass in the other direction; and where a person has made the buffer smaller
/// than Linux does on any machine (`tcp_init`), bytes.
const MUCH_FASTER: f64 = 2.0;
const FASTER: f64 = 1.3;
const LEAST_OF_LINUX: f64 = 65_536.0;

/// Returns whether a person has made the sending system's buffers smaller than Linux does on any machine.
pub(super) fn is_below_linux(judged: &JudgedDirection<'_>) -> bool {
    let limit = judged.facts.systems.sending(judged.direction).buffer_limit("tcp_wmem");
    limit.is_some_and(|limit| limit < LEAST_OF_LINUX)
}

/// Finds a flow that stays at what the sending system's largest buffer holds, without losses and without a
/// queue, on a path that carries much more in the other direction. TCP does not always count the wait for its
/// buffer, and shows the same figures with a congestion control that paces by the rate of a slower direction:
/// the finding names both.
pub(super) fn likely_send_buffer(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.sender()?;
    let limit = judged.facts.systems.sending(judged.direction).buffer_limit("tcp_wmem")?;
    let (flight, idle) = (judged.in_flight(), judged.facts.round_trip());
    // A third of a buffer and more is the memory that packets take besides their data.
    let is_full = (0.4..=1.1).contains(&(flight / limit));
    // So little under way makes no queue that would tell a slow line from slow processors.
    let has_queue =
        !is_below_linux(judged) && sender.loaded_rtt.is_none_or(|loaded| loaded > NO_QUEUE * idle);
    let loses = judged.flow.loss().is_some_and(|part| part > 0.0);
    let back = judged.direction.other();
    let best = judged.facts.throughput.best_rate(judged.direction).unwrap_or(0.0).max(judged.flow.rate);
    let times = judged.facts.throughput.best_rate(back)? / best.max(1.0);
    let enough = if is_below_linux(judged) { FASTER } else { MUCH_FASTER };
    if !is_full || has_queue || loses || times < enough {
        return None;
    }
    let (end, name) = (judged.direction.sender(), judged.direction.name());
    let wanted = wanted_buffer(judged, limit);
    Some(Finding {
        cause: "send_buffer",
        title: format!(
            "The send buffer of {end} ({} at most) or a slower line of the path limits {name}s.",
            size(limit)
        ),
        evidence: vec![
            judged.measured(),
            format!(
                "{} were under way in each round trip; net.ipv4.tcp_wmem allows buffers of {}",
                size(flight),
                size(limit)
            ),
            format!(
                "no segment was lost, and the round trip under load shows no queue; {times:.1} times as much passes on {}s",
                back.name()
            ),
        ],
        gain: format!("up to {times:.1} times, if it is the buffer"),
        change: vec![format!(
            "on {end}: sysctl -w net.ipv4.tcp_wmem='4096 16384 {wanted}' (and in /etc/sysctl.d to keep it), and measure again"
        )],
        weight: judged.weight(),
    })
}

/// Part of what several connections moved that a buffer permits each of them at most, for it to be the next
/// limit of one.
const NEXT: f64 = 0.7;
/// Part of a receive buffer that a window has at most: the rest is for what packets take besides their data.
const WINDOW: f64 = 0.75;

/// Finds system limits of buffers that hold one connection back as soon as fewer segments get lost: they
/// permit less in a round trip than several connections together moved. `weight` is that of the losses.
pub(super) fn next_limits(judged: &JudgedDirection<'_>, weight: f64) -> Vec<Finding> {
    let Some(together) = judged.facts.throughput.together(judged.direction) else { return Vec::new() };
    let (direction, systems) = (judged.direction, &judged.facts.systems);
    let ends = [
        ("send", "tcp_wmem", "4096 16384", 1.0, direction.sender(), systems.sending(direction)),
        ("receive", "tcp_rmem", "4096 131072", WINDOW, direction.receiver(), systems.receiving(direction)),
    ];
    let of_end = |(kind, setting, first, holds, end, system): (&str, &str, &str, f64, &str, &System)| {
        let limit = system.buffer_limit(setting)?;
        let most = holds * limit / judged.facts.round_trip();
        // A connection that moves more has a buffer of another size.
        if most >= NEXT * together || judged.in_flight() > limit {
            return None;
        }
        let name = direction.name();
        let wanted = wanted_buffer(judged, limit);
        Some(Finding {
            cause: if kind == "send" { "send_buffer" } else { "receive_buffer" },
            title: format!(
                "The {kind} buffer of {end} ({} at most) limits {name}s as soon as fewer segments get lost.",
                size(limit)
            ),
            evidence: vec![
                judged.measured(),
                format!(
                    "net.ipv4.{setting} allows {} there: {} at most over a round trip of {}",
                    size(limit),
                    rate(most),
                    time(judged.facts.round_trip())
                ),
                format!("four connections together moved {}", rate(together)),
            ],
            gain: format!("{:.1} times beside the losses: from {} up", together / most, rate(most)),
            change: vec![format!(
                "on {end}: sysctl -w net.ipv4.{setting}='{first} {wanted}' (and in /etc/sysctl.d to keep it)"
            )],
            weight: weight_of_factor(together / most).min(weight - 0.1),
        })
    };
    let found: Vec<Finding> = ends.into_iter().filter_map(of_end).collect();
    let has_receive_buffer = found.iter().any(|found| found.cause == "receive_buffer");
    let own = own_receive_buffer(judged, weight).filter(|_| !has_receive_buffer);
    found.into_iter().chain(own).collect()
}

/// Finds a receive buffer that a program has set, behind losses: an upload with a congestion control that
/// they do not hold back filled its window. `weight` is that of the losses.
fn own_receive_buffer(judged: &JudgedDirection<'_>, weight: f64) -> Option<Finding> {
    let Some(OtherControl::Measured { name: control, rate: reached, full_window }) = judged.other_control()
    else {
        return None;
    };
    // Windows that grow are larger than what is under way: TCP waits for them seldom.
    let full = (*full_window)?;
    let (direction, receiver) = (judged.direction, judged.direction.receiver());
    let limit = judged.facts.systems.receiving(direction).buffer_limit("tcp_rmem")?;
    if full.bytes >= OWN * limit {
        return None;
    }
    let name = direction.name();
    Some(Finding {
        cause: "receive_buffer",
        title: format!(
            "The receive buffer of {receiver} limits {name}s as soon as fewer segments get lost: a program has set it to \
             about {}.",
            size(full.bytes)
        ),
        evidence: vec![
            judged.measured(),
            format!("an {name} with {control}, which losses hold back less: {}", rate(*reached)),
            format!(
                "{} meanwhile; net.ipv4.tcp_rmem allows {} there",
                waited_for_window(judged, full),
                size(limit)
            ),
        ],
        gain: format!("more than {} beside the losses", rate(*reached)),
        change: own_buffer(receiver),
        weight: weight - 0.1,
    })
}
