//! Transfer rates of one file, and the progress line.

use std::time::{Duration, Instant};

use lh_wire::printable;

use super::text::{bar, display_width, duration, fitted, rate, size};

/// Redraw interval; also the interval over which current and peak rates are measured.
pub const REFRESH: Duration = Duration::from_secs(1);

/// Time without a byte after which the line reports a stall.
const STALLED: Duration = Duration::from_secs(5);

/// Number of columns at the right that a running line leaves free.
const FREE: usize = 4;

/// Width of the shortest bar, columns.
const SHORTEST_BAR: usize = 12;
/// Width of the longest bar, columns.
const LONGEST_BAR: usize = 42;

/// Weight of the past in the smoothed current rate that the ETA is computed from.
const SMOOTHING: f64 = 0.9;

/// State of the file for its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In progress: current rate, peak so far, time left.
    Running,
    /// Complete: average rate, peak, time taken.
    Finished,
}

/// The rates of one file.
///
/// Time is an argument everywhere. Rates are measured over intervals of at least [`REFRESH`], so a peak is a
/// rate that was held for a second, not a burst out of a buffer.
#[derive(Debug, Clone)]
pub struct Meter {
    name: String,
    /// The name without its last word, for lines that are too short for it.
    brief: Option<String>,
    /// Additional text, shown where the line has space.
    detail: String,
    total: u64,
    /// The total may still grow, so a percentage would be wrong.
    growing: bool,
    done: u64,
    /// Bytes from an earlier run.
    kept: u64,
    started: Instant,
    interval_start: Instant,
    interval_done: u64,
    last_change: Instant,
    smoothed: Option<f64>,
    peak: f64,
}

impl Meter {
    /// Returns a meter for the file `name` of `total` bytes (0 for an unknown size), starting now.
    pub fn new(name: &[u8], total: u64, now: Instant) -> Self {
        Self {
            name: printable(name),
            brief: None,
            detail: String::new(),
            total,
            growing: false,
            done: 0,
            kept: 0,
            started: now,
            interval_start: now,
            interval_done: 0,
            last_change: now,
            smoothed: None,
            peak: 0.0,
        }
    }

    /// Returns a meter for a file of which `kept` bytes are from an earlier run. These count for the
    /// percentage, not for the rates.
    pub fn resumed(name: &[u8], total: u64, kept: u64, now: Instant) -> Self {
        Self { done: kept, kept, interval_done: kept, ..Self::new(name, total, now) }
    }

    /// Changes the name and size of a job as it discovers more files. While `growing`, the line has no
    /// percentage and no time left.
    pub fn rename(&mut self, name: &str, detail: &str, total: u64, growing: bool) {
        name.clone_into(&mut self.name);
        self.brief = name.strip_suffix(" files").map(str::to_owned);
        detail.clone_into(&mut self.detail);
        self.total = total;
        self.growing = growing;
    }

    /// Returns the meter for the last line of a job: `total` bytes, copied since `started`.
    #[must_use]
    pub fn ended(&self, name: &str, total: u64, started: Instant) -> Self {
        Self { peak: self.peak, ..Self::new(name.as_bytes(), total, started) }
    }

    /// Counts bytes that were already present. They do not count for the rate.
    pub fn keep(&mut self, kept: u64) {
        let more = kept.saturating_sub(self.kept);
        self.kept += more;
        self.interval_done += more;
    }

    /// Returns the current rate, bytes/s, smoothed over some seconds.
    pub fn rate(&self, now: Instant) -> f64 {
        self.current(now)
    }

    /// Reports the number of completed bytes. Cheap: may be called for every packet.
    pub fn update(&mut self, done: u64, now: Instant) {
        if done != self.done {
            self.done = done;
            self.last_change = now;
        }
        let length = now.saturating_duration_since(self.interval_start);
        if length >= REFRESH {
            let current = per_second(done.saturating_sub(self.interval_done), length);
            self.peak = self.peak.max(current);
            self.smoothed = Some(self.smoothed.map_or(current, |old| {
                // Smooths once per elapsed interval; otherwise a pause between calls would hardly count.
                let keep = SMOOTHING.powf(length.as_secs_f64() / REFRESH.as_secs_f64());
                old * keep + current * (1.0 - keep)
            }));
            self.interval_start = now;
            self.interval_done = done;
        }
    }

    /// Advances time without new bytes.
    pub fn update_idle(&mut self, now: Instant) {
        self.update(self.done, now);
    }

    /// Returns the average rate since the start, bytes/s.
    pub fn average(&self, now: Instant) -> f64 {
        per_second(self.done.saturating_sub(self.kept), now.saturating_duration_since(self.started))
    }

    /// Returns the highest rate held over one second, bytes/s; the average for a shorter transfer.
    pub fn peak(&self, now: Instant) -> f64 {
        if self.peak > 0.0 { self.peak } else { self.average(now) }
    }

