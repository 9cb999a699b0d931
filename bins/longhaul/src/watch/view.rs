//! A connection in words and bars.

use lh_metrics::threads::Usage;
use lh_metrics::{Point, Run};

use super::watched::Watched;
use crate::pairs::Connection;
use crate::series::{congestion_window, difference, rate, received, sent};
use crate::summary::summary;
use crate::units::size;

/// Time that verdicts are about, seconds.
const SPAN: f64 = 15.0;
/// Rate below which a connection rests, bytes/s.
const RESTS: f64 = 20_000.0;
/// Bytes that a program has not read from which it may be the one that is waited for.
const BEHIND: u64 = 64 * 1024;
/// Samples without news from which the program is said to have ended or to hang, seconds.
const SILENT: f64 = 12.0;
/// Time without a byte from which a connection stands still, seconds.
const STILL: f64 = 3.0;
/// Columns of a bar chart.
const BARS: usize = 30;

/// The latest rate in a direction, bytes/s.
fn latest(run: &Run, value: fn(&Point) -> Option<u64>) -> Option<f64> {
    let [.., before, now] = &run.points[..] else { return None };
    rate(before, now, value)
}

/// Rates so far as bars, the latest at the right.
fn bars(run: &Run, value: fn(&Point) -> Option<u64>, columns: usize) -> String {
    let pairs = run.points.windows(2);
    let rates: Vec<f64> = pairs
        .map(|pair| match pair {
            [before, now] => rate(before, now, value).unwrap_or(0.0),
            _ => 0.0,
        })
        .collect();
    let rates = &rates[rates.len().saturating_sub(columns)..];
    let most = rates.iter().copied().fold(RESTS, f64::max);
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    rates.iter().map(|rate| LEVELS[((rate / most * 7.99) as usize).min(7)]).collect()
}

/// The connection with its latest samples only.
fn recent(connection: &Connection) -> Connection {
    let cut = |run: &Option<Run>| {
        let mut run = run.clone()?;
        let end = run.points.last().map_or(0.0, |point| point.seconds);
        run.points.retain(|point| point.seconds >= end - SPAN);
        Some(run)
    };
    Connection { local: cut(&connection.local), remote: cut(&connection.remote), files: Vec::new() }
}

/// Time since the counters of both directions last grew, seconds.
fn still_for(run: &Run) -> Option<f64> {
    let last = run.points.last()?;
    let counts = |point: &Point| (received(point), sent(point));
    let since = run.points.iter().rev().take_while(|point| counts(point) == counts(last)).last()?;
    Some(last.seconds - since.seconds)
}

/// Says for how long nothing has moved, where that is a while, and whether the other end owes an answer.
fn stands_still(run: &Run) -> Option<String> {
    let still = still_for(run).filter(|seconds| *seconds >= STILL)?;
    let last = &run.points.last()?.sample;
    Some(match last.tcp("unacked").filter(|segments| *segments > 0) {
        Some(_) => format!(
            "no answer for {still:.0} s: the path carries nothing, or the other end is gone (sent and not acknowledged)"
        ),
        None => format!("nothing has moved for {still:.0} s"),
    })
}

/// Which end waits for which, or what limits the connection now.
fn waits(watched: &Watched) -> String {
    if let Some(age) = watched.age.filter(|age| *age > SILENT) {
        return format!("no sample for {age:.0} s: it has ended, or writes them seldom (MetricsInterval)");
    }
    let recent = recent(&watched.connection);
    let sum = summary(&recent);
    // Data that will arrive in a moment are no backlog.
    let behind = BEHIND.max((sum.average * 0.1) as u64);
    if let Some(unread) = watched.unread.filter(|unread| *unread > behind) {
        return format!(
            "the other end waits for the program here, which has not read {} yet",
            size(unread as f64)
        );
    }
    // What was before that says nothing about now.
    if let Some(still) = main_run(watched).and_then(|(run, _)| stands_still(run)) {
        return still;
    }
    if sum.average < RESTS {
        return "nothing moves".to_owned();
    }
    let is_download = sum.received > sum.sent;
    if is_download && recent.remote.is_none() {
        return if sum.verdict.starts_with("No verdict") {
            "this end waits for the other one, or for the path: only the sending end knows for which"
                .to_owned()
        } else {
            sum.verdict
        };
    }
    sum.verdict
}

