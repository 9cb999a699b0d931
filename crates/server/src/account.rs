//! Checks whether an account may log in at all: shell, lock, expiry, `AllowUsers` and similar keywords.

use std::ffi::OsStr;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

use lh_config::pattern::wildcard;
use lh_config::server_table::ServerSettings;
use lh_sys::users::{self, Shadow, User};

use crate::hosts::{self, ShownIp};
use crate::user_groups;

/// The address, and the host name if known, that a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) address: IpAddr,
    /// The host name, where `UseDNS` has found one.
    pub(crate) name: Option<&'a str>,
}

impl std::fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name {
            Some(name) => f.write_str(name),
            None => ShownIp::from(self.address).fmt(f),
        }
    }
}

/// Why an account may not log in. `Display` is OpenSSH's log line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("User {user} not allowed because shell {shell} does not exist")]
    NoShell { user: String, shell: String },
    #[error("User {user} not allowed because shell {shell} is not executable")]
    ShellNotExecutable { user: String, shell: String },
    #[error("User {user} not allowed because account is locked")]
    Locked { user: String },
    #[error("Account {user} has expired")]
    Expired { user: String },
    #[error("User {user} from {from} not allowed because listed in {keyword}")]
    Listed { user: String, from: String, keyword: &'static str },
    #[error("User {user} from {from} not allowed because not listed in {keyword}")]
    NotListed { user: String, from: String, keyword: &'static str },
    #[error("User {user} from {from} not allowed because {what} listed in {keyword}")]
    Group { user: String, from: String, what: &'static str, keyword: &'static str },
    #[error("User {user} not allowed because this server runs as another user")]
    OtherUser { user: String },
}

/// Seconds in a day: shadow entries count in days.
const DAY: i64 = 86_400;

/// Checks an account, independent of the authentication method. `groups` are the names of all its groups.
/// `shadow` is `None` if the account has no entry or this process may not read it.
pub(crate) fn judge(
    user: &User,
    shadow: Option<&Shadow>,
    groups: &[String],
    settings: &ServerSettings,
    origin: Origin<'_>,
    now: i64,
) -> Result<(), Refusal> {
    let name = || user.name.clone();
    let from = || origin.to_string();
    let own = rustix::process::getuid();
    if !lh_sys::ids::is_root() && own.as_raw() != user.uid {
        return Err(Refusal::OtherUser { user: name() });
    }
    if let Some(shadow) = shadow {
        // With PAM, its account modules check the lock and the expiry.
        let pam = crate::pam_use::uses_pam(settings);
        if !pam && shadow.hash.starts_with(b"!") {
            return Err(Refusal::Locked { user: name() });
        }
        if !pam && shadow.expires.is_some_and(|day| now / DAY > day) {
            return Err(Refusal::Expired { user: name() });
        }
    }
    // Inside a chroot the shell's path names another file.
    if settings.chroot_directory.as_deref().is_none() {
        let shell = user.shell.display().to_string();
        match std::fs::metadata(&user.shell) {
            Err(_) => return Err(Refusal::NoShell { user: name(), shell }),
            Ok(file) if !file.is_file() || file.permissions().mode() & 0o111 == 0 => {
                return Err(Refusal::ShellNotExecutable { user: name(), shell });
            }
            Ok(_) => {}
        }
    }
    let lists = |patterns: &[String]| patterns.iter().any(|pattern| user_matches(user, pattern, origin));
    if lists(&settings.deny_users.0) {
        return Err(Refusal::Listed { user: name(), from: from(), keyword: "DenyUsers" });
    }
    let allow = &settings.allow_users.0;
    if !allow.is_empty() && !lists(allow) {
        return Err(Refusal::NotListed { user: name(), from: from(), keyword: "AllowUsers" });
    }
    let deny = &settings.deny_groups.0;
    if !deny.is_empty() && in_groups(groups, deny) {
        let what = "a group is";
        return Err(Refusal::Group { user: name(), from: from(), what, keyword: "DenyGroups" });
    }
    let allow = &settings.allow_groups.0;
    if !allow.is_empty() && !in_groups(groups, allow) {
        let what = "none of user's groups are";
        return Err(Refusal::Group { user: name(), from: from(), what, keyword: "AllowGroups" });
    }
    Ok(())
}

/// Returns whether the user and its origin match a `USER` or `USER@HOST` pattern.
fn user_matches(user: &User, pattern: &str, origin: Origin<'_>) -> bool {
    match pattern.rsplit_once('@') {
        Some((name, host)) => {
            wildcard(user.name.as_bytes(), name.as_bytes())
                && hosts::matches(host, origin.address, origin.name)
        }
        None => wildcard(user.name.as_bytes(), pattern.as_bytes()),
    }
}

/// Returns whether a group matches a pattern. As in OpenSSH, each pattern stands alone: `!` and commas have
/// no meaning in it.
fn in_groups(groups: &[String], patterns: &[String]) -> bool {
    let is_listed =
        |group: &String| patterns.iter().any(|pattern| wildcard(group.as_bytes(), pattern.as_bytes()));
    groups.iter().any(is_listed)
}

/// Returns the names of all groups of the user with this name; none for a missing user.
pub fn groups_of(user: &str) -> Vec<String> {
    let ids = look_up(user).and_then(|user| users::groups_of(&user).ok());
    user_groups::names_of(&ids.unwrap_or_default()).0
}

/// Returns the user with this name; `None` also where the user database cannot be read.
pub(crate) fn look_up(name: &str) -> Option<User> {
    find(name).ok().flatten()
}

/// Returns the user with this name. Names with bytes that no account has (control characters, slashes) are
/// not looked up.
///
/// # Errors
/// The user database cannot be read.
pub(crate) fn find(name: &str) -> io::Result<Option<User>> {
    let sound = !name.is_empty() && !name.contains('/') && !name.chars().any(char::is_control);
    if sound { users::by_name(OsStr::new(name)) } else { Ok(None) }
}

/// Whether the age of a password permits a login with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PasswordAge {
    /// The password is not too old.
    Good,
    /// The user must change the password before anything else.
    MustChange,
}

