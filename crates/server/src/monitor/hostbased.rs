//! Host-based authentication (RFC 4252 section 9): the client's host vouches for its user.
//!
//! Three conditions must hold: known_hosts has the host's key under its name, the signature is right, and a
//! file of the system or the user (`rhosts.rs`) trusts that host's user. The host's name comes from the
//! resolver, or from the client with `HostbasedUsesNameFromPacketOnly`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use lh_auth::server::HostBasedAttempt;
use lh_crypto::{CertificateKind, PublicKey};
use lh_known_hosts::{KnownHosts, Lookup, Marker};
use lh_sys::time::now_unix;

use super::account_context::AccountContext;
use super::candidate::Candidate;
use super::client::Client;
use super::fingerprints::describe;
use super::keys::usable_key;
use super::lookups::{Lookups, Unreadable};
use super::revoked::Revocation;
use super::rhosts::{self, Rules};
use crate::bounded_lines::{BoundedLines, MOST_SELECTED};
use crate::hosts::shown_ip;
use crate::log::{debug, error, info, shown_name, verbose};
use crate::resuming::ClientHost;
use crate::strict::UserFile;

/// System files with the keys of hosts.
const SYSTEM_FILES: [&str; 2] = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"];
/// Files with the keys of hosts, relative to the user's home directory.
const USER_FILES: [&str; 2] = [".ssh/known_hosts", ".ssh/known_hosts2"];

/// Longest line of a known_hosts file, bytes: a key and a few hundred names of its host.
const LONGEST_LINE: usize = 64 * 1024;

/// Returns whether the attempt proves that the client's user may log in as the candidate.
pub(super) fn host_right(
    client: &Client,
    lookups: &Lookups,
    candidate: &Candidate,
    attempt: &HostBasedAttempt,
) -> bool {
    let settings = &candidate.settings;
    let accepted = ("HostbasedAcceptedAlgorithms", &settings.hostbased_accepted_algorithms.value);
    let key = usable_key(settings, &attempt.key, &attempt.algorithm, accepted, &client.log);
    let (Some(key), Some(user)) = (key, &candidate.user) else { return false };
    let account = AccountContext { client, lookups, settings, user };
    if lookups.revocation(settings, &key) != Revocation::No || !account.host_may(&client_host(attempt), &key)
    {
        return false;
    }
    let signed = attempt.request().signed_data(&client.session_id, candidate.name.as_bytes());
    match key.verify(&attempt.algorithm, &signed, &attempt.signature) {
        Ok(()) => true,
        Err(problem) => {
            debug!(client.log, "host-based signature for user {}: {problem}", user.name);
            false
        }
    }
}

/// Returns what the client says of its host.
pub(super) fn client_host(attempt: &HostBasedAttempt) -> ClientHost {
    ClientHost { name: attempt.host.clone(), user: attempt.local_user.clone() }
}

