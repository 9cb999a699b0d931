//! What a person sees: a line per file, and messages.

use std::time::Instant;

use lh_cli::flags::SCP;
use lh_cli::progress::Display;
use lh_transfer::{Current, Event, Report, rcp};

/// Progress on standard output, messages on standard error.
pub(crate) struct Show {
    display: Display,
    verbose: bool,
}

impl Show {
    pub(crate) fn new(quiet: bool, verbose: bool) -> Self {
        Self { display: Display::new(quiet), verbose }
    }

    fn draw(&mut self, current: Option<Current<'_>>, now: Instant) {
        if let Some(Current { id, name, done, size, .. }) = current {
            self.display.update(id, name, done, size, now);
        }
        self.display.tick(now);
    }
}

impl Report for Show {
    fn event(&mut self, event: Event, now: Instant) {
        match event {
            Event::FileDone { id, name, size, started, .. } => {
                self.display.finish(id, &name, size, size, started, now);
            }
            Event::Started { .. } | Event::Entered { .. } | Event::Resumed { .. } => {}
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
        self.draw(current, now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.display.next_deadline()
    }
}

impl rcp::Report for Show {
    fn event(&mut self, event: rcp::Event, now: Instant) {
        match event {
            rcp::Event::FileDone { id, name, size, started } => {
                self.display.finish(id, &name, size, size, started, now);
            }
            // In this protocol a message is complete as it is: the remote side's begins with its name.
            rcp::Event::Failed(text) => {
                self.display.break_line();
                eprintln!("{text}");
            }
            rcp::Event::Debug(text) if self.verbose => {
                self.display.break_line();
                eprintln!("{text}");
            }
            rcp::Event::Debug(_) => {}
        }
    }

    fn progress(&mut self, current: Option<Current<'_>>, now: Instant) {
        if self.display.enabled() {
            self.draw(current, now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.display.enabled().then(|| self.display.next_deadline()).flatten()
    }
}

/// A message of the program.
pub(crate) fn say(text: &str) {
    eprintln!("{}: {text}", SCP.called());
}
