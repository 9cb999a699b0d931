//! The keys that a user can log in with: which exist, in which order they are tried, and how they sign.
//!
//! Order: configured certificates, configured keys that the agent holds, the agent's other keys, the
//! remaining files, each followed by the certificate beside it. A certificate has no private half of its own:
//! it signs with the key that it certifies, wherever that is stored.

mod hardware;
mod sources;

pub(crate) use sources::announce;

use std::path::PathBuf;

use lh_agent::{Constraints, SessionBind};
use lh_config::special::AddKeysToAgent;
use lh_crypto::{CertificateKind, FingerprintHash, KeyFileError, PublicKey};
use lh_security_key::FileKey;
use zeroize::Zeroizing;

use crate::agent::{Agent, AgentKey};
use crate::key_types::short_type;
use crate::log::Log;
use crate::ui::LogLevel;

/// A key to try.
pub(crate) struct Identity {
    /// Its name for the user: a file name, or the agent's comment.
    pub(crate) name: String,
    /// Known for all but encrypted keys in old formats without a `.pub` file.
    pub(crate) public: Option<PublicKey>,
    /// The user named this file; it is no default.
    pub(crate) explicit: bool,
    from: Source,
}

enum Source {
    /// The agent signs, with the key of this blob.
    Agent(Vec<u8>),
    /// A file that has not been decrypted yet.
    File(PathBuf, Zeroizing<Vec<u8>>),
    /// A key whose private half is in memory, or in hardware that its file refers to; and its comment.
    Loaded(FileKey, String),
    /// A certificate: another identity has its private half.
    Certificate,
    /// The passphrase was wrong, or the file contains no key.
    Useless,
}

/// The configuration for identities.
#[derive(Debug, Clone)]
pub(crate) struct IdentityConfig {
    /// `IdentityFile`s in order, tokens expanded.
    pub(crate) files: Vec<PathBuf>,
    /// The files were configured, so a missing one is logged.
    pub(crate) explicit: bool,
    /// `CertificateFile`s in order. If there are any, certificates beside key files are ignored.
    pub(crate) certificates: Vec<PathBuf>,
    /// `IdentitiesOnly`.
    pub(crate) only: bool,
    /// The agent's socket, if an agent is used.
    pub(crate) agent: Option<PathBuf>,
    /// The session proof that the agent gets first.
    pub(crate) session: Option<SessionProof>,
    /// `AddKeysToAgent`.
    pub(crate) add: AddKeysToAgent,
    /// `NumberOfPasswordPrompts`, which also limits tries at a passphrase.
    pub(crate) passphrase_tries: u32,
    /// `SecurityKeyProvider`: the library that talks to hardware.
    pub(crate) provider: String,
    /// Hash of the fingerprints in messages.
    pub(crate) fingerprint: FingerprintHash,
}

/// The host's signature from the first key exchange, which binds an agent to this session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionProof {
    pub(crate) host_key: Vec<u8>,
    pub(crate) session_id: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

impl SessionProof {
    /// Binds a connection to the agent. An agent without this extension is used unbound.
    pub(crate) fn bind(&self, agent: &mut Agent, forwarding: bool) -> Result<(), String> {
        let Self { host_key, session_id, signature } = self;
        agent
            .bind(SessionBind { host_key, session_id, signature, forwarding })
            .map_err(|error| error.to_string())
    }
}

/// Why a key did not sign.
pub(crate) enum SignFailure {
    /// Continue with the next key; the reason was logged.
    Skip,
}

/// All identities in the order to try them, and the agent that signs for some.
pub(crate) struct Identities {
    pub(crate) list: Vec<Identity>,
    agent: Option<Agent>,
    config: IdentityConfig,
}

