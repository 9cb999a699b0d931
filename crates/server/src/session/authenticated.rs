//! An authenticated user, as the monitor describes it to the user session process.

use lh_config::server_table::ServerSettings;
use lh_sys::ids::Ids;
use lh_sys::users::User;
use zeroize::Zeroizing;

use super::pam_holder::Inherited;
use crate::key_options::KeyOptions;

/// An authenticated user, and the rules for the session.
pub(super) struct Login {
    pub(super) user: User,
    pub(super) ids: Ids,
    /// The configuration with the `Match` blocks of this user applied.
    pub(super) settings: ServerSettings,
    /// Options of the key that was used.
    pub(super) options: KeyOptions,
    /// The password is too old: the session may only change it.
    pub(super) must_change_password: bool,
    /// The login was by ticket: another connection of the session has logged in.
    pub(super) joined: bool,
    /// Proofs of the user's identity: methods and keys, for the log.
    pub(super) proofs: String,
    /// Messages of PAM's modules for the user.
    pub(super) said: String,
    /// Kerberos credentials that the client delegated at the login.
    pub(super) credentials: Option<Zeroizing<Vec<u8>>>,
    /// The open PAM session, where PAM is used.
    pub(super) inherited: Option<Inherited>,
}
