//! Causes that limit the throughput of one direction.

use lh_metrics::drops::Drops;

use super::finding::{Finding, weight_of_factor, weight_of_time};
use super::judged::{EACH_IS_LIMITED, JudgedDirection, MUCH};
use super::{buffers, congestion, jitter, losses, outages, shapers, starved, stopped};
use crate::flow::{Direction, MANY_REKEYS, WARM_UP};
use crate::stats::{pacing, percent, rate, size, time};

/// Queueing times from which a queue counts as too long, seconds, each with the multiple of the idle round
/// trip that it must be as well. A path needs some queue to be full, and CUBIC keeps half of a long one
/// filled on average.
const BLOAT: [(f64, f64); 2] = [(0.03, 1.5), (0.05, 0.35)];
/// Returns whether packets that wait for `extra` seconds more than the idle round trip show a queue that is
/// too long.
pub(super) fn is_long_queue(extra: f64, idle: f64) -> bool {
    BLOAT.iter().any(|(least, times)| extra >= *least && extra >= times * idle)
}

/// Round trip under load from which a queue explains that a window is used up, multiples of the idle one.
const FULL_QUEUE: f64 = 1.3;

/// All causes of this direction.
pub(super) fn causes(judged: &JudgedDirection<'_>) -> Vec<Finding> {
    if let Some(paced) = paced(judged) {
        return vec![paced];
    }
    // What a shaper drops and delays explains losses, windows and processes that wait.
    if let Some(shaped) = shapers::judge(judged) {
        let lost = losses::loss(judged).filter(|_| !shapers::has_dropped(judged));
        return [Some(shaped), lost, bloat(judged)].into_iter().flatten().collect();
    }
    // A process that does not run explains what its TCP waits for, and losses in the bursts after it.
    if let Some(stopped) = stopped::stopped(judged) {
        return vec![stopped];
    }
    if let Some(limited) = receive_rate(judged) {
        return vec![limited];
    }
    // What the first burst lost is no limit of a command that takes its input slowly.
    if let Some(slow) = starved::input(judged) {
        return vec![slow];
    }
    let windows = buffers::window_scaling(judged).or_else(|| buffers::receive_window(judged));
    // The window that the server waits for is the proxy's, whose system is not known; so are the buffers and
    // losses of a way that ends before the server.
    let ends_early = judged.facts.path.answered_on_the_way().is_some();
    // If the server's connection ends at a relay, its counters describe the way to the relay.
    let is_relayed = judged.facts.relayed_at_server().is_some();
    let windows = windows.filter(|_| !judged.facts.path.is_proxied && !ends_early && !is_relayed);
    let is_unseen = ends_early || (is_relayed && judged.direction == Direction::Down);
    let limits = [
        ssh_window(judged).or_else(|| starved::own_window(judged)),
        windows,
        buffers::send_buffer(judged).filter(|_| !is_unseen),
        losses::loss(judged).filter(|_| !is_unseen),
        losses::congestion_marks(judged).filter(|_| !is_unseen),
        rekeying(judged),
        judged.any_processor(),
    ];
    let mut found: Vec<Finding> = limits.into_iter().flatten().collect();
    let has_unseen_buffers = judged.facts.path.is_proxied || ends_early || is_relayed;
    rank_losses(judged, has_unseen_buffers, &mut found);
    if found.is_empty() {
        let buffer =
            || buffers::likely_send_buffer(judged).filter(|_| !is_unseen && !judged.facts.path.is_proxied);
        found.extend(
            outages::outages(judged)
                .or_else(|| send_rate(judged))
                // TCP has nothing to send at most looks where so little fits into its buffer.
                .or_else(|| buffer().filter(|_| buffers::is_below_linux(judged)))
                .or_else(|| starved::judge(judged))
                .or_else(buffer)
                .or_else(|| path(judged)),
        );
    }
    found.extend(bloat(judged));
    found.extend(stopped::traced(judged));
    found
}

/// Part of the time from which a buffer, and not the losses, holds a connection back for most of it.
const MOST: f64 = 0.5;

