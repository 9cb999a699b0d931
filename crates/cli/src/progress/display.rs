//! The terminal side of the progress display.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use super::meter::{Meter, REFRESH, State};

/// The key of a whole job among those of files.
const JOB: u64 = u64::MAX;

/// How far a whole job is.
#[derive(Debug, Clone, Copy)]
pub struct JobProgress<'a> {
    /// What is always shown.
    pub name: &'a str,
    /// What is shown beside it where there is room.
    pub detail: &'a str,
    /// Bytes that were there before, counted in `done`.
    pub kept: u64,
    /// Bytes that are done.
    pub done: u64,
    /// Bytes in all, as far as they are known.
    pub total: u64,
    /// There may be more of them.
    pub growing: bool,
}

/// One line per file on standard output, redrawn once a second; silent unless that is a terminal.
///
/// Background jobs do not draw either: the line would land in the middle of someone's typing.
#[derive(Debug)]
pub struct Display {
    enabled: bool,
    current: Option<(u64, Meter)>,
    next_refresh: Option<Instant>,
    dirty: bool,
}

impl Display {
    /// A display on standard output; `quiet` (`-q`) or standard output not being a terminal keeps it silent.
    pub fn new(quiet: bool) -> Self {
        Self {
            enabled: !quiet && std::io::stdout().is_terminal(),
            current: None,
            next_refresh: None,
            dirty: false,
        }
    }

    /// True when anything would be drawn; when false, callers need not collect numbers.
    pub const fn enabled(&self) -> bool {
        self.enabled
    }

    /// Tells how far the file `key` is. The first call for a new key makes it the one on display.
    pub fn update(&mut self, key: u64, name: &[u8], done: u64, total: u64, now: Instant) {
        self.update_resumed(key, name, 0, done, total, now);
    }

    /// The same for a file of which `kept` bytes, counted in `done`, were there before.
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

    /// Tells how far a whole job is; it takes the place of the file on display.
    pub fn update_job(&mut self, job: &JobProgress<'_>, now: Instant) {
        let JobProgress { name, detail, kept, done, total, growing } = *job;
        if !self.enabled {
            return;
        }
        if !matches!(&self.current, Some((JOB, _))) {
            self.current = Some((JOB, Meter::resumed(name.as_bytes(), total, 0, now)));
        }
        if let Some((_, meter)) = &mut self.current {
            meter.rename(name, detail, total, growing);
            meter.keep(kept);
        }
        self.update_resumed(JOB, name.as_bytes(), kept, done, total, now);
    }

    /// Draws the last line of a job that was on display, which `started` at the given instant.
    pub fn finish_job(&mut self, name: &str, done: u64, started: Instant, now: Instant) {
        if matches!(&self.current, Some((JOB, _))) {
            self.current = None;
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
                // A file that was never on display finishes beside the one that is.
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

    /// When [`Display::tick`] should be called next; `None` when nothing is on display.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.current.as_ref().and(self.next_refresh)
    }

    /// Redraws when it is time, even if no byte has moved: a stall must show.
    pub fn tick(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|at| now >= at) {
            if let Some((_, meter)) = &mut self.current {
                meter.update_idle(now);
            }
            self.next_refresh = Some(now + REFRESH);
            self.draw(State::Running, now);
        }
    }

    /// Leaves the line, so that a message starts on a fresh one.
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
            // The blank keeps what the terminal echoes apart.
            write_out(format_args!("\r{line} "));
            self.dirty = true;
        }
    }
}

/// A terminal that has gone away must not end the copy: errors are dropped.
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
    rustix::termios::tcgetpgrp(std::io::stdout()).is_ok_and(|group| group == rustix::process::getpgrp())
}
