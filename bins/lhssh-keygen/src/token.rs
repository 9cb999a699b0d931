//! Keys of PKCS#11 tokens (`-D`): lists them, and finds one to sign with.

use std::path::Path;

use lh_crypto::{PublicKey, Zeroizing};
use lh_security_key::pkcs11::{Provider, TokenError};

use crate::arguments::Arguments;
use crate::console::{Outcome, fatal, print, shown, warn};
use crate::files::load_public;
use crate::signer::ask_token_pin;

/// Loads the library and returns it with its keys and their labels. The PIN is that of `-P`, or asked for
/// where the token shows nothing without it.
fn open(arguments: &Arguments, library: &str) -> Outcome<(Provider, Vec<(PublicKey, String)>)> {
    let given = arguments.old_passphrase.as_ref();
    let pin = given.map(|pin| Zeroizing::new(String::from_utf8_lossy(pin).into_owned()));
    let pin = pin.filter(|pin| !pin.is_empty());
    let (provider, keys) = Provider::open(library, pin, &mut ask_token_pin).map_err(|error| {
        if !matches!(error, TokenError::NoKeys) {
            warn(&lh_client::sanitise(&error.to_string()));
        }
        fatal("cannot read public key from pkcs11")
    })?;
    let keys = keys.into_iter().filter_map(|key| Some((PublicKey::from_blob(&key.blob).ok()?, key.label)));
    Ok((provider, keys.collect()))
}

/// Prints the public keys, or with `-l` and `-B` their fingerprints.
pub(crate) fn show(arguments: &Arguments, library: &str) -> Outcome {
    let (_provider, keys) = open(arguments, library)?;
    for (key, label) in keys {
        if arguments.switches.fingerprints || arguments.switches.bubblebabble {
            let digest = if arguments.switches.bubblebabble {
                key.bubblebabble()
            } else {
                key.fingerprint(arguments.hash)
            };
            print(format!("{} {digest} {} (PKCS11 key)\n", key.bits(), key.display_type()))?;
            if arguments.verbose {
                print(format!("{}\n", key.randomart(arguments.hash)))?;
            }
        } else {
            let line = key.to_openssh_line(&lh_client::sanitise(&label));
            print(format!("{}\n", line.trim_end()))?;
        }
    }
    Ok(())
}

/// Finds the key whose public half is in `path`.
pub(crate) fn find(arguments: &Arguments, library: &str, path: &Path) -> Outcome<(Provider, PublicKey)> {
    let (wanted, _) = load_public(path).ok_or_else(|| {
        fatal(format!("Couldn't load CA public key \"{}\": No such file or directory", shown(path)))
    })?;
    let (provider, keys) = open(arguments, library)?;
    if keys.iter().any(|(key, _)| key == wanted.plain()) {
        Ok((provider, wanted.plain().clone()))
    } else {
        Err(fatal(format!("No PKCS#11 key matching {} found", shown(path))))
    }
}
