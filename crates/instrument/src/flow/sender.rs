//! TCP counters of a flow's sending end: from the samples of metrics, or from `ss` at the server.

use lh_metrics::Point;
use lh_metrics::drops::TcpCounters;

use crate::stats::median;

/// TCP counters of the sending end.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sender {
    /// Shares of the time that TCP had data to send in which it waited for the receiver's window, and for
    /// space in the send buffer.
    pub(crate) receive_window: Option<f64>,
    pub(crate) send_buffer: Option<f64>,
    /// Part of the time in which TCP had data to send or under way.
    pub(crate) busy: Option<f64>,
    /// Segments sent, and those that were sent again.
    pub(crate) segments: f64,
    pub(crate) resent: f64,
    /// Segments sent again of which the receiver said that it had them already, and times that segments were
    /// acknowledged later than others that were sent after them.
    pub(crate) spurious: f64,
    pub(crate) reordered: f64,
    /// Segments acknowledged while the receiver reported congestion marks (ECN, RFC 3168). It repeats each
    /// report for a round trip, so there are more of them than marks.
    pub(crate) marked: f64,
    /// Bytes of a segment.
    pub(crate) segment: f64,
    /// Largest receive window seen, bytes.
    pub(crate) window: Option<f64>,
    /// Congestion window at the end, bytes.
    pub(crate) congestion_window: Option<f64>,
    pub(crate) congestion_control: Option<String>,
    /// Median and longest round trip under load, seconds; the longest one only where it was looked at often.
    pub(crate) loaded_rtt: Option<f64>,
    pub(crate) longest_rtt: Option<f64>,
    /// A rate limit of the socket, bytes/s.
    pub(crate) paced: Option<f64>,
}

/// Times that segments were overtaken from which the path reorders: in all, and for each segment that was
/// sent again. A packet that is overtaken may hold 44 of these.
const REORDERED: f64 = 5.0;
const FOR_EACH: f64 = 0.1;
/// Part of what was sent again that had arrived, from which it was sent in vain.
const MOSTLY: f64 = 0.5;

impl Sender {
    /// Returns whether segments overtake others, which TCP takes for losses. Where segments are lost, few are
    /// overtaken.
    pub(crate) fn is_reordered(&self) -> bool {
        self.reordered >= REORDERED
            && (self.reordered >= FOR_EACH * self.resent || self.spurious >= MOSTLY * self.resent)
    }

    /// Segments that were lost: those that were sent again, without those that the receiver had
    /// already. Where it had more of them already, the path delivers packets twice, and which ones were
    /// sent in vain is not known.
    pub(crate) fn lost(&self) -> f64 {
        if self.spurious <= self.resent { self.resent - self.spurious } else { self.resent }
    }

    /// Segments that arrived twice although they were sent once: the receiver reports each that it had
    /// already (DSACK, RFC 2883), also those that were sent again.
    pub(crate) fn duplicated(&self) -> f64 {
        (self.spurious - self.resent).max(0.0)
    }
}

/// Reads the TCP counters from the sending end's samples.
pub(super) fn sender(points: &[&Point]) -> Option<Sender> {
    let (first, last) = (points.first()?, points.last()?);
    let grown = |name: &'static str| {
        Some(last.sample.tcp(name)?.saturating_sub(first.sample.tcp(name).unwrap_or(0)) as f64)
    };
    let busy = grown("busy_time").filter(|busy| *busy > 0.0);
    let of_busy = |name| Some((grown(name)? / busy?).min(1.0));
    let segment = last.sample.tcp("snd_mss")? as f64;
    let round_trips = || {
        let later = points.iter().skip(points.len() / 3);
        later.filter_map(|point| Some(point.sample.tcp("rtt")? as f64 / 1e6))
    };
    Some(Sender {
        receive_window: of_busy("rwnd_limited"),
        send_buffer: of_busy("sndbuf_limited"),
        busy: busy.map(|busy| (busy / 1e6 / (last.seconds - first.seconds).max(0.1)).min(1.0)),
        segments: grown("data_segs_out")?,
        resent: grown("total_retrans")?,
        spurious: grown("dsack_dups").unwrap_or(0.0),
        reordered: grown("reord_seen").unwrap_or(0.0),
        marked: grown("delivered_ce").unwrap_or(0.0),
        segment,
        window: points.iter().filter_map(|point| point.sample.tcp("snd_wnd")).max().map(|bytes| bytes as f64),
        congestion_window: last.sample.tcp("snd_cwnd").map(|segments| segments as f64 * segment),
        congestion_control: last.sample.congestion_control.clone(),
        loaded_rtt: median(round_trips()),
        longest_rtt: round_trips().reduce(f64::max),
        paced: last.sample.tcp("max_pacing_rate").filter(|rate| *rate < u64::MAX / 2).map(|rate| rate as f64),
    })
}

