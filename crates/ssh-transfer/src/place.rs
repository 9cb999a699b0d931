//! Parser of the places on `lhscp`'s command line: a local path, or a path on a host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use lh_client::destination::{DestinationError, check_host, check_user, parse_uri_with_path};
use lh_config::names::bracketed;

/// A host as given on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// User name, if one is given.
    pub user: Option<String>,
    /// Host name or address, without brackets.
    pub name: String,
    /// Port; only the URI form can contain one.
    pub port: Option<u16>,
}

impl Host {
    /// Returns `[user@]host:path`, as [`Place::parse`] and scp(1) read it, without the port.
    pub fn spelled(&self, path: &[u8]) -> OsString {
        let mut word = Vec::new();
        if let Some(user) = &self.user {
            word.extend_from_slice(user.as_bytes());
            word.push(b'@');
        }
        word.extend_from_slice(bracketed(&self.name).as_bytes());
        word.push(b':');
        word.extend_from_slice(if path.is_empty() { b"." } else { path });
        OsString::from_vec(word)
    }
}

/// A source or the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On this host.
    Local(OsString),
    /// On another host. A relative path starts at the login directory.
    Remote {
        /// The host.
        host: Host,
        /// The path as typed; empty for the login directory.
        path: Vec<u8>,
    },
}

/// Reason why a word is not a place. `Display` is the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The host or user is empty, or could be taken for an option or for shell syntax. OpenSSH's `scp` leaves
    /// this check to its `ssh`, so users see it as a failed connection.
    #[error("{0}")]
    Login(String),
    /// A malformed URI.
    #[error("{0}: invalid uri")]
    Uri(String),
}

impl Place {
    /// Returns true if this source stands for the contents of a directory: `.` or `tree/.`.
    pub fn is_contents(&self) -> bool {
        let path = match self {
            Self::Local(path) => path.as_bytes(),
            Self::Remote { path, .. } => path,
        };
        path == b"." || path.ends_with(b"/.")
    }

    /// Parses `path`, `[user@]host:[path]` and `scp://[user@]host[:port][/path]`.
    ///
    /// A word is local when a slash precedes the first colon, or when it starts with a colon. `./a:b` is
    /// therefore a local file whose name contains a colon. A bracketed IPv6 address may contain colons.
    ///
    /// # Errors
    /// See [`PlaceError`].
    pub fn parse(word: &OsStr) -> Result<Self, PlaceError> {
        let bytes = word.as_bytes();
        if let Some(rest) = bytes.strip_prefix(b"scp://") {
            let (at, path) =
                parse_uri_with_path(rest).map_err(|_| PlaceError::Uri(word.display().to_string()))?;
            return remote(at.user.as_deref(), &at.host, at.port, path);
        }
        let Some(colon) = colon(bytes) else { return Ok(Self::Local(word.to_owned())) };
        let (login, path) = (&bytes[..colon], &bytes[colon + 1..]);
        let login = std::str::from_utf8(login)
            .map_err(|_| PlaceError::Login(DestinationError::HostCharacters.to_string()))?;
        let (user, name) = match login.rsplit_once('@') {
            // Like scp: the user name may be an empty variable of a script.
            Some((user, name)) => (Some(user).filter(|user| !user.is_empty()), name),
            None => (None, login),
        };
        remote(user, name, None, path.to_vec())
    }

    /// Returns the host of the place; `None` for a local one.
    pub const fn host(&self) -> Option<&Host> {
        match self {
            Self::Local(_) => None,
            Self::Remote { host, .. } => Some(host),
        }
    }
}

fn remote(user: Option<&str>, name: &str, port: Option<u16>, path: Vec<u8>) -> Result<Place, PlaceError> {
    let name = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    if name.is_empty() {
        let text = "ssh: Could not resolve hostname : Name or service not known";
        return Err(PlaceError::Login(text.to_owned()));
    }
    let refused = |error: DestinationError| PlaceError::Login(error.to_string());
    check_host(name).map_err(refused)?;
    user.map_or(Ok(()), check_user).map_err(refused)?;
    let host = Host { user: user.map(str::to_owned), name: name.to_owned(), port };
    Ok(Place::Remote { host, path })
}

/// Returns the offset of the colon that ends the host part.
fn colon(bytes: &[u8]) -> Option<usize> {
    let mut bracket = bytes.first() == Some(&b'[');
    if bytes.first() == Some(&b':') {
        return None;
    }
    for (at, &byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        match byte {
            b'@' if next == Some(&b'[') => bracket = true,
            b']' if next == Some(&b':') && bracket => return Some(at + 1),
            b':' if !bracket => return Some(at),
            b'/' => return None,
            _ => {}
        }
    }
    None
}

/// Returns the bytes of a local path.
pub fn bytes(path: &OsStr) -> Vec<u8> {
    path.to_owned().into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(word: &str) -> Place {
        Place::parse(word.as_ref()).expect("a place")
    }

    fn at(user: Option<&str>, name: &str, port: Option<u16>, path: &str) -> Place {
        let host = Host { user: user.map(str::to_owned), name: name.to_owned(), port };
        Place::Remote { host, path: path.into() }
    }

    #[test]
    fn words_are_local_or_remote_as_with_scp() {
        for word in ["file", "./a:b", "/a:b", "dir/a:b", ":x", "", "-", "[::1]"] {
            assert_eq!(parsed(word), Place::Local(word.into()), "{word}");
        }
        assert_eq!(parsed("h:"), at(None, "h", None, ""));
        assert_eq!(parsed("h:a:b"), at(None, "h", None, "a:b"));
        assert_eq!(parsed("u@h:/x"), at(Some("u"), "h", None, "/x"));
        assert_eq!(parsed("u@corp@h:x"), at(Some("u@corp"), "h", None, "x"));
        assert_eq!(parsed("[::1]:x"), at(None, "::1", None, "x"));
        assert_eq!(parsed("u@[fe80::1%eth0]:~/x"), at(Some("u"), "fe80::1%eth0", None, "~/x"));
    }

    #[test]
    fn uris_name_ports_and_escape_bytes() {
        assert_eq!(parsed("scp://h"), at(None, "h", None, ""));
        assert_eq!(parsed("scp://u@h:2222/a/b"), at(Some("u"), "h", Some(2222), "a/b"));
        assert_eq!(parsed("scp://h//abs%20path"), at(None, "h", None, "/abs path"));
        assert_eq!(parsed("scp://[::1]:22/x"), at(None, "::1", Some(22), "x"));
        for bad in ["scp://", "scp://h:0/x", "scp://h:99999/x", "scp://h/%zz", "scp://[::1/x", "scp://h/%00"]
        {
            assert!(Place::parse(bad.as_ref()).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_could_be_options_or_commands_are_refused() {
        for (bad, why) in [
            ("-oProxyCommand=x:y", "hostname contains invalid characters"),
            ("a;b:x", "hostname contains invalid characters"),
            ("-l@h:x", "remote username contains invalid characters"),
            ("me@:x", "ssh: Could not resolve hostname : Name or service not known"),
        ] {
            assert_eq!(Place::parse(bad.as_ref()), Err(PlaceError::Login(why.to_owned())), "{bad}");
        }
        assert_eq!(parsed("@h:x"), at(None, "h", None, "x"));
    }
}
