//! The server engine: request bytes in, replies out, files through a [`FileSystem`].
//!
//! It owns no socket and no thread. The owner of the channel gives it what arrives ([`Server::input`]) and calls
//! [`Server::poll`] whenever something arrived or room to send appeared; `poll` says how many input bytes
//! have been used, so that credit for the channel is held back while replies cannot leave.

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
mod jobs;
mod listing;
mod log;
pub mod long_name;
mod lookup;
mod options;
mod output;
mod pace;
mod put;
mod requests;
mod state;
mod symlink;

pub use closing::OpenFiles;
pub use engine::Progress;
pub use log::{FileEvent, FileOutcome, LogLevel, LogSink, NoLog};
pub use lookup::{Lookup, SystemFiles};
pub use options::ServerOptions;
pub use output::{Backlog, Output};
pub use pace::SLOW;
pub use requests::{RequestInfo, request_table};
pub use state::{Server, ServerError};

#[cfg(doc)]
use crate::fs::FileSystem;