/// What `ss -ti` shows before the congestion control.
const FLAGS: [&str; 5] = ["ts", "sack", "ecn", "ecnseen", "fastopen"];

/// Reads a socket's counters since the beginning of the connection from the output of `ss -ti`.
pub(super) fn sender_of_ss(text: &str) -> Option<Sender> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    let number = |text: &str| -> Option<f64> {
        let digits = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        digits.parse().ok()
    };
    let millis = |name| value(name).and_then(number);
    let busy = millis("busy").filter(|busy| *busy > 0.0);
    let segment = number(value("mss")?)?;
    // `retrans:now/total`; not shown where there were none.
    let resent = value("retrans").and_then(|text| text.split_once('/')).and_then(|(_, total)| number(total));
    // The name stands behind the options of the connection, and before the first of these.
    let next = |word: &&str| ["wscale:", "rto:", "rtt:"].iter().any(|name| word.starts_with(name));
    let control = words.iter().position(next).and_then(|at| words.get(at.checked_sub(1)?));
    let control = control.filter(|word| !FLAGS.contains(word) && !word.contains(':'));
    // `pacing_rate NOW/LIMIT`; the limit is shown where there is one.
    let pacing = words.iter().position(|word| *word == "pacing_rate").and_then(|at| words.get(at + 1));
    let limit = pacing.and_then(|rates| rates.split_once('/')).and_then(|(_, limit)| bits_per_second(limit));
    Some(Sender {
        receive_window: busy.map(|busy| (millis("rwnd_limited").unwrap_or(0.0) / busy).min(1.0)),
        send_buffer: busy.map(|busy| (millis("sndbuf_limited").unwrap_or(0.0) / busy).min(1.0)),
        // Of the time since the connection was made, which is not told.
        busy: None,
        segments: number(value("data_segs_out")?)?,
        resent: resent.unwrap_or(0.0),
        spurious: value("dsack_dups").and_then(number).unwrap_or(0.0),
        reordered: value("reord_seen").and_then(number).unwrap_or(0.0),
        marked: value("delivered_ce").and_then(number).unwrap_or(0.0),
        segment,
        window: value("snd_wnd").and_then(number),
        congestion_window: value("cwnd").and_then(number).map(|segments| segments * segment),
        congestion_control: control.map(|name| (*name).to_owned()),
        loaded_rtt: value("rtt").and_then(number).map(|millis| millis / 1000.0),
        longest_rtt: None,
        paced: limit.map(|bits| bits / 8.0),
    })
}

/// Reads the congestion window, bytes, from the output of `ss -ti`, where slow start is over: the threshold
/// is shown then.
pub(crate) fn window_after_slow_start(text: &str) -> Option<f64> {
    let is_over = text.split_whitespace().any(|word| word.starts_with("ssthresh:"));
    sender_of_ss(text)?.congestion_window.filter(|_| is_over)
}

/// Reads the last of the lines `r=`, which have moments of a socket.
pub(super) fn last_look_of_ss(text: &str) -> Option<Sender> {
    let looks = text.lines().filter_map(|line| line.strip_prefix("r=")?.split_once(' '));
    let (_, last) = looks.max_by(|(a, _), (b, _)| {
        let uptime = |text: &str| text.parse::<f64>().unwrap_or(0.0);
        uptime(a).total_cmp(&uptime(b))
    })?;
    sender_of_ss(last)
}

/// The lines `r=` with moments of a socket, in the order of their time.
pub(super) fn looks_of_ss(text: &str) -> Vec<TcpCounters> {
    let looks = text.lines().filter_map(|line| look_of_ss(line.strip_prefix("r=")?));
    let mut looks: Vec<TcpCounters> = looks.collect();
    looks.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    looks
}

