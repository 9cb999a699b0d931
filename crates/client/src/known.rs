//! Look-up in the known_hosts files, with results as [`hostkey`](crate::hostkey) types.

use std::io::ErrorKind;
use std::path::PathBuf;

use lh_crypto::{Krl, KrlError, PublicKey, Random, SystemRandom};

use crate::error::ClientError;
use crate::hostkey::{FAILED, Place, Policy, Strict, Verdict};
use crate::key_types::short_type;
use crate::known_command::{NAME, Reason};
use crate::known_hosts::{self, Entry, KnownHosts, Lookup, Marker};
use crate::log::Log;
use lh_sys::errno_text;

/// The files of a policy, read once: the user's first, then the system's.
pub(crate) struct KnownFiles {
    files: Vec<(PathBuf, KnownHosts)>,
    /// Files that exist and cannot be read, with the error's text.
    unreadable: Vec<(PathBuf, String)>,
}

impl KnownFiles {
    /// Reads all files; an unreadable one counts as empty.
    ///
    /// # Errors
    /// `KnownHostsCommand` failed (it runs here to list the known key types).
    pub(crate) fn read(policy: &Policy, log: &mut Log<'_>) -> Result<Self, ClientError> {
        let mut files = Vec::new();
        let mut unreadable = Vec::new();
        for path in policy.user_files.iter().chain(&policy.global_files) {
            match KnownHosts::read(path) {
                Ok(known) => files.push((path.clone(), known)),
                Err(error) => {
                    log.debug(|| format!("load_hostkeys: {}: {}", path.display(), errno_text(&error)));
                    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) {
                        unreadable.push((path.clone(), errno_text(&error)));
                    }
                }
            }
        }
        let mut known = Self { files, unreadable };
        if policy.checks.order {
            known.ask_command(policy, Reason::Order, &policy.name, None, log)?;
        }
        Ok(known)
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

    /// Verdict of the files and the command about the key of the policy's host.
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
            for (path, why) in &self.unreadable {
                let path = path.display();
                log.error(&format!(
                    "hostkeys_find_by_key_hostfile: hostkeys_foreach failed for {path}: {why}"
                ));
            }
        }
        Ok(verdict)
    }

    /// Names the lines for the policy's host that cannot be parsed, as OpenSSH does. One that may revoke a
    /// key of it refuses every key, because it is not known which.
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
                let text = format!("{}:{}: parse error in hostkeys file", path.display(), broken.line);
                if broken.marker == Marker::Revoked {
                    log.error(&format!("{text}, in an @revoked line for {}", policy.name));
                    return Err(ClientError::HostKey(FAILED.to_owned()));
                }
                log.debug(|| text);
            }
        }
        Ok(())
    }

    /// Verdict about the host's address, if `CheckHostIP` is set and the address is known.
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

    /// The key types known for the policy's host.
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

    /// The line that trusts this authority to sign certificates for `name`.
    pub(crate) fn authority(&self, name: &str, key: &PublicKey) -> Option<Place> {
        self.marked(Marker::CertAuthority, name, key)
    }

    /// The line that revokes the key for `name`.
    pub(crate) fn revoked(&self, name: &str, key: &PublicKey) -> Option<Place> {
        self.marked(Marker::Revoked, name, key)
    }

    fn marked(&self, marker: Marker, name: &str, key: &PublicKey) -> Option<Place> {
        self.files.iter().find_map(|(path, known)| {
            let mut about = known.about(name).filter(|entry| entry.marker == marker);
            about.find(|entry| entry.key == *key).map(|entry| place(path, entry))
        })
    }

    /// Verdict of all files together: one revocation is enough, and so is one match. If the host is new on
    /// its port, entries without a port count.
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

    /// Lines that contain this key under another name.
    fn other_names(&self, key: &PublicKey) -> Vec<Place> {
        let mut names = Vec::new();
        for (path, known) in &self.files {
            let same = known.entries().filter(|entry| entry.marker == Marker::Plain && entry.key == *key);
            names.extend(same.map(|entry| place(path, entry)));
        }
        names
    }
}

/// Checks the key against the files of `RevokedHostKeys`. A file that cannot be read or parsed refuses every
/// key, because its revocations are unknown.
pub(crate) fn check_not_revoked(
    policy: &Policy,
    key: &PublicKey,
    log: &mut Log<'_>,
) -> Result<(), ClientError> {
    for file in &policy.revoked_files {
        let (kind, fingerprint) = (short_type(key.key_type()), key.fingerprint(policy.fingerprint));
        let (name, what) = (file.display(), format!("host key {kind} {fingerprint}"));
        match std::fs::read(file)
            .map_err(RevocationsUnknown::Unreadable)
            .and_then(|bytes| is_revoked_by(&bytes, key))
        {
            Ok(false) => continue,
            Ok(true) => log.error(&format!("Host key {kind} {fingerprint} revoked by file {name}")),
            Err(why) => log.error(&format!("Error checking {what} in revoked keys file {name}: {why}")),
        }
        return Err(ClientError::HostKey(FAILED.to_owned()));
    }
    Ok(())
}

