//! Log lines with the levels of `LogLevel`: to standard error (or the file of `-E`), to syslog, or with
//! fields to systemd's journal.
//!
//! The texts follow OpenSSH's, because intrusion detection and scripts match them.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lh_config::special::LogVerbose;
use lh_sys::journal::{self, Journal};
use lh_sys::syslog::{Facility, Syslog};
use lh_wire::Writer as _;

use crate::log_budget::LogBudget;
pub use crate::log_level::Level;
use crate::log_level::{prefix, severity};
use crate::monitor_ipc::MonitorRequest;

/// Largest length of a line, characters; of one that is written, bytes. OpenSSH cuts lines at 1,023 bytes.
pub(crate) const LONGEST_LINE: usize = 4096;

/// The program's name in the system's logs.
const NAME: &str = "lhsshd";

enum Sink {
    Stderr,
    Syslog(Syslog),
    Journal(Journal),
    /// The monitor, which writes the lines of the pre-auth process.
    Monitor(UnixStream),
    #[cfg(test)]
    Lines(Mutex<Vec<String>>),
}

/// A field of a journal entry besides its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// The user name that the client sent.
    User,
    /// The client's address.
    RemoteAddr,
    /// Identifier of the connection.
    Session,
    /// Fingerprint of the key that the client offers or has logged in with.
    Fingerprint,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::User => "USER",
            Self::RemoteAddr => "REMOTE_ADDR",
            Self::Session => "SESSION",
            Self::Fingerprint => "FINGERPRINT",
        }
    }
}

struct Shared {
    sink: Sink,
    /// Fields of every journal entry; other destinations have no fields.
    fields: Mutex<Vec<(&'static str, String)>>,
    level: AtomicU8,
    /// `LogVerbose`: places in the source whose lines are written at any level.
    places: Mutex<LogVerbose>,
    /// The remaining lines about requests.
    budget: Mutex<LogBudget>,
}

/// Truncates the client's reason for disconnecting, as OpenSSH does.
pub(crate) fn shown_reason(text: &str) -> &str {
    at_most(text, 400)
}

pub(crate) fn at_most(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Escapes control characters. Truncates what is longer than [`LONGEST_LINE`], because a client chooses many
/// of the names in lines, and a packet has place for 256 KiB.
fn escaped(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c {
            c if lh_wire::is_hidden(c) => line.extend(c.escape_default()),
            c => line.push(c),
        }
        if line.len() > LONGEST_LINE {
            line.truncate(line.floor_char_boundary(LONGEST_LINE));
            line.push('\u{2026}');
            break;
        }
    }
    line
}

/// Truncates a user name, which may belong to no account, as OpenSSH does. So the rest of the line, such as
/// the client's address, stays readable.
pub(crate) fn shown_name(name: &str) -> &str {
    at_most(name, 100)
}

/// A destination for log lines. Cheap to clone; all clones share one destination and level.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    preauth: bool,
    /// The lines are about requests, which a client can repeat without limit.
    of_requests: bool,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("level", &self.level()).finish_non_exhaustive()
    }
}

impl Log {
    fn with(sink: Sink, level: Level) -> Self {
        let level = AtomicU8::new(level as u8);
        let (fields, places, budget) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self {
            shared: Arc::new(Shared { sink, fields, level, places, budget }),
            preauth: false,
            of_requests: false,
        }
    }

    /// Returns a log that writes to descriptor 2.
    pub fn stderr(level: Level) -> Self {
        Self::with(Sink::Stderr, level)
    }

    /// Returns a log that writes to syslog; `facility` is a value of `SyslogFacility`.
    pub fn syslog(level: Level, facility: &str) -> Self {
        let facility = Facility::by_name(facility).unwrap_or(Facility::AUTH);
        Self::with(Sink::Syslog(Syslog::open(facility, NAME)), level)
    }

    /// Returns a log that writes to systemd's journal, with fields; to [`syslog`](Self::syslog) where there
    /// is no journal.
    pub fn journal(level: Level, facility: &str) -> Self {
        let path = Path::new(journal::SOCKET);
        let named = Facility::by_name(facility).unwrap_or(Facility::AUTH);
        match Journal::open(path, NAME).and_then(|journal| journal.with(Some(named), NAME)) {
            Ok(journal) => Self::with(Sink::Journal(journal), level),
            Err(_) => Self::syslog(level, facility),
        }
    }

    /// Sets a field of all later journal entries; an empty value removes it. Other destinations ignore it.
    pub(crate) fn set_field(&self, field: Field, value: &str) {
        if let Sink::Journal(_) = &self.shared.sink {
            let mut fields = self.shared.fields.lock().unwrap_or_else(PoisonError::into_inner);
            fields.retain(|(name, _)| *name != field.name());
            if !value.is_empty() {
                fields.push((field.name(), value.to_owned()));
            }
        }
    }

