//! Log lines and transfer records of the SFTP engine, on their way to the log and the monitor.
//!
//! The engine may run in a thread of its own, while the log, the client's standard error and the monitor's
//! socket belong to the session's loop. So the engine's records are kept ([`Recorder`]) and passed on when
//! the engine is back ([`Reporter`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lh_sftp::server::{FileEvent, FileOutcome, LogLevel, LogSink, Operation};
use lh_sftp::{Attrs, OpenFlags, StatusCode};

use crate::log::{Level, Log};
use crate::session::shared::Shared;
use crate::usage::{FileOperation, Kind, Outcome, Transfer};

/// Largest size of unsent lines for the client, bytes; further lines are dropped.
const STDERR: usize = 64 * 1024;

/// An event that the engine has reported.
enum Record {
    Line(LogLevel, String),
    Closed {
        event: FileEvent,
        opened: Option<Instant>,
        closed: Instant,
    },
    Refused {
        path: Vec<u8>,
        flags: OpenFlags,
        code: StatusCode,
    },
    /// `size` is the file's size, where other connections may have written it too.
    Renamed {
        old: PathBuf,
        new: PathBuf,
        size: Option<u64>,
    },
    Removed(PathBuf),
    /// The temporary file was rejected at its rename to the final name.
    Rejected {
        old: PathBuf,
        new: PathBuf,
    },
    /// A line for the server's own log.
    Note(Level, String),
    Operation(FileOperation),
}

type Records = Arc<Mutex<Vec<Record>>>;

/// The engine's log sink: keeps records until they are reported.
struct Recorder {
    /// The least important level that is kept.
    level: LogLevel,
    accounts: bool,
    operations: bool,
    shares_files: Arc<AtomicBool>,
    /// When each open file was opened, by its number.
    open: HashMap<u64, Instant>,
    /// The directory that relative paths start from.
    start: PathBuf,
    records: Records,
}

impl Recorder {
    fn keep(&self, record: Record) {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }

    fn path(&self, path: &[u8]) -> PathBuf {
        recorded_path(&self.start, path)
    }
}

/// Returns the path for a record: absolute, without `.` and repeated slashes. `..` stays, because it may lead
/// through a symbolic link.
pub(super) fn recorded_path(start: &Path, path: &[u8]) -> PathBuf {
    start.join(OsStr::from_bytes(path)).components().collect()
}

impl LogSink for Recorder {
    fn level(&self) -> LogLevel {
        self.level
    }

    fn line(&mut self, level: LogLevel, line: std::fmt::Arguments<'_>) {
        if level <= self.level {
            self.keep(Record::Line(level, line.to_string()));
        }
    }

    fn file_opened(&mut self, number: u64) {
        if self.accounts {
            self.open.insert(number, Instant::now());
        }
    }

    fn file_closed(&mut self, event: &FileEvent) {
        if self.accounts {
            let opened = self.open.remove(&event.number);
            self.keep(Record::Closed { event: event.clone(), opened, closed: Instant::now() });
        }
    }

    fn renamed(&mut self, old: &[u8], new: &[u8]) {
        if self.accounts {
            let [old, new] = [old, new].map(|path| self.path(path));
            let shared = self.shares_files.load(Ordering::Relaxed);
            let size = shared.then(|| new.metadata().map(|file| file.len()).ok()).flatten();
            self.keep(Record::Renamed { old, new, size });
        }
    }

    fn rejected(&mut self, old: &[u8], new: &[u8]) {
        if self.accounts {
            let [old, new] = [old, new].map(|path| self.path(path));
            self.keep(Record::Rejected { old, new });
        }
    }

    fn removed(&mut self, path: &[u8]) {
        if self.accounts {
            self.keep(Record::Removed(self.path(path)));
        }
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        if self.operations {
            let Operation { request, path, other, attrs, status } = *operation;
            let full = |path: &[u8]| self.path(path).into_os_string().into_vec();
            // The target of a symbolic link is recorded unchanged.
            let other = other.map(|other| if request == "symlink" { other.to_vec() } else { full(other) });
            let outcome = match status {
                StatusCode::OK => Outcome::Complete,
                status => Outcome::Failed(status.text().to_owned()),
            };
            let attributes = attributes(&attrs);
            let path = full(path);
            let request = request.to_owned();
            self.keep(Record::Operation(FileOperation { request, path, other, attributes, outcome }));
        }
    }

    fn file_refused(&mut self, path: &[u8], flags: OpenFlags, code: StatusCode) {
        if self.accounts {
            self.keep(Record::Refused { path: path.to_vec(), flags, code });
        }
    }
}

/// Collects lines for the server's own log, from any thread.
pub(super) struct Notes(Records);

impl Notes {
    /// Returns notes, and a function that takes their lines.
    #[cfg(test)]
    pub(super) fn for_test() -> (Self, impl FnOnce() -> Vec<String>) {
        let records = Records::default();
        let taken = Arc::clone(&records);
        let line = |record| match record {
            Record::Note(_, line) => Some(line),
            _ => None,
        };
        let take = move || taken.lock().unwrap().drain(..).filter_map(line).collect();
        (Self(records), take)
    }

    pub(super) fn add(&self, level: Level, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Record::Note(level, line));
    }
}

/// The destination of log lines.
enum Destination {
    Log(Log),
    Client,
}