/// Orders losses and buffers that hold a connection back both: what does so for more of the time comes first.
/// Adds the buffers that will do so once the losses are mended.
fn rank_losses(judged: &JudgedDirection<'_>, has_unseen_buffers: bool, found: &mut Vec<Finding>) {
    let has_buffer = found.iter().any(|found| ["receive_buffer", "send_buffer"].contains(&found.cause));
    let Some(loss) = found.iter_mut().find(|found| found.cause == "loss") else { return };
    if !has_buffer {
        let weight = loss.weight;
        found.extend(
            (!has_unseen_buffers).then(|| buffers::next_limits(judged, weight)).into_iter().flatten(),
        );
        return;
    }
    let sender = judged.sender();
    let waited = sender
        .map_or(0.0, |sender| sender.receive_window.unwrap_or(0.0).max(sender.send_buffer.unwrap_or(0.0)));
    if waited < MOST {
        loss.weight += 0.1;
    }
}

/// Weight of a limit that was asked for.
const PACED: f64 = 3.0;

fn paced(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let own = judged.facts.throughput.rate_limit.filter(|_| judged.direction == Direction::Up);
    let socket = judged.sender().and_then(|sender| sender.paced);
    let limit = [own, socket].into_iter().flatten().min_by(f64::total_cmp)?;
    (judged.flow.rate >= 0.7 * limit).then(|| Finding {
        cause: "pacing",
        title: format!(
            "A rate limit that was asked for holds {}s to {}.",
            judged.direction.name(),
            rate(limit)
        ),
        evidence: vec![judged.measured(), format!("rate limit of the connection: {}", rate(limit))],
        gain: "as much as the path carries".to_owned(),
        change: vec!["take TcpPacing out of ssh_config (or sshd_config), and -l or --pace off".to_owned()],
        weight: PACED,
    })
}

/// Part of the looks at which data waited in the server's TCP, from which a server that runs does
/// not want them.
const LEFT_THERE: f64 = 0.4;
/// Part of the time for which the server's process may want a processor: a busy one is late by itself.
const IDLE: f64 = 0.3;

/// Finds a rate limit of what the server receives (`ReceiveRate` and `PerUserReceiveRate` of `lhsshd`). Its
/// process leaves data in TCP's receive queue although it has nothing else to do. OpenSSH has no such limit.
fn receive_rate(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    let is_ours = judged.facts.negotiated.server_is_longhaul();
    let unread = flow.application.unread.filter(|part| *part >= LEFT_THERE)?;
    let turns = flow.server.turns.filter(|turns| turns.wanted() < IDLE)?;
    // A control group or a tracer keeps the process from its data without making it busy.
    let is_kept =
        flow.server.quota.as_ref().is_some_and(|quota| quota.throttled > 0) || flow.server.tracer.is_some();
    if !is_ours || is_kept || judged.direction != Direction::Up {
        return None;
    }
    let reached = rate(flow.application.taken.unwrap_or(flow.rate));
    let (of, keyword) = match judged.factor() {
        Some(factor) if factor >= EACH_IS_LIMITED => ("of each connection", "ReceiveRate"),
        Some(_) => ("of all connections of the user", "PerUserReceiveRate"),
        None => ("of this connection", "ReceiveRate or PerUserReceiveRate"),
    };
    Some(Finding {
        cause: "pacing",
        title: format!("The server takes {reached} {of} on uploads ({keyword})."),
        evidence: vec![
            judged.measured(),
            format!(
                "{}, though its SSH process wanted a processor for {} of the time only",
                starved::left_unread(unread),
                percent(turns.wanted())
            ),
        ],
        gain: "as much as the path carries".to_owned(),
        change: vec![format!(
            "at the server: take {keyword} out of sshd_config, or raise it (lhsshd -T -C user=NAME,addr=ADDRESS shows what \
             applies to a user)"
        )],
        weight: PACED,
    })
}

/// How many times faster than the output of a command a file over SFTP may be that the same rate limits: a
/// transfer of a second begins with the burst.
const SAME_RATE: f64 = 1.6;