/// Part of the samples in which the program had given TCP too little to send; `None` for few samples.
pub(super) fn starved(points: &[&Point]) -> Option<f64> {
    part(points.iter().filter_map(|point| Some(point.sample.tcp("delivery_rate_app_limited")? != 0)))
}

/// Like [`starved`], from the lines `r=`; the first one is from before the transfer.
pub(super) fn starved_of_ss(text: &str) -> Option<f64> {
    let looks = text.lines().filter_map(|line| line.strip_prefix("r="));
    part(looks.filter(|look| look.contains("delivery_rate")).map(|look| look.contains(" app_limited")))
}

/// Looks for a verdict.
const LEAST_LOOKS: usize = 8;

fn part(looks: impl Iterator<Item = bool>) -> Option<f64> {
    let looks: Vec<bool> = looks.collect();
    let starved = looks.iter().filter(|is_starved| **is_starved).count();
    (looks.len() >= LEAST_LOOKS).then(|| starved as f64 / looks.len() as f64)
}

/// Part of the looks that found something, of a line `FOUND LOOKS`; `None` for few looks.
pub(super) fn part_of_looks(text: &str) -> Option<f64> {
    let (found, looks) = text.trim().split_once(' ')?;
    let (found, looks): (usize, usize) = (found.parse().ok()?, looks.parse().ok()?);
    (looks >= LEAST_LOOKS && found <= looks).then(|| found as f64 / looks as f64)
}

/// A moment of the socket: the system's uptime, seconds, and what `ss -ti` shows.
fn look_of_ss(line: &str) -> Option<TcpCounters> {
    let (uptime, text) = line.split_once(' ')?;
    let sender = sender_of_ss(text)?;
    let acked = text.split_whitespace().find_map(|word| word.strip_prefix("bytes_acked:"));
    Some(TcpCounters {
        seconds: uptime.parse().ok()?,
        sent: sender.segments,
        resent: sender.resent,
        acked: acked.map_or(Some(0.0), |acked| acked.parse().ok())?,
        round_trip: sender.loaded_rtt?,
    })
}

/// The type-of-service byte that `ss --tos` shows of a socket.
pub(super) fn mark_of_ss(text: &str) -> Option<u8> {
    let value =
        |word: &str| Some(word.strip_prefix("tos:").or_else(|| word.strip_prefix("tclass:"))?.to_owned());
    // A socket of IPv6 has both, and its packets that of IPv6.
    let shown: Vec<String> = text.split_whitespace().filter_map(value).collect();
    let last = shown.last()?;
    match last.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => last.parse().ok(),
    }
}

