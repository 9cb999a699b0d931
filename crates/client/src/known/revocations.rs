//! `RevokedHostKeys`: files whose keys are refused.

use lh_crypto::{Krl, KrlError, PublicKey};
use lh_sys::errno_text;

use crate::error::ClientError;
use crate::hostkey::{FAILED, Policy};
use crate::key_types::short_type;
use crate::known_hosts;
use crate::log::Log;

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

/// Error: the revocations in a file are unknown.
#[derive(Debug, thiserror::Error)]
enum RevocationsUnknown {
    #[error("{}", errno_text(.0))]
    Unreadable(std::io::Error),
    /// The key revocation list of `ssh-keygen -k` is malformed.
    #[error(transparent)]
    Krl(KrlError),
    /// The line with this number is not a key: it may have been meant to revoke the one being checked.
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
        // A line that contains CR stands for several lines of another system, of which only the first would
        // be read.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::testing::{key, policy};
    use crate::testing::FakeUi;
    use crate::ui::LogLevel;

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
}
