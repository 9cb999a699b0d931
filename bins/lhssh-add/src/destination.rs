//! `-h` and `-H`: destination constraints, with host keys from known_hosts files.

use std::io;
use std::path::{Path, PathBuf};

use lh_agent::{Destination, Hop, HopKey};
use lh_client::known_hosts::{KnownHosts, Marker};
use lh_crypto::PublicKey;
use lh_sys::errno_text;

/// A destination constraint that cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DestinationError {
    /// A file of `-H` cannot be read.
    #[error("{}: {}", .file.display(), errno_text(.source))]
    File { file: PathBuf, source: io::Error },
    /// The first host, with its user.
    #[error("Invalid key constraint {0}: cannot specify user on 'from' host")]
    UserInFrom(String),
    #[error("Invalid key destination constraint \"{0}\": does not specify user or host")]
    Invalid(String),
    /// No file knows the host, or every key of it is revoked.
    #[error("No host keys found for destination \"{0}\"")]
    NoKeys(String),
}

/// Files to read when `-H` names none.
fn default_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(home) = lh_sys::users::home() {
        files.extend(["known_hosts", "known_hosts2"].map(|name| home.join(".ssh").join(name)));
    }
    files.extend(["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"].map(PathBuf::from));
    files
}

/// Parses the values of `-h`.
///
/// # Errors
/// A file cannot be read, or a host is invalid or not known.
pub(crate) fn constraints(hosts: &[String], files: &[PathBuf]) -> Result<Vec<Destination>, DestinationError> {
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = Vec::new();
    if files.is_empty() {
        known.extend(default_files().iter().filter_map(|file| KnownHosts::read_existing(file).ok()));
    }
    for file in files {
        known.push(read(file)?);
    }
    hosts.iter().map(|text| destination(text, &known)).collect()
}

fn read(file: &Path) -> Result<KnownHosts, DestinationError> {
    KnownHosts::read_existing(file).map_err(|source| DestinationError::File { file: file.to_owned(), source })
}

/// Parses `[user@]host`, or `host>[user@]host`.
fn destination(text: &str, known: &[KnownHosts]) -> Result<Destination, DestinationError> {
    match text.split_once('>') {
        None => Ok(Destination { from: Hop::default(), to: hop(text, known)? }),
        Some((from, to)) => {
            let start = hop(from, known)?;
            if !start.user.is_empty() {
                return Err(DestinationError::UserInFrom(from.to_owned()));
            }
            Ok(Destination { from: start, to: hop(to, known)? })
        }
    }
}

fn hop(text: &str, known: &[KnownHosts]) -> Result<Hop, DestinationError> {
    let (user, host) = text.split_once('@').unwrap_or(("", text));
    let host = host.to_ascii_lowercase();
    if host.is_empty() || (text.contains('@') && user.is_empty()) {
        return Err(DestinationError::Invalid(text.to_owned()));
    }
    let mut keys: Vec<HopKey> = Vec::new();
    for file in known {
        let revoked = |key: &PublicKey| {
            file.about(&host).any(|entry| entry.marker == Marker::Revoked && entry.key == *key)
        };
        for entry in file.about(&host).filter(|entry| entry.marker != Marker::Revoked && !revoked(&entry.key))
        {
            let found = HopKey { key: entry.key.clone(), is_ca: entry.marker == Marker::CertAuthority };
            if !keys.contains(&found) {
                keys.push(found);
            }
        }
    }
    if keys.is_empty() {
        return Err(DestinationError::NoKeys(host));
    }
    Ok(Hop { user: user.to_owned(), host, keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn known() -> Vec<KnownHosts> {
        let text = format!(
            "a,b.example {KEY}\n@cert-authority *.example {KEY}\n[c]:2222 {KEY}\nd {KEY}\n@revoked d {KEY}\n"
        );
        vec![KnownHosts::parse(text.as_bytes())]
    }

    #[test]
    fn destination_hosts_get_their_keys() {
        let plain = destination("me@A", &known()).expect("known");
        assert_eq!(plain.from, Hop::default());
        assert_eq!((plain.to.user.as_str(), plain.to.host.as_str()), ("me", "a"));
        assert_eq!(plain.to.keys.iter().map(|key| key.is_ca).collect::<Vec<_>>(), [false]);
        let way = destination("[c]:2222>b.example", &known()).expect("known");
        assert_eq!((way.from.host.as_str(), way.to.host.as_str()), ("[c]:2222", "b.example"));
        assert_eq!(way.to.keys.iter().map(|key| key.is_ca).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn unknown_revoked_and_invalid_hosts_are_refused() {
        for (bad, words) in [
            ("unknown", "No host keys found for destination \"unknown\""),
            ("d", "No host keys found for destination \"d\""),
            ("me@a>b.example", "Invalid key constraint me@a: cannot specify user on 'from' host"),
            ("", "Invalid key destination constraint \"\": does not specify user or host"),
            ("@a", "Invalid key destination constraint \"@a\": does not specify user or host"),
            ("a>", "Invalid key destination constraint \"\": does not specify user or host"),
        ] {
            assert_eq!(destination(bad, &known()).expect_err(bad).to_string(), words);
        }
    }
}
