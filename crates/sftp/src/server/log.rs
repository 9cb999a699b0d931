//! Log lines and usage records of the engine.

use std::fmt;

use lh_wire::LogLevel;

use crate::{Attrs, OpenFlags, StatusCode};

/// Result of the use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOutcome {
    /// The client closed the file, and no read or write had failed.
    Complete,
    /// The client closed the file after this error.
    Failed(StatusCode),
    /// The check of uploads rejected the file, and the server removed it.
    Rejected,
    /// The session ended while the file was open. Data that were being written are likely incomplete.
    Abandoned,
}

/// The usage record of one file, written when it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// Number of the file within the session, as in [`LogSink::file_opened`].
    pub number: u64,
    /// The path as the client gave it.
    pub path: Vec<u8>,
    /// Flags it was opened with.
    pub flags: OpenFlags,
    /// Number of bytes read and sent.
    pub bytes_read: u64,
    /// Number of bytes written.
    pub bytes_written: u64,
    /// Lowest offset read or written. It is above 0 for a resumed transfer.
    pub start: u64,
    /// Result of the use.
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

/// The record of a request that changes names or attributes, or was denied, with its result. Data of files
/// are in [`FileEvent`]s, and failed opens in [`LogSink::file_refused`].
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// Name of the request, as `-Q requests` prints it.
    pub request: &'static str,
    /// The path as the client gave it.
    pub path: &'a [u8],
    /// The new name of a rename or hard link; the text of a symbolic link, whose own name is `path`.
    pub other: Option<&'a [u8]>,
    /// The attributes that are set.
    pub attrs: Attrs,
    /// Status code of the answer.
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
///
/// | level | lines |
/// |---|---|
/// | `Error` | errors of the session |
/// | `Info` | opened and closed files, changes, and refused requests |
/// | `Verbose` | requests that only look at paths |
/// | `Debug1` | all requests |
pub trait LogSink: Send {
    /// Returns the least important level that is logged. The engine does not format lines below it.
    fn level(&self) -> LogLevel;
    /// Logs one line, without a line end. Bytes of paths that are not printable are escaped.
    fn line(&mut self, level: LogLevel, line: fmt::Arguments<'_>);
    /// Reports that a file was opened. Its usage record follows when it is closed.
    fn file_opened(&mut self, _number: u64) {}
    /// Reports that a file was closed.
    fn file_closed(&mut self, _event: &FileEvent) {}
    /// Reports that a file or directory was renamed, by the paths that the client sent.
    fn renamed(&mut self, _old: &[u8], _new: &[u8]) {}
    /// Reports that a part file was rejected at its rename to its final name, and removed. Paths are as in
    /// [`LogSink::renamed`].
    fn rejected(&mut self, _old: &[u8], _new: &[u8]) {}
    /// Reports that a file was removed.
    fn removed(&mut self, _path: &[u8]) {}
    /// Reports that a file could not be opened.
    fn file_refused(&mut self, _path: &[u8], _flags: OpenFlags, _code: StatusCode) {}
    /// Reports that a change was made or failed, or that a request was denied.
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