/// Checks the age of a password by the rules of shadow(5).
pub(crate) fn password_age(shadow: &Shadow, now: i64) -> PasswordAge {
    let today = now / DAY;
    match (shadow.last_change, shadow.max_days) {
        (Some(0), _) => PasswordAge::MustChange,
        (Some(changed), Some(days)) if changed.saturating_add(days) < today => PasswordAge::MustChange,
        _ => PasswordAge::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    fn shadow(hash: &[u8]) -> Shadow {
        Shadow {
            hash: Zeroizing::new(hash.to_vec()),
            last_change: Some(19_000),
            max_days: None,
            inactive_days: None,
            expires: None,
        }
    }

    fn root() -> User {
        users::by_uid(rustix::process::getuid().as_raw()).unwrap().unwrap()
    }

    fn origin() -> Origin<'static> {
        Origin { address: "10.1.2.3".parse().unwrap(), name: None }
    }

    fn verdict(config: &str, groups: &[&str]) -> String {
        let settings = crate::testing::settings(config);
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let user = User { name: "ada".to_owned(), ..root() };
        match judge(&user, Some(&shadow(b"$6$x$y")), &groups, &settings, origin(), 19_500 * DAY) {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn lists_of_users_and_groups() {
        assert_eq!(verdict("", &[]), "ok");
        assert_eq!(verdict("AllowUsers bob ada", &[]), "ok");
        assert_eq!(
            verdict("AllowUsers bob", &[]),
            "User ada from 10.1.2.3 not allowed because not listed in AllowUsers"
        );
        assert_eq!(verdict("AllowUsers ada@10.0.0.0/8", &[]), "ok");
        assert!(verdict("AllowUsers ada@192.168.0.0/16", &[]).contains("not listed in AllowUsers"));
        assert_eq!(
            verdict("AllowUsers *\nDenyUsers a?a", &[]),
            "User ada from 10.1.2.3 not allowed because listed in DenyUsers"
        );
        assert_eq!(verdict("AllowGroups w*", &["users", "wheel"]), "ok");
        assert_eq!(
            verdict("AllowGroups wheel", &["users"]),
            "User ada from 10.1.2.3 not allowed because none of user's groups are listed in AllowGroups"
        );
        assert_eq!(
            verdict("DenyGroups users", &["users"]),
            "User ada from 10.1.2.3 not allowed because a group is listed in DenyGroups"
        );
    }

    #[test]
    fn patterns_of_groups_know_no_exceptions() {
        let denied = "User ada from 10.1.2.3 not allowed because a group is listed in DenyGroups";
        assert_eq!(verdict("DenyGroups !wheel *", &["wheel"]), denied);
        assert_eq!(verdict("DenyGroups users,wheel", &["wheel"]), "ok");
        assert_eq!(verdict("AllowGroups !wheel *", &["wheel"]), "ok");
        assert!(verdict("AllowGroups users,wheel", &["wheel"]).contains("not allowed"));
    }

    #[test]
    fn locked_expired_and_shell_less_accounts() {
        let settings = crate::testing::settings("");
        let check = |user: &User, shadow: &Shadow| {
            judge(user, Some(shadow), &[], &settings, origin(), 19_500 * DAY).map_err(|e| e.to_string())
        };
        let user = root();
        let locked = format!("User {} not allowed because account is locked", user.name);
        assert_eq!(check(&user, &shadow(b"!")), Err(locked));
        assert_eq!(check(&user, &shadow(b"*")), Ok(()));
        let expired = Shadow { expires: Some(19_499), ..shadow(b"*") };
        assert_eq!(check(&user, &expired), Err(format!("Account {} has expired", user.name)));
        let today = Shadow { expires: Some(19_500), ..shadow(b"*") };
        assert_eq!(check(&user, &today), Ok(()));
        let shell = User { shell: "/no/such/shell".into(), ..user.clone() };
        assert!(check(&shell, &shadow(b"*")).unwrap_err().ends_with("shell /no/such/shell does not exist"));
        let shell = User { shell: "/etc/passwd".into(), ..user };
        assert!(check(&shell, &shadow(b"*")).unwrap_err().ends_with("is not executable"));
    }

    #[test]
    fn old_passwords_must_be_changed() {
        let now = 19_500 * DAY;
        assert_eq!(password_age(&shadow(b"x"), now), PasswordAge::Good);
        let zero = Shadow { last_change: Some(0), ..shadow(b"x") };
        assert_eq!(password_age(&zero, now), PasswordAge::MustChange);
        let old = Shadow { max_days: Some(90), ..shadow(b"x") };
        assert_eq!(password_age(&old, now), PasswordAge::MustChange);
        let fresh = Shadow { max_days: Some(900), ..shadow(b"x") };
        assert_eq!(password_age(&fresh, now), PasswordAge::Good);
    }

    #[test]
    fn impossible_names_are_nobody() {
        for name in ["", "../etc", "a\nb", "no-such-user-here"] {
            assert_eq!(look_up(name), None);
        }
        assert!(look_up("root").is_some());
    }
}
