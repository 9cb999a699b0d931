//! Key files named on the command line.

use std::path::PathBuf;

use lh_config::Account;

/// Warning about a missing file of `-i`, which is then left out, so that the defaults are tried. `None` where
/// the file exists.
pub fn identity_warning(text: &str, account: &Account) -> Option<String> {
    // Tokens and variables are expanded later, when the configuration is known.
    if text.contains(['%', '$']) {
        return None;
    }
    let expanded = match text.strip_prefix("~/") {
        Some(rest) => account.home.join(rest),
        None => PathBuf::from(text),
    };
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
            Some(format!("Warning: Identity file {text} not accessible: {words}."))
        }
    }
}