impl Identities {
    /// Finds the keys; the module documentation has their order.
    pub(crate) fn gather(config: IdentityConfig, log: &mut Log<'_>) -> Self {
        let mut files = sources::files(&config, log);
        let mut list = sources::certificates(&config, log);
        let (agent, held) = match &config.agent {
            Some(path) => sources::ask_agent(path, config.session.as_ref(), log),
            None => (None, Vec::new()),
        };
        let mut others = Vec::new();
        for AgentKey { blob, comment } in held {
            let Ok(public) = PublicKey::from_blob(&blob) else {
                continue;
            };
            if public.certificate().is_some_and(|certificate| certificate.kind() != CertificateKind::User) {
                continue;
            }
            let at = files.iter().position(|file| file.public.as_ref() == Some(&public));
            let identity = |name: String, explicit| Identity {
                name,
                public: Some(public),
                explicit,
                from: Source::Agent(blob),
            };
            match at {
                Some(at) => {
                    let file = files.remove(at);
                    list.push(identity(file.name, file.explicit));
                }
                None if !config.only => others.push(identity(comment, false)),
                None => {}
            }
        }
        list.append(&mut others);
        list.append(&mut files);
        // A `.pub` file alone helps only with an agent that has the key.
        list.retain(|identity| !matches!(identity.from, Source::Useless));
        if log.shows(LogLevel::Debug1) {
            for identity in &list {
                let line = identity.describe(config.fingerprint);
                log.debug(|| format!("Will attempt key: {line}"));
            }
        }
        Self { list, agent, config }
    }

    /// The identity that signs for the one at `index`: itself, or for a certificate the one with its private
    /// half.
    pub(crate) fn signer(&self, index: usize) -> Option<usize> {
        let identity = self.list.get(index)?;
        if !matches!(identity.from, Source::Certificate) {
            return Some(index);
        }
        let wanted = identity.public.as_ref()?.plain();
        let is_plain_key = |other: &Identity| other.public.as_ref() == Some(wanted);
        // A key whose `.pub` file is another certificate of that key.
        let other_certificate = |other: &Identity| {
            matches!(other.from, Source::Loaded(..) | Source::File(..))
                && other.public.as_ref().is_some_and(|public| public.plain() == wanted)
        };
        // An encrypted key in an old format hides its public half: then the names must match.
        let equal_name = |other: &Identity| other.public.is_none() && other.name == identity.name;
        let at = |is: &dyn Fn(&Identity) -> bool| self.list.iter().position(is);
        at(&is_plain_key).or_else(|| at(&other_certificate)).or_else(|| at(&equal_name))
    }