impl AccountContext<'_> {
    /// Returns whether the client's user may log in as this user, and the key is the client host's.
    pub(super) fn host_may(&self, host: &ClientHost, key: &PublicKey) -> bool {
        let Self { client, settings, user, .. } = *self;
        let said = host.name.strip_suffix('.').unwrap_or(&host.name);
        let address = shown_ip(client.peer).to_string();
        let from_packet = settings.hostbased_uses_name_from_packet_only.value;
        let resolved = client.host_name.as_deref().unwrap_or(&address);
        if !from_packet && !resolved.eq_ignore_ascii_case(said) {
            info!(
                client.log,
                "userauth_hostbased mismatch: client sends {}, but we resolve {address} to {resolved}",
                shown_name(said)
            );
        }
        let (name, address) = if from_packet { (said, said) } else { (resolved, address.as_str()) };
        let rules = Rules {
            name,
            address,
            client_user: &host.user,
            user,
            strict: settings.strict_modes.value,
            ignore: settings.ignore_rhosts.value,
        };
        if !rhosts::allow(&rules, &client.log) {
            debug!(client.log, "rhosts refused user \"{}\" host \"{name}\"", host.user);
            return false;
        }
        if !self.is_key_of(name, key) {
            return false;
        }
        let (client_user, what) = (&host.user, describe(settings, key));
        match key.certificate() {
            Some(certificate) => verbose!(
                client.log,
                "Accepted certificate ID \"{}\" signed by {} from {client_user}@{name}",
                certificate.key_id(),
                describe(settings, certificate.authority())
            ),
            None => verbose!(client.log, "Accepted public key {what} from {client_user}@{name}"),
        }
        true
    }

    /// Returns whether known_hosts has this key, or the authority of this certificate, for the host.
    fn is_key_of(&self, name: &str, key: &PublicKey) -> bool {
        let Self { client, lookups, settings, user } = *self;
        if let Some(certificate) = key.certificate() {
            let now = u64::try_from(now_unix()).unwrap_or(0);
            if let Err(problem) = certificate.check(CertificateKind::Host, name, now, &[]) {
                error!(client.log, "{problem}");
                return false;
            }
        }
        let name = lh_known_hosts::name(name, 22);
        // A file that cannot be read may revoke any key, so no key is accepted.
        let mut files = match system_lines(&SYSTEM_FILES.map(Path::new), &name) {
            Ok(files) => files,
            Err((path, problem)) => {
                let (path, why) = (path.display(), lh_sys::errno_text(&problem));
                error!(
                    client.log,
                    "Cannot read hostkeys file {path}: {why}. It may revoke the key of {name}."
                );
                return false;
            }
        };
        if !settings.ignore_user_known_hosts.value {
            for file in USER_FILES {
                let path = user.home.join(file);
                let read =
                    |file: &UserFile<'_>| file.read_by(|file| HostLines::read(path.clone(), file, &name));
                match lookups.read_user_file(settings, user, "known hosts", &path, read) {
                    Ok(lines) => files.extend(lines),
                    Err(Unreadable) => return false,
                }
            }
        }
        // A line that was not checked, or a broken one, may have revoked any key, so no key of the host is
        // accepted.
        for HostLines { path, unchecked, .. } in &files {
            if let Some(line) = unchecked {
                error!(
                    client.log,
                    "{}:{line}: the line is too long, or too many are about {name}",
                    path.display()
                );
                return false;
            }
        }
        if let Some(fault) = broken_revocation(&files, &name) {
            error!(client.log, "{fault}");
            return false;
        }
        let authority = key.certificate().map(lh_crypto::Certificate::authority);
        let revoked = |known: &KnownHosts, key: &PublicKey| {
            known.about(&name).any(|entry| entry.marker == Marker::Revoked && entry.key == *key)
        };
        for each in [Some(key.plain()), authority].into_iter().flatten() {
            if files.iter().any(|file| revoked(&file.known, each)) {
                error!(client.log, "WARNING: revoked key for {name} attempted authentication");
                return false;
            }
        }
        files.iter().any(|file| match authority {
            Some(authority) => file.known.authorities(&name).iter().any(|entry| entry.key == *authority),
            None => matches!(file.known.lookup_name(&name, key), Lookup::Match(_)),
        })
    }
}

/// The lines of a known_hosts file about one host. A user may write a file of millions of lines, and each
/// unauthenticated connection for that user would have it in memory.
struct HostLines {
    path: PathBuf,
    known: KnownHosts,
    /// Number of the first line that was not checked, because it is too long, or too many before it are about
    /// the host.
    unchecked: Option<usize>,
}

impl HostLines {
    /// Reads the lines about `name`, in the form of [`lh_known_hosts::name`].
    fn read(path: PathBuf, file: impl BufRead, name: &str) -> io::Result<Self> {
        let mut lines = BoundedLines::new(file, LONGEST_LINE);
        let (mut known, mut size) = (KnownHosts::default(), 0);
        while let Some(line) = lines.next_line()? {
            if !line.is_too_long && known.add_line_about(name, line.number, line.bytes) {
                size += line.bytes.len();
            }
            if line.is_too_long || size > MOST_SELECTED {
                return Ok(Self { path, known, unchecked: Some(line.number) });
            }
        }
        Ok(Self { path, known, unchecked: None })
    }
}

/// Returns the lines about `name` in the system's files. Fails with the first file that exists and cannot be
/// read.
fn system_lines<'a>(paths: &[&'a Path], name: &str) -> Result<Vec<HostLines>, (&'a Path, io::Error)> {
    let mut files = Vec::new();
    for path in paths {
        match File::open(path).and_then(|file| HostLines::read(path.into(), BufReader::new(file), name)) {
            Ok(lines) => files.push(lines),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
            Err(problem) => return Err((path, problem)),
        }
    }
    Ok(files)
}

/// Returns the message about the first invalid line that may have been meant to revoke a key of `name`.
fn broken_revocation(files: &[HostLines], name: &str) -> Option<String> {
    files.iter().find_map(|file| {
        let mut lines = file.known.broken_lines();
        let line = lines.find(|broken| broken.marker == Marker::Revoked && broken.may_match(name))?;
        Some(line.describe_revocation(&file.path, name))
    })
}

/// Reads a known_hosts file about one host: what is found of it is what the whole file says.
#[cfg(fuzzing)]
pub(super) fn fuzz(bytes: &[u8]) {
    let blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20abcdefghijklmnopqrstuvwxyz012345";
    let key = PublicKey::from_blob(blob).expect("a key");
    let name = "client.example";
    let lines = HostLines::read("known_hosts".into(), bytes, name).expect("memory can be read");
    if lines.unchecked.is_none() {
        let all = KnownHosts::parse(bytes);
        let says =
            |known: &KnownHosts| format!("{:?}", (known.lookup_name(name, &key), known.authorities(name)));
        assert_eq!(says(&lines.known), says(&all));
        let whole = HostLines { path: lines.path.clone(), known: all, unchecked: None };
        assert_eq!(broken_revocation(&[lines], name), broken_revocation(&[whole], name));
    }
}

