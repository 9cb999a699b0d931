//! An account that a client wants to log in to, with what the checks of its keys need.

use lh_config::server_table::ServerSettings;
use lh_sys::users::User;

use super::client::Client;
use super::lookups::Lookups;

/// The inputs of the search for an account's keys and certificates. `keys.rs` searches; `certificates.rs`
/// checks certificates.
#[derive(Clone, Copy)]
pub(super) struct AccountContext<'a> {
    pub(super) client: &'a Client,
    pub(super) lookups: &'a Lookups,
    pub(super) settings: &'a ServerSettings,
    pub(super) user: &'a User,
}
