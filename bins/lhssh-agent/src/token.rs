//! Keys of PKCS#11 tokens: a helper process for each library, which stays logged in, so that the agent keeps
//! no PIN.

use std::sync::{Arc, Mutex, PoisonError};

use lh_agent::Constraints;
use lh_cli::prompt::{Kind, Prompter, Require};
use lh_crypto::{PublicKey, Zeroizing};
use lh_security_key::pkcs11::Provider;

use crate::error::WorkError;

/// A loaded library. The helper ends with the last key of it.
pub(crate) struct Library {
    /// The library's real path.
    pub(crate) path: String,
    provider: Mutex<Provider>,
}

/// A library to load.
pub(crate) struct Opening {
    /// Its real path, which is allowed.
    pub(crate) path: String,
    pub(crate) pin: Zeroizing<String>,
    pub(crate) constraints: Constraints,
}

/// A library that was loaded, and its keys with their labels.
pub(crate) struct Opened {
    pub(crate) library: Arc<Library>,
    pub(crate) keys: Vec<(PublicKey, String)>,
    pub(crate) constraints: Constraints,
}

impl Opening {
    /// Loads the library and logs in to its tokens, which may take long.
    ///
    /// # Errors
    /// [`WorkError::Open`].
    pub(crate) fn run(self) -> Result<Opened, WorkError> {
        let Self { path, pin, constraints } = self;
        let pin = (!pin.is_empty()).then_some(pin);
        let (provider, keys) = Provider::open(&path, pin, &mut |label| ask_pin(label))
            .map_err(|source| WorkError::Open { library: path.clone(), source })?;
        let keys = keys.into_iter().filter_map(|key| {
            let public = PublicKey::from_blob(&key.blob).ok()?;
            Some((public, if key.label.is_empty() { path.clone() } else { key.label }))
        });
        let keys = keys.collect();
        let library = Arc::new(Library { path, provider: Mutex::new(provider) });
        Ok(Opened { library, keys, constraints })
    }
}

/// A signature by a token.
pub(crate) struct Signing {
    pub(crate) library: Arc<Library>,
    pub(crate) key: PublicKey,
    pub(crate) algorithm: String,
    pub(crate) data: Vec<u8>,
}

impl Signing {
    /// Makes the signature. Other signatures with the library wait meanwhile.
    ///
    /// # Errors
    /// [`WorkError::Token`].
    pub(crate) fn run(&self) -> Result<Vec<u8>, WorkError> {
        // A helper that was left in the middle of a message reports an error itself.
        let mut provider = self.library.provider.lock().unwrap_or_else(PoisonError::into_inner);
        provider
            .sign(self.key.blob(), &self.algorithm, &self.data, &mut |label| ask_pin(label))
            .map_err(|source| WorkError::Token { library: self.library.path.clone(), source })
    }
}

/// Asks for the PIN of the token with this label. An agent has no terminal, so an askpass program asks.
fn ask_pin(label: &str) -> Option<Zeroizing<String>> {
    let prompter = Prompter { require: Require::Force, ..Prompter::from_environment() };
    let label: String = label.chars().filter(|&c| !lh_wire::is_hidden(c)).collect();
    prompter.ask(&format!("Enter PIN for '{label}': "), Kind::Secret).ok()
}
