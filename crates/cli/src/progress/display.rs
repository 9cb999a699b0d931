//! The terminal side of the progress display.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use lh_wire::printable;

use super::meter::{Meter, REFRESH, State};

/// Display key of a whole job; other keys are files.
const JOB: u64 = u64::MAX;

/// Size from which a job's line names the file whose data move, bytes. Such a file also keeps a last line of
/// its own.
pub const LARGE_FILE: u64 = 64 << 20;

/// Progress of a job, which copies several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobProgress<'a> {
    /// Files that are complete.
    pub files: u64,
    /// Files found so far.
    pub files_found: u64,
    /// No more files will be found.
    pub all_found: bool,
    /// Files that are being copied.
    pub in_flight: usize,
    /// The file whose data move: name, completed bytes and size.
    pub file: Option<(&'a [u8], u64, u64)>,
    /// Bytes of earlier runs, included in `done`.
    pub kept: u64,
    /// Completed bytes.
    pub done: u64,
    /// Total bytes, as far as known.
    pub total: u64,
    /// The total may still grow.
    pub growing: bool,
}

impl JobProgress<'_> {
    /// Returns the text that is always shown: `12/345+ files`.
    fn name(&self) -> String {
        let more = if self.all_found { "" } else { "+" };
        format!("{}/{}{more} files", self.files, self.files_found)
    }

    /// Returns the text that is shown where the line has space: `6 in flight, big.iso 45%`.
    fn detail(&self) -> String {
        let mut detail = format!("{} in flight", self.in_flight);
        if let Some((name, done, size)) = self.file.filter(|&(_, _, size)| size >= LARGE_FILE) {
            let percent = u128::from(done) * 100 / u128::from(size);
            detail.push_str(&format!(", {} {percent}%", printable(name)));
        }
        detail
    }
}

/// Returns a number of files in words.
pub fn count(files: u64) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// Progress on standard output: one line per file, redrawn once a second. Silent unless standard output is a
/// terminal.
///
/// Background jobs do not draw either: the line would disturb the user's typing.
#[derive(Debug)]
pub struct Display {
    enabled: bool,
    current: Option<(u64, Meter)>,
    next_refresh: Option<Instant>,
    dirty: bool,
}

impl Display {
    /// Returns a display on standard output. It stays silent with `quiet` (`-q`), or when standard output is
    /// not a terminal.
    pub fn new(quiet: bool) -> Self {
        Self {
            enabled: !quiet && std::io::stdout().is_terminal(),
            current: None,
            next_refresh: None,
            dirty: false,
        }
    }

    /// Returns whether the display draws. If not, callers need not collect numbers.
    pub const fn enabled(&self) -> bool {
        self.enabled
    }

    /// Reports the progress of the file `key`. The first call for a new key puts that file on display.
    pub fn update(&mut self, key: u64, name: &[u8], done: u64, total: u64, now: Instant) {
        self.update_resumed(key, name, 0, done, total, now);
    }

    /// Like [`update`](Self::update), for a file of which `kept` bytes, included in `done`, are from an
    /// earlier run.
    pub fn update_resumed(&mut self, key: u64, name: &[u8], kept: u64, done: u64, total: u64, now: Instant) {
        if !self.enabled {
            return;
        }
        match &mut self.current {
            Some((shown, meter)) if *shown == key => meter.update(done, now),
            _ => {
                let mut meter = Meter::resumed(name, total, kept, now);
                meter.update(done, now);
                self.current = Some((key, meter));
            }
        }
        if self.next_refresh.is_none_or(|at| now >= at) {
            self.next_refresh = Some(now + REFRESH);
            self.draw(State::Running, now);
        }
    }

    /// Reports the progress of a whole job, which replaces the file on display.
    pub fn update_job(&mut self, job: &JobProgress<'_>, now: Instant) {
        if !self.enabled {
            return;
        }
        let (name, detail) = (job.name(), job.detail());
        let JobProgress { kept, done, total, growing, .. } = *job;
        if !matches!(&self.current, Some((JOB, _))) {
            self.current = Some((JOB, Meter::resumed(name.as_bytes(), total, 0, now)));
        }
        if let Some((_, meter)) = &mut self.current {
            meter.rename(&name, &detail, total, growing);
            meter.keep(kept);
        }
        self.update_resumed(JOB, name.as_bytes(), kept, done, total, now);
    }

    /// Draws the last line of a job on display: it copied `files` files with `done` bytes and `started` at
    /// the given instant.
    pub fn finish_job(&mut self, files: u64, done: u64, started: Instant, now: Instant) {
        if let Some((JOB, meter)) = &mut self.current {
            let name = count(files);
            *meter = meter.ended(&name, done, started);
            self.finish(JOB, name.as_bytes(), done, done, started, now);
        }
    }

    /// Draws the last line of the file `key`, which `started` at the given instant, and ends it.
    pub fn finish(&mut self, key: u64, name: &[u8], done: u64, total: u64, started: Instant, now: Instant) {
        if !self.enabled {
            return;
        }
        let mut meter = match self.current.take() {
            Some((shown, meter)) if shown == key => meter,
            other => {
                // A file that was never on display finishes beside the one on display.
                self.current = other;
                Meter::new(name, total, started)
            }
        };
        meter.update(done, now);
        if in_foreground() {
            let line = meter.line(State::Finished, width(), now);
            write_out(format_args!("\r{line}\n"));
            self.dirty = false;
        }
    }

    /// Returns when to call [`Display::tick`] next; `None` when nothing is on display.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.current.as_ref().and(self.next_refresh)
    }

    /// Redraws when it is time, even without new bytes: a stall must be visible.
    pub fn tick(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|at| now >= at) {
            if let Some((_, meter)) = &mut self.current {
                meter.update_idle(now);
            }
            self.next_refresh = Some(now + REFRESH);
            self.draw(State::Running, now);
        }
    }

    /// Ends the current line, so that a message starts on a new one.
    pub fn break_line(&mut self) {
        if self.dirty {
            write_out(format_args!("\n"));
            self.dirty = false;
        }
    }

    fn draw(&mut self, state: State, now: Instant) {
        if let Some((_, meter)) = &self.current
            && in_foreground()
        {
            let line = meter.line(state, width(), now);
            // The blank separates the line from characters that the terminal echoes.
            write_out(format_args!("\r{line} "));
            self.dirty = true;
        }
    }
}

/// Writes to standard output and ignores errors: losing the terminal must not end the copy.
fn write_out(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text);
    let _ = out.flush();
}

fn width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    }
}

fn in_foreground() -> bool {
    lh_sys::termios::is_in_foreground(std::io::stdout()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_counts_files_and_names_large_ones() {
        let mut job = JobProgress { files: 12, files_found: 345, in_flight: 6, ..JobProgress::default() };
        assert_eq!((job.name().as_str(), job.detail().as_str()), ("12/345+ files", "6 in flight"));
        job.all_found = true;
        job.file = Some((b"small", 1, LARGE_FILE - 1));
        assert_eq!((job.name().as_str(), job.detail().as_str()), ("12/345 files", "6 in flight"));
        job.file = Some((b"big.\x1biso", LARGE_FILE / 2, LARGE_FILE));
        assert_eq!(job.detail(), format!("6 in flight, {} 50%", printable(b"big.\x1biso")));
    }
}