#[cfg(test)]
mod tests {
    use lh_crypto::{KeyType, PrivateKey};

    use super::*;

    fn lines(path: &str, text: &str) -> HostLines {
        HostLines::read(path.into(), text.as_bytes(), "h").unwrap()
    }

    #[test]
    fn broken_revocations_are_found_for_their_hosts() {
        let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
        let line = key.public().to_openssh_line("");
        let (start, end) = line.split_at(line.len() / 2);
        for (text, number) in [
            (format!("@revoked h {start}\n{end}\n"), Some(2)),
            (format!("@revoked other {start}\n{end}\n"), None),
            (format!("@revoked other {start}{end}@revoked h {start}{end}\n"), Some(2)),
            (format!("# list\r@revoked other {start}{end}\r"), Some(2)),
            (format!("@revoked h {start}{end}\n"), None),
            (format!("h {start}\n"), None),
            (format!("@Revoked * {start}{end}\n"), Some(2)),
            (format!("@revoke *,!h {start}{end}\n"), None),
            (format!("@revoked\u{a0}other {start}{end}\n"), Some(2)),
        ] {
            let files =
                [("a", ""), ("b", &*format!("# first\n{text}"))].map(|(path, text)| lines(path, text));
            let found = broken_revocation(&files, "h");
            let place = number.map(|number| format!("b:{number}: "));
            let is_named =
                found.as_ref().zip(place.as_ref()).is_some_and(|(fault, at)| fault.starts_with(at));
            assert!(is_named || (found.is_none() && place.is_none()), "{text:?}: {found:?}");
        }
    }

    #[test]
    fn a_file_of_the_system_that_cannot_be_read_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let [absent, present] = ["absent", "present"].map(|name| directory.path().join(name));
        std::fs::write(&present, "# nothing\n").unwrap();
        let paths = |second| [present.as_path(), second];
        assert_eq!(system_lines(&paths(&absent), "h").unwrap().len(), 1);
        let unreadable = Path::new("/proc/self/mem");
        let (path, problem) = system_lines(&paths(unreadable), "h").map(|_| ()).unwrap_err();
        assert_eq!((path, problem.kind() == io::ErrorKind::NotFound), (unreadable, false));
    }

    #[test]
    fn a_user_s_file_that_cannot_be_read_is_not_empty() {
        let lookups = Lookups::new(crate::log::Log::lines(crate::log::Level::Info));
        let home = tempfile::tempdir().unwrap();
        let user = lh_sys::users::current().unwrap().unwrap();
        let user = lh_sys::users::User { home: home.path().to_owned(), ..user };
        let settings = crate::testing::settings("");
        let path = home.path().join("known_hosts");
        let read = || {
            let lines = |file: &UserFile<'_>| file.read_by(|file| HostLines::read(path.clone(), file, "h"));
            lookups.read_user_file(&settings, &user, "known hosts", &path, lines).map(|lines| lines.is_some())
        };
        assert_eq!(read(), Ok(false));
        let file = File::create(&path).unwrap();
        assert_eq!(read(), Ok(true));
        file.set_len((64 << 20) + 1).unwrap();
        assert_eq!(read(), Err(Unreadable));
        // Links to /dev/null are usual.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert_eq!(read(), Ok(false));
    }

    #[test]
    fn only_lines_about_the_host_are_kept() {
        let line = PrivateKey::generate(KeyType::Ed25519, None).unwrap().public().to_openssh_line("");
        let line = line.trim_end();
        let others: String = (0..1000).map(|number| format!("other{number} {line}\n")).collect();
        let file = lines("a", &format!("{others}h {line}\n{others}*,!other* {line}"));
        let numbers: Vec<_> = file.known.entries().map(|entry| entry.line).collect();
        assert_eq!((numbers, file.unchecked), (vec![1001, 2002], None));
    }

    #[test]
    fn what_cannot_be_checked_is_named() {
        let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
        let line = key.public().to_openssh_line("");
        let (line, comment) = (line.trim_end(), "x".repeat(LONGEST_LINE));
        assert_eq!(
            lines("a", &format!("h {line}\n@revoked h {line} {comment}\nh {line}\n")).unchecked,
            Some(2)
        );
        let line = format!("h {line} {}\n", "x".repeat(LONGEST_LINE / 2));
        let file = lines("a", &line.repeat(10 * MOST_SELECTED / line.len()));
        assert!(file.unchecked.is_some());
        assert!(file.known.entries().count() * line.len() <= MOST_SELECTED + line.len());
    }
}
