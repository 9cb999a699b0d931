//! The engine: framing, back-pressure, and the order in which requests are served.

use lh_wire::{LogLevel, Output, Reader};

use super::log::Shown;
use super::replies::MAX_PENDING;
use super::requests::{info_of, request_table};
use super::state::{Phase, Served, Server, ServerError};
use crate::protocol::{MAX_MESSAGE_ACCEPTED, VERSION};
use crate::{BadRequestKind, PacketType, Request, StatusCode, extension};

/// Requests that one call of [`Server::poll`] serves before other channels get their turn.
const REQUESTS_PER_POLL: usize = 256;

/// Result of one [`Server::poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "credit and further calls depend on it"]
pub struct Progress {
    /// Number of input bytes that the owner may now give the client credit for. Over a session the numbers
    /// add up to the bytes passed to [`Server::input`].
    pub consumed: usize,
    /// There is work that waits for neither input nor output (a long copy, many requests). Call `poll` again
    /// soon, after serving other channels.
    pub more: bool,
    /// A request took longer than [`super::SLOW`]. The call returned right after it, so that its duration
    /// delays the earlier replies and the owner only once.
    pub slow: bool,
}

impl Server {
    /// Serves the requests that have arrived, until `output` is full.
    ///
    /// # Errors
    /// The client breaks the protocol. Every later call returns the same error.
    pub fn poll(&mut self, output: &mut dyn Output) -> Result<Progress, ServerError> {
        if let Phase::Closed(Some(error)) = self.phase {
            return Err(error);
        }
        self.replies.flush(output);
        let mut more = false;
        let mut waiting_for_output = false;
        self.pace.begin_poll(REQUESTS_PER_POLL, self.lookup.clock());
        let mut slow = false;
        loop {
            if self.jobs.any() {
                self.continue_copy();
                self.continue_check();
                slow = self.pace.end(self.lookup.clock());
                more = self.jobs.any();
                if more {
                    break;
                }
            }
            if slow || !self.pace.take_turn() {
                more = true;
                break;
            }
            match self.serve_next(output) {
                Ok(Served::Yes) => slow = self.pace.end(self.lookup.clock()),
                Ok(Served::NeedInput) => break,
                Ok(Served::NeedOutput) => {
                    waiting_for_output = true;
                    break;
                }
                Err(error) => {
                    self.log.line(LogLevel::Error, format_args!("{error}"));
                    drop(self.close());
                    self.phase = Phase::Closed(Some(error));
                    return Err(error);
                }
            }
        }
        self.replies.flush(output);
        // If the loop served all requests, the remaining input is less than a message. Otherwise the client
        // must not send more before it reads its replies.
        let consumed = self.input.credit(more || waiting_for_output);
        Ok(Progress { consumed, more, slow })
    }

    fn serve_next(&mut self, output: &mut dyn Output) -> Result<Served, ServerError> {
        let mut length = [0; 4];
        if !self.input.chunks.peek(&mut length) {
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
        if self.input.chunks.len() - 4 < len {
            return Ok(Served::NeedInput);
        }
        if self.replies.waiting() >= MAX_PENDING {
            self.replies.flush(output);
            if !self.replies.is_empty() {
                return Ok(Served::NeedOutput);
            }
        }
        let mut kind = [0];
        self.input.chunks.peek_at(4, &mut kind);
        let kind = PacketType(kind[0]);
        if kind == PacketType::INIT {
            self.serve_init(len);
        } else if self.phase == Phase::AwaitingInit {
            return Err(ServerError::NotInitialised { kind: kind.0 });
        } else if kind == PacketType::WRITE {
            self.serve_write(len);
        } else if kind == PacketType::READ {
            return Ok(self.serve_read(len, output));
        } else {
            self.input.chunks.skip(4);
            let message = self.input.chunks.take_contiguous(len);
            self.serve_message(&message);
        }
        Ok(Served::Yes)
    }

    fn serve_init(&mut self, len: usize) {
        self.input.chunks.skip(4);
        let message = self.input.chunks.take_contiguous(len);
        let mut reader = Reader::new(&message);
        let version = reader.u8().and_then(|_| reader.u32()).unwrap_or(0);
        self.log.line(LogLevel::Verbose, format_args!("received client version {version}"));
        if self.phase == Phase::AwaitingInit {
            self.phase = Phase::Serving;
        }
        let options = &self.options;
        let offered = request_table().iter().filter(|info| options.permits(info));
        let order = (extension::SYMLINK_ORDER, self.client.links.order().name());
        let extensions = offered.filter_map(|info| info.extension).chain([order]);
        self.replies.writer().version(VERSION, extensions);
    }

    fn serve_message(&mut self, message: &[u8]) {
        match Request::decode(message) {
            Ok((id, request)) => match info_of(&request) {
                None => {
                    if let Request::Extended { name, .. } = request {
                        self.log.line(
                            LogLevel::Info,
                            format_args!("unknown extended request \"{}\"", Shown(name)),
                        );
                    }
                    self.reply_status(id, StatusCode::OP_UNSUPPORTED);
                }
                Some(info) => {
                    self.replies.denied = false;
                    let permitted = self.permitted(id, info) && self.leaves_held(id, &request);
                    if permitted {
                        self.serve_request(id, &request);
                    }
                    if self.replies.denied {
                        self.log_denied(info, &request, !permitted);
                    }
                }
            },
            Err(bad) => {
                let code = match bad.kind {
                    BadRequestKind::UnknownType(kind) => {
                        self.log.line(LogLevel::Error, format_args!("unknown message {}", kind.0));
                        StatusCode::OP_UNSUPPORTED
                    }
                    BadRequestKind::Malformed => StatusCode::BAD_MESSAGE,
                };
                // A message of five bytes or more always has an id.
                self.reply_status(bad.id.unwrap_or_default(), code);
            }
        }
    }
}
