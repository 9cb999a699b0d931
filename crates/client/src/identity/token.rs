//! Keys of PKCS#11 tokens (`PKCS11Provider`), which a helper lists and signs with.

use lh_crypto::PublicKey;
use lh_security_key::pkcs11::{Provider, TokenError, TokenKey};

use super::key::{Identity, IdentityConfig, Source};
use crate::log::{Log, sanitise};

/// Loads the configured library and returns it with its keys. Without a library or keys, the login continues
/// with other keys.
pub(super) fn open(config: &IdentityConfig, log: &mut Log<'_>) -> Option<(Provider, Vec<Identity>)> {
    let library = config.token_library.as_deref()?;
    let opened = Provider::open(library, None, &mut |label| ask_pin(label, log));
    match opened {
        Ok((provider, keys)) => {
            let identities = keys.into_iter().filter_map(|key| identity(key, library)).collect();
            Some((provider, identities))
        }
        Err(TokenError::NoKeys) => {
            log.debug(|| format!("provider {library} offers no keys"));
            None
        }
        Err(error) => {
            log.error(&sanitise(&error.to_string()));
            None
        }
    }
}

fn identity(key: TokenKey, library: &str) -> Option<Identity> {
    let public = PublicKey::from_blob(&key.blob).ok()?;
    let name = if key.label.is_empty() { library.to_owned() } else { key.label };
    Some(Identity { name, public: Some(public), explicit: false, from: Source::Token })
}

/// Asks for the PIN of the token with this label.
pub(super) fn ask_pin(label: &str, log: &mut Log<'_>) -> Option<crate::ui::Secret> {
    log.ask_secret(&format!("Enter PIN for '{}': ", sanitise(label)))
}
