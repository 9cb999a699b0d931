//! The state of one session, and what every request needs of it: replies, log lines, permissions.

use std::io;

use bytes::Bytes;
use lh_wire::Output;

use super::handles::Handles;
use super::jobs::{CheckJob, CopyJob};
use super::log::{LogLevel, LogSink};
use super::long_name::NameCache;
use super::lookup::Lookup;
use super::options::ServerOptions;
use super::pace::Pace;
use super::requests::RequestInfo;
use crate::chunks::Chunks;
use crate::fs::{FileSystem, status_of, text_of};
use crate::link_order::Known;
use crate::protocol::MAX_DATA;
use crate::{ReplyWriter, StatusCode};

/// While more than this many bytes of replies wait for the client, no further request is served.
pub(super) const MAX_PENDING: usize = 64 * 1024;

/// The client breaks the protocol. Close the channel with exit status 11, as sftp-server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// A message longer than [`crate::protocol::MAX_MESSAGE_ACCEPTED`].
    #[error("bad message: {length} bytes long")]
    TooLong {
        /// The length field.
        length: u32,
    },
    /// A message too short to have a type and an id.
    #[error("bad message: {length} bytes long")]
    TooShort {
        /// The length field.
        length: u32,
    },
    /// A request before INIT.
    #[error("received request type {kind} before initialization")]
    NotInitialised {
        /// Its type.
        kind: u8,
    },
}

/// Outcome of serving one request.
pub(super) enum Served {
    /// The request was served.
    Yes,
    /// No complete message is left.
    NeedInput,
    /// The reply cannot be sent yet.
    NeedOutput,
}

/// What `put-files@longhaul` knows of the target directory.
#[derive(Debug, Default)]
pub(super) struct Placing {
    /// The file system has no files without names.
    pub(super) named: bool,
    /// The last file replaced an existing one, so the next one may too.
    pub(super) replacing: bool,
}

/// The server of one client. The documentation of the module above says how it is driven.
pub struct Server {
    pub(super) fs: Box<dyn FileSystem>,
    pub(super) lookup: Box<dyn Lookup>,
    pub(super) names: NameCache,
    pub(super) options: ServerOptions,
    pub(super) handles: Handles,
    pub(super) copy: Option<CopyJob>,
    pub(super) check: Option<CheckJob>,
    pub(super) placing: Placing,
    /// Decides about uploads, where they are checked.
    pub(super) uploads: Option<Box<dyn super::UploadCheck>>,
    /// Order in which the client sends the strings of SYMLINK, as far as known.
    pub(super) links: Known,
    /// Extended pairs that the client wants in ATTRS (bits of [`crate::extended_attrs`]).
    pub(super) wanted: u32,
    pub(super) log: Box<dyn LogSink>,
    pub(super) input: Chunks,
    /// Bytes given to `input` since the beginning, and bytes for which credit was given.
    pub(super) received: u64,
    pub(super) credited: u64,
    /// Replies; those from `sent` on wait to be sent.
    pub(super) pending: Vec<u8>,
    pub(super) sent: usize,
    /// Requests that this call of `poll` may still serve.
    pub(super) turns: usize,
    pub(super) pace: Pace,
    /// The present request was answered with PERMISSION_DENIED, and nothing records it yet.
    pub(super) denied: bool,
    pub(super) initialised: bool,
    pub(super) closed: bool,
    pub(super) failed: Option<ServerError>,
}

impl Server {
    /// Returns a server that waits for INIT.
    pub fn new(
        fs: Box<dyn FileSystem>,
        lookup: Box<dyn Lookup>,
        log: Box<dyn LogSink>,
        options: ServerOptions,
    ) -> Self {
        let mut server = Self {
            fs,
            lookup,
            names: NameCache::default(),
            options,
            handles: Handles::default(),
            copy: None,
            check: None,
            placing: Placing::default(),
            uploads: None,
            links: Known::UNKNOWN,
            wanted: 0,
            log,
            input: Chunks::default(),
            received: 0,
            credited: 0,
            pending: Vec::new(),
            sent: 0,
            turns: 0,
            pace: Pace::default(),
            denied: false,
            initialised: false,
            closed: false,
            failed: None,
        };
        server.log_session("opened");
        server
    }

    /// Tells the server which SSH client it talks to, by the client's identification line (`SSH-2.0-…`), as
    /// far as that is known. Call before the first input.
    pub fn set_client(&mut self, identification: Option<&str>) {
        self.links = Known::of_client(identification);
    }

