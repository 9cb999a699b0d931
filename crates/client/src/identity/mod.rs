//! The keys of a user's login: where they are found, in which order they are tried, and how they sign.
//!
//! Order: configured certificates, configured keys that a token holds, configured keys that the agent holds,
//! the agent's other keys, the token's other keys, the remaining files, each followed by the certificate
//! beside it. A certificate has no private half of its own:
//! it signs with the key that it certifies, wherever that is stored.

mod hardware;
mod key;
mod sources;
mod token;

pub(crate) use key::{Identity, IdentityConfig, SessionProof, SignFailure};
pub(crate) use sources::announce;

use key::{SigningError, Source};
use lh_agent::Constraints;
use lh_crypto::{CertificateKind, PublicKey};
use lh_security_key::FileKey;
use lh_security_key::pkcs11::Provider;

use crate::agent::{Agent, AgentKey};
use crate::key_types::short_type;
use crate::log::Log;
use crate::ui::LogLevel;

/// All identities in the order to try them, and the agent that signs for some.
pub(crate) struct Identities {
    pub(crate) list: Vec<Identity>,
    agent: Option<Agent>,
    /// The library that lists the keys of tokens.
    tokens: Option<Provider>,
    config: IdentityConfig,
    /// A signature has needed the user: a passphrase, a PIN, or a touch.
    needed_user: bool,
}

impl Identities {
    /// Finds the keys; the module documentation has their order.
    pub(crate) fn gather(config: IdentityConfig, log: &mut Log<'_>) -> Self {
        let mut files = sources::files(&config, log);
        let mut list = sources::certificates(&config, log);
        let (tokens, mut on_token) =
            token::open(&config, log).map_or((None, Vec::new()), |(tokens, keys)| (Some(tokens), keys));
        let is_configured = |key: &mut Identity| files.iter().any(|file| file.public == key.public);
        list.extend(on_token.extract_if(.., is_configured));
        if config.only {
            on_token.clear();
        }
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
        list.append(&mut on_token);
        // Drop a file without a private key where an agent, a token or a certificate has its key.
        files.retain(|file| {
            let has_key = |other: &Identity| other.public.is_some() && other.public == file.public;
            !matches!(file.from, Source::Broken(_)) || !list.iter().any(has_key)
        });
        list.append(&mut files);
        if log.shows(LogLevel::Debug1) {
            for identity in &list {
                let line = identity.describe(config.fingerprint);
                log.debug(|| format!("Will attempt key: {line}"));
            }
        }
        Self { list, agent, tokens, config, needed_user: false }
    }

    /// Returns the identity that signs for the one at `index`: itself, or for a certificate the one with its
    /// private half.
    pub(crate) fn signer(&self, index: usize) -> Option<usize> {
        let identity = self.list.get(index)?;
        if !matches!(identity.from, Source::Certificate) {
            return Some(index);
        }
        let wanted = identity.public.as_ref()?.plain();
        let is_plain_key = |other: &Identity| {
            !matches!(other.from, Source::Broken(_)) && other.public.as_ref() == Some(wanted)
        };
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

    /// True if signing has needed the user: a passphrase, a PIN, or a touch. An agent does not reveal whether
    /// it asks the user before it signs.
    pub(crate) const fn needed_user(&self) -> bool {
        self.needed_user
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
        self.needed_user |= match &identity.from {
            Source::Agent(_) => identity.is_hardware(),
            Source::Loaded(key, _) => matches!(key, FileKey::Security(_)),
            Source::File(..) | Source::Token => true,
            Source::Certificate | Source::Broken(_) | Source::Useless => false,
        };
        if matches!(identity.from, Source::File(..) | Source::Broken(_)) {
            identity.unlock(config, log)?;
        }
        let result: Result<_, SigningError> = match &identity.from {
            Source::Agent(blob) => match &mut self.agent {
                Some(agent) => agent.sign(blob, algorithm, data).map_err(SigningError::from),
                None => return Err(SignFailure::Skip),
            },
            Source::Loaded(FileKey::Plain(key), _) => key.sign(algorithm, data).map_err(SigningError::from),
            Source::Loaded(FileKey::Security(key), _) => {
                hardware::sign(key, &identity.name, &config.provider, config.fingerprint, data, log)
                    .map_err(SigningError::from)
            }
            Source::Token => match (&mut self.tokens, &identity.public) {
                (Some(tokens), Some(key)) => tokens
                    .sign(key.blob(), algorithm, data, &mut |label| token::ask_pin(label, log))
                    .map_err(SigningError::from),
                _ => return Err(SignFailure::Skip),
            },
            Source::File(..) | Source::Certificate | Source::Broken(_) | Source::Useless => {
                return Err(SignFailure::Skip);
            }
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

    /// Loads the public half of the identity at `index`, which may need its passphrase.
    pub(crate) fn load(&mut self, index: usize, log: &mut Log<'_>) -> Result<(), SignFailure> {
        let identity = self.list.get_mut(index).ok_or(SignFailure::Skip)?;
        if identity.public.is_some() { Ok(()) } else { identity.unlock(&self.config, log) }
    }

    /// Adds the key of the identity at `index`, which has logged in, to the agent if `AddKeysToAgent` permits
    /// it.
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
        // A new agent connection, because one that is bound to this session serves only its logins.
        let added = Agent::connect(path).and_then(|mut agent| agent.add(key.added(), comment, constraints));
        match added {
            Ok(()) => log.debug(|| format!("identity added to agent: {name}")),
            Err(error) => log.debug(|| format!("could not add identity to agent: {name} ({error})")),
        }
    }
}

#[cfg(test)]
mod tests;
