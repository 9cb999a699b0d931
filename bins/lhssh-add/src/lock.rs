//! Locking and unlocking the agent: `-x` and `-X`.

use lh_agent::Request;
use lh_client::agent::Agent;

use crate::console::{ask, say};

pub(crate) fn lock(agent: &mut Agent) -> bool {
    let passphrase = ask("Enter lock password: ");
    if *ask("Again: ") != *passphrase {
        say("Passwords do not match.");
        return false;
    }
    report(agent.done(&Request::Lock(passphrase.as_bytes())), "locked", "lock")
}

pub(crate) fn unlock(agent: &mut Agent) -> bool {
    let passphrase = ask("Enter lock password: ");
    report(agent.done(&Request::Unlock(passphrase.as_bytes())), "unlocked", "unlock")
}

fn report(result: Result<(), lh_client::agent::AgentError>, done: &str, action: &str) -> bool {
    match result {
        Ok(()) => say(&format!("Agent {done}.")),
        Err(ref error) => say(&format!("Failed to {action} agent: {error}")),
    }
    result.is_ok()
}
