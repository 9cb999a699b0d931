//! Output for people: a line per file, and messages.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Instant;

use lh_cli::flags::SCP;
use lh_cli::progress::{Display, JobProgress, LARGE_FILE, Meter, REFRESH, count, printable, rate, size};
use lh_transfer::{Current, Direction, Event, Plan, Report, Summary, Totals, rcp};

use crate::command_line::Arguments;
use crate::events;
use crate::limits::{self, Verdict};
use crate::outputs::Outputs;
use crate::record::{RunRecord, Seen};

/// Progress on standard output, messages on standard error; or everything as JSON.
pub(crate) struct Show {
    display: Display,
    verbose: bool,
    json: bool,
    /// When data could flow, behind the login.
    started: Option<Instant>,
    totals: Totals,
    /// Progress of all files together.
    meter: Meter,
    next_json: Instant,
    seen: Seen,
    outputs: Outputs,
}

impl Show {
    pub(crate) fn new(arguments: &Arguments, seen: Seen) -> Self {
        let now = Instant::now();
        Self {
            display: Display::new(arguments.messages.quiet || arguments.messages.json),
            verbose: arguments.messages.verbose > 0,
            json: arguments.messages.json,
            started: None,
            totals: Totals::default(),
            meter: Meter::new(b"", 0, now),
            next_json: now,
            seen,
            outputs: arguments.outputs.clone(),
        }
    }

    /// Several files are a job with a line of its own.
    const fn is_job(&self) -> bool {
        self.totals.files_found > 1
    }

    fn draw(&mut self, current: Option<Current<'_>>, now: Instant) {
        if self.is_job() {
            let totals = &self.totals;
            let job = JobProgress {
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
            };
            self.display.update_job(&job, now);
        } else if let Some(Current { id, name, done, size, kept }) = current {
            self.display.update_resumed(id, name, kept, done, size, now);
        }
        self.display.tick(now);
    }
}

/// Returns whether the progress meter is shown.
pub(crate) fn shows_meter(arguments: &Arguments) -> bool {
    !arguments.messages.json && Display::new(arguments.messages.quiet).enabled()
}

/// Writes to standard output. A reader that has gone away is no reason to end the copy.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

impl Report for Show {
    fn event(&mut self, event: Event, now: Instant) {
        self.outputs.event(&event);
        if self.json {
            if let Some(line) = events::line_for(&event, now) {
                print(&line);
            }
            if let Event::Failed { text } | Event::Changed { text, .. } = &event {
                say(text);
            }
            return;
        }
        match event {
            Event::FileDone { id, name, size, started, .. } => {
                if !self.is_job() || size >= LARGE_FILE {
                    self.display.finish(id, &name, size, size, started, now);
                }
            }
            Event::Notice { text } if self.verbose => {
                self.display.break_line();
                say(&text);
            }
            Event::Planned { source, target, size } => {
                let size = size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
                print(&format!("{} -> {}{size}\n", printable(&source), printable(&target)));
            }
            Event::PlannedDelete { target } => print(&format!("delete {}\n", printable(&target))),
            Event::Deleted { target } if self.verbose => {
                self.display.break_line();
                say(&format!("deleted {}", printable(&target)));
            }
            Event::Resumed { source, kept, size } if self.verbose => {
                self.display.break_line();
                say(&format!("{}: resuming after {kept} of {size} bytes", printable(&source)));
            }
            Event::Deleted { .. }
            | Event::Started { .. }
            | Event::Entered { .. }
            | Event::Resumed { .. }
            | Event::Notice { .. }
            | Event::Copied(_)
            | Event::Missed { .. } => {}
            Event::Failed { text } | Event::Changed { text, .. } | Event::Skipped { text } => {
                self.display.break_line();
                say(&text);
            }
        }
    }

    fn wants_progress(&self) -> bool {
        self.display.enabled() || self.json
    }

    fn totals(&mut self, totals: Totals, now: Instant) {
        if self.started.is_none() {
            self.started = Some(now);
            self.meter = Meter::new(b"", 0, now);
        }
        self.totals = totals;
        self.meter.keep(totals.kept);
        self.meter.update(totals.bytes, now);
        self.seen.rate(self.meter.peak(now));
        if self.json && now >= self.next_json {
            self.next_json = now + REFRESH;
            let (rate, peak) = (self.meter.rate(now), self.meter.peak(now));
            print(&events::progress(&totals, rate, peak, self.meter.average(now)));
        }
    }

