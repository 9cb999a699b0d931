//! Display of a copy: names, progress and messages.
//!
//! A copy of one file has a line of progress. A copy of several files has one line for all of them, as with
//! `lhscp`.

use std::time::Instant;

use lh_cli::progress::{Display, JobProgress, LARGE_FILE, printable};
use lh_transfer::{Current, Direction, Event, Report, Summary, Totals};

use crate::settings::Settings;
use crate::{print, say};

/// Progress and names on standard output, messages on standard error.
pub(crate) struct Show {
    display: Display,
    direction: Direction,
    resume: bool,
    /// Names of what is begun are not shown.
    quiet: bool,
    /// Decisions of the copy are shown.
    verbose: bool,
    started: Instant,
    totals: Totals,
}

impl Show {
    pub(crate) fn new(direction: Direction, resume: bool, settings: &Settings) -> Self {
        let Settings { quiet, verbose, progress, .. } = *settings;
        let (display, started) = (Display::new(!progress), Instant::now());
        Self { display, direction, resume, quiet, verbose, started, totals: Totals::default() }
    }

    /// Returns whether several files are copied, so that one line shows the progress of all.
    const fn is_job(&self) -> bool {
        self.totals.files_found > 1
    }

    fn line(&mut self, text: &str) {
        if !self.quiet {
            self.display.break_line();
            print(text);
        }
    }
}

/// Returns the progress of a copy of several files, for the display.
fn job<'a>(totals: &Totals, current: Option<Current<'a>>) -> JobProgress<'a> {
    JobProgress {
        files: totals.files,
        files_found: totals.files_found,
        all_found: totals.all_found,
        in_flight: totals.in_flight,
        file: current.map(|file| (file.name, file.done, file.size)),
        kept: totals.kept,
        done: totals.bytes,
        total: totals.bytes_found,
        // The total is known when every file has been opened.
        growing: !totals.all_opened,
    }
}

impl Report for Show {
    fn event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Started { source, target } => {
                let (source, target) = (printable(&source), printable(&target));
                let line = match (self.direction, self.resume) {
                    (Direction::Upload, false) => format!("Uploading {source} to {target}"),
                    (Direction::Upload, true) => format!("Resuming upload of {source} to {target}"),
                    (_, false) => format!("Fetching {source} to {target}"),
                    (_, true) => format!("Resuming {source} to {target}"),
                };
                self.line(&line);
            }
            Event::Notice { text } if self.verbose => {
                self.display.break_line();
                say(&text);
            }
            Event::Resumed { source, kept, size } if self.verbose => {
                self.display.break_line();
                say(&format!("{}: resuming after {kept} of {size} bytes", printable(&source)));
            }
            Event::Resumed { .. }
            | Event::Planned { .. }
            | Event::Deleted { .. }
            | Event::PlannedDelete { .. }
            | Event::Notice { .. }
            | Event::Copied(_)
            | Event::Missed { .. } => {}
            // On a terminal the line of the job says how far the copy is; a line per directory would scroll
            // it away.
            Event::Entered { .. } if self.display.enabled() && !self.verbose => {}
            Event::Entered { source } => {
                let verb = if self.direction == Direction::Upload { "Entering" } else { "Retrieving" };
                // Also with `-q` and in batches, as sftp.
                self.display.break_line();
                print(&format!("{verb} {}", printable(&source)));
            }
            Event::FileDone { id, name, size, started, .. } => {
                if !self.is_job() || size >= LARGE_FILE {
                    self.display.finish(id, &name, size, size, started, now);
                }
            }
            Event::Failed { text } | Event::Changed { text, .. } | Event::Skipped { text } => {
                self.display.break_line();
                say(&text);
            }
        }
    }

    fn wants_progress(&self) -> bool {
        self.display.enabled()
    }

    fn totals(&mut self, totals: Totals, _now: Instant) {
        self.totals = totals;
    }

    fn progress(&mut self, current: Option<Current<'_>>, now: Instant) {
        if self.is_job() {
            self.display.update_job(&job(&self.totals, current), now);
        } else if let Some(Current { id, name, done, size, kept }) = current {
            self.display.update_resumed(id, name, kept, done, size, now);
        }
        self.display.tick(now);
    }

    fn ended(&mut self, summary: &Summary, now: Instant) {
        if self.is_job() {
            self.display.finish_job(summary.files, summary.bytes + summary.kept, self.started, now);
        }
        // A copy that was cancelled leaves its line incomplete.
        self.display.break_line();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.display.next_deadline()
    }
}
