//! The names of host keys, and which host and user names are fit for commands: `ProxyCommand`, `Match exec` and others hand them to a shell.

/// The host keys of an installed OpenSSH, in the order in which sshd looks for them.
pub const HOST_KEY_FILES: [&str; 4] = [
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_mldsa44_ed25519_key",
];

/// What is said about a host for which [`host_is_safe`] does not hold.
pub const BAD_HOST: &str = "hostname contains invalid characters";

/// What is said about a user for whom [`user_is_safe`] does not hold.
pub const BAD_USER: &str = "remote username contains invalid characters";

/// Whether a host name can be taken neither for an option nor for shell syntax.
pub fn host_is_safe(host: &str) -> bool {
    let bad = |c: char| "'`\"$\\;&<>|(){}".contains(c) || c.is_whitespace() || c.is_control();
    !host.starts_with('-') && !host.contains(bad)
}

/// Whether a user name can be taken neither for an option nor for shell syntax.
pub fn user_is_safe(user: &str) -> bool {
    let bad = |c: char| "'`\";&<>|(){}".contains(c) || c.is_control();
    // A blank before a dash starts an option; a final backslash would quote what follows.
    let option = user.split(char::is_whitespace).any(|word| word.starts_with('-'));
    !option && !user.ends_with('\\') && !user.contains(bad)
}
