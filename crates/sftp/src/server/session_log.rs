//! The log of one session: lines and records of its requests.

use std::fmt::Arguments;

use lh_wire::LogLevel;

use super::handles::Open;
use super::log::{FileEvent, FileOutcome, LogSink, Shown};
use super::long_name;
use super::lookup::Lookup;
use super::options::ServerOptions;
use crate::{Attrs, OpenFlags};

/// Writer of a session's log lines and records.
pub(super) struct SessionLog {
    /// Destination of the lines and records.
    pub(super) sink: Box<dyn LogSink>,
}

impl SessionLog {
    /// Writes a line if its level is logged.
    pub(super) fn line(&mut self, level: LogLevel, line: Arguments<'_>) {
        if level <= self.sink.level() {
            self.sink.line(level, line);
        }
    }

    /// Logs that the session was opened or closed.
    pub(super) fn session(&mut self, what: &str, options: &ServerOptions) {
        let ServerOptions { user, address, .. } = options;
        self.line(LogLevel::Info, format_args!("session {what} for local user {user} from [{address}]"));
    }

    /// Logs that a file is to be opened.
    pub(super) fn open(&mut self, path: &[u8], flags: OpenFlags, permissions: u32) {
        self.line(
            LogLevel::Info,
            format_args!("open \"{}\" flags {flags} mode 0{permissions:o}", Shown(path)),
        );
    }

    /// Logs that a file or directory is closed. `forced`: because the session ends.
    pub(super) fn close(&mut self, open: &mut Open, forced: bool) {
        let verb = if forced { "forced close" } else { "close" };
        match open {
            Open::File(file) => {
                if forced {
                    file.event.outcome = FileOutcome::Abandoned;
                }
                if file.event.start == u64::MAX {
                    file.event.start = 0;
                }
                self.file_close(&file.event, verb);
            }
            Open::Dir(dir) => {
                let verb = if forced { verb } else { "closedir" };
                self.line(LogLevel::Info, format_args!("{verb} \"{}\"", Shown(&dir.path)));
            }
        }
    }

    /// Writes the line and the usage record of a file.
    pub(super) fn file_close(&mut self, event: &FileEvent, verb: &str) {
        self.line(
            LogLevel::Info,
            format_args!(
                "{verb} \"{}\" bytes read {} written {}",
                Shown(&event.path),
                event.bytes_read,
                event.bytes_written
            ),
        );
        self.sink.file_closed(event);
    }

    /// Logs a request with two paths.
    pub(super) fn two(&mut self, first: &str, old: &[u8], second: &str, new: &[u8]) {
        self.line(LogLevel::Info, format_args!("{first} \"{}\" {second} \"{}\"", Shown(old), Shown(new)));
    }

    /// Logs the attributes that are to be set.
    pub(super) fn set(&mut self, path: &[u8], attrs: &Attrs, lookup: &mut dyn Lookup) {
        if let Some(size) = attrs.size {
            self.line(LogLevel::Info, format_args!("set \"{}\" size {size}", Shown(path)));
        }
        if let Some(bits) = attrs.permissions {
            self.line(LogLevel::Info, format_args!("set \"{}\" mode {:04o}", Shown(path), bits & 0o7777));
        }
        if let Some((_, time)) = attrs.times {
            let local = i64::from(time) + i64::from(lookup.utc_offset(time.into()));
            let (year, month, day) = long_name::date(local.div_euclid(86_400));
            let second = local.rem_euclid(86_400);
            self.line(
                LogLevel::Info,
                format_args!(
                    "set \"{}\" modtime {year}{:02}{day:02}-{:02}:{:02}:{:02}",
                    Shown(path),
                    month + 1,
                    second / 3600,
                    second / 60 % 60,
                    second % 60
                ),
            );
        }
        if let Some((user, group)) = attrs.ids {
            self.line(LogLevel::Info, format_args!("set \"{}\" owner {user} group {group}", Shown(path)));
        }
    }
}
