//! Causes that limit the throughput of one direction.

use lh_metrics::loss::{is_bbr, limits_rate};

use super::facts::{Facts, OtherControl};
use super::finding::{Finding, weight_of_factor, weight_of_time};
use super::gather::MANY_REKEYS;
use crate::flow::{Direction, Flow, Sender, WARM_UP};
use crate::shell::System;
use crate::stats::{percent, rate, size, time};

/// Part of the time from which waiting counts as the limit.
pub(super) const MUCH: f64 = 0.3;
/// Part of the time from which waiting counts as the limit even where the system allows more.
const MOST: f64 = 0.6;
/// Windows below this may be unscaled ones: the largest that fits 16 bits (RFC 9293), bytes.
const LARGEST_UNSCALED: f64 = 65_536.0;
/// Gain of several connections from which something limits each of them.
pub(super) const EACH_IS_LIMITED: f64 = 1.3;
/// Lower limits of segments sent, and sent again, for a verdict about loss.
pub(super) const LEAST_SEGMENTS: f64 = 300.0;
pub(super) const LEAST_RESENT: f64 = 5.0;
/// Queueing time from which a queue counts as too long, seconds.
const BLOAT: f64 = 0.05;

/// True where the share of segments that were lost explains the flow's rate, however few they were. `idle` is the
/// round trip without load, seconds.
pub(super) fn losses_may_limit(flow: &Flow, idle: f64) -> bool {
    let (Some(sender), Some(part)) = (flow.sender.as_ref(), flow.loss()) else { return false };
    let round_trip = sender.loaded_rtt.unwrap_or(idle);
    limits_rate(part, sender.segment, round_trip, flow.rate, sender.congestion_control.as_deref())
}

/// One direction under judgement.
pub(super) struct Judged<'a> {
    pub(super) facts: &'a Facts,
    pub(super) direction: Direction,
    pub(super) flow: &'a Flow,
}