    /// Returns the time left at the current rate; `None` when unknown.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        if self.growing {
            return None;
        }
        let current = self.current(now);
        let left = self.total.checked_sub(self.done)?;
        if left == 0 {
            return Some(Duration::ZERO);
        }
        (current > 0.0).then(|| Duration::try_from_secs_f64(left as f64 / current).ok())?
    }

    /// Returns the completed part, percent. An empty file has 100 when finished.
    pub fn percent(&self, state: State) -> u64 {
        match (state, self.total) {
            (State::Finished, 0) => 100,
            (State::Running, 0) => 0,
            (_, total) => (u128::from(self.done) * 100 / u128::from(total)).min(100) as u64,
        }
    }

    /// The line for a terminal of `width` columns, without line end and never wider.
    ///
    /// It shows name, detail, a bar, per cent, bytes, rate, peak rate and time. As long as the name fits, the
    /// other parts are dropped in this order: the detail, the bar, the peak. Then the name is cut, down to a
    /// third of the line, before the time and the rates are dropped. A running line leaves some columns free,
    /// so that characters that the terminal echoes (`^C`) stand apart.
    pub fn line(&self, state: State, width: usize, now: Instant) -> String {
        let shown_rate = match state {
            State::Running => self.current(now),
            State::Finished => self.average(now),
        };
        let stalled = state == State::Running && now.saturating_duration_since(self.last_change) >= STALLED;
        let time = match state {
            _ if stalled => "- stalled -".to_owned(),
            State::Running => self.time_left(now).map_or_else(
                || "  --:-- ETA".to_owned(),
                |left| format!("{:>7} ETA", duration(rounded_up(left))),
            ),
            State::Finished => {
                format!("{:>7}    ", duration(now.saturating_duration_since(self.started)))
            }
        };
        let known = state == State::Finished || !self.growing;
        let percent = if known { format!("{:>3}%", self.percent(state)) } else { " --%".to_owned() };
        let amount = format!(" {percent} {}", size(self.done));
        let rates = format!(" {}", rate(shown_rate));
        let peak = format!(" peak {}", rate(self.peak(now)));
        let time = format!(" {time}");
        // The last column stays free, because some terminals wrap there.
        let room = width.saturating_sub(if state == State::Running { FREE } else { 1 });
        let all = format!("{amount}{rates}{peak}{time}");
        let (short, rated) = (format!("{amount}{rates}{time}"), format!("{amount}{rates}"));
        let mut names = vec![self.name.clone()];
        if !self.detail.is_empty() && state == State::Running {
            names.insert(0, format!("{}, {}", self.name, self.detail));
        }
        // Prefer full names with all columns, and a bar to the detail.
        if known && state == State::Running {
            for name in &names {
                let left = room.saturating_sub(display_width(name) + 1 + all.len());
                if left >= SHORTEST_BAR {
                    let columns = left.min(LONGEST_BAR);
                    let bar = bar(self.percent(state), columns);
                    return format!("{}{bar}{all}", fitted(name, room - all.len() - columns));
                }
            }
        }
        for (name, tail) in names.iter().map(|name| (name, &all)).chain([(&self.name, &short)]) {
            if display_width(name) + tail.len() <= room {
                return fitted(name, room - tail.len()) + tail;
            }
        }
        for tail in [short.as_str(), &rated, &amount, ""] {
            let name = room.saturating_sub(tail.len());
            if tail.is_empty() || (tail.len() <= room && name >= room / 3) {
                let whole = display_width(&self.name) <= name;
                let shown = if whole { &self.name } else { self.brief.as_ref().unwrap_or(&self.name) };
                return fitted(shown, name) + tail;
            }
        }
        String::new()
    }

    fn current(&self, now: Instant) -> f64 {
        self.smoothed.unwrap_or_else(|| self.average(now))
    }
}