    /// Returns a log with this destination that writes every line, because its user applies a level of its
    /// own. In the system's log it has its own name and facility.
    pub(crate) fn of_its_own(&self, name: &str, facility: Option<Facility>) -> Self {
        let sink = match &self.shared.sink {
            Sink::Journal(journal) => match journal.with(facility, name) {
                Ok(journal) => Sink::Journal(journal),
                Err(_) => return self.clone(),
            },
            Sink::Syslog(log) => Sink::Syslog(log.with(facility, name)),
            Sink::Stderr => Sink::Stderr,
            // These destinations belong to processes that serve no SFTP.
            Sink::Monitor(_) => return self.clone(),
            #[cfg(test)]
            Sink::Lines(_) => return self.clone(),
        };
        let log = Self::with(sink, Level::Debug3);
        let fields = self.shared.fields.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *log.shared.fields.lock().unwrap_or_else(PoisonError::into_inner) = fields;
        log
    }

    /// Returns a log that sends its lines to the monitor, over the monitor's request socket.
    pub(crate) fn monitor(level: Level, socket: UnixStream) -> Self {
        Self::with(Sink::Monitor(socket), level)
    }

    /// Returns a log that keeps its lines, for tests.
    #[cfg(test)]
    pub(crate) fn lines(level: Level) -> Self {
        Self::with(Sink::Lines(Mutex::default()), level)
    }

    #[cfg(test)]
    pub(crate) fn taken(&self) -> Vec<String> {
        match &self.shared.sink {
            Sink::Lines(lines) => std::mem::take(&mut lines.lock().unwrap()),
            _ => Vec::new(),
        }
    }

    /// Returns the level in force.
    pub fn level(&self) -> Level {
        Level::from_number(self.shared.level.load(Ordering::Relaxed))
    }

    /// Changes the level: a `Match` block may set another one.
    pub fn set_level(&self, level: Level) {
        self.shared.level.store(level as u8, Ordering::Relaxed);
    }

    /// Writes the lines of these places in the source at any level (`LogVerbose`).
    pub fn set_places(&self, places: &LogVerbose) {
        *self.shared.places.lock().unwrap_or_else(PoisonError::into_inner) = places.clone();
    }

    /// Writes a line, if its level or its place in the source is enabled.
    pub(crate) fn line_of(&self, place: Place, level: Level, text: fmt::Arguments<'_>) {
        if level > self.level() {
            let places = self.shared.places.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(tag) = places.tag(place.file, place.module, place.line) else { return };
            drop(places);
            return self.write(level, format_args!("{tag} {text}"));
        }
        if self.is_within_budget(level) {
            self.write(level, text);
        }
    }

    /// Returns this log for the pre-auth process: its lines end in ` [preauth]`, as those of OpenSSH's. The
    /// monitor's lines do not; scripts rely on the difference.
    #[must_use]
    pub fn preauth(&self) -> Self {
        Self { preauth: true, ..self.clone() }
    }

    /// Returns this log for lines about a client's requests. Below the debug levels their rate is limited;
    /// further lines are only counted.
    #[must_use]
    pub(crate) fn of_requests(&self) -> Self {
        Self { of_requests: true, ..self.clone() }
    }

    /// Writes the number of omitted lines about requests, if it has not been reported yet.
    pub(crate) fn report_left_out(&self) {
        let left_out = self.shared.budget.lock().unwrap_or_else(PoisonError::into_inner).take_left_out();
        self.left_out(left_out);
    }

    fn left_out(&self, lines: u64) {
        if lines > 0 {
            self.write(
                Level::Info,
                format_args!("{lines} log lines about requests of this connection left out"),
            );
        }
    }

    /// Returns whether the rate limit permits a line of this level.
    fn is_within_budget(&self, level: Level) -> bool {
        if !self.of_requests || level >= Level::Debug1 {
            return true;
        }
        let spent = self.shared.budget.lock().unwrap_or_else(PoisonError::into_inner).spend(Instant::now());
        spent.inspect(|left_out| self.left_out(*left_out)).is_some()
    }

    /// Writes one line, if its level is enabled. Control characters are escaped, so that no client can forge
    /// a second line or control a terminal.
    pub fn line(&self, level: Level, text: fmt::Arguments<'_>) {
        if level <= self.level() && self.is_within_budget(level) {
            self.write(level, text);
        }
    }

    fn write(&self, level: Level, text: fmt::Arguments<'_>) {
        if let Sink::Monitor(socket) = &self.shared.sink {
            // The monitor applies `LogVerbose` and the rate limit itself, where an attacker cannot evade
            // them.
            let request =
                MonitorRequest::Log { level, text: text.to_string().chars().take(LONGEST_LINE).collect() };
            let mut framed = Vec::new();
            framed.put_string(&request.encode());
            let _ = (&mut &*socket).write_all(&framed);
            return;
        }
        let mut line = escaped(&text.to_string());
        if self.preauth {
            line.push_str(" [preauth]");
        }
        match &self.shared.sink {
            Sink::Stderr => {
                // A log that cannot be written must not end a session.
                let line = format!("{}{line}\r\n", prefix(level, false));
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            Sink::Syslog(log) => log.line(severity(level), &format!("{}{line}", prefix(level, true))),
            Sink::Journal(journal) => {
                let fields = self.shared.fields.lock().unwrap_or_else(PoisonError::into_inner);
                let line = format!("{}{line}", prefix(level, true));
                // A journal that does not read must not block a session.
                let _ = journal.write(severity(level), &line, &fields);
            }
            Sink::Monitor(_) => {}
            #[cfg(test)]
            Sink::Lines(lines) => lines.lock().unwrap().push(format!("{}{line}", prefix(level, true))),
        }
    }
}

/// A place in the source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) file: &'static str,
    pub(crate) module: &'static str,
    pub(crate) line: u32,
}