/// Finds a rate limit of what the server sends to a user (`PerUserSendRate` of `lhsshd`). Its process leaves
/// TCP without data although it has nothing else to do, in files as well as in the output of a command, and
/// several connections are no faster. OpenSSH has no such limit.
fn send_rate(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    let file = judged.facts.sftp.file.and_then(|file| file.read)?;
    let is_of_user = judged.factor().is_some_and(|factor| factor < EACH_IS_LIMITED)
        && judged.facts.negotiated.server_is_longhaul()
        && file <= SAME_RATE * flow.rate;
    let is_limited = is_of_user && judged.direction == Direction::Down && starved::is_often_starved(judged);
    let part = flow.application.starved.filter(|_| is_limited)?;
    Some(Finding {
        cause: "pacing",
        title: format!(
            "The server sends {} on all connections of the user together (PerUserSendRate).",
            rate(flow.rate)
        ),
        evidence: vec![
            judged.measured(),
            format!("a file over SFTP: {}", rate(file)),
            format!("in {} of the looks, TCP of the server had nothing to send (app_limited)", percent(part)),
        ],
        gain: "as much as the path carries".to_owned(),
        change: vec![
            "at the server: take PerUserSendRate out of sshd_config, or raise it (lhsshd -T -C user=NAME,addr=ADDRESS \
             shows what applies to a user)"
                .to_owned(),
            "if it is not there, compare at the server: time head -c 100000000 /dev/zero | cat >/dev/null".to_owned(),
        ],
        weight: PACED,
    })
}

/// Finds a window of the server for the channel that does not grow with the path.
fn ssh_window(judged: &JudgedDirection<'_>) -> Option<Finding> {
    // Windows of lhsshd grow, unless its configuration fixes them.
    let is_ours = judged.facts.negotiated.server_is_longhaul();
    let window = if is_ours { judged.flow.windows.constant? } else { judged.flow.windows.server? };
    let possible = window / judged.facts.round_trip();
    // A slow command and a full queue use windows up too, and several connections are no faster then. Without
    // a queue, a constant window is the limit whatever several connections did: on a long path they may not
    // have had time to start.
    let loaded = judged.sender().and_then(|sender| sender.loaded_rtt);
    let has_queue = loaded.is_some_and(|loaded| loaded > FULL_QUEUE * judged.facts.round_trip());
    let is_each = judged.factor().is_some_and(|factor| factor >= EACH_IS_LIMITED) || !(is_ours || has_queue);
    if !is_each || judged.flow.windows.closed < MUCH || judged.flow.rate < starved::MUCH_OF_WINDOW * possible
    {
        return None;
    }
    let change = if is_ours {
        vec![
            "take HPNDisabled and HPNBufferSize out of the server's sshd_config: its windows then follow the path"
                .to_owned(),
            "or copy with lhscp -j 4: each channel has a window of its own".to_owned(),
        ]
    } else {
        vec![
            "copy with lhscp: it opens more channels, each with a window of its own".to_owned(),
            "or run lhsshd (or HPN-SSH) at the server: its windows follow the path".to_owned(),
        ]
    };
    Some(Finding {
        cause: "ssh_window",
        title: format!("The server's fixed SSH window of {} limits uploads.", size(window)),
        evidence: vec![
            judged.measured(),
            format!(
                "the window was used up in {} of {} samples; {} in each round trip of {} are {}",
                percent(judged.flow.windows.closed),
                judged.flow.samples,
                size(window),
                time(judged.facts.round_trip()),
                rate(possible)
            ),
        ],
        gain: judged.gain(),
        change,
        weight: judged.weight(),
    })
}