/// A revocation file whose revocations are not known.
#[derive(Debug, thiserror::Error)]
enum RevocationsUnknown {
    #[error("{}", errno_text(.0))]
    Unreadable(std::io::Error),
    /// The file of `ssh-keygen -k` is malformed.
    #[error(transparent)]
    Krl(KrlError),
    /// A line is no key: it may have been meant to revoke the one that is asked about.
    #[error("line {0}: invalid format")]
    Line(usize),
}

/// Returns true if a revocation file (key lines, or a KRL of `ssh-keygen -k`) contains the key or the
/// authority that certified it.
///
/// # Errors
/// A malformed KRL, or the number of the first invalid line: it may have been meant to revoke this key.
fn is_revoked_by(bytes: &[u8], key: &PublicKey) -> Result<bool, RevocationsUnknown> {
    if Krl::is_binary(bytes) {
        return Ok(Krl::parse(bytes).map_err(RevocationsUnknown::Krl)?.is_revoked(key));
    }
    let authority = key.certificate().map(lh_crypto::Certificate::authority);
    let text = String::from_utf8_lossy(bytes);
    let mut found = false;
    let mut broken = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        // Of lines that end with CR alone only the first would be seen.
        let runs_on = line.contains('\r');
        if line.is_empty() || (line.starts_with('#') && !runs_on) {
            continue;
        }
        let parsed = PublicKey::from_openssh_line(line);
        if let Some((revoked, _)) = &parsed {
            found |= revoked.plain() == key.plain() || Some(revoked) == authority;
        }
        if runs_on || parsed.is_none_or(|(_, comment)| known_hosts::has_second_key(&comment)) {
            broken = broken.or(Some(index + 1));
        }
    }
    match broken {
        // A key that is listed is revoked, even if other lines are invalid.
        Some(number) if !found => Err(RevocationsUnknown::Line(number)),
        _ => Ok(found),
    }
}

/// Appends the key to the user's first file and logs it. A failure is logged and has no other effect.
pub(crate) fn remember(policy: &Policy, key: &PublicKey, log: &mut Log<'_>) {
    let address = policy.address.as_deref().filter(|address| policy.checks.ip && *address != policy.name);
    let names: Vec<&str> = std::iter::once(policy.name.as_str()).chain(address).collect();
    let kind = short_type(key.key_type());
    let said =
        format!("Warning: Permanently added '{}' ({kind}) to the list of known hosts.", names.join(","));
    add(policy, &names, key, &said, log);
}

/// Appends the address of a known host to the user's first file.
pub(crate) fn remember_address(policy: &Policy, key: &PublicKey, log: &mut Log<'_>) {
    let Some(address) = policy.address.as_deref() else { return };
    let kind = short_type(key.key_type());
    let said = format!(
        "Warning: Permanently added the {kind} host key for IP address '{address}' to the list of known hosts."
    );
    add(policy, &[address], key, &said, log);
}

fn add(policy: &Policy, names: &[&str], key: &PublicKey, said: &str, log: &mut Log<'_>) {
    let Some(file) = policy.user_files.first() else { return };
    // Nothing is stored in `/dev/null`.
    if file.as_os_str() == "/dev/null" {
        return log.info(said);
    }
    make_ssh_directory(file, &policy.ssh_directory, log);
    let mut random = SystemRandom;
    let hash: Option<&mut dyn Random> = if policy.hash { Some(&mut random) } else { None };
    match known_hosts::append(file, names, key, hash) {
        Ok(()) => log.info(said),
        Err(error) => {
            log.debug(|| format!("hostkeys: {}: {}", file.display(), errno_text(&error)));
            log.info(&format!("Failed to add the host to the list of known hosts ({}).", file.display()));
        }
    }
}

/// Makes `~/.ssh` for a file in it. No other directory is made: a path may be mistyped, or its file system
/// not mounted.
fn make_ssh_directory(file: &std::path::Path, directory: &std::path::Path, log: &mut Log<'_>) {
    use std::os::unix::fs::DirBuilderExt as _;
    if file.parent() != Some(directory) || directory.exists() {
        return;
    }
    if let Err(error) = std::fs::DirBuilder::new().mode(0o700).create(directory) {
        let why = errno_text(&error);
        log.error(&format!("Could not create directory '{}' ({why}).", directory.display()));
    }
}

