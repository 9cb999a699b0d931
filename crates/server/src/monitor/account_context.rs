//! An account that a client wants to log in to, with what decides about its keys.

use lh_config::server_table::ServerSettings;
use lh_sys::users::User;

use super::client::Client;
use super::lookups::Lookups;

/// What is needed to look for keys and certificates of one account. The search is in `keys.rs`, which asks `certificates.rs`
/// about certificates.
#[derive(Clone, Copy)]
pub(super) struct AccountContext<'a> {
    pub(super) client: &'a Client,
    pub(super) lookups: &'a Lookups,
    pub(super) settings: &'a ServerSettings,
    pub(super) user: &'a User,
}
