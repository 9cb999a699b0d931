//! What the monitor tells the user session process about an authenticated user.

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
    /// What the key that was used allows and forces.
    pub(super) options: KeyOptions,
    /// The password is too old: nothing but changing it is allowed.
    pub(super) must_change_password: bool,
    /// By ticket: another connection of the session has logged in.
    pub(super) joined: bool,
    /// The methods and keys that authenticated the user, for the log.
    pub(super) proofs: String,
    /// What modules want the user to read.
    pub(super) said: String,
    /// Kerberos credentials that came with the login.
    pub(super) credentials: Option<Zeroizing<Vec<u8>>>,
    /// What came from PAM, where it is used.
    pub(super) inherited: Option<Inherited>,
}
