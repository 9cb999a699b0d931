//! One key of a login: the location of its private half, and how a key file is unlocked.

use std::path::PathBuf;

use lh_agent::SessionBind;
use lh_config::special::AddKeysToAgent;
use lh_crypto::{CryptoError, FingerprintHash, KeyFileError, PublicKey};
use lh_security_key::pkcs11::TokenError;
use lh_security_key::{FileKey, SkError};
use zeroize::Zeroizing;

use crate::agent::{Agent, AgentError};
use crate::key_types::short_type;
use crate::log::Log;
use crate::ui::LogLevel;

/// A key to try.
pub(crate) struct Identity {
    /// Its name for the user: a file name, or the agent's comment.
    pub(crate) name: String,
    /// The public key. `None` for an encrypted key in an old format without a `.pub` file.
    pub(crate) public: Option<PublicKey>,
    /// The user named this file; it is not one of the defaults.
    pub(crate) explicit: bool,
    pub(super) from: Source,
}

pub(super) enum Source {
    /// The agent signs, with the key of this blob.
    Agent(Vec<u8>),
    /// A file that has not been decrypted yet.
    File(PathBuf, Zeroizing<Vec<u8>>),
    /// A key whose private half is in memory, or in hardware that its file refers to; and its comment.
    Loaded(FileKey, String),
    /// A key of a PKCS#11 token; the helper that has loaded the token's library signs.
    Token,
    /// A certificate: another identity has its private half.
    Certificate,
    /// A file without a usable private key. Like OpenSSH, the login reports it only when the key is needed,
    /// because the server may not want it.
    Broken(Broken),
    /// The user gave a wrong passphrase.
    Useless,
}

/// Why a file has no usable private key.
pub(super) enum Broken {
    /// The file does not exist; holds the error message.
    Missing(String),
    /// The file cannot be read or decoded; holds the error message.
    Unusable(String),
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
    /// `PKCS11Provider`: the library that talks to tokens.
    pub(crate) token_library: Option<String>,
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
    ///
    /// # Errors
    /// The agent does not answer, or refuses.
    pub(crate) fn bind(&self, agent: &mut Agent, forwarding: bool) -> Result<(), AgentError> {
        let Self { host_key, session_id, signature } = self;
        agent.bind(SessionBind { host_key, session_id, signature, forwarding })
    }
}

/// Why signing failed in memory or in the hardware that holds the private key.
#[derive(Debug, thiserror::Error)]
pub(super) enum SigningError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The key in memory failed.
    #[error(transparent)]
    Key(#[from] CryptoError),
    #[error(transparent)]
    SecurityKey(#[from] SkError),
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Why a key did not sign.
pub(crate) enum SignFailure {
    /// Continue with the next key; the reason was logged.
    Skip,
}

impl Identity {
    /// True where the private half is in a security key, whether a file or the agent holds the key handle.
    pub(super) fn is_hardware(&self) -> bool {
        self.public.as_ref().is_some_and(|key| key.key_type().starts_with("sk-"))
    }

    /// Returns `NAME TYPE FINGERPRINT explicit agent`, as in the output of `-v`.
    pub(crate) fn describe(&self, hash: FingerprintHash) -> String {
        // A space follows the name even where the type is unknown, as in OpenSSH's line.
        let mut line = format!("{} ", crate::log::sanitise(&self.name));
        if let Some(key) = &self.public {
            line.push_str(&format!("{} {}", short_type(key.key_type()), key.fingerprint(hash)));
        }
        if self.explicit {
            line.push_str(" explicit");
        }
        if matches!(self.from, Source::Token) {
            line.push_str(" token");
        } else if self.is_hardware() {
            line.push_str(" authenticator");
        }
        if matches!(self.from, Source::Agent(_)) {
            line.push_str(" agent");
        }
        line
    }

    /// True if the file has no usable private key, and no public key to offer.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.public.is_none() && matches!(self.from, Source::Broken(_))
    }

    /// Loads a key file, asking for its passphrase if it has one.
    pub(super) fn unlock(&mut self, config: &IdentityConfig, log: &mut Log<'_>) -> Result<(), SignFailure> {
        if let Source::Broken(broken) = &self.from {
            match broken {
                Broken::Missing(why) => {
                    let level = if self.explicit { LogLevel::Info } else { LogLevel::Debug3 };
                    log.say(level, &format!("no such identity: {}: {why}", self.name));
                }
                Broken::Unusable(message) => log.error(message),
            }
            return Err(SignFailure::Skip);
        }
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
