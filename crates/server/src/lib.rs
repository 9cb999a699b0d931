//! The server: a listener, and for each connection a session that logs a user in and then becomes that user.
//!
//! [`serve`] listens and reads none of the SSH clients' bytes. For each connection it starts the program
//! again ([`SESSION_FLAG`], [`session_main`]) and hands over what it has read ([`HandOver`]): configuration
//! and host keys. That process splits in three (`session/`). The monitor has the keys and decides
//! (`monitor.rs`). The pre-auth process serves the connection until a user has logged in. The user session
//! process then serves channels. They exchange bounded messages (`monitor_ipc/`).

mod account;
mod admission;
mod arrivals;
pub mod authorized_keys;
mod bounded_lines;
mod cert_options;
mod counters;
mod exit_status;
mod external_program;
mod facts;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grant;
mod hand_over;
mod host_key_agent;
mod host_keys;
mod hosts;
pub mod key_options;
mod listener;
mod log;
mod log_budget;
mod log_level;
mod modules;
mod monitor;
mod monitor_ipc;
mod pam_use;
mod passwords;
mod penalties;
mod preauth_ids;
mod proxy_header;
mod quotas;
mod resuming;
mod session;
mod startups;
mod strict;
mod surroundings;
#[cfg(test)]
mod testing;
mod tickets;
mod transfer_log;
mod usage;
mod user_connections;
mod user_groups;
mod user_tokens;
mod verdict;

pub use account::groups_of;
pub use hand_over::{CoreLimit, HandOver, LogTarget};
pub use host_keys::{HostKey, HostKeyError};
pub use listener::{ListenError, ListenerOptions, Restart, SESSION_FLAG, SESSION_NAME, is_restarted, serve};
pub use log::{Level, Log};
pub use log_level::debug as debug_level;
pub use preauth_ids::preauth_ids;
pub use session::{inetd, main as session_main};
pub use surroundings::{Host, default_algorithms};

use lh_config::server_table::ServerSettings;

/// Whether this build supports `UsePAM`.
pub const PAM: bool = lh_sys::pam::SUPPORTED;

/// Loads the libraries that this configuration needs, so that a missing one is reported when the server
/// starts. The processes of connections load them again when they need them.
///
/// Returns a message where only one login method is unavailable: MIT Kerberos is missing.
///
/// # Errors
/// PAM's library cannot be loaded, so no login could succeed.
pub fn load_libraries(settings: &ServerSettings) -> Result<Option<String>, String> {
    if pam_use::uses_pam(settings) {
        lh_sys::pam::load().map_err(|error| format!("UsePAM: {error}"))?;
    }
    if settings.gssapi_authentication.value
        && lh_sys::gssapi::SUPPORTED
        && let Err(error) = lh_sys::gssapi::load()
    {
        return Ok(Some(format!("GSSAPIAuthentication: {error}")));
    }
    Ok(None)
}

/// Lines for standard error about a valid configuration that cannot work; empty when it can.
pub fn contradiction(settings: &ServerSettings) -> Vec<String> {
    let set = |command: &Option<String>, user: Option<&str>| command.is_some() && user.is_none();
    if set(&settings.authorized_keys_command.0, settings.authorized_keys_command_user.as_deref()) {
        return vec!["AuthorizedKeysCommand set without AuthorizedKeysCommandUser".to_owned()];
    }
    if set(&settings.authorized_principals_command.0, settings.authorized_principals_command_user.as_deref())
    {
        return vec!["AuthorizedPrincipalsCommand set without AuthorizedPrincipalsCommandUser".to_owned()];
    }
    monitor::unsatisfiable(settings)
}