/// Passes on records: transfers to the monitor, lines to the server's log. As in OpenSSH, these lines have a
/// level of their own: only errors unless `-l` asks for more. With `-e` they go to the client's standard
/// error.
pub(super) struct Reporter {
    to: Destination,
    shared: Rc<Shared>,
    start: PathBuf,
    records: Records,
    stderr: RefCell<Vec<u8>>,
}

impl Reporter {
    /// Returns a reporter, and the log sink for its engine. `log` is the destination of lines; `None` is the
    /// client.
    pub(super) fn new(
        shared: Rc<Shared>,
        level: LogLevel,
        log: Option<Log>,
        start: PathBuf,
    ) -> (Self, Box<dyn LogSink>) {
        let records = Records::default();
        let recorder = Recorder {
            level,
            accounts: shared.accounts,
            operations: shared.operations,
            shares_files: Arc::clone(&shared.files.shares_files),
            open: HashMap::new(),
            start: start.clone(),
            records: Arc::clone(&records),
        };
        let to = log.map_or(Destination::Client, Destination::Log);
        (Self { to, shared, start, records, stderr: RefCell::default() }, Box::new(recorder))
    }

    /// Returns a collector for lines of the server's own log.
    pub(super) fn notes(&self) -> Notes {
        Notes(Arc::clone(&self.records))
    }

    /// Reports all kept records.
    pub(super) fn report(&self) {
        let records = std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner));
        for record in records {
            self.report_one(record);
        }
    }

    /// Returns the lines for the client; the sender removes what it has sent.
    pub(super) const fn stderr(&self) -> &RefCell<Vec<u8>> {
        &self.stderr
    }

    fn report_one(&self, record: Record) {
        let shared = &self.shared;
        let transfer = match record {
            Record::Line(level, line) => return self.line(level, &line),
            Record::Closed { event, opened, closed } => {
                let transfer = self.closed(event, opened, closed);
                shared.files.parts.borrow_mut().closed(transfer, opened.unwrap_or(closed), closed)
            }
            Record::Renamed { old, new, size } => shared.files.parts.borrow_mut().renamed(&old, &new, size),
            Record::Operation(operation) => return shared.operated(operation),
            Record::Note(level, line) => return shared.log.line(level, format_args!("{line}")),
            Record::Rejected { old, new } => {
                let waiting = shared.files.parts.borrow_mut().rejected(&old, &new);
                // No record waits where other connections have written the whole file.
                waiting.or_else(|| Some(self.transfer(new.as_os_str().as_bytes(), true, Outcome::Rejected)))
            }
            Record::Removed(path) => shared.files.parts.borrow_mut().removed(&path),
            Record::Refused { path, flags, code } => {
                let outcome = Outcome::Failed(code.text().to_owned());
                Some(self.transfer(&path, flags.modifies(), outcome))
            }
        };
        if let Some(transfer) = transfer {
            shared.transferred(transfer);
        }
    }

    fn line(&self, level: LogLevel, line: &str) {
        match &self.to {
            Destination::Log(log) => log.line(level, format_args!("{line}")),
            Destination::Client => {
                let mut stderr = self.stderr.borrow_mut();
                if stderr.len() + line.len() + 2 <= STDERR {
                    stderr.extend_from_slice(line.as_bytes());
                    stderr.extend_from_slice(b"\r\n");
                }
            }
        }
    }

    fn closed(&self, event: FileEvent, opened: Option<Instant>, closed: Instant) -> Transfer {
        let outcome = match event.outcome {
            FileOutcome::Complete => Outcome::Complete,
            FileOutcome::Failed(code) => Outcome::Failed(code.text().to_owned()),
            FileOutcome::Rejected => Outcome::Rejected,
            FileOutcome::Abandoned => Outcome::Abandoned,
        };
        // A file that was opened for reading and writing is classified by its actual use.
        let upload = event.bytes_written > 0 || (event.bytes_read == 0 && event.flags.modifies());
        let time = opened.map(|opened| closed.saturating_duration_since(opened)).unwrap_or_default();
        Transfer {
            bytes_in: event.bytes_written,
            bytes_out: event.bytes_read,
            start: event.start,
            micros: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            ..self.transfer(&event.path, upload, outcome)
        }
    }

    fn transfer(&self, path: &[u8], upload: bool, outcome: Outcome) -> Transfer {
        Transfer {
            kind: Kind::Sftp,
            path: recorded_path(&self.start, path).into_os_string().into_vec(),
            upload,
            bytes_in: 0,
            bytes_out: 0,
            start: 0,
            micros: 0,
            outcome,
        }
    }
}

/// Returns the attributes that a client sets, as names and values.
fn attributes(attrs: &Attrs) -> String {
    let Attrs { size, ids, permissions, times, full_times, .. } = attrs;
    let modified = full_times.map(|times| times.modification.0).or(times.map(|(_, time)| time.into()));
    [
        size.map(|size| format!("size={size}")),
        permissions.map(|bits| format!("mode={:04o}", bits & 0o7777)),
        ids.map(|(user, group)| format!("owner={user} group={group}")),
        modified.map(|time| {
            let time = u64::try_from(time).map(Duration::from_secs).ok();
            let time = time.and_then(|time| SystemTime::UNIX_EPOCH.checked_add(time));
            format!("modified={}", time.map_or_else(|| "before-1970".to_owned(), lh_sys::time::utc_text))
        }),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" ")
}
