//! `[user@]host` and `ssh://` destinations.

/// A destination on the command line: `[user@]host` or `ssh://[user@]host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The user, if the destination names one.
    pub user: Option<String>,
    /// The host; without brackets if it was a bracketed IPv6 address.
    pub host: String,
    /// The port, which only the URI form can name.
    pub port: Option<u16>,
}

/// Why a destination is invalid. `Display` is for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// No host, an empty user, a bad port or a URI with a path.
    #[error("invalid destination")]
    Malformed,
    /// The host could be taken for an option or for shell syntax.
    #[error("hostname contains invalid characters")]
    HostCharacters,
    /// The user could be taken for an option or for shell syntax.
    #[error("remote username contains invalid characters")]
    UserCharacters,
}

impl Destination {
    /// Parses either form. The last `@` separates user and host, since user names may hold one.
    ///
    /// # Errors
    /// See [`DestinationError`]. User and host are checked, because `ProxyCommand` and `Match exec` pass them
    /// to a shell.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let destination = match text.strip_prefix("ssh://") {
            Some(rest) => Self::parse_uri(rest)?,
            None => {
                let (user, host) = split_user(text)?;
                Self { user: user.map(str::to_owned), host: unbracket(host).to_owned(), port: None }
            }
        };
        if destination.host.is_empty() {
            return Err(DestinationError::Malformed);
        }
        check_host(&destination.host)?;
        if let Some(user) = &destination.user {
            check_user(user)?;
        }
        Ok(destination)
    }

    /// Parses what follows `ssh://`. A jump host's `user@host:port` has an equal form.
    pub(crate) fn parse_uri(rest: &str) -> Result<Self, DestinationError> {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('/') {
            return Err(DestinationError::Malformed);
        }
        let (user, host) = split_user(rest)?;
        let user = user
            .map(|user| percent_decode(user.split_once(';').map_or(user, |(name, _)| name).as_bytes()))
            .transpose()?
            .map(|user| String::from_utf8(user).map_err(|_| DestinationError::Malformed))
            .transpose()?;
        let (host, port) = if let Some(inner) = host.strip_prefix('[') {
            let (address, after) = inner.split_once(']').ok_or(DestinationError::Malformed)?;
            match after.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if after.is_empty() => (address, None),
                None => return Err(DestinationError::Malformed),
            }
        } else {
            match host.rsplit_once(':') {
                // Two colons without brackets: an IPv6 address without a port.
                Some((name, _)) if name.contains(':') => (host, None),
                Some((name, port)) => (name, Some(port)),
                None => (host, None),
            }
        };
        let port = match port {
            None | Some("") => None,
            Some(port) => Some(parse_port(port).ok_or(DestinationError::Malformed)?),
        };
        if host.is_empty() {
            return Err(DestinationError::Malformed);
        }
        Ok(Self { user, host: host.to_owned(), port })
    }
}

/// Parses what follows `scp://` and `sftp://`: `[user@]host[:port][/path]`. The path is percent-decoded and
/// relative to the login directory; two slashes make it absolute. Does not check whether host and user are
/// safe.
///
/// # Errors
/// [`DestinationError::Malformed`].
pub fn parse_uri_with_path(rest: &[u8]) -> Result<(Destination, Vec<u8>), DestinationError> {
    let (login, path) = match rest.iter().position(|&byte| byte == b'/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    let login = std::str::from_utf8(login).map_err(|_| DestinationError::Malformed)?;
    Ok((Destination::parse_uri(login)?, percent_decode(path)?))
}

/// Refuses hosts that could be taken for an option or for shell syntax.
///
/// # Errors
/// [`DestinationError::HostCharacters`].
pub fn check_host(host: &str) -> Result<(), DestinationError> {
    if lh_config::names::host_is_safe(host) { Ok(()) } else { Err(DestinationError::HostCharacters) }
}

/// Refuses users that could be taken for an option or for shell syntax.
///
/// # Errors
/// [`DestinationError::UserCharacters`].
pub fn check_user(user: &str) -> Result<(), DestinationError> {
    if lh_config::names::user_is_safe(user) { Ok(()) } else { Err(DestinationError::UserCharacters) }
}

/// A port to connect to: 1 to 65535, or the name of a service.
pub fn parse_port(text: &str) -> Option<u16> {
    lh_config::forward::parse_port(text).filter(|&port| port != 0)
}

fn split_user(text: &str) -> Result<(Option<&str>, &str), DestinationError> {
    match text.rsplit_once('@') {
        Some(("", _) | (_, "")) => Err(DestinationError::Malformed),
        Some((user, host)) => Ok((Some(user), host)),
        None if text.is_empty() => Err(DestinationError::Malformed),
        None => Ok((None, text)),
    }
}

/// Removes the brackets of `[::1]`.
fn unbracket(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

fn percent_decode(text: &[u8]) -> Result<Vec<u8>, DestinationError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit =
            |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).ok_or(DestinationError::Malformed);
        let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
        out.push(u8::try_from(value).ok().filter(|&b| b != 0).ok_or(DestinationError::Malformed)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(user: Option<&str>, host: &str, port: Option<u16>) -> Result<Destination, DestinationError> {
        Ok(Destination { user: user.map(str::to_owned), host: host.to_owned(), port })
    }

    #[test]
    fn plain_and_uri_destinations() {
        assert_eq!(Destination::parse("host"), parsed(None, "host", None));
        assert_eq!(Destination::parse("me@host"), parsed(Some("me"), "host", None));
        assert_eq!(Destination::parse("me@corp@host"), parsed(Some("me@corp"), "host", None));
        assert_eq!(Destination::parse("::1"), parsed(None, "::1", None));
        assert_eq!(Destination::parse("me@[::1]"), parsed(Some("me"), "::1", None));
        assert_eq!(Destination::parse("ssh://me@host:2222"), parsed(Some("me"), "host", Some(2222)));
        assert_eq!(Destination::parse("ssh://host/"), parsed(None, "host", None));
        assert_eq!(Destination::parse("ssh://a%40b;x=y@[::1]:22"), parsed(Some("a@b"), "::1", Some(22)));
    }

    #[test]
    fn uris_with_paths() {
        let place = |text: &str| parse_uri_with_path(text.as_bytes());
        let at = |port, path: &str| Ok((parsed(Some("u"), "h", port).unwrap(), path.into()));
        assert_eq!(place("u@h"), at(None, ""));
        assert_eq!(place("u@h:22//a%20b/%c3%BC"), at(Some(22), "/a b/ü"));
        for bad in ["h/%zz", "h/%+f", "h/%0", "h/%00", "h:x/", "/x", "[::1/x"] {
            assert_eq!(place(bad), Err(DestinationError::Malformed), "{bad}");
        }
    }

    #[test]
    fn refused_destinations() {
        for text in [
            "",
            "@host",
            "me@",
            "ssh://",
            "ssh://host/path",
            "ssh://host:0",
            "ssh://host:65536",
            "ssh://[::1",
        ] {
            assert_eq!(Destination::parse(text), Err(DestinationError::Malformed), "{text}");
        }
        for text in ["-oProxyCommand=x", "me@-x", "a;b", "a b", "$(x)"] {
            assert_eq!(Destination::parse(text), Err(DestinationError::HostCharacters), "{text}");
        }
        for text in ["-l@host", "a -b@host", "a`b@host", "a\\@host"] {
            assert_eq!(Destination::parse(text), Err(DestinationError::UserCharacters), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = Destination::parse(&text);
            let _ = Destination::parse(&format!("ssh://{text}"));
        }
    }
}