/// Writes a line at a level, with its place in the source.
macro_rules! at_level {
    ($log:expr, $level:ident, $($arg:tt)*) => {
        $log.line_of(
            $crate::log::Place { file: file!(), module: module_path!(), line: line!() },
            $crate::log::Level::$level,
            format_args!($($arg)*),
        )
    };
}
/// `info!(log, "…")` writes a line at level INFO.
macro_rules! info { ($log:expr, $($arg:tt)*) => { $crate::log::at_level!($log, Info, $($arg)*) }; }
/// `error!(log, "…")` writes a line at level ERROR.
macro_rules! error { ($log:expr, $($arg:tt)*) => { $crate::log::at_level!($log, Error, $($arg)*) }; }
/// `verbose!(log, "…")` writes a line at level VERBOSE.
macro_rules! verbose { ($log:expr, $($arg:tt)*) => { $crate::log::at_level!($log, Verbose, $($arg)*) }; }
/// `debug!(log, "…")` writes a line at level DEBUG1.
macro_rules! debug { ($log:expr, $($arg:tt)*) => { $crate::log::at_level!($log, Debug1, $($arg)*) }; }
pub(crate) use at_level;
pub(crate) use {debug, error, info, verbose};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_filter_and_names_are_the_configuration_s() {
        let log = Log::lines(Level::Info);
        info!(log, "one {}", 1);
        verbose!(log, "two");
        error!(log, "three");
        log.set_level(Level::Debug1);
        debug!(log, "four");
        assert_eq!(log.taken(), ["one 1", "error: three", "debug1: four"]);
    }

    #[test]
    fn places_that_always_speak() {
        let log = Log::lines(Level::Error);
        log.set_places(&LogVerbose(vec!["other.rs:*,log.rs:*:*,!*:*:1".to_owned()]));
        debug!(log, "said");
        let lines = log.taken();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(
            line.starts_with("debug1: log.rs:lh_server::log::tests():") && line.ends_with(" said"),
            "{line}"
        );
        log.set_places(&LogVerbose(vec!["listener.rs:*".to_owned()]));
        debug!(log, "not said");
        assert!(log.taken().is_empty());
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shown_name(&"x".repeat(1024)), "x".repeat(100));
        assert_eq!(shown_name(&format!("{}\u{e9}", "x".repeat(99))), "x".repeat(99));
        assert_eq!(at_most("short", 400), "short");
        assert_eq!(at_most("\u{e9}", 1), "");
    }

    #[test]
    fn lines_have_a_greatest_length() {
        let log = Log::lines(Level::Info);
        for name in ["x", "\u{e9}", "\x1b"] {
            info!(log.of_requests(), "refused {}", name.repeat(250_000));
        }
        info!(log, "{}", "y".repeat(LONGEST_LINE));
        let lines = log.taken();
        let (whole, cut) = lines.split_last().unwrap();
        assert_eq!((cut.len(), whole.len()), (3, LONGEST_LINE));
        for line in cut {
            assert!(line.starts_with("refused ") && line.ends_with('\u{2026}'), "{line}");
            assert!((LONGEST_LINE - 1..LONGEST_LINE + 4).contains(&line.len()), "{}", line.len());
        }
    }

    #[test]
    fn requests_without_end_are_counted() {
        let log = Log::lines(Level::Debug1);
        let requests = log.of_requests();
        for number in 0..1000 {
            info!(requests, "refused {number}");
            debug!(requests, "debugged");
        }
        info!(log, "end");
        log.report_left_out();
        let lines = log.taken();
        let written = lines.iter().filter(|line| line.starts_with("refused")).count();
        assert!((100..300).contains(&written), "{written}");
        assert_eq!(lines.iter().filter(|line| line.ends_with("debugged")).count(), 1000);
        assert!(lines.contains(&"end".to_owned()));
        let left_out = lines
            .iter()
            .filter_map(|line| line.strip_suffix(" log lines about requests of this connection left out"))
            .map(|number| number.parse::<usize>().unwrap());
        assert_eq!(written + left_out.sum::<usize>(), 1000);
        log.report_left_out();
        assert!(log.taken().is_empty());
    }

    #[test]
    fn control_characters_cannot_forge_a_log_line() {
        let log = Log::lines(Level::Info);
        info!(log.preauth(), "Invalid user {} from x", "a\nAccepted password for root\x1b[2J");
        assert_eq!(log.taken(), ["Invalid user a\\nAccepted password for root\\u{1b}[2J from x [preauth]"]);
    }
}
