//! Key files named on the command line.

use std::path::PathBuf;

use lh_config::Account;
use lh_config::token::expand_tilde;

/// Returns the warning about a missing file of `-i`, or `None` where the file exists. A missing file is left
/// out, so that the defaults are tried.
pub fn identity_warning(text: &str, account: &Account) -> Option<String> {
    // The loader expands tokens and variables later, when the configuration is known.
    if text.contains(['%', '$']) {
        return None;
    }
    let home_of = |user: &str| lh_sys::users::by_name(user.as_ref()).ok().flatten().map(|user| user.home);
    // The loader reports an unknown user later, as for a configuration file.
    let expanded = PathBuf::from(expand_tilde(text, &account.home, home_of).ok()?);
    let beside = |suffix: &str| {
        let mut name = expanded.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name).exists()
    };
    match std::fs::metadata(&expanded) {
        Ok(_) => None,
        Err(_) if beside(".pub") => None,
        Err(error) => {
            let words = lh_sys::errno_text(&error);
            Some(format!("Warning: Identity file {} not accessible: {words}.", expanded.display()))
        }
    }
}
