//! `-K`: adds the resident keys of a security key.

use lh_agent::AddedKey;
use lh_client::agent::Agent;
use lh_crypto::Zeroizing;

use crate::console::say;
use crate::settings::AddSettings;

pub(crate) fn add(agent: &mut Agent, provider: &str, how: &AddSettings) -> bool {
    let pin =
        Some(how.ask_pin("Enter PIN for authenticator: ")).filter(|pin: &Zeroizing<String>| !pin.is_empty());
    let keys = match lh_security_key::residents(provider, "", pin, how.verbose) {
        Ok(keys) if keys.is_empty() => {
            say("No keys to download");
            return false;
        }
        Ok(keys) => keys,
        Err(error) => {
            say(&format!("Unable to load resident keys: {error}"));
            return false;
        }
    };
    let mut all = true;
    for resident in keys {
        let public = resident.key.public.clone();
        let name = format!("{} {}", public.display_type(), public.fingerprint(how.fingerprint));
        if let Err(error) = agent.add(AddedKey::Security(resident.key), "", how.constraints.clone()) {
            say(&format!("Unable to add key {name}: {error}"));
            all = false;
            continue;
        }
        if !how.quiet {
            say(&format!("Resident identity added: {name}"));
            how.report_constraints(how.constraints.lifetime);
        }
    }
    all
}