/// Figures of one end's TCP.
fn tcp(run: &Run) -> Option<String> {
    let last = run.points.last()?;
    let value = |name: &str| last.sample.tcp(name);
    let millis = |name: &str| {
        value(name)
            .filter(|micros| *micros != u64::from(u32::MAX))
            .map_or_else(|| "?".to_owned(), |micros| format!("{:.1}", micros as f64 / 1000.0))
    };
    value("rtt")?;
    let bytes = |count: Option<f64>| count.map_or_else(|| "?".to_owned(), size);
    let in_flight = value("unacked").zip(value("snd_mss")).map(|(count, mss)| count as f64 * mss as f64);
    let first = run.points.first()?;
    let again = difference(first, last, |point| point.sample.tcp("total_retrans")).unwrap_or(0.0);
    let mut text = format!(
        "round trip {} ms (least {})  congestion window {}  in flight {}",
        millis("rtt"),
        millis("min_rtt"),
        bytes(congestion_window(last)),
        bytes(in_flight)
    );
    if let Some(window) = value("snd_wnd") {
        text.push_str(&format!("  peer's window {}", size(window as f64)));
    }
    text.push_str(&format!("  sent again {again:.0}"));
    if let Some(name) = &last.sample.congestion_control {
        text.push_str(&format!("  {name}"));
    }
    Some(text)
}

/// Describes queues, and the space in windows.
fn queues(watched: &Watched) -> Option<String> {
    let last = watched.connection.local.as_ref()?.points.last()?;
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<u64>| {
        words.extend(value.map(|bytes| format!("{name} {}", size(bytes as f64))));
    };
    add("arrived and not read", watched.unread);
    add("written and not sent", last.sample.tcp("notsent_bytes"));
    add("SSH output waiting", last.sample.ssh("queued"));
    add("SSH window of the peer", last.sample.ssh("send_credit"));
    add("SSH window here", last.sample.ssh("receive_window"));
    (!words.is_empty()).then(|| words.join("  "))
}

/// Processor time of both ends, percent of a core.
fn processors(watched: &Watched) -> Option<String> {
    let of = |run: Option<&Run>| {
        let used = latest(run?, |point| point.sample.ssh("cpu_micros"))?;
        let busiest = run?.points.last_chunk::<2>().and_then(Usage::of).filter(|usage| usage.taking_part > 1);
        let busiest = busiest.map(|usage| format!(" (busiest thread {:.0} %)", usage.share * 100.0));
        Some(format!("{:.0} %{}", used / 1e4, busiest.unwrap_or_default()))
    };
    let here = of(watched.connection.local.as_ref()).map(|used| format!("here {used}"));
    let there = of(watched.connection.remote.as_ref()).map(|used| format!("there {used}"));
    let words: Vec<String> = here.into_iter().chain(there).collect();
    (!words.is_empty()).then(|| format!("{} of a core", words.join("  ")))
}

/// The client's record, or the server's.
fn main_run(watched: &Watched) -> Option<(&Run, bool)> {
    let local = watched.connection.local.as_ref().map(|run| (run, true));
    local.or_else(|| watched.connection.remote.as_ref().map(|run| (run, false)))
}

/// The block of a connection on a terminal of that width.
pub(super) fn block(watched: &Watched, columns: usize) -> Vec<String> {
    let mut lines = vec![watched.name.clone()];
    if let Some((run, is_local)) = main_run(watched) {
        // Directions are those of this end.
        let [up, down]: [fn(&Point) -> Option<u64>; 2] =
            if is_local { [sent, received] } else { [received, sent] };
        let width = columns.saturating_sub(40).min(BARS);
        for (name, value) in [("up", up), ("down", down)] {
            let now = latest(run, value).map_or_else(|| "…".to_owned(), |rate| format!("{}/s", size(rate)));
            let all = run.points.last().and_then(value).map_or_else(String::new, |all| size(all as f64));
            lines.push(format!("  {name:<10} {now:>11}  of {all:>9}  {}", bars(run, value, width)));
        }
    }
    let mut add = |name: &str, text: Option<String>| {
        lines.extend(text.into_iter().flat_map(|text| wrapped(name, &text, columns)));
    };
    // First, since a low terminal cuts the end.
    add("now", Some(waits(watched)));
    add("TCP here", watched.connection.local.as_ref().and_then(tcp));
    add("TCP there", watched.connection.remote.as_ref().and_then(tcp));
    add("queues", queues(watched));
    add("processor", processors(watched));
    lines.push(String::new());
    lines
}

