//! Host key verification: known keys of a host, the question on first use, the refusals.
//!
//! Looking up and deciding are separate: [`decide`] gets a [`Verdict`] and a [`Policy`] and asks the user. So
//! every path through it is tested without a file or a connection.

mod policy;
mod verdict;
mod warnings;

use lh_crypto::PublicKey;

use crate::error::ClientError;
use crate::key_types::short_type;
use crate::log::Log;
#[cfg(test)]
pub(crate) use policy::Checks;
pub(crate) use policy::{Dns, Policy, Strict};
pub(crate) use verdict::{Place, Verdict};
use warnings::{changed, first_use, revoked};
pub(crate) use warnings::{spoofing, warning};

/// Consequences of accepting a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Store the key.
    pub(crate) add: bool,
    /// The key is not trusted: send nothing that an attacker in the middle could use.
    pub(crate) untrusted: bool,
}

/// The last line of every refusal.
pub(crate) const FAILED: &str = "Host key verification failed.";

/// Decides about a key whose possession the server has proved.
///
/// # Errors
/// [`ClientError::HostKey`] if the connection must end; all lines but the last one have been shown.
pub(crate) fn decide(
    verdict: &Verdict,
    key: &PublicKey,
    policy: &Policy,
    log: &mut Log<'_>,
) -> Result<Accepted, ClientError> {
    let kind = short_type(key.key_type());
    let name = &policy.name;
    let fingerprint = key.fingerprint(policy.fingerprint);
    if policy.skip_localhost {
        log.debug(|| "Forcing accepting of host key for loopback/localhost.".to_owned());
        return Ok(Accepted { add: false, untrusted: false });
    }
    match verdict {
        Verdict::Known(place) => {
            log.debug(|| format!("Host '{name}' is known and matches the {kind} host key."));
            log.debug(|| format!("Found key in {}:{}", place.file.display(), place.line));
            if policy.visual {
                log.info(&format!(
                    "Host key fingerprint is {fingerprint}\n{}",
                    key.randomart(policy.fingerprint)
                ));
            }
            Ok(Accepted { add: false, untrusted: false })
        }
        // As in ssh: a new key that no file could store is refused without a question, however strict the
        // policy is.
        Verdict::New { .. } if policy.user_files.is_empty() => Err(ClientError::HostKey(FAILED.to_owned())),
        Verdict::New { other_names } => {
            match policy.strict {
                Strict::Yes => {
                    log.error(&format!(
                        "No {kind} host key is known for {name} and you have requested strict checking."
                    ));
                    return Err(ClientError::HostKey(FAILED.to_owned()));
                }
                Strict::Ask => {
                    let question = first_use(key, policy, other_names);
                    if !confirm(&question, &fingerprint, log) {
                        return Err(ClientError::HostKey(FAILED.to_owned()));
                    }
                }
                Strict::AcceptNew | Strict::Off => {}
            }
            Ok(Accepted { add: true, untrusted: false })
        }
        Verdict::Changed(place) => {
            log.error(&changed(&kind, &fingerprint, place, policy));
            if policy.strict != Strict::Off {
                log.error(&format!(
                    "Host key for {name} has changed and you have requested strict checking."
                ));
                return Err(ClientError::HostKey(FAILED.to_owned()));
            }
            forbid_secrets(log);
            Ok(Accepted { add: false, untrusted: true })
        }
        Verdict::Revoked(place) => {
            // Refused even with checking off, because a line forbids exactly this key.
            log.error(&revoked(&kind, place, policy));
            log.error(&format!(
                "{kind} host key for {name} was revoked and you have requested strict checking."
            ));
            Err(ClientError::HostKey(FAILED.to_owned()))
        }
    }
}

/// Returns the key type in messages: `ED25519`, `RSA`, …
pub(crate) fn kind_of(key: &PublicKey) -> String {
    short_type(key.key_type())
}

fn forbid_secrets(log: &mut Log<'_>) {
    for method in ["Password", "Keyboard-interactive"] {
        log.error(&format!("{method} authentication is disabled to avoid man-in-the-middle attacks."));
    }
}

/// Asks until the answer is valid. The fingerprint as answer means yes: the user has compared it.
fn confirm(question: &str, fingerprint: &str, log: &mut Log<'_>) -> bool {
    let mut prompt = question;
    loop {
        let Some(answer) = log.ask(prompt) else { return false };
        let answer = answer.trim();
        if answer.is_empty() || answer.eq_ignore_ascii_case("no") {
            return false;
        }
        if answer.eq_ignore_ascii_case("yes") || answer == fingerprint {
            return true;
        }
        prompt = "Please type 'yes', 'no' or the fingerprint: ";
    }
}

/// Decides about the address of a host whose key is known by its name (`CheckHostIP`). Returns true if the
/// address should be stored too.
///
/// # Errors
/// As [`decide`].
pub(crate) fn decide_address(
    named: &Place,
    at_address: &Verdict,
    key: &PublicKey,
    policy: &Policy,
    log: &mut Log<'_>,
) -> Result<bool, ClientError> {
    let address = policy.address.as_deref().unwrap_or_default();
    let kind = short_type(key.key_type());
    match at_address {
        Verdict::Known(_) => Ok(false),
        Verdict::New { .. } => Ok(true),
        Verdict::Revoked(place) => {
            log.error(&revoked(&kind, place, policy));
            Err(ClientError::HostKey(FAILED.to_owned()))
        }
        Verdict::Changed(place) => {
            let text = format!(
                "Warning: the {kind} host key for '{}' differs from the key for the IP address '{address}'\n\
                 Offending key for IP in {}:{}\nMatching host key in {}:{}",
                policy.name,
                place.file.display(),
                place.line,
                named.file.display(),
                named.line
            );
            match policy.strict {
                Strict::Ask => {
                    let question = format!("{text}\nAre you sure you want to continue connecting (yes/no)? ");
                    if confirm(&question, "", log) {
                        return Ok(false);
                    }
                }
                Strict::Yes | Strict::AcceptNew => {
                    log.info(&text);
                    log.error("Exiting, you have requested strict checking.");
                }
                Strict::Off => {
                    log.info(&text);
                    return Ok(false);
                }
            }
            Err(ClientError::HostKey(FAILED.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests;
