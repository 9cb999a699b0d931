//! Look-up in the known_hosts files, with results as [`hostkey`](crate::hostkey) types.

mod remember;
mod revocations;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use lh_crypto::PublicKey;
use lh_sys::errno_text;
use rustix::io::Errno;

use crate::error::ClientError;
use crate::hostkey::{FAILED, Place, Policy, Strict, Verdict};
use crate::known_command::{NAME, Reason};
use crate::known_hosts::{Entry, KnownHosts, Lookup, Marker};
use crate::log::Log;

pub(crate) use remember::{remember, remember_address};
pub(crate) use revocations::check_not_revoked;

/// The files of a policy, read once: the user's first, then the system's.
pub(crate) struct KnownFiles {
    files: Vec<(PathBuf, KnownHosts)>,
    unreadable: Vec<Unreadable>,
}

/// A file that cannot be read, so that it is unknown which keys it revokes.
struct Unreadable {
    path: PathBuf,
    why: String,
    hides: Hides,
}

/// What is behind a path that cannot be read.
#[derive(PartialEq, Eq)]
enum Hides {
    /// Nothing: no file can be there.
    Nothing,
    /// A file that this user may not read. It stays that way, and OpenSSH's users work with such a file (the
    /// administrator's, one that `sudo ssh` has made, one in a home directory without a ticket), so it ends
    /// no connection.
    Forbidden,
    /// A file that should be readable: it is too large, or the disk, the network or the memory fails.
    Failure,
}

impl Unreadable {
    /// Returns `None` for a file that counts as empty.
    fn new(path: &Path, error: &io::Error) -> Option<Self> {
        let hides = match error.kind() {
            ErrorKind::NotFound | ErrorKind::IsADirectory => return None,
            ErrorKind::PermissionDenied => Hides::Forbidden,
            _ if NO_FILE.map(Some).contains(&Errno::from_io_error(error)) => Hides::Nothing,
            _ => Hides::Failure,
        };
        Some(Self { path: path.to_owned(), why: errno_text(error), hides })
    }
}

/// Errors of paths at which no file can be.
const NO_FILE: [Errno; 3] = [Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG];

impl KnownFiles {
    /// Reads all files. [`check_files`](Self::check_files) has what follows from unreadable ones.
    ///
    /// # Errors
    /// `KnownHostsCommand` failed (it runs here to list the known key types).
    pub(crate) fn read(policy: &Policy, log: &mut Log<'_>) -> Result<Self, ClientError> {
        let mut known = Self::read_by(KnownHosts::read, policy, log);
        if policy.checks.order {
            known.ask_command(policy, Reason::Order, &policy.name, None, log)?;
        }
        Ok(known)
    }

    fn read_by(read: impl Fn(&Path) -> io::Result<KnownHosts>, policy: &Policy, log: &mut Log<'_>) -> Self {
        let mut files = Vec::new();
        let mut unreadable = Vec::new();
        for path in policy.user_files.iter().chain(&policy.global_files) {
            match read(path) {
                Ok(known) => files.push((path.clone(), known)),
                Err(error) => {
                    log.debug(|| format!("load_hostkeys: {}: {}", path.display(), errno_text(&error)));
                    unreadable.extend(Unreadable::new(path, &error));
                }
            }
        }
        Self { files, unreadable }
    }