fn place(file: &std::path::Path, entry: &Entry) -> Place {
    Place {
        file: file.to_path_buf(),
        line: entry.line,
        key_type: entry.key.key_type().to_owned(),
        hosts: if entry.is_hashed() { "[hashed name]".to_owned() } else { entry.hosts.clone() },
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Policy;
    use crate::hostkey::Strict;
    use lh_crypto::FingerprintHash;

    /// A policy for `h.example`, port 2222, with the files `ssh/known_hosts`, `global` and `revoked` of a
    /// directory.
    pub(crate) fn policy(directory: &std::path::Path, hash: bool) -> Policy {
        Policy {
            strict: Strict::AcceptNew,
            name: "[h.example]:2222".to_owned(),
            portless: Some("h.example".to_owned()),
            principal: "h.example".to_owned(),
            ca_algorithms: vec!["ssh-ed25519".to_owned()],
            address: None,
            skip_localhost: false,
            user_files: vec![directory.join("ssh/known_hosts")],
            ssh_directory: directory.join("ssh"),
            global_files: vec![directory.join("global")],
            revoked_files: vec![directory.join("revoked")],
            hash,
            fingerprint: FingerprintHash::Sha256,
            visual: false,
            checks: crate::hostkey::Checks::default(),
            session: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::policy;
    use super::*;
    use crate::testing::FakeUi;
    use crate::ui::LogLevel;

    fn key(seed: u8) -> PublicKey {
        let mut blob = Vec::new();
        lh_wire::Writer::put_string(&mut blob, b"ssh-ed25519");
        lh_wire::Writer::put_string(&mut blob, &[seed; 32]);
        PublicKey::from_blob(&blob).expect("a public key")
    }

    #[test]
    fn stored_key_is_known_the_next_time() {
        for hash in [false, true] {
            let directory = tempfile::tempdir().expect("directory");
            let policy = policy(directory.path(), hash);
            let mut ui = FakeUi::default();
            let mut log = Log::new(&mut ui, LogLevel::Info, false);
            let before = KnownFiles::read(&policy, &mut log).expect("read");
            assert_eq!(before.look_up(&policy, &key(1)), Verdict::New { other_names: vec![] });
            remember(&policy, &key(1), &mut log);
            let after = KnownFiles::read(&policy, &mut log).expect("read");
            assert!(matches!(after.look_up(&policy, &key(1)), Verdict::Known(place) if place.line == 1));
            assert!(matches!(after.look_up(&policy, &key(2)), Verdict::Changed(_)));
            assert_eq!(after.types(&policy), ["ssh-ed25519"]);
            assert_eq!(
                ui.messages,
                ["Warning: Permanently added '[h.example]:2222' (ED25519) to the list of known hosts."]
            );
        }
    }

    #[test]
    fn a_host_known_without_its_port_is_known() {
        let directory = tempfile::tempdir().expect("directory");
        let policy = policy(directory.path(), false);
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        std::fs::write(
            directory.path().join("global"),
            format!("h.example {}\n", key(1).to_openssh_line("")),
        )
        .expect("global file");
        let known = KnownFiles::read(&policy, &mut log).expect("read");
        assert!(matches!(known.look_up(&policy, &key(1)), Verdict::Known(_)));
        // Another key says nothing about this port.
        assert!(matches!(known.look_up(&policy, &key(2)), Verdict::New { .. }));
    }

    #[test]
    fn a_key_revoked_in_one_file_is_revoked() {
        let directory = tempfile::tempdir().expect("directory");
        let policy = policy(directory.path(), false);
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        remember(&policy, &key(1), &mut log);
        let line = format!("@revoked * {}", key(1).to_openssh_line(""));
        std::fs::write(directory.path().join("global"), line).expect("global file");
        let known = KnownFiles::read(&policy, &mut log).expect("read");
        assert!(matches!(known.look_up(&policy, &key(1)), Verdict::Revoked(_)));
    }

    #[test]
    fn revocation_file_refuses_its_keys_or_all_if_unreadable() {
        let directory = tempfile::tempdir().expect("directory");
        let policy = policy(directory.path(), false);
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        assert!(check_not_revoked(&policy, &key(2), &mut log).is_err(), "the file is missing");
        let file = directory.path().join("revoked");
        std::fs::write(&file, format!("# old\n{}\n", key(1).to_openssh_line("x"))).expect("file");
        assert!(check_not_revoked(&policy, &key(2), &mut log).is_ok());
        assert!(check_not_revoked(&policy, &key(1), &mut log).is_err());
        std::fs::write(&file, b"SSHKRL\n\0").expect("file");
        assert!(check_not_revoked(&policy, &key(2), &mut log).is_err());
        assert!(ui.messages[1].contains(" revoked by file "), "{:?}", ui.messages);
    }

    #[test]
    fn a_broken_line_of_a_revocation_file_refuses_every_key() {
        let line = key(1).to_openssh_line("");
        let (start, end) = line.split_at(line.len() / 2);
        let unknown_type = {
            let mut blob = Vec::new();
            lh_wire::Writer::put_string(&mut blob, b"ssh-future");
            lh_wire::Writer::put_string(&mut blob, b"x");
            PublicKey::from_blob(&blob).expect("a blob").to_openssh_line("")
        };
        for (text, revoked_line) in [
            (format!("# wrapped\n{start}\n{end}\n"), Some(2)),
            (format!("{}\n\n  ssh-rsa AAAA\n", key(3).to_openssh_line("")), Some(3)),
            ("ssh-ed25519\n".to_owned(), Some(1)),
            // Appended to a file without a newline at its end, and line ends of another system.
            (format!("{} u@h{line}\n", key(3).to_openssh_line("")), Some(1)),
            (format!("{} u@h {start}\n", key(3).to_openssh_line("ssh-ed25519")), Some(1)),
            (
                format!("{}\n{} u@h\r{line}\r", key(4).to_openssh_line(""), key(3).to_openssh_line("")),
                Some(2),
            ),
            (format!("# list\r{line}\r"), Some(1)),
            (format!("\n  # note\n\t{unknown_type}\n"), None),
        ] {
            let directory = tempfile::tempdir().expect("directory");
            let policy = policy(directory.path(), false);
            let file = directory.path().join("revoked");
            std::fs::write(&file, &text).expect("file");
            let mut ui = FakeUi::default();
            let mut log = Log::new(&mut ui, LogLevel::Info, false);
            let result = check_not_revoked(&policy, &key(2), &mut log);
            assert_eq!(result.is_err(), revoked_line.is_some(), "{text}");
            if let Some(number) = revoked_line {
                let place = format!("in revoked keys file {}: line {number}: ", file.display());
                assert!(ui.messages[0].contains(&place), "{:?}", ui.messages);
            }
        }
    }

    #[test]
    fn a_broken_line_of_known_hosts_revokes_for_its_hosts() {
        let line = key(1).to_openssh_line("");
        let (start, end) = line.split_at(line.len() / 2);
        for (text, is_refused) in [
            (format!("@revoked h.example {start}\n{end}\n"), true),
            (format!("@revoked [h.example]:2222 {start}\n"), true),
            (format!("@revoked other.example {start}\n{end}\n"), false),
            (format!("# list\r@revoked other.example {line}\r"), true),
            (format!("h.example {start}\n"), false),
        ] {
            let directory = tempfile::tempdir().expect("directory");
            let policy = policy(directory.path(), false);
            let file = directory.path().join("global");
            std::fs::write(&file, format!("# first\n{text}")).expect("file");
            let mut ui = FakeUi::default();
            let mut log = Log::new(&mut ui, LogLevel::Debug1, false);
            let known = KnownFiles::read(&policy, &mut log).expect("read");
            let result = known.check_lines(&policy, &mut log);
            assert_eq!(result.is_err(), is_refused, "{text:?}");
            let named = format!("{}:2: parse error in hostkeys file", file.display());
            let is_named = ui.messages.iter().any(|message| message.contains(&named));
            assert_eq!(is_named, !text.starts_with("@revoked other"), "{text:?}: {:?}", ui.messages);
        }
    }

    #[test]
    fn check_host_ip_looks_up_and_stores_the_address() {
        let directory = tempfile::tempdir().expect("directory");
        let mut policy = policy(directory.path(), false);
        policy.address = Some("192.0.2.1".to_owned());
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        let mut known = KnownFiles::read(&policy, &mut log).expect("read");
        assert_eq!(known.judge_address(&policy, &key(1), &mut log).expect("judged"), None);
        policy.checks.ip = true;
        let verdict = known.judge_address(&policy, &key(1), &mut log).expect("judged");
        assert!(matches!(verdict, Some(Verdict::New { .. })));
        remember(&policy, &key(1), &mut log);
        let text = std::fs::read_to_string(&policy.user_files[0]).expect("readable");
        assert!(text.starts_with("[h.example]:2222,192.0.2.1 ssh-ed25519 "), "{text}");
        let mut known = KnownFiles::read(&policy, &mut log).expect("read");
        let verdict = known.judge_address(&policy, &key(1), &mut log).expect("judged");
        assert!(matches!(verdict, Some(Verdict::Known(_))));
    }

    #[test]
    fn key_under_another_name_is_reported() {
        let directory = tempfile::tempdir().expect("directory");
        let mut policy = policy(directory.path(), false);
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        remember(&policy, &key(1), &mut log);
        policy.name = "elsewhere".to_owned();
        let known = KnownFiles::read(&policy, &mut log).expect("read");
        let Verdict::New { other_names } = known.look_up(&policy, &key(1)) else {
            panic!("the host is not known")
        };
        assert_eq!(other_names[0].hosts, "[h.example]:2222");
    }
}
