//! Queries to the agent: `-l`, `-L`, `-T` and `-Q`.

use std::path::Path;

use lh_client::agent::{Agent, AgentError};
use lh_client::{key_file, sanitise};
use lh_crypto::{PublicKey, Random as _, SystemRandom};
use lh_sys::errno_text;

use crate::console::{print, say};
use crate::settings::AddSettings;

/// Lists the keys; fails when there are none, which scripts rely on.
pub(crate) fn identities(agent: &mut Agent, public: bool, how: &AddSettings) -> bool {
    let held = match agent.identities() {
        Ok(held) => held,
        Err(error) => {
            say(&format!("error fetching identities: {error}"));
            return false;
        }
    };
    if held.is_empty() {
        print("The agent has no identities.\n");
        return false;
    }
    for entry in held {
        let comment = sanitise(&entry.comment);
        let Ok(key) = PublicKey::from_blob(&entry.blob) else {
            say(&format!("{comment}: invalid key"));
            continue;
        };
        if public {
            print(&format!("{}\n", key.to_openssh_line(&comment)));
        } else {
            let (bits, fingerprint) = (key.bits(), key.fingerprint(how.fingerprint));
            print(&format!("{bits} {fingerprint} {comment} ({})\n", key.display_type()));
        }
    }
    true
}

/// Makes the agent sign with the key in `file`, and verifies the signature.
pub(crate) fn test(agent: &mut Agent, file: &Path, how: &AddSettings) -> bool {
    let name = file.display();
    let key = match key_file::load_public(file) {
        Ok((key, _)) => key,
        Err(error) => {
            say(&format!("Couldn't read public key {name}: {}", errno_text(&error)));
            return false;
        }
    };
    let Some(algorithm) = key.plain().signature_algorithms().first() else {
        say(&format!("Agent signature failed for {name}: unknown or unsupported key type"));
        return false;
    };
    let mut data = [0; 1024];
    SystemRandom.fill(&mut data);
    let signature = match agent.sign(key.blob(), algorithm, &data) {
        Ok(signature) => signature,
        Err(error) => {
            say(&format!("Agent signature failed for {name}: {error}"));
            return false;
        }
    };
    if let Err(error) = key.plain().verify(algorithm, &data, &signature) {
        say(&format!("Signature verification failed for {name}: {error}"));
        return false;
    }
    if how.verbose {
        say(&format!("Signed {} bytes with {} {}", data.len(), key.display_type(), name));
    }
    true
}

/// Prints the extensions that the agent supports.
pub(crate) fn extensions(agent: &mut Agent) -> bool {
    match agent.extensions() {
        Ok(names) => {
            names.iter().for_each(|name| print(&format!("{}\n", sanitise(name))));
            true
        }
        Err(AgentError::Refused) => {
            say("Agent does not support the \"query\" extension");
            false
        }
        Err(error) => {
            say(&format!("unable to query supported extensions: {error}"));
            false
        }
    }
}
