//! The server: a listener, and for each connection a session process that logs a user in and then becomes that user.
//!
//! [`serve`] listens and reads no byte from the network. For each connection it starts the program again
//! ([`SESSION_FLAG`], [`session_main`]) and hands over what it has read ([`HandOver`]): configuration and host keys.
//! That process does the key exchange and the authentication, becomes the user for good, and then serves channels.
//! Every decision that needs rights or secrets is asked of the monitor (`monitor.rs`) with values that can cross
//! a process boundary, so that the part that parses the network's bytes can be taken apart from it.

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
