//! The engine: framing, back-pressure, and the two requests that move file bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::time::Instant;

use bytes::Bytes;
use lh_wire::Reader;

use super::check::CheckJob;
use super::copy::CopyJob;
use super::handles::Handles;
use super::log::Shown;
use super::long_name::NameCache;
use super::pace::Pace;
use super::requests::{RequestInfo, info_of, request_table};
use super::{LogLevel, LogSink, Lookup, Output, ServerOptions};
use crate::chunks::Chunks;
use crate::fs::{FileSystem, status_of, text_of};
use crate::link_order::Known;
use crate::protocol::{DATA_HEADER, MAX_DATA, MAX_HANDLE, MAX_MESSAGE_ACCEPTED, VERSION};
use crate::reply::data_header;
use crate::{BadRequestKind, PacketType, ReplyWriter, Request, StatusCode, extension, in_place};

/// While more than this many bytes of replies wait for the client, no further request is served.
const MAX_PENDING: usize = 64 * 1024;

/// So many requests are served before others get their turn.
const REQUESTS_PER_POLL: usize = 256;

/// What one [`Server::poll`] achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "credit and further calls depend on it"]
pub struct Progress {
    /// Input bytes that credit may be given for now. Over a session this adds up to what was given to
    /// [`Server::input`].
    pub consumed: usize,
    /// There is work that waits for neither input nor output (a long copy, many requests): call again soon,
    /// after looking after others.
    pub more: bool,
    /// A request took longer than [`super::SLOW`]. The call returned right after it, so that one slow file delays neither the
    /// replies before it nor the owner any longer than one request does.
    pub slow: bool,
}

/// Why a server cannot go on: the client does not speak SFTP. Close the channel with exit status 11, as
/// sftp-server does.
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

/// Why serving stopped.
enum Served {
    /// It did not.
    Yes,
    /// No whole message is left.
    NeedInput,
    /// The reply has no room.
    NeedOutput,
}

/// One client's server. See the documentation of the module above for how it is driven.
pub struct Server {
    pub(super) fs: Box<dyn FileSystem>,
    pub(super) lookup: Box<dyn Lookup>,
    pub(super) names: NameCache,
    pub(super) options: ServerOptions,
    pub(super) handles: Handles,
    pub(super) copy: Option<CopyJob>,
    pub(super) check: Option<CheckJob>,
    pub(super) placing: super::put::Placing,
    /// What is known of the client's SYMLINK.
    pub(super) links: Known,
    /// Pairs that ATTRS are to have ([`crate::extended_attrs`]).
    pub(super) wanted: u32,
    pub(super) log: Box<dyn LogSink>,
    input: Chunks,
    /// Bytes given to `input` since the beginning, and those of them credit was given for.
    received: u64,
    credited: u64,
    /// Replies that wait, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    /// Requests that this call of `poll` may still serve.
    turns: usize,
    pub(super) pace: Pace,
    initialised: bool,
    pub(super) closed: bool,
    failed: Option<ServerError>,
}

