//! `ssh_config` and `sshd_config`: what may be configured, read exactly as OpenSSH reads it.
//!
//! One row per keyword ([`client_table`], [`server_table`]) gives the typed field, the parser, the default, the dump and the
//! documentation, so they cannot disagree. The readers keep where each value came from. This crate links no other of ours and no
//! cryptography: what it must know from outside (environment, commands, hashes, algorithm names) comes through
//! [`Environment`].
//!
//! - [`client::load`] reads the client's configuration for one destination; [`token`] expands `%h` and friends.
//! - [`server::ServerConfig::load`] reads the server's; [`server::ServerConfig::for_connection`] applies `Match` blocks.

pub mod accounting;
pub mod algorithms;
pub mod cidr;
pub mod client;
pub mod client_table;
pub mod enums;
mod environment;
mod error;
pub mod forward;
pub mod include;
pub mod line;
pub mod names;
pub mod network;
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

pub use client::ClientConfig;
pub use environment::{Account, Environment};
pub use error::ConfigError;
pub use server::{ConnectionFacts, ServerConfig};
pub use table::{Keyword, Origin, Setting, Status};