/// Reads a rate as `ss` prints it: `16Mbps`, `1.5Gbps`, `99000bps`.
fn bits_per_second(text: &str) -> Option<f64> {
    let digits = text.strip_suffix("bps")?;
    let (digits, factor) = match digits.chars().last()? {
        'K' => (digits.strip_suffix('K')?, 1e3),
        'M' => (digits.strip_suffix('M')?, 1e6),
        'G' => (digits.strip_suffix('G')?, 1e9),
        'T' => (digits.strip_suffix('T')?, 1e12),
        _ => (digits, 1.0),
    };
    Some(digits.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_statistics_of_the_server_are_read() {
        let text = "0 0 10.0.0.2:22 10.0.0.1:5 cubic wscale:7,7 rto:251 rtt:50.1/0.1 mss:1448 pmtu:1500 \
                    cwnd:100 bytes_sent:9 segs_out:7000 data_segs_out:6800 send 1Mbps busy:4000ms \
                    rwnd_limited:3000ms(75.0%) retrans:0/34 delivered:6800 delivered_ce:71 dsack_dups:30 reordering:40 reord_seen:12 rcv_space:14480 snd_wnd:65536";
        let got = sender_of_ss(text).unwrap();
        assert_eq!((got.receive_window, got.send_buffer), (Some(0.75), Some(0.0)));
        assert_eq!((got.segments, got.resent, got.segment), (6800.0, 34.0, 1448.0));
        assert_eq!((got.spurious, got.reordered, got.marked), (30.0, 12.0, 71.0));
        // What the receiver had already was not lost, unless the path delivers packets twice.
        assert_eq!(got.lost(), 4.0);
        assert_eq!(Sender { spurious: 90.0, ..got.clone() }.lost(), 34.0);
        assert_eq!((got.window, got.congestion_window), (Some(65_536.0), Some(144_800.0)));
        assert_eq!(got.congestion_control.as_deref(), Some("cubic"));
        assert_eq!(got.paced, None);
        assert_eq!(sender_of_ss("nothing"), None);
        assert_eq!(window_after_slow_start(text), None);
        let later = text.replace("cwnd:100", "cwnd:100 ssthresh:70");
        assert_eq!(window_after_slow_start(&later), Some(144_800.0));
    }

    #[test]
    fn congestion_controls_of_all_names_are_read() {
        let of = |words: &str| {
            let text =
                format!("ESTAB 0 0 10.0.0.2:22 10.0.0.1:5 {words} rto:251 mss:1448 data_segs_out:6800");
            sender_of_ss(&text).unwrap().congestion_control
        };
        for name in ["lp", "nv", "vegas", "hybla", "dctcp-reno", "bbr"] {
            assert_eq!(of(&format!("ts sack {name} wscale:7,7")).as_deref(), Some(name));
            assert_eq!(of(name).as_deref(), Some(name));
        }
        assert_eq!((of("ts sack wscale:7,7"), of("")), (None, None));
    }

    #[test]
    fn last_look_at_a_socket_is_read() {
        let look = |uptime: &str, resent: u32| {
            format!("r={uptime} ESTAB 0 0 a:22 b:5 cubic mss:1448 data_segs_out:900 retrans:0/{resent}\n")
        };
        let looks = format!("{}{}T=1 2\n{}", look("9.5", 3), look("10.25", 8), look("10.05", 5));
        assert_eq!(last_look_of_ss(&looks).map(|sender| sender.resent), Some(8.0));
        assert_eq!(last_look_of_ss("T=1 2\n"), None);
    }

    #[test]
    fn starved_socket_is_told_from_a_busy_one() {
        let look =
            |words: &str| format!("r=1.5 ESTAB 0 0 a:22 b:5 cubic delivery_rate 7Mbps{words} busy:9ms\n");
        let looks =
            |starved: usize, busy: usize| look(" app_limited").repeat(starved) + &look("").repeat(busy);
        assert_eq!(starved_of_ss(&looks(9, 1)), Some(0.9));
        assert_eq!((starved_of_ss(&looks(0, 8)), starved_of_ss(&looks(7, 0))), (Some(0.0), None));
        assert_eq!(
            (part_of_looks("6 8"), part_of_looks("6 7"), part_of_looks("9 8")),
            (Some(0.75), None, None)
        );
    }

    #[test]
    fn mark_of_a_socket_is_read() {
        let of = |shown: &str| mark_of_ss(&format!("ESTAB 0 0 10.0.0.2:22 10.0.0.1:5 {shown} class_id:0"));
        assert_eq!((of("tos:0x20"), of("tos:0"), of("")), (Some(32), Some(0), None));
        assert_eq!(of("tos:0 tclass:0xb8"), Some(0xb8));
    }

    #[test]
    fn rate_limit_of_the_server_s_socket_is_read() {
        let of = |rates: &str| {
            let text = format!("cubic rtt:50.1/0.1 mss:1448 data_segs_out:6800 send 1Mbps {rates} busy:4ms");
            sender_of_ss(&text).unwrap().paced
        };
        assert_eq!(of("pacing_rate 15.9Mbps/16Mbps delivery_rate 15Mbps"), Some(2e6));
        assert_eq!(of("pacing_rate 2Gbps/1.5Gbps"), Some(187.5e6));
        assert_eq!(of("pacing_rate 9bps/800bps"), Some(100.0));
        // No limit, and what is no rate.
        assert_eq!(of("pacing_rate 15.9Mbps delivery_rate 15Mbps"), None);
        assert_eq!(of("pacing_rate 15.9Mbps/fast"), None);
        assert_eq!(of("pacing_rate"), None);
    }
}