/// Rounds up to whole seconds: 00:00 is shown only when no time is left.
fn rounded_up(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

fn per_second(bytes: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn at(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn steady_file_shows_rate_peak_and_eta() {
        let start = Instant::now();
        let mut meter = Meter::new(b"data.bin", 100 * MB, start);
        for second in 1..=4u64 {
            meter.update(second * 10 * MB, at(start, second as f64));
        }
        assert_eq!(
            meter.line(State::Running, 80, at(start, 4.0)),
            "data.bin [======>         ]  40%   40MB  10.0MB/s peak  10.0MB/s   00:06 ETA"
        );
    }

    #[test]
    fn last_line_shows_average_and_time_taken() {
        let start = Instant::now();
        let mut meter = Meter::new(b"f", 40 * MB, start);
        meter.update(30 * MB, at(start, 1.0));
        meter.update(40 * MB, at(start, 4.0));
        let line = meter.line(State::Finished, 80, at(start, 4.0));
        assert!(line.contains("100%   40MB  10.0MB/s peak  30.0MB/s   00:04"), "{line}");
    }

    #[test]
    fn burst_below_one_second_is_no_peak() {
        let start = Instant::now();
        let mut meter = Meter::new(b"f", 0, start);
        meter.update(50 * MB, at(start, 0.01));
        meter.update(50 * MB, at(start, 2.0));
        assert_eq!(rate(meter.peak(at(start, 2.0))), " 25.0MB/s");
    }

    #[test]
    fn short_file_peaks_at_its_average() {
        let start = Instant::now();
        let mut meter = Meter::new(b"f", MB, start);
        meter.update(MB, at(start, 0.5));
        assert_eq!(rate(meter.peak(at(start, 0.5))), "  2.0MB/s");
    }

    #[test]
    fn stall_is_shown_until_data_arrives() {
        let start = Instant::now();
        let mut meter = Meter::new(b"f", 100 * MB, start);
        meter.update(MB, at(start, 1.0));
        assert!(meter.line(State::Running, 80, at(start, 7.0)).contains("- stalled -"));
        meter.update(2 * MB, at(start, 8.0));
        assert!(meter.line(State::Running, 80, at(start, 8.0)).contains("ETA"));
    }

    #[test]
    fn line_fits_every_width() {
        let start = Instant::now();
        for name in ["x", "a-rather-long-file-name-that-takes-space.tar.zst", "漢字漢字漢字漢字漢字漢字.txt"]
        {
            let mut meter = Meter::new(name.as_bytes(), 10 * MB, start);
            meter.update(5 * MB, at(start, 3.0));
            for width in 0..200 {
                for state in [State::Running, State::Finished] {
                    let line = meter.line(state, width, at(start, 3.0));
                    let free = if state == State::Running { 4 } else { 1 };
                    assert_eq!(display_width(&line), usize::saturating_sub(width, free), "{width}: {line:?}");
                }
            }
            assert!(meter.line(State::Running, 60, at(start, 3.0)).contains("ETA"));
            assert!(!meter.line(State::Running, 60, at(start, 3.0)).contains("peak") || name == "x");
            for (width, bar) in [(40, false), (80, name == "x"), (200, true)] {
                let line = meter.line(State::Running, width, at(start, 3.0));
                assert_eq!(line.contains("[=") && line.contains(">"), bar, "{line}");
                assert!(line.contains(" 50%"), "{line}");
            }
        }
    }

    #[test]
    fn growing_job_shows_no_percentage_or_eta() {
        let start = Instant::now();
        let mut meter = Meter::new(b"", 0, start);
        let detail = "6 in flight, big.iso 45%";
        meter.rename("12/3456+ files", detail, 5 * MB, true);
        meter.update(5 * MB, at(start, 1.0));
        let line = |meter: &Meter, width| meter.line(State::Running, width, at(start, 1.0));
        assert_eq!(line(&meter, 40), "12/3456+ files  --% 5000kB   5.0MB/s");
        assert_eq!(
            line(&meter, 80),
            "12/3456+ files               --% 5000kB   5.0MB/s peak   5.0MB/s   --:-- ETA"
        );
        let wide = line(&meter, 200);
        assert!(wide.starts_with("12/3456+ files, 6 in flight, big.iso 45%  "), "{wide}");
        assert!(wide.contains(" --% ") && wide.ends_with("--:-- ETA"), "{wide}");
        meter.rename("123456/234567+ files", detail, 5 * MB, true);
        assert_eq!(line(&meter, 40), "123456/234567+  --% 5000kB   5.0MB/s");
        meter.rename("12/3456 files", detail, 10 * MB, false);
        assert_eq!(
            line(&meter, 80),
            "12/3456 files [=====>     ]  50% 5000kB   5.0MB/s peak   5.0MB/s   00:01 ETA"
        );
        assert!(
            line(&meter, 120).starts_with("12/3456 files, 6 in flight, big.iso 45% ["),
            "{}",
            line(&meter, 120)
        );
        assert!(line(&meter, 200).contains("[====================>"), "{}", line(&meter, 200));
    }

    #[test]
    fn last_line_of_a_job_keeps_the_peak() {
        let start = Instant::now();
        let mut job = Meter::new(b"", 0, start);
        job.update(30 * MB, at(start, 1.0));
        job.update(40 * MB, at(start, 4.0));
        let mut last = job.ended("2 files", 40 * MB, start);
        last.update(40 * MB, at(start, 4.0));
        let line = last.line(State::Finished, 80, at(start, 4.0));
        assert!(line.starts_with("2 files ") && line.contains("10.0MB/s peak  30.0MB/s   00:04"), "{line}");
    }

    #[test]
    fn extreme_sizes_do_not_overflow() {
        let start = Instant::now();
        let mut meter = Meter::new(b"grown", 10, start);
        meter.update(u64::MAX, start);
        assert_eq!(meter.percent(State::Running), 100);
        assert_eq!(meter.time_left(start), None);
        let empty = Meter::new(b"empty", 0, start);
        assert_eq!(empty.percent(State::Finished), 100);
        assert!(empty.line(State::Finished, 80, start).contains("100%"));
    }
}
