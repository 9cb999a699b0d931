//! `ssh_config` and `sshd_config`: keyword tables and loaders that parse the files exactly as OpenSSH does.
//!
//! One row per keyword ([`client_table`], [`server_table`]) defines the typed field, the parser, the default,
//! the dump and the documentation, so they cannot disagree. The loaders record the origin of each value. This
//! crate depends on no other crate of the workspace and on no cryptography: [`Environment`] provides
//! variables, command results, hashes and algorithm names.
//!
//! - [`client::load`] loads the client's configuration for one destination; [`token`] expands `%h` and other
//!   tokens.
//! - [`server::ServerConfig::load`] loads the server's; [`server::ServerConfig::for_connection`] applies
//!   `Match` blocks.

pub mod accounting;
mod algorithm_kind;
pub mod algorithms;
pub mod cidr;
pub mod client;
pub mod client_table;
mod criteria_words;
mod dialect;
pub mod enums;
mod environment;
mod error;
mod expand_error;
pub mod forward;
pub mod include;
pub mod line;
mod match_error;
pub mod names;
pub mod network;
mod note;
pub mod pattern;
pub mod server;
pub mod server_table;
pub mod server_values;
mod services;
pub mod special;
pub mod table;
pub mod token;
pub mod units;
pub mod value;
mod value_error;

pub use client::ClientConfig;
pub use environment::{Account, CommandFailure, Environment};
pub use error::{ConfigError, ConfigFault};
pub use expand_error::ExpandError;
pub use note::Note;
pub use server::{BadFact, ConnectionFacts, ServerConfig};
pub use table::{Keyword, Origin, Setting, Status};
pub use value_error::{Bound, Part, Syntax, ValueError, ValueFault};
