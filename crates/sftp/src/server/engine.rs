//! The engine.

use bytes::Bytes;

use super::{LogSink, Lookup, Output, ServerOptions};
use crate::fs::FileSystem;

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
    #[error("request {kind} before initialisation")]
    NotInitialised {
        /// Its type.
        kind: u8,
    },
}

/// See the module documentation.
pub struct Server {
    _fs: Box<dyn FileSystem>,
}

impl Server {
    /// A server that has not seen INIT yet. Log lines go to `log`.
    pub fn new(
        fs: Box<dyn FileSystem>,
        lookup: Box<dyn Lookup>,
        log: Box<dyn LogSink>,
        options: ServerOptions,
    ) -> Self {
        let _ = (lookup, log, options);
        Self { _fs: fs }
    }

    /// Takes bytes of the request stream, in any pieces. Nothing is done before [`Server::poll`].
    pub fn input(&mut self, data: Bytes) {
        let _ = data;
    }

    /// Serves what has arrived, as far as `output` takes the replies.
    pub fn poll(&mut self, output: &mut dyn Output) -> Result<Progress, ServerError> {
        let _ = output;
        Ok(Progress::default())
    }

    /// True when no reply waits to be sent and no request that has arrived completely waits to be served:
    /// after the client's EOF, the moment to close the channel.
    pub fn is_idle(&self) -> bool {
        true
    }

    /// Closes what is open and logs the end of the session. Dropping the server does the same.
    pub fn close(&mut self) {}
}
