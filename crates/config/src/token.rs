//! Expansion of `%h`, `${HOME}` and `~` in paths, commands and names.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::expand_error::ExpandError;
use crate::names::{host_is_safe, user_is_safe_in_shell};

/// Tokens of `ssh_config`: the letter, its value, and a note on the keywords that accept it.
///
/// Without "only" in the note, a token is accepted by `CertificateFile`, `ControlPath`, `IdentityAgent`,
/// `IdentityFile`, `Include`, `KnownHostsCommand`, `LocalCommand`, `LocalForward`, `Match exec`,
/// `RemoteCommand`, `RemoteForward`, `RevokedHostKeys`, `SetEnv`, `UserKnownHostsFile`, `VersionAddendum`,
/// and by `User` (but for %C and %r).
pub static CLIENT_TOKENS: &[(char, &str, &str)] = &[
    ('%', "a percent sign", "also Hostname, ProxyCommand and ProxyJump"),
    ('C', "hash of %l%h%p%r%j", ""),
    ('d', "the local home directory", ""),
    ('h', "the host to connect to", "also ProxyCommand and ProxyJump; in Hostname the name as typed"),
    ('i', "the local user's number", ""),
    ('j', "the value of ProxyJump, or nothing", ""),
    ('k', "HostKeyAlias, or the host as typed", ""),
    ('L', "the local host name up to the first dot", ""),
    ('l', "the local host name", ""),
    ('n', "the host as typed", "also ProxyCommand and ProxyJump"),
    ('p', "the port", "also ProxyCommand and ProxyJump"),
    ('r', "the remote user", "also ProxyCommand and ProxyJump"),
    ('u', "the local user", ""),
    ('f', "fingerprint of the host key", "only KnownHostsCommand"),
    ('H', "the name or address that is looked up", "only KnownHostsCommand"),
    ('I', "why: ADDRESS, HOSTNAME or ORDER", "only KnownHostsCommand"),
    ('K', "the host key, base64", "only KnownHostsCommand"),
    ('t', "type of the host key", "only KnownHostsCommand"),
    ('T', "the local tunnel interface, or NONE", "only LocalCommand"),
];

/// Tokens of `sshd_config`, like [`CLIENT_TOKENS`]. The third field names those of `AgentSocketPath`,
/// `AuthorizedKeysCommand`, `AuthorizedKeysFile`, `AuthorizedPrincipalsCommand`, `AuthorizedPrincipalsFile`
/// and `ChrootDirectory` that accept the token.
pub static SERVER_TOKENS: &[(char, &str, &str)] = &[
    ('%', "a percent sign", "all"),
    ('h', "the user's home directory", "all"),
    ('U', "the user's number", "all"),
    ('u', "the user's name", "all"),
    ('C', "addresses and ports of the connection", "the commands"),
    ('D', "the routing domain", "the commands"),
    ('f', "fingerprint of the key or certificate", "the commands"),
    ('k', "the key or certificate, base64", "the commands"),
    ('t', "type of the key or certificate", "the commands"),
    ('F', "fingerprint of the authority's key", "AuthorizedPrincipalsCommand"),
    ('i', "the certificate's identity", "AuthorizedPrincipalsCommand"),
    ('K', "the authority's key, base64", "AuthorizedPrincipalsCommand"),
    ('s', "the certificate's serial number", "AuthorizedPrincipalsCommand"),
    ('T', "type of the authority's key", "AuthorizedPrincipalsCommand"),
];

/// Values of `%` tokens.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    pairs: Vec<(char, String)>,
}

impl Tokens {
    /// Returns tokens with only `%%`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a token.
    #[must_use]
    pub fn with(mut self, key: char, value: impl Into<String>) -> Self {
        self.pairs.retain(|(known, _)| *known != key);
        self.pairs.push((key, value.into()));
        self
    }

    /// Returns only these tokens, for keywords that accept fewer.
    #[must_use]
    pub fn only(&self, keys: &str) -> Self {
        Self { pairs: self.pairs.iter().filter(|(key, _)| keys.contains(*key)).cloned().collect() }
    }

    /// Returns the value of a token.
    pub fn value(&self, key: char) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }

    /// Replaces `%x` by the value of `x` and `%%` by `%`.
    ///
    /// # Errors
    /// [`ExpandError::UnknownToken`] and [`ExpandError::UnfinishedToken`].
    pub fn expand(&self, text: &str) -> Result<String, ExpandError> {
        let mut out = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('%') => out.push('%'),
                Some(key) => match self.value(key) {
                    Some(value) => out.push_str(value),
                    None => return Err(ExpandError::UnknownToken(key)),
                },
                None => return Err(ExpandError::UnfinishedToken),
            }
        }
        Ok(out)
    }
}

impl Tokens {
    /// Like [`expand`](Self::expand), for a shell command: host and user must not contain shell syntax.
    ///
    /// # Errors
    /// Like `expand`, and [`ExpandError::UnsafeHost`] and [`ExpandError::UnsafeUser`].
    pub fn expand_command(&self, text: &str) -> Result<String, ExpandError> {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let token = if c == '%' { chars.next() } else { None };
            let value = token.and_then(|key| self.value(key)).unwrap_or_default();
            match token {
                Some('h' | 'n') if !host_is_safe(value) => return Err(ExpandError::UnsafeHost),
                Some('r') if !user_is_safe_in_shell(value) => return Err(ExpandError::UnsafeUser),
                _ => {}
            }
        }
        self.expand(text)
    }
}

/// Replaces `${NAME}` by the environment variable.
///
/// # Errors
/// An unset variable, an empty name, a missing brace.
pub fn expand_environment(text: &str, environment: &dyn Environment) -> Result<String, ExpandError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find('}').ok_or(ExpandError::UnclosedVariable)?;
        let name = &after[..end];
        if name.is_empty() {
            return Err(ExpandError::NamelessVariable);
        }
        let value = environment.variable(name).ok_or_else(|| ExpandError::UnsetVariable(name.to_owned()))?;
        out.push_str(&value);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Replaces a leading `~` by `own_home`, and a leading `~user` by what `home_of` returns for that user.
///
/// # Errors
/// An unknown user.
pub fn expand_tilde(
    text: &str,
    own_home: &Path,
    home_of: impl Fn(&str) -> Option<PathBuf>,
) -> Result<String, ExpandError> {
    let Some(rest) = text.strip_prefix('~') else { return Ok(text.to_string()) };
    let (user, path) = match rest.find('/') {
        Some(slash) => (&rest[..slash], &rest[slash..]),
        None => (rest, ""),
    };
    let home: PathBuf = if user.is_empty() {
        own_home.to_owned()
    } else {
        home_of(user).ok_or_else(|| ExpandError::UnknownUser(user.to_owned()))?
    };
    let home = home.to_string_lossy();
    // A lone `~` gets a slash too.
    Ok(format!("{}/{}", home.trim_end_matches('/'), path.trim_start_matches('/')))
}