impl Server {
    /// A server that has not seen INIT yet.
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
            placing: super::put::Placing::default(),
            links: Known::UNKNOWN,
            wanted: 0,
            log,
            input: Chunks::default(),
            received: 0,
            credited: 0,
            pending: Vec::new(),
            sent: 0,
            turns: 0,
            pace: Pace::new(Instant::now()),
            initialised: false,
            closed: false,
            failed: None,
        };
        server.log_session("opened");
        server
    }

    /// Tells the server which SSH client it talks to, by the client's identification line (`SSH-2.0-…`), as far as that
    /// is known. Call before the first input.
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

    /// Serves what has arrived, as far as `output` takes the replies. After an error the same error comes back
    /// for ever.
    pub fn poll(&mut self, output: &mut dyn Output) -> Result<Progress, ServerError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.flush(output);
        let mut more = false;
        let mut waiting_for_output = false;
        self.turns = REQUESTS_PER_POLL;
        self.pace.begin(Instant::now());
        let mut slow = false;
        loop {
            if self.at_work() {
                self.continue_copy();
                self.continue_check();
                slow = self.pace.end(Instant::now());
                more = self.at_work();
                if more {
                    break;
                }
            }
            if self.turns == 0 || slow {
                more = true;
                break;
            }
            self.turns -= 1;
            match self.serve_next(output) {
                Ok(Served::Yes) => slow = self.pace.end(Instant::now()),
                Ok(Served::NeedInput) => break,
                Ok(Served::NeedOutput) => {
                    waiting_for_output = true;
                    break;
                }
                Err(error) => {
                    self.failed = Some(error);
                    self.log_line(LogLevel::Error, format_args!("{error}"));
                    drop(self.close());
                    return Err(error);
                }
            }
        }
        self.flush(output);
        // What is left of the input is less than a message when the loop ran dry; otherwise the client has to
        // wait with sending until it takes its replies.
        let held = if more || waiting_for_output { self.input.len() as u64 } else { 0 };
        let used = (self.received - held).max(self.credited);
        let consumed = usize::try_from(used - self.credited).unwrap_or(usize::MAX);
        self.credited = used;
        Ok(Progress { consumed, more, slow })
    }

    /// A request is being served in steps.
    const fn at_work(&self) -> bool {
        self.copy.is_some() || self.check.is_some()
    }

    /// True when no reply waits to be sent and no request that has arrived completely waits to be served:
    /// after the client's EOF, the moment to close the channel.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.wants_files()
    }

    /// True when the next [`Server::poll`] may call the file system: a request is being served, or one has arrived
    /// completely.
    pub fn wants_files(&self) -> bool {
        let mut length = [0; 4];
        let whole_message = self.input.peek(&mut length)
            && (self.input.len() - 4) as u64 >= u64::from(u32::from_be_bytes(length));
        self.at_work() || (self.failed.is_none() && whole_message)
    }

    /// Sends what waits.
    fn flush(&mut self, output: &mut dyn Output) {
        while let Some(rest) = self.pending.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match output.send(rest) {
                0 => return,
                n => self.sent += n,
            }
        }
        self.pending.clear();
        // One of the largest replies, not to be made anew for each of many.
        self.pending.shrink_to(MAX_DATA + 2 * MAX_PENDING);
        self.sent = 0;
    }

    fn serve_next(&mut self, output: &mut dyn Output) -> Result<Served, ServerError> {
        let mut length = [0; 4];
        if !self.input.peek(&mut length) {
            return Ok(Served::NeedInput);
        }
        let length = u32::from_be_bytes(length);
        let len = length as usize;
        if len > MAX_MESSAGE_ACCEPTED {
            return Err(ServerError::TooLong { length });
        }
        if len < 5 {
            return Err(ServerError::TooShort { length });
        }
        if self.input.len() - 4 < len {
            return Ok(Served::NeedInput);
        }
        if self.pending.len() - self.sent >= MAX_PENDING {
            self.flush(output);
            if !self.pending.is_empty() {
                return Ok(Served::NeedOutput);
            }
        }
        let mut kind = [0];
        self.input.peek_at(4, &mut kind);
        let kind = PacketType(kind[0]);
        if kind == PacketType::INIT {
            self.serve_init(len);
        } else if !self.initialised {
            return Err(ServerError::NotInitialised { kind: kind.0 });
        } else if kind == PacketType::WRITE {
            self.serve_write(len);
        } else if kind == PacketType::READ {
            return Ok(self.serve_read(len, output));
        } else {
            self.input.skip(4);
            let message = self.input.take_contiguous(len);
            self.serve_message(&message);
        }
        Ok(Served::Yes)
    }

    fn serve_init(&mut self, len: usize) {
        self.input.skip(4);
        let message = self.input.take_contiguous(len);
        let mut reader = Reader::new(&message);
        let version = reader.u8().and_then(|_| reader.u32()).unwrap_or(0);
        self.log_line(LogLevel::Verbose, format_args!("received client version {version}"));
        self.initialised = true;
        let options = &self.options;
        let offered = request_table().iter().filter(|info| options.permits(info));
        let order = (extension::SYMLINK_ORDER, self.links.order().name());
        let extensions = offered.filter_map(|info| info.extension).chain([order]);
        ReplyWriter(&mut self.pending).version(VERSION, extensions);
    }

    fn serve_message(&mut self, message: &[u8]) {
        match Request::decode(message) {
            Ok((id, request)) => match info_of(&request) {
                None => {
                    if let Request::Extended { name, .. } = request {
                        self.log_line(
                            LogLevel::Info,
                            format_args!("unknown extended request \"{}\"", Shown(name)),
                        );
                    }
                    self.reply_status(id, StatusCode::OP_UNSUPPORTED);
                }
                Some(info) => {
                    if self.permitted(id, info) {
                        self.serve_request(id, &request);
                    }
                }
            },
            Err(bad) => {
                let code = match bad.kind {
                    BadRequestKind::UnknownType(kind) => {
                        self.log_line(LogLevel::Error, format_args!("unknown message {}", kind.0));
                        StatusCode::OP_UNSUPPORTED
                    }
                    BadRequestKind::Malformed => StatusCode::BAD_MESSAGE,
                };
                // A message of five bytes or more always has an id.
                self.reply_status(bad.id.unwrap_or_default(), code);
            }
        }
    }

    /// Answers PERMISSION_DENIED when the administrator does not want the request.
    fn permitted(&mut self, id: u32, info: &RequestInfo) -> bool {
        self.log_line(LogLevel::Debug, format_args!("request {id}: {}", info.name));
        if self.options.permits(info) {
            return true;
        }
        let why = if self.options.read_only && info.writes { " in read-only mode" } else { "" };
        self.log_line(LogLevel::Verbose, format_args!("refusing {} request{why}", info.name));
        self.reply_status(id, StatusCode::PERMISSION_DENIED);
        false
    }

    /// READ: the file's bytes go from the kernel to the place they are sealed in.
    fn serve_read(&mut self, len: usize, output: &mut dyn Output) -> Served {
        // Replies keep their order, so all that waits goes first; and without any room the read waits too.
        self.flush(output);
        let budget = if self.pending.is_empty() { output.budget() } else { 0 };
        if budget == 0 {
            return Served::NeedOutput;
        }
        self.input.skip(4);
        let message = self.input.take_contiguous(len);
        let (id, handle, offset, want) = match Request::decode(&message) {
            Ok((id, Request::Read { handle, offset, len })) => (id, handle, offset, len),
            Ok((id, _)) | Err(crate::BadRequest { id: Some(id), .. }) => {
                self.reply_status(id, StatusCode::BAD_MESSAGE);
                return Served::Yes;
            }
            Err(_) => return Served::Yes,
        };
        let Some(info) = request_table().iter().find(|info| info.packet_type == PacketType::READ) else {
            return Served::Yes;
        };
        if !self.permitted(id, info) {
            return Served::Yes;
        }
        let Some(open) = self.handles.file(handle) else {
            self.reply_bad_handle(id);
            return Served::Yes;
        };
        let want = (want as usize).min(MAX_DATA);
        if want == 0 {
            ReplyWriter(&mut self.pending).data(id, &[]);
            return Served::Yes;
        }
        let mut outcome = None;
        if budget >= DATA_HEADER + want {
            let file = &mut open.file;
            output.send_in_place(DATA_HEADER + want, &mut |slices| {
                in_place::lay_out(
                    slices,
                    DATA_HEADER,
                    |rest| {
                        let read = file.read_at(offset, rest);
                        let n = read.as_ref().map_or(0, |&n| n);
                        if let Some(sum) = &mut open.sum {
                            sum.add_slices(offset, rest, n);
                        }
                        outcome = Some(read);
                        n
                    },
                    |n| data_header(id, n),
                )
            });
        }
        // The window has no room for all of it: read it aside and send it as the window opens. A shorter answer
        // would be legal, but costs the client a round trip for the rest.
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                let start = self.pending.len();
                self.pending.resize(start + DATA_HEADER + want, 0);
                let mut slices = [IoSliceMut::new(self.pending.get_mut(start..).unwrap_or_default())];
                let mut read = Ok(0);
                let used = in_place::lay_out(
                    &mut slices,
                    DATA_HEADER,
                    |rest| {
                        read = open.file.read_at(offset, rest);
                        let n = read.as_ref().map_or(0, |&n| n);
                        if let Some(sum) = &mut open.sum {
                            sum.add_slices(offset, rest, n);
                        }
                        n
                    },
                    |n| data_header(id, n),
                );
                self.pending.truncate(start + used);
                read
            }
        };
        match outcome {
            Ok(0) => self.reply_status(id, StatusCode::EOF),
            Ok(n) => open.did_read(offset, n),
            Err(error) => {
                open.failed(status_of(&error));
                self.reply_error(id, &error);
            }
        }
        Served::Yes
    }

    /// WRITE: the slices of the received packets go to the kernel as they are.
    fn serve_write(&mut self, len: usize) {
        // Length, type, id, handle, offset, length of the data.
        let mut front = [0; 4 + 1 + 4 + 4 + MAX_HANDLE + 8 + 4];
        let front_len = front.len().min(4 + len);
        let front = front.get_mut(..front_len).unwrap_or_default();
        self.input.peek(front);
        let mut reader = Reader::new(front);
        let id = reader.bytes(5).and_then(|_| reader.u32()).unwrap_or_default();
        let parsed =
            (|| Ok::<_, lh_wire::WireError>((reader.string()?, reader.u64()?, reader.u32()? as usize)))();
        let header = front_len - reader.remaining();
        let (handle, offset, data_len) = match parsed {
            Ok(fields) if fields.2 <= 4 + len - header => fields,
            _ => {
                self.input.skip(4 + len);
                self.reply_status(id, StatusCode::BAD_MESSAGE);
                return;
            }
        };
        self.input.skip(header);
        let data = self.input.take(data_len);
        self.input.skip(4 + len - header - data_len);
        let Some(info) = request_table().iter().find(|info| info.packet_type == PacketType::WRITE) else {
            return;
        };
        if !self.permitted(id, info) {
            return;
        }
        let Some(open) = self.handles.file(handle) else {
            self.reply_bad_handle(id);
            return;
        };
        let mut slices: Vec<IoSlice<'_>> = data.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut slices = &mut slices[..];
        let mut done = 0;
        let mut outcome = Ok(());
        while done < data_len {
            match open.file.write_at(offset.saturating_add(done as u64), slices) {
                Ok(0) => outcome = Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    let n = n.min(data_len - done);
                    done += n;
                    IoSlice::advance_slices(&mut slices, n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => outcome = Err(error),
            }
            if outcome.is_err() {
                break;
            }
        }
        if done > 0 {
            open.did_write(offset, done);
            if outcome.is_ok() {
                open.sum_written(offset, &data, done);
            }
        }
        if let Err(error) = &outcome {
            open.failed(status_of(error));
        }
        self.reply_outcome(id, &outcome);
    }

    /// Counts the present request as `files` requests: others get their turn earlier, and it may take longer before it is
    /// slow.
    pub(super) fn served_files(&mut self, files: u32) {
        self.turns = self.turns.saturating_sub(files as usize);
        self.pace.served_files(files);
    }

    /// Where replies are written.
    pub(super) const fn reply(&mut self) -> ReplyWriter<'_> {
        ReplyWriter(&mut self.pending)
    }

    /// The same for a reply that is put together by serving.
    pub(super) fn reply_while(&mut self, serve: impl FnOnce(&mut Self, ReplyWriter<'_>)) {
        let mut pending = std::mem::take(&mut self.pending);
        serve(self, ReplyWriter(&mut pending));
        // Nothing else answers meanwhile.
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
