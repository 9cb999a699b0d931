//! `-s` and `-e`: PKCS#11 libraries, which the agent loads.

use std::path::{Path, PathBuf};

use lh_agent::{AssociatedCerts, Request};
use lh_client::agent::Agent;
use lh_client::key_file;

use crate::console::say;
use crate::settings::AddSettings;

pub(crate) fn add(agent: &mut Agent, provider: &str, files: &[PathBuf], how: &AddSettings) -> bool {
    let Some(provider) = resolve(provider) else { return false };
    let mut certificates = Vec::new();
    for file in files {
        match key_file::load_public(file) {
            Ok((key, _)) if key.certificate().is_some() => certificates.push(key),
            // A pattern for the files of a token's keys also matches the plain keys.
            Ok(_) => {
                if how.verbose {
                    say(&format!("{}: not a certificate, skipped", file.display()));
                }
            }
            Err(error) => {
                say(&format!("load certificate {}: {}", file.display(), lh_sys::errno_text(&error)));
                return false;
            }
        }
    }
    let pin = how.ask_pin("Enter passphrase for PKCS#11: ");
    let mut constraints = how.constraints.clone();
    constraints.sk_provider = None;
    if !certificates.is_empty() {
        let certs_only = how.certificates_only;
        constraints.associated_certs = Some(AssociatedCerts { certs_only, certificates });
    }
    match agent.done(&Request::AddToken { provider: &provider, pin: pin.as_bytes(), constraints }) {
        Ok(()) => {
            say(&format!("Card added: {provider}"));
            true
        }
        Err(error) => {
            say(&format!("Could not add card \"{provider}\": {error}"));
            false
        }
    }
}

pub(crate) fn remove(agent: &mut Agent, provider: &str) -> bool {
    let Some(provider) = resolve(provider) else { return false };
    match agent.done(&Request::RemoveToken { provider: &provider, pin: b"" }) {
        Ok(()) => {
            say(&format!("Card removed: {provider}"));
            true
        }
        Err(error) => {
            say(&format!("Could not remove card \"{provider}\": {error}"));
            false
        }
    }
}

/// Resolves the path of a provider, because agents compare real paths with their list of allowed providers.
fn resolve(provider: &str) -> Option<String> {
    match Path::new(provider).canonicalize() {
        Ok(path) => Some(path.to_string_lossy().into_owned()),
        Err(error) => {
            say(&format!("{provider}: {}", lh_sys::errno_text(&error)));
            None
        }
    }
}