    fn progress(&mut self, current: Option<Current<'_>>, now: Instant) {
        self.draw(current, now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.json { Some(self.next_json) } else { self.display.next_deadline() }
    }

    fn ended(&mut self, summary: &Summary, now: Instant) {
        self.seen.rate(self.meter.peak(now));
        if self.is_job() {
            let started = self.started.unwrap_or(now);
            self.display.finish_job(summary.files, summary.bytes + summary.kept, started, now);
        }
        // One that was called off leaves its line in the middle.
        self.display.break_line();
    }
}

/// Adds an attempt to the record, and says what it did: with `-v`, and on a terminal when it took a while.
pub(crate) fn conclude(
    arguments: &Arguments,
    start: &limits::Start,
    summary: &Summary,
    verdict: Verdict,
    record: &mut RunRecord,
) {
    let seconds = start.elapsed().as_secs_f64();
    record.attempt(*summary);
    let sync = arguments.options.tree_sync.is_some();
    let people = Display::new(arguments.messages.quiet).enabled() && (sync || seconds >= 5.0);
    let asked = people || arguments.messages.verbose > 0;
    if !arguments.messages.json && asked && sync {
        say(&differences(summary));
    }
    if !arguments.messages.json && asked && summary.files > 0 {
        tell(seconds, summary, &verdict);
    }
    record.judged(start.elapsed(), verdict);
}

/// Returns the summary of `--sync`.
fn differences(summary: &Summary) -> String {
    format!("{} copied, {} unchanged, {} deleted", summary.files, summary.unchanged, summary.deleted)
}

/// The last words about an attempt.
fn tell(seconds: f64, summary: &Summary, verdict: &Verdict) {
    let rate = rate(summary.bytes as f64 / seconds.max(1e-6));
    let kept =
        if summary.kept > 0 { format!(", {} were there", size(summary.kept).trim()) } else { String::new() };
    let verified =
        if summary.verified > 0 { format!(", {} verified", summary.verified) } else { String::new() };
    say(&format!(
        "{}, {} in {seconds:.1} s ({}){kept}{verified}",
        count(summary.files),
        size(summary.bytes).trim(),
        rate.trim()
    ));
    let advice = if verdict.advice.is_empty() {
        String::new()
    } else {
        format!("; what would help: {}", verdict.advice)
    };
    say(&format!("held up by {}{advice}", verdict.what));
}

impl rcp::Report for Show {
    fn event(&mut self, event: rcp::Event, now: Instant) {
        match event {
            rcp::Event::FileDone { id, name, size, started, .. } => {
                self.seen.file(size);
                if self.json {
                    let done = Event::FileDone { id, name, size, kept: 0, started };
                    print(&events::line_for(&done, now).unwrap_or_default());
                } else {
                    self.display.finish(id, &name, size, size, started, now);
                }
            }
            // In this protocol a message is complete as it is: the remote side's begins with its name.
            rcp::Event::Failed(text) => {
                self.seen.failure();
                self.display.break_line();
                eprintln!("{text}");
                if self.json {
                    print(&events::line_for(&Event::Failed { text }, now).unwrap_or_default());
                }
            }
            rcp::Event::Changed { path, text } => {
                Report::event(self, Event::Changed { source: path, text }, now);
            }
            rcp::Event::Debug(text) if self.verbose => {
                self.display.break_line();
                eprintln!("{text}");
            }
            rcp::Event::Debug(_) | rcp::Event::FileFailed { .. } => {}
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

/// Repeats which sources of an upload have failed, behind the reasons, in the lines that OpenSSH's `scp` has.
/// Like OpenSSH's, a source that does not exist has no such line.
pub(crate) fn say_failed_uploads(arguments: &Arguments, plan: &Plan, summary: &Summary, failed: &[Vec<u8>]) {
    if plan.direction != Direction::Upload || summary.failures == 0 || summary.lost {
        return;
    }
    let failed = if plan.sources.len() == 1 { &plan.sources } else { failed };
    for source in failed {
        let Ok(metadata) = std::fs::metadata(OsStr::from_bytes(source)) else { continue };
        let kind = if metadata.is_dir() && arguments.options.recursive { "directory" } else { "file" };
        let target = if plan.target.is_empty() { &b"."[..] } else { &plan.target };
        let [source, target] = [&source[..], target].map(lh_transfer::display_name);
        say(&format!("failed to upload {kind} {source} to {target}"));
    }
}

/// A message of the program.
pub(crate) fn say(text: &str) {
    let name = SCP.called();
    for line in text.lines() {
        eprintln!("{name}: {line}");
    }
}
