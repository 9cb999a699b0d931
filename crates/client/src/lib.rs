//! `ssh` as a library: what `lhssh` and `lhscp` share, from the command line to a running channel.
//!
//! [`connect()`] takes a resolved configuration and a [`UserInterface`] and returns a [`Client`]. It reaches
//! the host (directly, through a command or through jump hosts), verifies its key and logs the user in. All
//! messages on the way (questions, warnings, the final "Permission denied") are made here, in OpenSSH's
//! words, because scripts match them; the caller decides where they are shown.
//!
//! The calling thread does everything. Handshake and authentication are blocking steps over the sans-IO state
//! machines, since nothing else can happen meanwhile; then the session runs in the driver's event loop. Only
//! a jump host needs a thread or process of its own, because two connections run at once.

pub mod agent;
mod agent_forward;
mod algorithms;
mod carrier;
mod client;
mod commands;
mod connect;
pub mod destination;
mod dial;
mod error;
pub mod escape;
mod failure;
pub mod farewell;
mod fdpass;
pub mod forward;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handshake;
mod host_certificate;
mod hostkey;
mod identity;
mod information;
pub mod key_file;
mod key_types;
mod known;
mod known_command;
mod log;
mod login;
mod login_setup;
mod metrics;
pub mod mux;
mod options;
mod path_check;
mod pending;
mod proxy;
mod race;
mod reach;
pub mod resolve;
mod resumable;
mod resume;
mod resumptions;
mod service_quality;
mod session;
mod shared;
mod sshfp;
mod syslog;
#[cfg(test)]
mod testing;
mod ticket;
mod ui;
mod unencrypted;
mod update_host_keys;
mod x11;

pub use agent_forward::AgentForward;
pub use algorithms::default_algorithms;
pub use client::Client;
pub use commands::Commands;
pub use connect::{connect, connect_unauthenticated, log_configuration};
pub use destination::Destination;
pub use error::{ClientError, ConnectionLoss};
pub use forward::Forwards;
pub use handshake::{NEWKEYS, remote_debug};
pub use information::connection_information;
pub use lh_known_hosts as known_hosts;
pub use log::{LogTarget, Logger, sanitise};
pub use login_setup::public_keys;
pub use options::{Options, Purpose, SystemEnvironment, UnknownUid, local_account, user_shell};
pub use proxy::{open_failed, open_failure_words};
pub use resume::{AttemptFailure, ResumeLimit};
pub use resumptions::Resumptions;
pub use session::{Pty, RefusedHandler, SessionChannel, SessionNote, SessionSetup, Start, answer_by_default};
pub use shared::{connect_or_share, connect_or_share_unauthenticated};
pub use syslog::Syslog;
pub use ticket::{TICKET_REQUEST, Ticket};
pub use ui::{LogLevel, Notice, Permission, Progress, Secret, UserInterface};
pub use update_host_keys::HostKeyUpdate;
pub use x11::{X11Forward, X11Request};
