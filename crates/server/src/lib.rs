//! The server: a listener, and for each connection a session that logs a user in and then becomes that user.
//!
//! [`serve`] listens and reads no byte from the network. For each connection it starts the program again
//! ([`SESSION_FLAG`], [`session_main`]) and hands over what it has read ([`HandOver`]): configuration and host keys.
//! That process splits in three (`session/`): the monitor, which has the keys and decides (`monitor.rs`); the cage, which
//! talks with whoever has connected until somebody has logged in; and the user's process, which serves channels. They
//! talk in values with bounds (`questions.rs`).

mod account;
pub mod authorized_keys;
mod facts;
mod grant;
mod hand_over;
mod host_keys;
mod hosts;
pub mod key_options;
mod listener;
mod log;
mod monitor;
mod passwords;
mod questions;
mod session;
mod startups;
mod strict;
mod surroundings;
#[cfg(test)]
mod testing;

pub use hand_over::{HandOver, LogTarget};
pub use host_keys::{DEFAULT_FILES, HostKey, HostKeyError};
pub use listener::{ListenError, ListenerOptions, SESSION_FLAG, serve};
pub use log::{Level, Log};
pub use session::{inetd, main as session_main};
pub use surroundings::{Host, default_algorithms};
