//! Log lines and usage records of the engine.

use std::fmt;

use crate::{Attrs, OpenFlags, StatusCode};

/// How important a line is; sftp-server(8) logs `Info` and above when given `-l INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something is wrong with the session.
    Error,
    /// Files opened and closed, changes made, requests refused.
    Info,
    /// Paths looked at.
    Verbose,
    /// Every request.
    Debug,
}

/// How the use of a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOutcome {
    /// The client closed it and no read or write had failed.
    Complete,
    /// The client closed it after this error.
    Failed(StatusCode),
    /// The check of uploads has rejected it, and it was removed.
    Rejected,
    /// The session ended while it was open: what was being written is likely incomplete.
    Abandoned,
}

/// The usage record of one file, made when it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// Number of the file within the session, as in [`LogSink::file_opened`].
    pub number: u64,
    /// The path as the client gave it.
    pub path: Vec<u8>,
    /// How it was opened.
    pub flags: OpenFlags,
    /// Bytes read and sent.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// The lowest offset read or written: above 0 for a transfer that was resumed.
    pub start: u64,
    /// How it ended.
    pub outcome: FileOutcome,
}

impl FileEvent {
    /// Returns the record of a file that has just been opened.
    pub(super) fn new(number: u64, path: &[u8], flags: OpenFlags) -> Self {
        Self {
            number,
            path: path.to_vec(),
            flags,
            bytes_read: 0,
            bytes_written: 0,
            start: u64::MAX,
            outcome: FileOutcome::Complete,
        }
    }
}

/// A request that changes names or attributes, or that was denied, with its outcome. (Data of files and opens that
/// fail are [`FileEvent`]s and [`LogSink::file_refused`].)
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// The request's name, as `-Q requests` prints it.
    pub request: &'static str,
    /// The path as the client gave it.
    pub path: &'a [u8],
    /// The new name of a rename or hard link; the text of a symbolic link, whose own name is `path`.
    pub other: Option<&'a [u8]>,
    /// The attributes that are set.
    pub attrs: Attrs,
    /// The answer.
    pub status: StatusCode,
}

impl<'a> Operation<'a> {
    /// Returns an operation that concerns one path and has succeeded.
    pub(super) const fn new(request: &'static str, path: &'a [u8]) -> Self {
        Self { request, path, other: None, attrs: Attrs::NONE, status: StatusCode::OK }
    }

    /// Adds a second path.
    pub(super) const fn and(self, other: &'a [u8]) -> Self {
        Self { other: Some(other), ..self }
    }

    /// Adds the attributes that are set.
    pub(super) const fn setting(self, attrs: Attrs) -> Self {
        Self { attrs, ..self }
    }
}

/// Takes log lines and usage records. The sink adds time stamps.
pub trait LogSink: Send {
    /// The least important level wanted; lines beyond it are not even formatted.
    fn level(&self) -> LogLevel;
    /// One line, without a line end. Bytes of paths that are not printable are escaped.
    fn line(&mut self, level: LogLevel, line: fmt::Arguments<'_>);
    /// A file was opened; its usage record follows when it is closed.
    fn file_opened(&mut self, _number: u64) {}
    /// A file was closed.
    fn file_closed(&mut self, _event: &FileEvent) {}
    /// A file or directory was renamed, by the paths that the client gave.
    fn renamed(&mut self, _old: &[u8], _new: &[u8]) {}
    /// A part file was rejected when it was to get its final name, and was removed; paths are as in
    /// [`LogSink::renamed`].
    fn rejected(&mut self, _old: &[u8], _new: &[u8]) {}
    /// A file was removed.
    fn removed(&mut self, _path: &[u8]) {}
    /// A file could not be opened.
    fn file_refused(&mut self, _path: &[u8], _flags: OpenFlags, _code: StatusCode) {}
    /// A change was made or has failed, or a request was denied.
    fn operation(&mut self, _operation: &Operation<'_>) {}
}

/// Drops all log lines.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLog;

impl LogSink for NoLog {
    fn level(&self) -> LogLevel {
        LogLevel::Error
    }
    fn line(&mut self, _level: LogLevel, _line: fmt::Arguments<'_>) {}
}

/// Prints a path with control characters escaped, so that a log line stays one line and cannot control a
/// terminal.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.0.utf8_chunks() {
            for character in piece.valid().chars() {
                if lh_wire::is_hidden(character) || character == '"' || character == '\\' {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            for byte in piece.invalid() {
                write!(f, "\\{byte:03o}")?;
            }
        }
        Ok(())
    }
}
