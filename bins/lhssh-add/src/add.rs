//! Adding keys, and the certificates beside them.

use std::io;
use std::path::Path;

use lh_agent::{AddedKey, Constraints};
use lh_client::agent::Agent;
use lh_client::key_file::{self, ReadFailure};
use lh_crypto::{KeyFileError, Zeroizing};
use lh_security_key::FileKey;
use lh_sys::errno_text;

use crate::console::{ask, say};
use crate::settings::AddSettings;

/// Time that a certificate stays in the agent after it has expired, seconds, because clocks differ.
const GRACE: u64 = 5 * 60;

/// Adds files one after the other; a passphrase that was right for one is tried on the next.
pub(crate) struct Adder<'a> {
    how: &'a AddSettings,
    passphrase: Option<Zeroizing<String>>,
}

impl<'a> Adder<'a> {
    pub(crate) const fn new(how: &'a AddSettings) -> Self {
        Self { how, passphrase: None }
    }

    /// Adds a key file. True when the key, and its certificate if there is one, are in the agent.
    pub(crate) fn file(&mut self, agent: &mut Agent, path: &Path) -> bool {
        let stdin = path.as_os_str() == "-";
        let name = if stdin { "(stdin)".to_owned() } else { path.display().to_string() };
        let bytes = if stdin {
            key_file::read_limited(io::stdin(), 64 * 1024).map_err(ReadFailure::Open)
        } else {
            key_file::read(path)
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(ReadFailure::TooOpen(mode)) => {
                say(&key_file::unprotected(&name, mode));
                return false;
            }
            Err(ReadFailure::Open(error)) => {
                say(&format!("{name}: {}", errno_text(&error)));
                return false;
            }
        };
        let Some((key, comment)) = self.open(&bytes, &name) else { return false };
        // Formats other than OpenSSH's have no comment: use that of the public key file, else the file's
        // name.
        let comment = Some(comment)
            .filter(|comment| !comment.is_empty())
            .or_else(|| {
                let beside = key_file::public_in(&key_file::with_suffix(path, ".pub"));
                beside.filter(|(public, _)| public == key.public()).map(|(_, comment)| comment)
            })
            .filter(|comment| !comment.is_empty())
            .unwrap_or_else(|| name.clone());
        let mut constraints = self.how.constraints.clone();
        if matches!(key, FileKey::Plain(_)) {
            constraints.sk_provider = None;
        }
        let mut done = true;
        if !self.how.certificates_only {
            done =
                self.send(agent, key.added(), &comment, constraints.clone(), |agent_said| match agent_said {
                    None => format!("Identity added: {name} ({comment})"),
                    Some(error) => format!("Could not add identity \"{name}\": {error}"),
                });
        }
        if !self.how.keys_only && !stdin {
            let certified = self.certificate(agent, path, &key, &comment, constraints);
            // The key alone permits a login, so a rejected certificate is reported but is no failure.
            if self.how.certificates_only {
                done = certified;
            }
        }
        done
    }

    /// Adds the certificate beside the key, if there is one.
    fn certificate(
        &self,
        agent: &mut Agent,
        path: &Path,
        key: &FileKey,
        comment: &str,
        mut constraints: Constraints,
    ) -> bool {
        let beside = key_file::with_suffix(path, "-cert.pub");
        let name = beside.display().to_string();
        if !beside.exists() {
            return true;
        }
        let Some((public, _)) = key_file::public_in(&beside) else {
            say(&format!("Failed to load certificate \"{name}\": invalid format"));
            return false;
        };
        let (Some(certificate), Some(added)) = (public.certificate(), key.certified(public.clone())) else {
            say(&format!("Certificate {name} does not match private key {}", path.display()));
            return false;
        };
        let (_, until) = certificate.validity();
        if self.how.limit_certificates && until != u64::MAX {
            let now = u64::try_from(lh_sys::time::now_unix()).unwrap_or(0);
            let left = (until.saturating_add(GRACE)).saturating_sub(now);
            if left == 0 {
                say(&format!("Certificate {name} has already expired"));
                return false;
            }
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            constraints.lifetime = Some(constraints.lifetime.map_or(left, |limit| limit.min(left)));
        }
        let id = certificate.key_id().to_owned();
        self.send(agent, added, comment, constraints, |agent_said| match agent_said {
            None => format!("Certificate added: {name} ({id})"),
            Some(error) => format!("Certificate {name} ({id}) add failed: {error}"),
        })
    }

    fn send(
        &self,
        agent: &mut Agent,
        key: AddedKey,
        comment: &str,
        constraints: Constraints,
        message: impl Fn(Option<&str>) -> String,
    ) -> bool {
        let lifetime = constraints.lifetime;
        if let Err(error) = agent.add(key, comment, constraints) {
            say(&message(Some(&error.to_string())));
            return false;
        }
        if !self.how.quiet {
            say(&message(None));
            self.how.report_constraints(lifetime);
        }
        true
    }

    /// Opens a key, prompting for its passphrase until it is right; an empty answer gives up.
    fn open(&mut self, bytes: &[u8], name: &str) -> Option<(FileKey, String)> {
        let failed = |error: &KeyFileError| {
            say(&format!("Error loading key \"{name}\": {error}"));
            None
        };
        match FileKey::parse(bytes, None) {
            Ok(found) => return Some(found),
            Err(KeyFileError::PassphraseNeeded | KeyFileError::WrongPassphrase) => {}
            Err(error) => return failed(&error),
        }
        if let Some(passphrase) = &self.passphrase
            && let Ok(found) = FileKey::parse(bytes, Some(passphrase.as_bytes()))
        {
            return Some(found);
        }
        let each_use = if self.how.constraints.confirm { " (will confirm each use)" } else { "" };
        let mut prompt = format!("Enter passphrase for {name}{each_use}: ");
        loop {
            let passphrase = ask(&prompt);
            if passphrase.is_empty() {
                return None;
            }
            match FileKey::parse(bytes, Some(passphrase.as_bytes())) {
                Ok(found) => {
                    self.passphrase = Some(passphrase);
                    return Some(found);
                }
                Err(KeyFileError::PassphraseNeeded | KeyFileError::WrongPassphrase) => {
                    prompt = format!("Bad passphrase, try again for {name}{each_use}: ");
                }
                Err(error) => return failed(&error),
            }
        }
    }
}