impl Judged<'_> {
    /// How many times faster several connections together are.
    pub(super) fn factor(&self) -> Option<f64> {
        let together = self.facts.together(self.direction)?;
        (self.flow.rate > 0.0).then(|| together / self.flow.rate)
    }

    fn gain(&self) -> String {
        match (self.factor(), self.facts.together(self.direction)) {
            (Some(factor), Some(together)) if factor >= EACH_IS_LIMITED => format!(
                "at least {factor:.1} times: four connections together moved {} at the same path",
                rate(together)
            ),
            _ => "four connections together were not much faster, so the next limit is near".to_owned(),
        }
    }

    fn weight(&self) -> f64 {
        weight_of_factor(self.factor().unwrap_or(1.0).max(EACH_IS_LIMITED))
    }

    pub(super) fn measured(&self) -> String {
        format!(
            "{} of one connection: {}, over a round trip of {}",
            self.direction.name(),
            rate(self.flow.rate),
            time(self.facts.round_trip())
        )
    }

    /// Bytes under way at the measured rate.
    fn in_flight(&self) -> f64 {
        self.flow.rate * self.facts.round_trip()
    }

    /// A buffer that this path would not fill, bytes.
    fn wanted_buffer(&self, now: f64) -> u64 {
        let together = self.facts.together(self.direction).unwrap_or(0.0);
        let wanted = (3.0 * together * self.facts.round_trip()).max(4.0 * now).max(6_291_456.0);
        (wanted as u64).next_power_of_two().min(1 << 30)
    }

    /// All causes of this direction.
    pub(super) fn causes(&self) -> Vec<Finding> {
        if let Some(paced) = self.paced() {
            return vec![paced];
        }
        let windows = self.window_scaling().or_else(|| self.receive_window());
        let processor = self.any_processor();
        let limits =
            [self.ssh_window(), windows, self.send_buffer(), self.loss(), self.rekeying(), processor];
        let mut found: Vec<Finding> = limits.into_iter().flatten().collect();
        if found.is_empty() {
            found.extend(self.path());
        }
        found.extend(self.bloat());
        found
    }

    fn sender(&self) -> Option<&Sender> {
        self.flow.sender.as_ref()
    }

    fn paced(&self) -> Option<Finding> {
        let own = self.facts.rate_limit.filter(|_| self.direction == Direction::Up);
        let socket = self.sender().and_then(|sender| sender.paced);
        let limit = [own, socket].into_iter().flatten().min_by(f64::total_cmp)?;
        (self.flow.rate >= 0.7 * limit).then(|| Finding {
            cause: "pacing",
            title: format!(
                "A rate limit that was asked for holds {}s to {}.",
                self.direction.name(),
                rate(limit)
            ),
            evidence: vec![self.measured(), format!("rate limit of the connection: {}", rate(limit))],
            gain: "as much as the path carries".to_owned(),
            change: vec![
                "take TcpPacing out of ssh_config (or sshd_config), and -l or --pace off".to_owned(),
            ],
            weight: 3.0,
        })
    }

    /// The server's window for the channel does not grow with the path.
    fn ssh_window(&self) -> Option<Finding> {
        // Windows of lhsshd grow, unless its configuration fixes them.
        let is_ours = lh_wire::peer::Peer::of(&self.facts.server) == lh_wire::peer::Peer::Longhaul;
        let window = if is_ours { self.flow.constant_window? } else { self.flow.ssh_window? };
        let possible = window / self.facts.round_trip();
        // A slow command leaves the windows as they are too, and several connections are no faster.
        let is_each = !is_ours || self.factor().is_some_and(|factor| factor >= EACH_IS_LIMITED);
        if !is_each || self.flow.closed < MUCH || self.flow.rate < 0.4 * possible {
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
                self.measured(),
                format!(
                    "the window was used up in {} of {} samples; {} in each round trip of {} are {}",
                    percent(self.flow.closed),
                    self.flow.samples,
                    size(window),
                    time(self.facts.round_trip()),
                    rate(possible)
                ),
            ],
            gain: self.gain(),
            change,
            weight: self.weight(),
        })
    }

    /// Share of the time in which TCP waited for the receiver's window, and that window in bytes, where it was filled
    /// in each round trip. One that is small without being full belongs to a slow receiver.
    fn full_window(&self) -> Option<(f64, f64)> {
        let sender = self.sender()?;
        let share = sender.receive_window.filter(|share| *share >= MUCH)?;
        let window = sender.window.unwrap_or_else(|| self.in_flight());
        (self.in_flight() >= 0.4 * window).then_some((share, window))
    }

    fn waited_for_window(&self, share: f64, window: f64) -> String {
        format!(
            "TCP of {} waited for the other end's window {} of the time; the largest window was {}",
            self.direction.sender(),
            percent(share),
            size(window)
        )
    }

    /// Windows end at 64 KiB, even where the buffers are larger.
    fn window_scaling(&self) -> Option<Finding> {
        if self.flow.scales_windows? {
            return None;
        }
        let (share, window) = self.full_window().filter(|(_, window)| *window < LARGEST_UNSCALED)?;
        let is_off = |system: &System| system.text("tcp_window_scaling") == Some("0");
        let ends = [("this machine", &self.facts.here), ("the server", &self.facts.there)];
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
                self.direction.name()
            ),
            evidence: vec![
                self.measured(),
                self.waited_for_window(share, window),
                "the ends of the connection have not agreed on window scaling".to_owned(),
            ],
            gain: self.gain(),
            change,
            weight: self.weight(),
        })
    }

    fn receive_window(&self) -> Option<Finding> {
        let (share, window) = self.full_window()?;
        let limit = self.facts.receiving(self.direction).buffer_limit("tcp_rmem");
        let receiver = self.direction.receiver();
        let known = limit
            .map_or_else(String::new, |limit| format!("; net.ipv4.tcp_rmem allows {} there", size(limit)));
        let evidence = vec![self.measured(), self.waited_for_window(share, window) + &known];
        // A window far below what the system allows was not limited by it.
        let is_own = limit.is_some_and(|limit| window < 0.2 * limit);
        if is_own && !self.is_held_back(share, window) {
            return None;
        }
        let name = self.direction.name();
        let (title, change) = if is_own {
            let file = if receiver == "this machine" { "ssh_config" } else { "sshd_config" };
            (
                format!(
                    "The receive buffer of {receiver} limits {name}s: a program has set it to about {}.",
                    size(window)
                ),
                vec![
                    format!(
                        "take TcpRcvBuf out of {file}: the system then lets the buffer grow with the path"
                    ),
                    format!("or have what else sets SO_RCVBUF on {receiver} leave it alone"),
                ],
            )
        } else {
            let most = limit.map_or_else(String::new, |limit| format!(" ({} at most)", size(limit)));
            let wanted = self.wanted_buffer(limit.unwrap_or(window));
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
            gain: self.gain(),
            change,
            weight: self.weight(),
        })
    }

    /// True where a buffer of this size, for which TCP waited for this share of the time, limits each connection:
    /// it was full in each round trip, and several connections are faster.
    fn is_held_back(&self, share: f64, buffer: f64) -> bool {
        share >= MOST && self.in_flight() >= 0.3 * buffer && self.factor().is_some_and(|factor| factor >= 1.5)
    }

    fn send_buffer(&self) -> Option<Finding> {
        let sender = self.sender()?;
        let limit = self.facts.sending(self.direction).buffer_limit("tcp_wmem");
        let told = sender.send_buffer.filter(|share| *share >= MUCH);
        let full = limit.is_some_and(|limit| {
            let flight = self.in_flight();
            let could = sender.congestion_window.is_some_and(|window| window > 1.5 * flight);
            (0.15..=1.3).contains(&(flight / limit))
                && could
                && self.factor().is_some_and(|factor| factor >= 1.5)
                && sender.receive_window.is_none_or(|share| share < MUCH)
        });
        if told.is_none() && !full {
            return None;
        }
        // The system's limit is more than this flow could fill.
        let is_own = limit.is_some_and(|limit| self.in_flight() < 0.1 * limit);
        if is_own && !told.is_some_and(|share| self.is_held_back(share, self.in_flight())) {
            return None;
        }
        let (end, name) = (self.direction.sender(), self.direction.name());
        let waited = told.map(|share| {
            format!("TCP of {end} waited for space in its send buffer {} of the time", percent(share))
        });
        let under_way = format!(
            "{} were under way in each round trip{}",
            size(self.in_flight()),
            limit.map_or_else(String::new, |limit| format!(
                "; net.ipv4.tcp_wmem allows buffers of {}",
                size(limit)
            ))
        );
        let (title, change) = if is_own {
            (
                format!(
                    "The send buffer of {end} limits {name}s: a program has set it to about {}.",
                    size(self.in_flight())
                ),
                format!(
                    "have what sets SO_SNDBUF on {end} leave it alone: the system then lets the buffer grow with the path"
                ),
            )
        } else {
            let most = limit.map_or_else(String::new, |limit| format!(" ({} at most)", size(limit)));
            let wanted = self.wanted_buffer(limit.unwrap_or_else(|| self.in_flight()));
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
            evidence: [Some(self.measured()), waited, Some(under_way)].into_iter().flatten().collect(),
            gain: self.gain(),
            change: vec![change],
            weight: self.weight(),
        })
    }

    fn loss(&self) -> Option<Finding> {
        let sender = self.sender()?;
        let part = self.flow.loss()?;
        if sender.segments < LEAST_SEGMENTS || sender.resent < LEAST_RESENT {
            return None;
        }
        if !losses_may_limit(self.flow, self.facts.round_trip()) {
            return None;
        }
        let control = sender.congestion_control.as_deref();
        let round_trip = sender.loaded_rtt.unwrap_or_else(|| self.facts.round_trip());
        // Where several connections are no faster, the segments were lost in a full queue: the path is full.
        let tried = self.facts.other_control.as_ref().filter(|_| self.direction == Direction::Up);
        let other = match tried {
            Some(OtherControl::Measured { rate, .. }) => rate / self.flow.rate.max(1.0),
            Some(OtherControl::Overruled { .. }) | None => 1.0,
        };
        let factor = self.factor().unwrap_or(1.0);
        if factor < EACH_IS_LIMITED && other < EACH_IS_LIMITED {
            return None;
        }
        let name = control.unwrap_or("the congestion control");
        let mut change = self.selective_acks();
        let is_selective = change.is_empty();
        let sending = self.facts.sending(self.direction);
        if let Some(OtherControl::Overruled { name: other }) = tried {
            change.push(format!(
                "on {}: ip route change PREFIX … congctl {other} (the route to the server has a congctl, which overrules \
                 the sysctl and TcpCongestion)",
                self.direction.sender()
            ));
        } else if !is_bbr(control) {
            let load = if sending.has_congestion_control("bbr") { "" } else { "modprobe tcp_bbr; " };
            change.push(format!(
                "on {}: {load}sysctl -w net.ipv4.tcp_congestion_control=bbr (or TcpCongestion bbr in {})",
                self.direction.sender(),
                if self.direction == Direction::Up { "ssh_config" } else { "lhsshd's sshd_config" }
            ));
        }
        change.push("copy with lhscp -j 4: several connections share the losses".to_owned());
        let gain = match tried {
            Some(OtherControl::Measured { name, .. }) if other >= EACH_IS_LIMITED => {
                format!("{other:.1} times, measured with {name}; {}", self.gain())
            }
            _ => self.gain(),
        };
        Some(Finding {
            cause: "loss",
            title: format!(
                "Loss of {} of the segments holds {name} back on {}s.",
                percent(part),
                self.direction.name()
            ),
            evidence: [
                Some(self.measured()),
                (!is_selective).then(|| {
                    "the ends have not agreed on selective acknowledgements (SACK): each loss costs more"
                        .to_owned()
                }),
                Some(format!(
                    "{} sent {:.0} of {:.0} segments again ({})",
                    self.direction.sender(),
                    sender.resent,
                    sender.segments,
                    percent(part)
                )),
                Some(format!(
                    "at that loss {name} reaches about {}",
                    rate(sender.segment / round_trip.max(1e-6) * 1.22 / part.sqrt())
                )),
            ]
            .into_iter()
            .flatten()
            .collect(),
            gain,
            change,
            weight: weight_of_factor(factor.max(other)),
        })
    }

    /// How to have selective acknowledgements, where the ends have not agreed on them.
    fn selective_acks(&self) -> Vec<String> {
        if self.flow.acknowledges_selectively != Some(false) {
            return Vec::new();
        }
        let ends = [("this machine", &self.facts.here), ("the server", &self.facts.there)];
        let off = ends.into_iter().filter(|(_, system)| system.text("tcp_sack") == Some("0"));
        let mut change: Vec<String> = off
            .map(|(end, _)| {
                format!("on {end}: sysctl -w net.ipv4.tcp_sack=1 (and in /etc/sysctl.d to keep it)")
            })
            .collect();
        if change.is_empty() {
            change.push("have the firewalls on the way let TCP's SACK option pass".to_owned());
        }
        change
    }

    /// Keys are exchanged so often that data wait for it.
    fn rekeying(&self) -> Option<Finding> {
        let (flow, round_trip) = (self.flow, self.facts.round_trip());
        if flow.rekeys < MANY_REKEYS {
            return None;
        }
        // Data wait for an exchange of proposals and one of keys, at least.
        let each = flow.seconds * (1.0 - WARM_UP) / flow.rekeys as f64;
        let share = (2.0 * round_trip / each.max(1e-6)).min(0.9);
        let without = self.facts.without_rekeys.filter(|_| self.direction == Direction::Up);
        let factor = without.map_or(1.0 / (1.0 - share), |without| without / flow.rate.max(1.0));
        if factor < EACH_IS_LIMITED {
            return None;
        }
        let gain = match without {
            Some(without) => format!("{factor:.1} times, measured: {} without", rate(without)),
            None => format!("about {factor:.1} times, by the round trips of each exchange"),
        };
        Some(Finding {
            cause: "rekeying",
            title: format!(
                "Keys are exchanged again after each {}, which holds {}s up.",
                size(flow.bytes_per_rekey),
                self.direction.name()
            ),
            evidence: vec![
                self.measured(),
                format!("{} key exchanges in {:.1} s", flow.rekeys, flow.seconds * (1.0 - WARM_UP)),
            ],
            gain,
            change: vec!["take RekeyLimit out of ssh_config here, or of the server's sshd_config".to_owned()],
            weight: weight_of_factor(factor),
        })
    }

    fn bloat(&self) -> Option<Finding> {
        let idle = self.facts.round_trip();
        let loaded = self.sender()?.loaded_rtt?;
        let extra = loaded - idle;
        if extra < BLOAT || extra < idle {
            return None;
        }
        let device_rate = (self.flow.rate * 8.0 * 0.95 / 1e6).max(0.1);
        Some(Finding {
            cause: "bufferbloat",
            title: format!(
                "A long queue on the path delays everything by {} during {}s (bufferbloat).",
                time(extra),
                self.direction.name()
            ),
            evidence: vec![
                format!(
                    "round trip: {} idle, {} during the {}",
                    time(idle),
                    time(loaded),
                    self.direction.name()
                ),
                self.measured(),
            ],
            gain: format!(
                "keystrokes and small transfers answer {} sooner while something is copied",
                time(extra)
            ),
            change: vec![
                format!(
                    "on the sending side of the narrow link: tc qdisc replace dev DEVICE root cake bandwidth {device_rate:.1}mbit"
                ),
                format!(
                    "or pace copies below the link's rate: lhscp --pace {:.1}M",
                    (self.flow.rate * 8.0 * 0.9 / 1e6).max(0.1)
                ),
            ],
            weight: weight_of_time(extra) * 0.8,
        })
    }

    fn path(&self) -> Option<Finding> {
        let factor = self.factor()?;
        if factor >= 1.5 {
            return Some(Finding {
                cause: "congestion_control",
                title: format!("One connection does not fill the path on {}s.", self.direction.name()),
                evidence: vec![self.measured(), "no window and no buffer was at its limit".to_owned()],
                gain: self.gain(),
                change: vec!["copy with lhscp -j 4".to_owned()],
                weight: 0.6 * weight_of_factor(factor),
            });
        }
        Some(Finding {
            cause: "path",
            title: format!(
                "The path itself carries about {} on {}s; nothing at its ends limits it.",
                rate(self.flow.rate.max(self.facts.together(self.direction)?)),
                self.direction.name()
            ),
            evidence: vec![
                self.measured(),
                format!("four connections together: {}", rate(self.facts.together(self.direction)?)),
            ],
            gain: "none without a faster path".to_owned(),
            change: Vec::new(),
            weight: 0.0,
        })
    }
}
