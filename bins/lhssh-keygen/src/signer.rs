//! Signing keys: from a file, held by an agent, or on a token.

use std::path::{Path, PathBuf};

use lh_client::agent::{Agent, AgentError};
use lh_crypto::{FingerprintHash, KeyFileError, PublicKey, Zeroizing};
use lh_security_key::pkcs11::Provider;
use lh_security_key::{FileKey, flags};

use crate::arguments::Arguments;
use crate::change;
use crate::console::{Failure, Outcome, ask_pin, fatal, note, shown};
use crate::error::SignError;
use crate::files::LoadError;

/// Source of signatures.
pub(crate) enum Signer {
    /// The key, and the provider library for security keys.
    File(FileKey, String),
    /// The agent's connection, and the key or certificate to request.
    Agent(Agent, PublicKey),
    /// The library of the token, and the key.
    Token(Provider, PublicKey),
}

impl Signer {
    /// Opens a private key file, with the passphrase of `-P` or from a prompt.
    pub(crate) fn from_file(arguments: &Arguments, path: &Path) -> Outcome<Self> {
        Self::from_file_or(arguments, path, |why| load_failed(path, &why))
    }

    /// Like [`from_file`](Self::from_file), with the caller's error for a file without a usable key. A wrong
    /// passphrase has the usual one.
    pub(crate) fn from_file_or(
        arguments: &Arguments,
        path: &Path,
        unusable: impl Fn(LoadError) -> Failure,
    ) -> Outcome<Self> {
        let failed = |why| match why {
            LoadError::Key(KeyFileError::PassphraseNeeded | KeyFileError::WrongPassphrase) => {
                load_failed(path, &why)
            }
            why => unusable(why),
        };
        let given = arguments.old_passphrase.as_ref();
        let key = change::open_key(path, given, "Enter passphrase: ", failed)?;
        Ok(Self::File(key, arguments.provider()))
    }

    /// Finds a key or certificate in an agent.
    pub(crate) fn from_agent(key: &PublicKey) -> Result<Self, NoAgent> {
        let path = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty()).map(PathBuf::from);
        let mut agent = path.and_then(|path| Agent::connect(&path).ok()).ok_or(NoAgent::NotPresent)?;
        let keys = agent.identities().map_err(NoAgent::Failed)?;
        // An agent that holds only the plain key can sign as well.
        match [key, key.plain()].into_iter().find(|key| keys.iter().any(|held| held.blob == key.blob())) {
            Some(held) => Ok(Self::Agent(agent, held.clone())),
            None => Err(NoAgent::NotHeld),
        }
    }

    /// The signing key, without a certificate.
    pub(crate) fn public(&self) -> &PublicKey {
        match self {
            Self::File(key, _) => key.public(),
            Self::Agent(_, key) | Self::Token(_, key) => key.plain(),
        }
    }

    /// Signs `data`; returns a signature blob.
    pub(crate) fn sign(&mut self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, SignError> {
        match self {
            Self::Token(provider, key) => {
                Ok(provider.sign(key.blob(), algorithm, data, &mut ask_token_pin)?)
            }
            Self::File(FileKey::Plain(key), _) => key.sign(algorithm, data).map_err(SignError::Key),
            Self::File(FileKey::Security(key), provider) => {
                let kind = key.public.display_type();
                if key.flags & flags::USER_PRESENCE != 0 {
                    let fingerprint = key.public.fingerprint(FingerprintHash::Sha256);
                    note(&format!("Confirm user presence for key {kind} {fingerprint}"));
                }
                let mut pin = || ask_pin(&format!("Enter PIN for {kind} key: "));
                lh_security_key::sign(key, provider, data, false, &mut pin).map_err(SignError::SecurityKey)
            }
            Self::Agent(agent, key) => Ok(agent.sign(key.blob(), algorithm, data)?),
        }
    }
}

/// Asks for the PIN of the token with this label.
pub(crate) fn ask_token_pin(label: &str) -> Option<Zeroizing<String>> {
    ask_pin(&format!("Enter PIN for '{}': ", lh_client::sanitise(label)))
}

/// Why an agent cannot sign.
#[derive(Debug)]
pub(crate) enum NoAgent {
    /// There is no agent.
    NotPresent,
    /// The agent does not hold the key.
    NotHeld,
    /// The agent's answer is invalid.
    Failed(AgentError),
}

fn load_failed(path: &Path, why: &LoadError) -> Failure {
    fatal(format!("Load key \"{}\": {why}", shown(path)))
}
