//! File names of host keys, and checks of host and user names: `ProxyCommand`, `Match exec` and others pass
//! them to a shell.

use std::borrow::Cow;

/// OpenSSH's host key files, in the order in which sshd looks for them.
pub const HOST_KEY_FILES: [&str; 4] = [
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_mldsa44_ed25519_key",
];

/// Error message for a host that [`host_is_safe`] refuses.
pub const BAD_HOST: &str = "hostname contains invalid characters";

/// Error message for a user that [`user_is_safe`] refuses.
pub const BAD_USER: &str = "remote username contains invalid characters";

/// The host as it stands before a colon and a port or path: an IPv6 address in brackets.
pub fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') { Cow::Owned(format!("[{host}]")) } else { Cow::Borrowed(host) }
}

/// Returns whether a shell or program cannot mistake the host name for an option or for shell syntax.
pub fn host_is_safe(host: &str) -> bool {
    let bad = |c: char| "'`\"$\\;&<>|(){}".contains(c) || c.is_whitespace() || c.is_control();
    !host.starts_with('-') && !host.contains(bad)
}

/// Returns whether no program can mistake the user name for an option, nor a shell for most of its syntax; a
/// command line may use such a name. Unlike in OpenSSH 10.6, dollar signs and backslashes are permitted,
/// because machine accounts (`HOST$`) and Windows domain accounts (`DOMAIN\user`) have them. No shell gets a
/// dollar sign ([`user_is_safe_in_shell`]).
pub fn user_is_safe(user: &str) -> bool {
    let bad = |c: char| "'`\";&<>|(){}".contains(c) || c.is_control();
    // A dash after a blank starts an option; a final backslash would quote the following text.
    let option = user.split(char::is_whitespace).any(|word| word.starts_with('-'));
    !option && !user.ends_with('\\') && !user.contains(bad)
}

/// Returns whether a shell command takes the user name literally. A backslash may be lost outside quotes,
/// which does no harm.
pub fn user_is_safe_in_shell(user: &str) -> bool {
    user_is_safe(user) && !user.contains('$')
}