/// A text of several lines behind its name.
fn wrapped(name: &str, text: &str, columns: usize) -> Vec<String> {
    let width = columns.saturating_sub(15).max(20);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(last) = lines.last_mut() else { continue };
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    let named =
        |(index, line): (usize, String)| format!("  {:<10} {line}", if index == 0 { name } else { "" });
    lines.into_iter().enumerate().map(named).collect()
}

/// One line about a connection, for a pipe.
pub(super) fn line(watched: &Watched) -> String {
    let time = lh_sys::time::utc_text(std::time::SystemTime::now());
    let mut text = format!("{time}  {}", watched.name);
    if let Some((run, is_local)) = main_run(watched) {
        let [up, down]: [fn(&Point) -> Option<u64>; 2] =
            if is_local { [sent, received] } else { [received, sent] };
        for (name, value) in [("up", up), ("down", down)] {
            if let Some(rate) = latest(run, value) {
                text.push_str(&format!("  {name} {}/s", size(rate)));
            }
        }
        text.extend(tcp(run).map(|tcp| format!("  {tcp}")));
    }
    text.extend(queues(watched).map(|queues| format!("  {queues}")));
    format!("{text}  | {}", waits(watched))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{RunHeader, Sample, Side, ThreadTime};

    /// An upload of 10 MB/s whose peer's SSH window is closed.
    fn upload(unread: u64) -> Watched {
        let points = (0..=20_u64).map(|second| Point {
            seconds: second as f64,
            sample: Sample {
                tcp: vec![
                    ("rtt", 50_000),
                    ("snd_cwnd", 100),
                    ("snd_mss", 1000),
                    ("busy_time", second * 900_000),
                ],
                ssh: vec![
                    ("bytes_out", second * 10_000_000),
                    ("send_credit", 0),
                    ("cpu_micros", second * 250_000),
                ],
                congestion_control: Some("cubic".to_owned()),
                threads: [(1, "main", 50_000), (2, "packets", 200_000)]
                    .map(|(id, name, micros)| ThreadTime {
                        id,
                        name: name.to_owned(),
                        cpu_micros: second * micros,
                    })
                    .to_vec(),
            },
        });
        let about = RunHeader { peer: "SSH-2.0-OpenSSH_9.2".to_owned(), ..RunHeader::default() };
        let run = Run { about, side: Side::Local, points: points.collect() };
        let connection = Connection { local: Some(run), remote: None, files: Vec::new() };
        Watched { name: "far".to_owned(), connection, unread: Some(unread), age: None }
    }

    #[test]
    fn block_says_who_waits_for_whom() {
        let text = block(&upload(0), 100).join("\n");
        for words in [
            "10.0 MB/s",
            "of  200.0 MB",
            "██",
            "round trip 50.0 ms",
            "congestion window 100.0 kB",
            "here 25 % (busiest thread 20 %)",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.contains("The SSH window of the server"), "{text}");
        assert!(line(&upload(2_000_000)).contains("the other end waits for the program here"));
        assert!(block(&upload(0), 40).iter().all(|line| line.chars().count() <= 45));
    }

    #[test]
    fn silence_and_rest_are_told_apart() {
        let mut watched = upload(0);
        watched.age = Some(20.0);
        assert!(waits(&watched).starts_with("no sample for 20 s"));
        watched.age = None;
        if let Some(run) = &mut watched.connection.local {
            run.points.truncate(1);
        }
        assert_eq!(waits(&watched), "nothing moves");
        assert!(!block(&watched, 80).is_empty());
    }

    #[test]
    fn connection_that_stands_still_is_not_judged_by_what_was_before() {
        // Four seconds without a byte behind ten of an upload.
        let mut watched = upload(0);
        let run = watched.connection.local.as_mut().unwrap();
        run.points.truncate(11);
        let last = run.points[10].clone();
        run.points.extend((11..=14).map(|second| Point { seconds: f64::from(second), ..last.clone() }));
        assert_eq!(waits(&watched), "nothing has moved for 4 s");
        let run = watched.connection.local.as_mut().unwrap();
        run.points[14].sample.tcp.push(("unacked", 5));
        assert!(waits(&watched).starts_with("no answer for 4 s: the path carries nothing"));
        // Two seconds are the pause of a program.
        watched.connection.local.as_mut().unwrap().points.truncate(13);
        assert!(waits(&watched).starts_with("The SSH window of the server"));
        // A low terminal shows it.
        let lines = block(&upload(0), 40);
        let at = lines.iter().position(|line| line.starts_with("  now")).unwrap();
        assert_eq!(at, 3, "{lines:?}");
    }
}
