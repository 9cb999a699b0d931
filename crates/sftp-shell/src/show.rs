//! What a person sees of a copy: what is begun, a line of progress per file, and messages.

use std::time::Instant;

use lh_cli::progress::{Display, printable};
use lh_transfer::{Current, Direction, Event, Report, Summary};

use crate::{Settings, print, say};

/// Progress and names on standard output, messages on standard error.
pub(crate) struct Show {
    display: Display,
    direction: Direction,
    resume: bool,
    /// Names of what is begun are not shown.
    quiet: bool,
    /// What is decided is told.
    verbose: bool,
}

impl Show {
    pub(crate) fn new(direction: Direction, resume: bool, settings: &Settings) -> Self {
        let Settings { quiet, verbose, progress, .. } = *settings;
        Self { display: Display::new(!progress), direction, resume, quiet, verbose }
    }

    fn line(&mut self, text: &str) {
        if !self.quiet {
            self.display.break_line();
            print(text);
        }
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
            Event::Told { text } if self.verbose => {
                self.display.break_line();
                say(&text);
            }
            Event::Resumed { source, kept, size } if self.verbose => {
                self.display.break_line();
                say(&format!("{}: going on behind {kept} of {size} bytes", printable(&source)));
            }
            Event::Resumed { .. }
            | Event::Planned { .. }
            | Event::Deleted { .. }
            | Event::PlannedDelete { .. }
            | Event::Told { .. } => {}
            Event::Entered { source } => {
                let verb = if self.direction == Direction::Upload { "Entering" } else { "Retrieving" };
                self.line(&format!("{verb} {}", printable(&source)));
            }
            Event::FileDone { id, name, size, started, .. } => {
                self.display.finish(id, &name, size, size, started, now);
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

    fn progress(&mut self, current: Option<Current<'_>>, now: Instant) {
        if let Some(Current { id, name, done, size, kept }) = current {
            self.display.update_resumed(id, name, kept, done, size, now);
        }
        self.display.tick(now);
    }

    fn ended(&mut self, _summary: &Summary, _now: Instant) {
        // A copy that was called off leaves its line in the middle.
        self.display.break_line();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.display.next_deadline()
    }
}