/// Keys are exchanged so often that data wait for it.
fn rekeying(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (flow, round_trip) = (judged.flow, judged.facts.round_trip());
    if flow.rekeys.count < MANY_REKEYS {
        return None;
    }
    // Data wait for an exchange of proposals and one of keys, at least.
    let each = flow.seconds * (1.0 - WARM_UP) / flow.rekeys.count as f64;
    let share = (2.0 * round_trip / each.max(1e-6)).min(0.9);
    let without = judged.facts.other_settings.without_rekeys.filter(|_| judged.direction == Direction::Up);
    let factor = without.map_or(1.0 / (1.0 - share), |without| without / flow.rate.max(1.0));
    if factor < EACH_IS_LIMITED {
        return None;
    }
    let gain = match without {
        Some(without) => format!("{factor:.1} times, measured: {} without", rate(without)),
        None => {
            // Where the sender's peer begins an exchange, it waits for one round trip only.
            let least = 1.0 / (1.0 - 0.5 * share);
            let of_waits = "by one to two round trips of each exchange";
            // TCP that waits so often has no time to grow.
            let best = Direction::BOTH.into_iter().filter_map(|way| judged.facts.throughput.best_rate(way));
            let best = best.fold(0.0, f64::max);
            let most = best / flow.rate.max(1.0);
            if most >= EACH_IS_LIMITED * factor {
                format!(
                    "about {least:.1} to {factor:.1} times, {of_waits}; up to {most:.1} times, as TCP grows then: {} passed at most",
                    rate(best)
                )
            } else {
                format!("about {least:.1} to {factor:.1} times, {of_waits}")
            }
        }
    };
    Some(Finding {
        cause: "rekeying",
        title: format!(
            "Keys are exchanged again after each {}, which holds {}s up.",
            size(flow.rekeys.bytes_each),
            judged.direction.name()
        ),
        evidence: vec![
            judged.measured(),
            format!("{} key exchanges in {:.1} s", flow.rekeys.count, flow.seconds * (1.0 - WARM_UP)),
        ],
        gain,
        change: vec![if without.is_some() {
            "take RekeyLimit out of ssh_config here".to_owned()
        } else {
            "take RekeyLimit out of the server's sshd_config, or of ssh_config here".to_owned()
        }],
        weight: weight_of_factor(factor),
    })
}