    /// True if signing needs no user: the private key is in memory, unencrypted.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        let signer = self.signer(index).and_then(|at| self.list.get(at));
        signer.is_some_and(|identity| matches!(identity.from, Source::Loaded(FileKey::Plain(_), _)))
    }

    /// Signs with the identity at `index`; asks for a passphrase where one is needed.
    pub(crate) fn sign(
        &mut self,
        index: usize,
        algorithm: &str,
        data: &[u8],
        log: &mut Log<'_>,
    ) -> Result<Vec<u8>, SignFailure> {
        let config = &self.config;
        let signer = self.signer(index).ok_or(SignFailure::Skip)?;
        let Some(identity) = self.list.get_mut(signer) else {
            return Err(SignFailure::Skip);
        };
        if matches!(identity.from, Source::File(..)) {
            identity.unlock(config, log)?;
        }
        let result = match &identity.from {
            Source::Agent(blob) => match &mut self.agent {
                Some(agent) => agent.sign(blob, algorithm, data).map_err(|error| error.to_string()),
                None => return Err(SignFailure::Skip),
            },
            Source::Loaded(FileKey::Plain(key), _) => {
                key.sign(algorithm, data).map_err(|error| error.to_string())
            }
            Source::Loaded(FileKey::Security(key), _) => {
                hardware::sign(key, &identity.name, &config.provider, config.fingerprint, data, log)
            }
            Source::File(..) | Source::Certificate | Source::Useless => return Err(SignFailure::Skip),
        };
        result.map_err(|why| {
            let kind = identity.public.as_ref().map_or_else(String::new, |key| short_type(key.key_type()));
            let agent = if matches!(identity.from, Source::Agent(_)) { " from agent" } else { "" };
            log.error(&format!(
                "sign_and_send_pubkey: signing failed for {kind} \"{}\"{agent}: {why}",
                identity.name
            ));
            SignFailure::Skip
        })
    }

    /// Makes the public half of the identity at `index` known, which may need its passphrase.
    pub(crate) fn load(&mut self, index: usize, log: &mut Log<'_>) -> Result<(), SignFailure> {
        let identity = self.list.get_mut(index).ok_or(SignFailure::Skip)?;
        if identity.public.is_some() { Ok(()) } else { identity.unlock(&self.config, log) }
    }

    /// Adds the key of the identity at `index`, which has logged in, to the agent if `AddKeysToAgent` says
    /// so.
    pub(crate) fn add_to_agent(&self, index: usize, log: &mut Log<'_>) {
        let add = self.config.add;
        let signer = self.signer(index).and_then(|at| self.list.get(at));
        let Some(Identity { name, from: Source::Loaded(key, comment), .. }) = signer.filter(|_| add.add)
        else {
            return;
        };
        let Some(path) = &self.config.agent else {
            return log.debug(|| "no authentication agent, not adding key".to_owned());
        };
        let comment = if comment.is_empty() { name } else { comment };
        if add.ask && !log.confirm(&format!("Add key {name} ({comment}) to agent?")) {
            return log.debug(|| "user denied adding this key".to_owned());
        }
        let constraints = Constraints {
            lifetime: add.lifetime.and_then(|seconds| u32::try_from(seconds).ok()),
            confirm: add.confirm,
            sk_provider: matches!(key, FileKey::Security(_)).then(|| self.config.provider.clone()),
            ..Constraints::default()
        };
        // On a new agent connection: one that is bound to this session is for its logins only.
        let added = Agent::connect(path).and_then(|mut agent| agent.add(key.added(), comment, constraints));
        match added {
            Ok(()) => log.debug(|| format!("identity added to agent: {name}")),
            Err(error) => log.debug(|| format!("could not add identity to agent: {name} ({error})")),
        }
    }
}

impl Identity {
    /// `NAME TYPE FINGERPRINT explicit agent`, as in the output of `-v`.
    pub(crate) fn describe(&self, hash: FingerprintHash) -> String {
        let mut line = crate::log::sanitise(&self.name);
        if let Some(key) = &self.public {
            line.push_str(&format!(" {} {}", short_type(key.key_type()), key.fingerprint(hash)));
        }
        if self.explicit {
            line.push_str(" explicit");
        }
        if matches!(self.from, Source::Agent(_)) {
            line.push_str(" agent");
        }
        line
    }

    /// Loads a key file, asking for its passphrase if it has one.
    fn unlock(&mut self, config: &IdentityConfig, log: &mut Log<'_>) -> Result<(), SignFailure> {
        let Source::File(path, bytes) = std::mem::replace(&mut self.from, Source::Useless) else {
            return Err(SignFailure::Skip);
        };
        let prompt = format!("Enter passphrase for key '{}': ", path.display());
        for _ in 0..config.passphrase_tries {
            let Some(passphrase) = log.ask_secret(&prompt) else {
                log.debug2(|| "no passphrase given, try next key".to_owned());
                break;
            };
            if passphrase.is_empty() {
                log.debug2(|| "no passphrase given, try next key".to_owned());
                break;
            }
            match FileKey::parse(&bytes, Some(passphrase.as_bytes())) {
                Ok((key, comment)) => {
                    self.public.get_or_insert_with(|| key.public().clone());
                    self.from = Source::Loaded(key, comment);
                    return Ok(());
                }
                Err(KeyFileError::WrongPassphrase | KeyFileError::PassphraseNeeded) => {
                    log.debug2(|| "bad passphrase given, try again...".to_owned());
                }
                Err(error) => {
                    log.error(&format!("Load key \"{}\": {error}", path.display()));
                    break;
                }
            }
        }
        Err(SignFailure::Skip)
    }
}

#[cfg(test)]
mod tests;