    /// Takes bytes of the request stream, in any pieces. Nothing is done before [`Server::poll`].
    pub fn input(&mut self, data: Bytes) {
        self.received += data.len() as u64;
        if self.failed.is_none() {
            self.input.push(data);
        }
    }

    /// A request is being served in steps.
    pub(super) const fn at_work(&self) -> bool {
        self.copy.is_some() || self.check.is_some()
    }

    /// Returns true when no reply waits to be sent and no complete request waits to be served. After the
    /// client's EOF the channel can be closed then.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.wants_files()
    }

    /// Returns true when the next [`Server::poll`] may call the file system: a request is being served in
    /// steps, or a complete request has arrived.
    pub fn wants_files(&self) -> bool {
        let mut length = [0; 4];
        let whole_message = self.input.peek(&mut length)
            && (self.input.len() - 4) as u64 >= u64::from(u32::from_be_bytes(length));
        self.at_work() || (self.failed.is_none() && whole_message)
    }

    /// Sends replies that wait.
    pub(super) fn flush(&mut self, output: &mut dyn Output) {
        while let Some(rest) = self.pending.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match output.send(rest) {
                0 => return,
                n => self.sent += n,
            }
        }
        self.pending.clear();
        // Memory for one of the largest replies is kept, so that it is not allocated for each reply.
        self.pending.shrink_to(MAX_DATA + 2 * MAX_PENDING);
        self.sent = 0;
    }

    /// Answers PERMISSION_DENIED when the administrator does not want the request.
    pub(super) fn permitted(&mut self, id: u32, info: &RequestInfo) -> bool {
        self.log_line(LogLevel::Debug, format_args!("request {id}: {}", info.name));
        if self.options.permits(info) {
            return true;
        }
        let why = if self.options.read_only && info.writes { " in read-only mode" } else { "" };
        self.log_line(LogLevel::Verbose, format_args!("refusing {} request{why}", info.name));
        self.reply_status(id, StatusCode::PERMISSION_DENIED);
        false
    }

    /// Counts the present request as `files` requests: others get their turn earlier, and it may take longer
    /// before it is slow.
    pub(super) fn served_files(&mut self, files: u32) {
        self.turns = self.turns.saturating_sub(files as usize);
        self.pace.served_files(files);
    }

    /// Returns the writer of replies.
    pub(super) const fn reply(&mut self) -> ReplyWriter<'_> {
        ReplyWriter(&mut self.pending)
    }

    /// Like [`reply`](Self::reply), for a reply that `serve` builds while it uses the server.
    pub(super) fn reply_while(&mut self, serve: impl FnOnce(&mut Self, ReplyWriter<'_>)) {
        let mut pending = std::mem::take(&mut self.pending);
        serve(self, ReplyWriter(&mut pending));
        // `serve` sends no other reply.
        pending.append(&mut self.pending);
        self.pending = pending;
    }

    pub(super) fn reply_status(&mut self, id: u32, code: StatusCode) {
        self.reply_text(id, code, code.text());
    }

    pub(super) fn reply_text(&mut self, id: u32, code: StatusCode, text: &str) {
        let level = match code {
            StatusCode::OK | StatusCode::EOF => LogLevel::Debug,
            _ => LogLevel::Info,
        };
        self.log_line(level, format_args!("sent status {text}"));
        self.denied |= code == StatusCode::PERMISSION_DENIED;
        ReplyWriter(&mut self.pending).status(id, code, text);
    }

    pub(super) fn reply_error(&mut self, id: u32, error: &io::Error) {
        self.reply_text(id, status_of(error), &text_of(error));
    }

    pub(super) fn reply_outcome(&mut self, id: u32, outcome: &io::Result<()>) {
        match outcome {
            Ok(()) => self.reply_status(id, StatusCode::OK),
            Err(error) => self.reply_error(id, error),
        }
    }

    pub(super) fn reply_bad_handle(&mut self, id: u32) {
        self.reply_text(id, StatusCode::FAILURE, "Invalid handle");
    }

    pub(super) fn log_line(&mut self, level: LogLevel, line: std::fmt::Arguments<'_>) {
        if level <= self.log.level() {
            self.log.line(level, line);
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("handles", &self.handles.count())
            .field("input", &self.input.len())
            .field("pending", &(self.pending.len() - self.sent))
            .finish_non_exhaustive()
    }
}
