//! `-h` and `-H`: destination constraints, with host keys from known_hosts files.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use lh_agent::{Destination, Hop, HopKey};
use lh_client::known_hosts::{BrokenLine, KnownHosts, Marker};
use lh_crypto::PublicKey;
use lh_sys::errno_text;

use crate::console::say;

/// A destination constraint that cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DestinationError {
    /// A file cannot be read.
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
    /// A malformed line may revoke a key of the host: the message about it.
    #[error("{0}")]
    MayBeRevoked(String),
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
        for file in default_files() {
            known.extend(read_default(&file)?.map(|hosts| (file, hosts)));
        }
    }
    for file in files {
        known.push((file.clone(), read(file)?));
    }
    hosts.iter().map(|text| destination(text, &known)).collect()
}

fn read(file: &Path) -> Result<KnownHosts, DestinationError> {
    KnownHosts::read_existing(file).map_err(|source| DestinationError::File { file: file.to_owned(), source })
}

/// Reads a file that need not exist. Without one that should be readable, a key that it revokes would be
/// permitted.
fn read_default(file: &Path) -> Result<Option<KnownHosts>, DestinationError> {
    match KnownHosts::read_existing(file) {
        Ok(known) => Ok(Some(known)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => Ok(None),
            ErrorKind::PermissionDenied => {
                let (file, why) = (file.display(), errno_text(&error));
                say(&format!("Cannot read hostkeys file {file}: {why}. Keys that it revokes are permitted."));
                Ok(None)
            }
            _ => Err(DestinationError::File { file: file.to_owned(), source: error }),
        },
    }
}

/// Parses `[user@]host`, or `host>[user@]host`.
fn destination(text: &str, known: &[(PathBuf, KnownHosts)]) -> Result<Destination, DestinationError> {
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

fn hop(text: &str, known: &[(PathBuf, KnownHosts)]) -> Result<Hop, DestinationError> {
    let (user, host) = text.split_once('@').unwrap_or(("", text));
    let host = host.to_ascii_lowercase();
    if host.is_empty() || (text.contains('@') && user.is_empty()) {
        return Err(DestinationError::Invalid(text.to_owned()));
    }
    for (file, hosts) in known {
        let may_revoke = |line: &BrokenLine| line.marker == Marker::Revoked && line.may_match(&host);
        if let Some(line) = hosts.broken_lines().find(may_revoke) {
            return Err(DestinationError::MayBeRevoked(line.describe_revocation(file, &host)));
        }
    }
    let entries = || known.iter().flat_map(|(_, hosts)| hosts.about(&host));
    // A revocation in one file, such as the system's, is valid for keys in all of them.
    let revoked =
        |key: &PublicKey| entries().any(|entry| entry.marker == Marker::Revoked && entry.key == *key);
    let mut keys: Vec<HopKey> = Vec::new();
    for entry in entries().filter(|entry| entry.marker != Marker::Revoked && !revoked(&entry.key)) {
        let found = HopKey { key: entry.key.clone(), is_ca: entry.marker == Marker::CertAuthority };
        if !keys.contains(&found) {
            keys.push(found);
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

    fn files<const N: usize>(texts: [&str; N]) -> Vec<(PathBuf, KnownHosts)> {
        let known = |(number, text): (usize, &str)| {
            (format!("file{number}").into(), KnownHosts::parse(text.as_bytes()))
        };
        (1..).zip(texts).map(known).collect()
    }

    fn known() -> Vec<(PathBuf, KnownHosts)> {
        let text = format!(
            "a,b.example {KEY}\n@cert-authority *.example {KEY}\n[c]:2222 {KEY}\nd {KEY}\n@revoked d {KEY}\n"
        );
        files([&text])
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

    #[test]
    fn revocations_of_any_file_count() {
        let own = format!("a {KEY}\nb {KEY}\n");
        let refused =
            |system: &str, host| destination(host, &files([&own, system])).expect_err(host).to_string();
        assert_eq!(refused(&format!("@revoked * {KEY}\n"), "a"), "No host keys found for destination \"a\"");
        let broken = format!("# list\n@revoked a {}\n@Revoked b {KEY}\n", &KEY[..40]);
        assert_eq!(refused(&broken, "a"), "file2:2: parse error in hostkeys file, in an @revoked line for a");
        assert!(refused(&broken, "b").starts_with("file2:3: invalid marker in hostkeys file"));
        assert!(destination("b", &files([&own, &broken.replace("@Revoked b", "@Revoked c")])).is_ok());
    }

    #[test]
    fn default_files_that_fail_are_errors() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("file");
        assert!(read_default(&file).expect("none").is_none());
        assert!(read_default(directory.path()).expect("no file").is_none());
        std::fs::write(&file, "").expect("file");
        assert!(read_default(&file).expect("read").is_some());
        assert!(read_default(&file.join("x")).expect("no file").is_none());
        assert!(read_default(Path::new("/proc/self/mem")).is_err());
    }
}
