//! The destination: `[user@]host[:path]` or `sftp://[user@]host[:port][/path]`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use lh_client::destination::{DestinationError, check_host, check_user, parse_uri_with_path};

/// Why a word is no destination, by what OpenSSH's `sftp` prints after the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlaceError {
    /// The usage text; `None` if that is all.
    Usage(Option<&'static str>),
    /// `Connection closed`: its `ssh` refuses the name.
    Login(DestinationError),
}

/// A destination on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) user: Option<String>,
    /// Without brackets.
    pub(crate) host: String,
    /// Only the URI form names one.
    pub(crate) port: Option<u16>,
    /// Directory to start in, or file to fetch.
    pub(crate) path: Option<Vec<u8>>,
}

impl Place {
    /// Understands a destination.
    ///
    /// # Errors
    /// See [`PlaceError`].
    pub(crate) fn parse(word: &OsStr) -> Result<Self, PlaceError> {
        let bytes = word.as_bytes();
        match bytes.strip_prefix(b"sftp://") {
            Some(rest) => {
                let (at, path) = parse_uri_with_path(rest).map_err(|_| PlaceError::Usage(None))?;
                checked(at.user.as_deref(), &at.host, at.port, Some(&path))
            }
            None => {
                let (login, path) = match colon(bytes) {
                    Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
                    None => (bytes, None),
                };
                let login = std::str::from_utf8(login)
                    .map_err(|_| PlaceError::Login(DestinationError::HostCharacters))?;
                let (user, host) = match login.rsplit_once('@') {
                    Some((user, host)) => (Some(user), host),
                    None => (None, login),
                };
                checked(user, host, None, path)
            }
        }
    }
}

fn checked(
    user: Option<&str>,
    host: &str,
    port: Option<u16>,
    path: Option<&[u8]>,
) -> Result<Place, PlaceError> {
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err(PlaceError::Usage(Some("Missing hostname")));
    }
    check_host(host).map_err(PlaceError::Login)?;
    if let Some(user) = user {
        if user.is_empty() {
            return Err(PlaceError::Usage(Some("Missing username")));
        }
        check_user(user).map_err(PlaceError::Login)?;
    }
    let path = path.filter(|path| !path.is_empty()).map(<[u8]>::to_vec);
    Ok(Place { user: user.map(str::to_owned), host: host.to_owned(), port, path })
}

/// Returns the end of the host part: the first colon outside of brackets.
fn colon(bytes: &[u8]) -> Option<usize> {
    let host = bytes.iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    // A user name holds no colon before the at sign; one after a colon belongs to the path.
    let first = bytes.iter().position(|&byte| byte == b':');
    if first.is_some_and(|first| first < host) {
        return first;
    }
    if bytes.get(host) == Some(&b'[') {
        let close = host + bytes[host..].iter().position(|&byte| byte == b']')?;
        return (bytes.get(close + 1) == Some(&b':')).then_some(close + 1);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(user: Option<&str>, host: &str, port: Option<u16>, path: Option<&str>) -> Place {
        Place { user: user.map(str::to_owned), host: host.to_owned(), port, path: path.map(Into::into) }
    }

    #[test]
    fn destinations_are_sftp_s() {
        for (word, expected) in [
            ("h", at(None, "h", None, None)),
            ("u@h", at(Some("u"), "h", None, None)),
            ("u@corp@h:x:y", at(Some("u@corp"), "h", None, Some("x:y"))),
            ("h:a@b:c", at(None, "h", None, Some("a@b:c"))),
            ("h:", at(None, "h", None, None)),
            ("[::1]", at(None, "::1", None, None)),
            ("u@[::1]:/x y", at(Some("u"), "::1", None, Some("/x y"))),
            ("sftp://h", at(None, "h", None, None)),
            ("sftp://h/", at(None, "h", None, None)),
            ("sftp://u@h:2222/a%20b", at(Some("u"), "h", Some(2222), Some("a b"))),
            ("sftp://[::1]:22//etc", at(None, "::1", Some(22), Some("/etc"))),
        ] {
            assert_eq!(Place::parse(word.as_ref()), Ok(expected), "{word}");
        }
        for bad in ["", "@h", "u@", "-oX=y", "a;b", "sftp://", "sftp://h:0", "sftp://h:x/", "sftp://h/%zz"] {
            assert!(Place::parse(bad.as_ref()).is_err(), "{bad}");
        }
    }
}
