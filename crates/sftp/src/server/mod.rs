//! The server engine: takes the bytes of requests, returns replies, and uses files through a [`FileSystem`].
//!
//! It owns no socket, clock or thread. The owner of the channel passes received bytes to [`Server::input`],
//! and calls [`Server::poll`] after input and when more can be sent. `poll` returns how many input bytes have
//! been used, so that the owner gives no credit to the client while replies cannot be sent.

mod absence;
mod batch;
mod check;
mod closing;
mod copy;
mod data;
mod digest;
mod dispatch;
mod engine;
mod extended_attrs;
mod handles;
mod input;
mod jobs;
mod listing;
mod log;
pub mod long_name;
mod lookup;
mod opening;
mod operations;
mod options;
mod output;
mod pace;
mod paths;
mod put;
mod renames;
mod replies;
mod requests;
mod session_log;
mod state;
mod symlink;
mod upload_check;
mod uploads;
mod written;

pub use closing::OpenFiles;
pub use engine::Progress;
pub use lh_wire::LogLevel;
pub use log::{FileEvent, FileOutcome, LogSink, NoLog, Operation};
pub use lookup::Lookup;
pub use options::ServerOptions;
pub use output::Backlog;
pub use pace::SLOW;
pub use requests::{RequestInfo, request_table};
pub use state::{Server, ServerError};
pub use upload_check::{Upload, UploadCheck, Verdict};

#[cfg(doc)]
use crate::fs::FileSystem;
