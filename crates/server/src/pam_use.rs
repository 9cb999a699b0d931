//! Whether PAM decides about logins.

use lh_config::server_table::ServerSettings;

/// Whether PAM decides about logins: it is asked for, and this build loads libraries (without libpam no server starts). It does so for a server of an ordinary user too: modules have
/// helpers of their own (`unix_chkpwd`) for what only root may read.
pub(crate) fn uses_pam(settings: &ServerSettings) -> bool {
    lh_sys::pam::SUPPORTED && settings.use_pam.value
}
