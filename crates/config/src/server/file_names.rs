//! Names of files in `sshd_config`: made absolute when they are loaded, as in sshd, because the listener and
//! the processes of connections change their directory.

use crate::environment::Environment;
use crate::line::Arguments;
use crate::token::expand_tilde;

/// Keywords whose values are such names. `AuthorizedKeysFile` and the like are relative to the user's home.
const KEYWORDS: &[&str] = &[
    "Banner",
    "HostCertificate",
    "HostKey",
    "HostKeyAgent",
    "ModuliFile",
    "PidFile",
    "RevokedKeys",
    "TrustedUserCAKeys",
    "XAuthLocation",
];

/// Returns the value of `keyword` with absolute names; `None` if it has none to change.
///
/// # Errors
/// A message: an unknown user after `~`, or no current directory.
pub(super) fn absolute(
    keyword: &str,
    args: &Arguments,
    environment: &dyn Environment,
) -> Result<Option<String>, String> {
    if !KEYWORDS.contains(&keyword) {
        return Ok(None);
    }
    let words = args.clone().remaining();
    let is_name = |word: &str| {
        !word.is_empty()
            && !word.starts_with('/')
            && !word.eq_ignore_ascii_case("none")
            && (keyword != "HostKeyAgent" || word != "SSH_AUTH_SOCK")
    };
    if !words.iter().any(|word| is_name(word)) {
        return Ok(None);
    }
    let mut out = Vec::new();
    for word in words {
        let name = if is_name(&word) { absolute_name(&word, environment)? } else { word };
        out.push(format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    Ok(Some(out.join(" ")))
}

fn absolute_name(name: &str, environment: &dyn Environment) -> Result<String, String> {
    let name = match environment.own_home() {
        Some(home) if name.starts_with('~') => {
            expand_tilde(name, &home, |user| environment.home_of(user)).map_err(|error| error.to_string())?
        }
        _ => name.to_owned(),
    };
    let path = std::path::absolute(&name).map_err(|error| format!("{name}: {error}"))?;
    path.into_os_string().into_string().map_err(|path| format!("{}: not UTF-8", path.display()))
}