    /// Checks that no file exists that should be readable and is not: it may revoke any key.
    ///
    /// # Errors
    /// There is such a file; it has been shown.
    pub(crate) fn check_files(&self, policy: &Policy, log: &mut Log<'_>) -> Result<(), ClientError> {
        match self.unreadable.iter().find(|file| file.hides == Hides::Failure) {
            Some(Unreadable { path, why, .. }) if !policy.skip_localhost => {
                let (path, name) = (path.display(), &policy.name);
                log.error(&format!(
                    "Cannot read hostkeys file {path}: {why}. It may revoke the key of {name}."
                ));
                Err(ClientError::HostKey(FAILED.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Warns of the files that this user may not read.
    pub(crate) fn warn_of_forbidden(&self, log: &mut Log<'_>) {
        for Unreadable { path, why, .. } in
            self.unreadable.iter().filter(|file| file.hides == Hides::Forbidden)
        {
            let path = path.display();
            log.error(&format!(
                "Cannot read hostkeys file {path}: {why}. Keys that it revokes are accepted."
            ));
        }
    }

    /// Replaces the lines of `KnownHostsCommand` with those of a new run.
    fn ask_command(
        &mut self,
        policy: &Policy,
        reason: Reason,
        name: &str,
        key: Option<&PublicKey>,
        log: &mut Log<'_>,
    ) -> Result<(), ClientError> {
        if let Some(command) = &policy.checks.command {
            let lines = command.run(reason, name, key, log)?;
            self.files.retain(|(path, _)| !path.to_string_lossy().starts_with(NAME));
            self.files.push((PathBuf::from(format!("{NAME}{}", reason.word())), lines));
        }
        Ok(())
    }

    /// Returns the result for the key of the policy's host, from the files and the command.
    ///
    /// # Errors
    /// `KnownHostsCommand` failed.
    pub(crate) fn judge(
        &mut self,
        policy: &Policy,
        key: &PublicKey,
        log: &mut Log<'_>,
    ) -> Result<Verdict, ClientError> {
        self.ask_command(policy, Reason::HostName, &policy.name, Some(key), log)?;
        if policy.checks.command.is_some() {
            self.check_lines(policy, log)?;
        }
        let verdict = self.look_up(policy, key);
        if matches!(verdict, Verdict::New { .. }) && policy.strict == Strict::Ask {
            for Unreadable { path, why, .. } in &self.unreadable {
                let path = path.display();
                log.error(&format!(
                    "hostkeys_find_by_key_hostfile: hostkeys_foreach failed for {path}: {why}"
                ));
            }
        } else {
            self.warn_of_forbidden(log);
        }
        Ok(verdict)
    }

    /// Reports the lines for the policy's host that cannot be parsed, as OpenSSH does. A broken line that may
    /// revoke a key of the host refuses every key, because it is unknown which one is meant.
    ///
    /// # Errors
    /// There is such a line; it has been shown.
    pub(crate) fn check_lines(&self, policy: &Policy, log: &mut Log<'_>) -> Result<(), ClientError> {
        let address = policy.address.as_ref().filter(|_| policy.checks.ip);
        let names = [Some(&policy.name), policy.portless.as_ref(), address];
        for (path, known) in &self.files {
            for broken in known.broken_lines() {
                if !names.into_iter().flatten().any(|name| broken.may_match(name)) {
                    continue;
                }
                if broken.marker == Marker::Revoked {
                    log.error(&broken.describe_revocation(path, &policy.name));
                    return Err(ClientError::HostKey(FAILED.to_owned()));
                }
                log.debug(|| broken.describe(path));
            }
        }
        Ok(())
    }

    /// Returns the result for the host's address, if `CheckHostIP` is set and the address is known.
    ///
    /// # Errors
    /// `KnownHostsCommand` failed.
    pub(crate) fn judge_address(
        &mut self,
        policy: &Policy,
        key: &PublicKey,
        log: &mut Log<'_>,
    ) -> Result<Option<Verdict>, ClientError> {
        let Some(address) = policy.address.as_deref().filter(|address| *address != policy.name) else {
            return Ok(None);
        };
        if !policy.checks.ip {
            return Ok(None);
        }
        self.ask_command(policy, Reason::Address, address, Some(key), log)?;
        if policy.checks.command.is_some() {
            self.check_lines(policy, log)?;
        }
        let at_address = Policy { name: address.to_owned(), portless: None, ..policy.clone() };
        Ok(Some(self.look_up(&at_address, key)))
    }

    /// Returns the key types known for the policy's host.
    pub(crate) fn types(&self, policy: &Policy) -> Vec<String> {
        self.files.iter().flat_map(|(_, known)| known.key_types(&policy.name)).collect()
    }

    /// True if an authority is known that may certify the policy's host.
    pub(crate) fn has_authority(&self, policy: &Policy) -> bool {
        let names = [Some(&policy.name), policy.portless.as_ref()];
        names
            .into_iter()
            .flatten()
            .any(|name| self.files.iter().any(|(_, known)| !known.authorities(name).is_empty()))
    }

    /// Returns the line that trusts this authority to sign certificates for `name`.
    pub(crate) fn authority(&self, name: &str, key: &PublicKey) -> Option<Place> {
        self.marked(Marker::CertAuthority, name, key)
    }

    /// Returns the line that revokes the key for `name`.
    pub(crate) fn revoked(&self, name: &str, key: &PublicKey) -> Option<Place> {
        self.marked(Marker::Revoked, name, key)
    }

    fn marked(&self, marker: Marker, name: &str, key: &PublicKey) -> Option<Place> {
        self.files.iter().find_map(|(path, known)| {
            let mut about = known.about(name).filter(|entry| entry.marker == marker);
            about.find(|entry| entry.key == *key).map(|entry| place(path, entry))
        })
    }

    /// Returns the result of all files together: one revocation is enough, and so is one match. If the host
    /// is new on its port, entries without a port count.
    pub(crate) fn look_up(&self, policy: &Policy, key: &PublicKey) -> Verdict {
        let verdict = self.look_up_as(&policy.name, key);
        if let (Verdict::New { .. }, Some(name)) = (&verdict, &policy.portless)
            && let known @ (Verdict::Known(_) | Verdict::Revoked(_)) = self.look_up_as(name, key)
        {
            return known;
        }
        verdict
    }

    fn look_up_as(&self, name: &str, key: &PublicKey) -> Verdict {
        let mut verdict = None;
        for (path, known) in &self.files {
            match known.lookup_name(name, key) {
                Lookup::Revoked(entry) => return Verdict::Revoked(place(path, entry)),
                Lookup::Match(entry) if !matches!(verdict, Some(Verdict::Known(_))) => {
                    verdict = Some(Verdict::Known(place(path, entry)));
                }
                Lookup::Changed(entry) if verdict.is_none() => {
                    verdict = Some(Verdict::Changed(place(path, entry)));
                }
                _ => {}
            }
        }
        verdict.unwrap_or_else(|| Verdict::New { other_names: self.other_names(key) })
    }

    /// Returns the lines that contain this key under another name.
    fn other_names(&self, key: &PublicKey) -> Vec<Place> {
        let mut names = Vec::new();
        for (path, known) in &self.files {
            let same = known.entries().filter(|entry| entry.marker == Marker::Plain && entry.key == *key);
            names.extend(same.map(|entry| place(path, entry)));
        }
        names
    }
}

fn place(file: &Path, entry: &Entry) -> Place {
    Place {
        file: file.to_path_buf(),
        line: entry.line,
        key_type: entry.key.key_type().to_owned(),
        hosts: if entry.is_hashed() { "[hashed name]".to_owned() } else { entry.hosts.clone() },
    }
}
