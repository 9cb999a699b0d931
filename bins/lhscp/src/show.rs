//! What a person sees: a line per file, and messages.

use std::time::Instant;

use lh_cli::progress::Display;
use lh_transfer::{Current, Event, Report};

/// Progress on standard output, messages on standard error.
pub(crate) struct Show {
    display: Display,
}

impl Show {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { display: Display::new(quiet) }
    }
}

impl Report for Show {
    fn event(&mut self, event: Event, now: Instant) {
        match event {
            Event::FileDone { id, name, size, started, .. } => {
                self.display.finish(id, &name, size, size, started, now);
            }
            Event::Started { .. } | Event::Entered { .. } => {}
            Event::Failed { text } | Event::Skipped { text } => {
                self.display.break_line();
                say(&text);
            }
        }
    }

    fn wants_progress(&self) -> bool {
        self.display.enabled()
    }

    fn progress(&mut self, current: Option<Current<'_>>, now: Instant) {
        if let Some(Current { id, name, done, size, .. }) = current {
            self.display.update(id, name, done, size, now);
        }
        self.display.tick(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.display.next_deadline()
    }
}

/// A message of the program.
pub(crate) fn say(text: &str) {
    eprintln!("lhscp: {text}");
}