fn bloat(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let idle = judged.facts.round_trip();
    let with_own = judged.sender()?.loaded_rtt?;
    let filled = judged.filled_queue().filter(|filled| filled.round_trip > with_own);
    let loaded = filled.map_or(with_own, |filled| filled.round_trip);
    // If round trips vary without load as well, the usual one counts.
    let idle = jitter::spread(&judged.facts.path).map_or(idle, |spread| idle.max(spread.usual));
    let extra = loaded - idle;
    if !is_long_queue(extra, idle) {
        return None;
    }
    let longest = judged.sender()?.longest_rtt;
    let device_rate = (judged.flow.rate * 8.0 * 0.95 / 1e6).max(0.1);
    Some(Finding {
        cause: "bufferbloat",
        title: format!(
            "A long queue on the path delays everything by {} during {}s (bufferbloat).",
            time(extra),
            judged.direction.name()
        ),
        evidence: [
            Some(format!(
                "round trip: {} idle, {} during the {}{}",
                time(idle),
                time(with_own),
                judged.direction.name(),
                longest.map_or_else(String::new, |longest| format!(", {} at most", time(longest)))
            )),
            filled.map(|filled| {
                format!(
                    "{} during an {} with {}, which fills the queue as other programs and machines do; {} keeps it shorter",
                    time(filled.round_trip),
                    judged.direction.name(),
                    filled.control,
                    judged.sender().and_then(|sender| sender.congestion_control.as_deref()).unwrap_or("the one in use")
                )
            }),
            Some(judged.measured()),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: format!(
            "keystrokes and small transfers answer {} sooner while something is copied",
            time(extra)
        ),
        change: vec![
            format!(
                "on the sending side of the narrow link: tc qdisc replace dev DEVICE root cake bandwidth {device_rate:.1}mbit"
            ),
            format!("or pace copies below the link's rate: lhscp --pace {}", pacing(0.9 * judged.flow.rate)),
        ],
        weight: weight_of_time(extra) * 0.8,
    })
}

/// Finds several connections through a jump host or a proxy command that are faster than one.
fn proxy(judged: &JudgedDirection<'_>, factor: f64) -> Finding {
    let name = judged.direction.name();
    let mut evidence = vec![judged.measured()];
    if let Some(share) =
        judged.sender().and_then(|sender| sender.receive_window).filter(|share| *share >= MUCH)
    {
        let window = judged.sender().and_then(|sender| sender.window);
        let window =
            window.map_or_else(String::new, |window| format!("; its largest window was {}", size(window)));
        evidence.push(format!(
            "TCP of {} waited {} of the time for the proxy to take data{window}",
            judged.direction.sender(),
            percent(share)
        ));
    }
    Finding {
        cause: "proxy",
        title: format!(
            "The jump host or proxy command moves {} for each connection on {name}s, and more for several.",
            rate(judged.flow.rate)
        ),
        evidence,
        gain: judged.gain(),
        change: vec![
            "look at the jump host or the program of ProxyCommand: a rate limit of its own, its processor, its SSH \
             windows (2 MiB for each channel with OpenSSH)"
                .to_owned(),
            "or copy with lhscp -j 4, or without the jump host where the network permits it".to_owned(),
        ],
        weight: weight_of_factor(factor),
    }
}

/// How many times more the other direction carries from which a line is asymmetric.
const ASYMMETRIC: f64 = 2.0;

/// Finds several connections that are faster than one through a relay in front of the server.
fn relay(judged: &JudgedDirection<'_>, (of_tcp, of_ssh): (f64, f64), factor: f64) -> Finding {
    let name = judged.direction.name();
    Finding {
        cause: "middlebox",
        title: format!(
            "Something in front of the server relays its connections, and moves {} for each on {name}s, more for several.",
            rate(judged.flow.rate)
        ),
        evidence: vec![
            judged.measured(),
            format!(
                "the server's TCP had a round trip of {} under load, SSH one of {} without: its connection ends on the way",
                time(of_tcp),
                time(of_ssh)
            ),
        ],
        gain: judged.gain(),
        change: vec![
            "at the server: ss -tnp shows who has the other end of its connection (a load balancer, a proxy, a rate limit); \
             look at that program's limits"
                .to_owned(),
            "or copy with lhscp -j 4, or to a port that is not relayed".to_owned(),
        ],
        weight: weight_of_factor(factor),
    }
}

/// Part of the segments that must be lost for a finding even if loss is not the limit.
const MUCH_LOST: f64 = 0.01;

/// Part of the segments that was lost after the start, where it is much.
fn later_loss(judged: &JudgedDirection<'_>) -> Option<f64> {
    judged.flow.tcp.drops.as_ref().map(Drops::later_part).filter(|lost| *lost >= MUCH_LOST)
}

fn path(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let factor = judged.factor()?;
    if factor >= 1.5 && judged.facts.path.is_proxied {
        return Some(proxy(judged, factor));
    }
    if let Some(round_trips) = judged.facts.relayed_at_server().filter(|_| factor >= 1.5) {
        return Some(relay(judged, round_trips, factor));
    }
    if factor >= 1.5 {
        return Some(congestion::judge(judged, factor));
    }
    let together = judged.facts.throughput.together(judged.direction)?;
    let most = judged.flow.rate.max(together);
    let back = judged.direction.other();
    let asymmetry = judged.facts.throughput.best_rate(back).map(|rate| rate / most.max(1.0));
    Some(Finding {
        cause: "path",
        title: format!(
            "The path itself{} carries about {} on {}s; nothing at its ends limits it.",
            if judged.facts.path.is_proxied { " or the jump host on it" } else { "" },
            rate(most),
            judged.direction.name()
        ),
        evidence: [
            Some(judged.measured()),
            Some(format!("four connections together: {}", rate(together))),
            asymmetry.filter(|times| *times >= ASYMMETRIC).map(|times| {
                format!(
                    "the line is asymmetric, or others use this direction of it: {times:.1} times as much passes on {}s",
                    back.name()
                )
            }),
            later_loss(judged)
                .map(|lost| format!("{} of the segments were lost, which does not limit it", percent(lost))),
            judged.harmless_wait(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: "none without a faster path".to_owned(),
        change: Vec::new(),
        // The slower direction of an asymmetric line comes first.
        weight: if asymmetry.is_some_and(|times| times <= 1.0 / ASYMMETRIC) { -0.1 } else { 0.0 },
    })
}
