//! Whether PAM decides about logins.

use lh_config::server_table::ServerSettings;

/// Returns whether PAM decides about logins: `UsePAM` is set, and this build loads libraries. (Without libpam
/// no such server starts.) This holds for the server of an ordinary user too: modules have helper programs
/// (`unix_chkpwd`) for files that only root may read.
pub(crate) fn uses_pam(settings: &ServerSettings) -> bool {
    lh_sys::pam::SUPPORTED && settings.use_pam.value
}
