//! The state of one session, and functions for every request: answers and permissions.
//!
//! Parts with their own state have their own modules: [`super::input`], [`super::replies`],
//! [`super::handles`], [`super::jobs`], [`super::pace`], [`super::session_log`]. The files with methods of
//! [`Server`] call each other in one direction only: `engine` calls `dispatch` and `data`, these call the
//! files of their requests. Those call `renames`, `opening`, `uploads` and `operations`, and all of them call
//! this file.

use std::io;

use bytes::Bytes;
use lh_wire::LogLevel;

use super::handles::Handles;
use super::input::Input;
use super::jobs::Jobs;
use super::log::LogSink;
use super::long_name::NameCache;
use super::lookup::Lookup;
use super::options::ServerOptions;
use super::pace::Pace;
use super::replies::Replies;
use super::requests::RequestInfo;
use super::session_log::SessionLog;
use super::written::ClosedParts;
use crate::fs::{FileSystem, status_of, text_of};
use crate::link_order::Known;
use crate::{ReplyWriter, StatusCode};

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
        /// Type byte of the request.
        kind: u8,
    },
}

/// Result of serving one request.
pub(super) enum Served {
    /// The request was served.
    Yes,
    /// Not served: no complete message is left.
    NeedInput,
    /// Not served: the reply cannot be sent yet.
    NeedOutput,
}

/// How far the session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client has not sent INIT.
    AwaitingInit,
    Serving,
    /// The files are closed and the end is logged; with the error if the client broke the protocol.
    Closed(Option<ServerError>),
}

/// What this session knows about its client.
pub(super) struct Client {
    /// Order in which the client sends the strings of SYMLINK.
    pub(super) links: Known,
    /// Extended pairs that the client wants in ATTRS (bits of [`crate::extended_attrs`]).
    pub(super) wanted: u32,
}

/// Knowledge about the target directory of `put-files@longhaul`.
#[derive(Debug, Default)]
pub(super) struct Placing {
    /// The file system cannot make files without names.
    pub(super) named: bool,
    /// The last file replaced an existing one, so the next one will probably do so too.
    pub(super) replacing: bool,
}

/// The server of one client. The documentation of the parent module describes its use.
pub struct Server {
    pub(super) fs: Box<dyn FileSystem>,
    pub(super) lookup: Box<dyn Lookup>,
    pub(super) names: NameCache,
    pub(super) options: ServerOptions,
    pub(super) handles: Handles,
    pub(super) closed_parts: ClosedParts,
    pub(super) jobs: Jobs,
    pub(super) placing: Placing,
    /// The check of uploads, if they are checked.
    pub(super) uploads: Option<Box<dyn super::UploadCheck>>,
    pub(super) client: Client,
    pub(super) log: SessionLog,
    pub(super) input: Input,
    pub(super) replies: Replies,
    pub(super) pace: Pace,
    pub(super) phase: Phase,
}

impl Server {
    /// Returns a server that waits for INIT.
    pub fn new(
        fs: Box<dyn FileSystem>,
        lookup: Box<dyn Lookup>,
        log: Box<dyn LogSink>,
        options: ServerOptions,
    ) -> Self {
        let mut log = SessionLog { sink: log };
        log.session("opened", &options);
        Self {
            fs,
            lookup,
            names: NameCache::default(),
            options,
            handles: Handles::default(),
            closed_parts: ClosedParts::default(),
            jobs: Jobs::default(),
            placing: Placing::default(),
            uploads: None,
            client: Client { links: Known::UNKNOWN, wanted: 0 },
            log,
            input: Input::default(),
            replies: Replies::default(),
            pace: Pace::default(),
            phase: Phase::AwaitingInit,
        }
    }

    /// Sets the identification lines (`SSH-2.0-…`) of the client and of the SSH server it talks to, as far as
    /// they are known. Call this before the first input.
    pub fn set_client(&mut self, client: Option<&str>, own: Option<&str>) {
        self.client.links = Known::of_client(client, own);
    }

    /// Takes bytes of the request stream, in pieces of any size. They are processed in [`Server::poll`].
    pub fn input(&mut self, data: Bytes) {
        match self.phase {
            Phase::AwaitingInit | Phase::Serving => self.input.push(data),
            Phase::Closed(_) => self.input.drop_unread(&data),
        }
    }

    /// Returns true when no reply waits to be sent and no complete request waits to be served. The channel
    /// can then be closed if the client has sent EOF.
    pub fn is_idle(&self) -> bool {
        self.replies.is_empty() && !self.wants_files()
    }

    /// Returns true when the next [`Server::poll`] may call the file system: a request is being served in
    /// steps, or a complete request has arrived.
    pub fn wants_files(&self) -> bool {
        self.jobs.any() || (!matches!(self.phase, Phase::Closed(_)) && self.input.has_message())
    }

    /// Returns true if the administrator allows the request. Otherwise replies with PERMISSION_DENIED.
    pub(super) fn permitted(&mut self, id: u32, info: &RequestInfo) -> bool {
        self.log.line(LogLevel::Debug1, format_args!("request {id}: {}", info.name));
        if self.options.permits(info) {
            return true;
        }
        let why = if self.options.read_only && info.writes { " in read-only mode" } else { "" };
        self.log.line(LogLevel::Verbose, format_args!("refusing {} request{why}", info.name));
        self.reply_status(id, StatusCode::PERMISSION_DENIED);
        false
    }

    /// Returns the writer of replies.
    pub(super) const fn reply(&mut self) -> ReplyWriter<'_> {
        self.replies.writer()
    }

    /// Like [`reply`](Self::reply), for a reply that `serve` builds while it uses the server.
    pub(super) fn reply_while(&mut self, serve: impl FnOnce(&mut Self, ReplyWriter<'_>)) {
        let mut pending = self.replies.take();
        serve(self, ReplyWriter(&mut pending));
        self.replies.put_back(pending);
    }

    pub(super) fn reply_status(&mut self, id: u32, code: StatusCode) {
        self.reply_text(id, code, code.text());
    }

    pub(super) fn reply_text(&mut self, id: u32, code: StatusCode, text: &str) {
        let level = match code {
            StatusCode::OK | StatusCode::EOF => LogLevel::Debug1,
            _ => LogLevel::Info,
        };
        self.log.line(level, format_args!("sent status {text}"));
        self.replies.status(id, code, text);
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
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("handles", &self.handles.count())
            .field("input", &self.input.chunks.len())
            .field("pending", &self.replies.waiting())
            .finish_non_exhaustive()
    }
}
