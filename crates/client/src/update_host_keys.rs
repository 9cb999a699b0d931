//! `UpdateHostKeys`: stores the host's other keys, and removes those it no longer has
//! (`hostkeys-00@openssh.com` and `hostkeys-prove-00@openssh.com`, OpenSSH's PROTOCOL section 2.5).
//!
//! The server lists its keys once, over a connection whose host key is in known_hosts. It must prove that it
//! holds the new ones; otherwise it could make us store another host's keys. As in OpenSSH, a file with
//! manual entries (wildcards, several names, authorities, keys under other names too) is not changed.

use std::path::PathBuf;

use lh_crypto::{FingerprintHash, PublicKey, Random, SystemRandom};
use lh_driver::{ControlCx, ControlEvent};
use lh_wire::{Reader, Writer};

use crate::hostkey::Policy;
use crate::key_types::short_type;
use crate::known::check_not_revoked;
use crate::known_hosts::{self, Entry, KnownHosts, Marker};
use crate::log::Log;
use crate::options::Options;
use crate::ui::{LogLevel, UserInterface};

const ANNOUNCE: &str = "hostkeys-00@openssh.com";
const PROVE: &str = "hostkeys-prove-00@openssh.com";

/// Largest number of keys of a server; further ones are ignored.
const MAX_KEYS: usize = 64;

/// Number of invalid answers after which the answer counts as no.
const TRIES: usize = 3;

/// The handler of key announcements on a connection; the session's control passes it events.
pub struct HostKeyUpdate {
    policy: Policy,
    /// Whether the user is asked first (`UpdateHostKeys ask`).
    ask: bool,
    /// Key types that the configuration accepts.
    types: Vec<String>,
    state: State,
}

enum State {
    /// No keys have been announced.
    Waiting,
    /// Waiting for the server's proof that it has the new keys.
    Proving(Plan),
    Done,
}

/// The planned changes to known_hosts.
struct Plan {
    new: Vec<PublicKey>,
    old: Vec<PublicKey>,
}

impl HostKeyUpdate {
    /// Returns the handler that `UpdateHostKeys` asks for, if the host's key in use is in the user's own
    /// known_hosts files.
    pub(crate) fn configured(options: &Options, policy: Policy, types: Vec<String>) -> Option<Self> {
        use lh_config::enums::YesNoAsk;
        let config = &options.config;
        let ask = match *config.update_host_keys {
            YesNoAsk::No => return None,
            YesNoAsk::Yes => false,
            // There is no way to ask the user.
            YesNoAsk::Ask if *config.batch_mode || *config.fork_after_authentication => return None,
            YesNoAsk::Ask => true,
        };
        (!policy.user_files.is_empty()).then(|| Self::new(policy, ask, types))
    }

    pub(crate) const fn new(policy: Policy, ask: bool, types: Vec<String>) -> Self {
        Self { policy, ask, types, state: State::Waiting }
    }

    /// Handles the event if it concerns host keys, else returns false. `ask` asks the user, whose terminal
    /// may be in raw mode.
    pub fn on_event(
        &mut self,
        event: &ControlEvent,
        cx: &mut ControlCx<'_>,
        ui: &mut dyn UserInterface,
        level: LogLevel,
        ask: &mut dyn FnMut(&str) -> Option<String>,
    ) -> bool {
        let mut log = Log::new(ui, level, false);
        match event {
            ControlEvent::GlobalRequest { name, want_reply, fields } if name == ANNOUNCE => {
                if *want_reply {
                    cx.reply_global(true, b"");
                }
                if let State::Waiting = self.state {
                    self.state = State::Done;
                    self.announced(fields, cx, &mut log, ask);
                }
                true
            }
            ControlEvent::GlobalReply { name, ok, fields } if name == PROVE => {
                if let State::Proving(plan) = std::mem::replace(&mut self.state, State::Done) {
                    let session_id = cx.session_id().unwrap_or_default().to_vec();
                    if *ok && proven(&plan.new, fields, &session_id, &mut log) {
                        self.change(&plan, &mut log, ask);
                    } else {
                        log.error("Server failed to confirm ownership of private host keys");
                    }
                }
                true
            }
            _ => false,
        }
    }

    fn announced(
        &mut self,
        fields: &[u8],
        cx: &mut ControlCx<'_>,
        log: &mut Log<'_>,
        ask: &mut dyn FnMut(&str) -> Option<String>,
    ) {
        let Some(keys) = self.keys(fields, log) else {
            log.debug(|| "client_input_hostkeys: malformed list of host keys".to_owned());
            return;
        };
        let plan = match survey(&self.policy, &keys) {
            Ok(plan) => plan,
            Err(why) => {
                log.debug(|| format!("client_input_hostkeys: {why}"));
                return;
            }
        };
        if plan.new.is_empty() {
            return self.change(&plan, log, ask);
        }
        log.debug(|| {
            format!("client_input_hostkeys: asking server to prove ownership for {} keys", plan.new.len())
        });
        let mut blobs = Vec::new();
        for key in &plan.new {
            blobs.put_string(key.blob());
        }
        cx.global_request(PROVE, true, &blobs);
        self.state = State::Proving(plan);
    }

    /// Returns the usable keys of an announcement. `None` if it is malformed.
    fn keys(&self, fields: &[u8], log: &mut Log<'_>) -> Option<Vec<PublicKey>> {
        let mut reader = Reader::new(fields);
        let mut keys: Vec<PublicKey> = Vec::new();
        while !reader.is_empty() && keys.len() < MAX_KEYS {
            let blob = reader.string().ok()?;
            // Unknown key types are skipped, not refused.
            let Ok(key) = PublicKey::from_blob(blob) else { continue };
            let wanted = self.types.iter().any(|each| each == key.key_type());
            if wanted && !keys.contains(&key) && check_not_revoked(&self.policy, &key, log).is_ok() {
                keys.push(key);
            }
        }
        Some(keys)
    }

    /// Writes the files, after asking the user where the configuration requires it.
    fn change(&self, plan: &Plan, log: &mut Log<'_>, ask: &mut dyn FnMut(&str) -> Option<String>) {
        let level = if self.ask { LogLevel::Info } else { LogLevel::Verbose };
        if self.ask {
            log.info("The server has updated its host keys.");
            log.info("These changes were verified by the server's existing trusted key.");
        }
        for (what, keys) in [("Learned new hostkey", &plan.new), ("Deprecating obsolete hostkey", &plan.old)]
        {
            for key in keys {
                let (kind, print) = (short_type(key.key_type()), key.fingerprint(self.policy.fingerprint));
                log.say(level, &format!("{what}: {kind} {print}"));
            }
        }
        if self.ask && !agreed(log, ask) {
            return;
        }
        if let Err((file, error)) = write(&self.policy, plan) {
            let why = lh_sys::errno_text(&error);
            log.error(&format!("hostkeys update of {} failed: {why}", file.display()));
        }
    }
}

fn agreed(log: &mut Log<'_>, ask: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    for _ in 0..TRIES {
        match ask("Accept updated hostkeys? (yes/no): ").as_deref().map(str::trim) {
            Some(answer) if answer.eq_ignore_ascii_case("yes") => return true,
            Some(answer) if !answer.eq_ignore_ascii_case("no") => log.info("Please enter \"yes\" or \"no\""),
            _ => break,
        }
    }
    log.debug(|| "update of host keys refused".to_owned());
    false
}

/// Why an announcement changes no file. Logged at debug level, in OpenSSH's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NoChange {
    #[error("server sent no hostkeys")]
    NoKeys,
    /// The user has edited the host's lines manually, so they stay unchanged.
    #[error(
        "CA/revocation marker, manual host list or wildcard host pattern found, \
         skipping UserKnownHostsFile update"
    )]
    ByHand,
    #[error("host key found matching a different name/address, skipping UserKnownHostsFile update")]
    OtherName,
    /// A server whose keys are all unknown must not make us remove all known ones.
    #[error("none of the server's keys is known, skipping UserKnownHostsFile update")]
    NoneKnown,
    #[error("no new or deprecated keys from server")]
    NothingNew,
}

/// Compares an announcement with the user's files.
///
/// # Errors
/// The reason to change nothing.
fn survey(policy: &Policy, keys: &[PublicKey]) -> Result<Plan, NoChange> {
    if keys.is_empty() {
        return Err(NoChange::NoKeys);
    }
    let files: Vec<KnownHosts> =
        policy.user_files.iter().filter_map(|path| KnownHosts::read(path).ok()).collect();
    let address = policy.address.as_deref().filter(|_| policy.checks.ip);
    let ours =
        |entry: &Entry| entry.matches(&policy.name) || address.is_some_and(|address| entry.matches(address));
    let entries = || files.iter().flat_map(KnownHosts::entries);
    let mut old: Vec<PublicKey> = Vec::new();
    for entry in entries().filter(|entry| ours(entry)) {
        let pair = address.is_some_and(|address| entry.hosts == format!("{},{address}", policy.name));
        let by_hand = entry.hosts.contains(['*', '?', '!']) || (entry.hosts.contains(',') && !pair);
        if entry.marker != Marker::Plain || by_hand {
            return Err(NoChange::ByHand);
        }
        if !keys.contains(&entry.key) && !old.contains(&entry.key) {
            old.push(entry.key.clone());
        }
    }
    let known = |key: &PublicKey| entries().any(|entry| ours(entry) && entry.key == *key);
    let elsewhere = |key: &PublicKey| entries().any(|entry| !ours(entry) && entry.key == *key);
    if keys.iter().chain(&old).any(elsewhere) {
        return Err(NoChange::OtherName);
    }
    let new: Vec<PublicKey> = keys.iter().filter(|key| !known(key)).cloned().collect();
    if new.len() == keys.len() {
        return Err(NoChange::NoneKnown);
    }
    if new.is_empty() && old.is_empty() {
        return Err(NoChange::NothingNew);
    }
    Ok(Plan { new, old })
}

/// Returns true if every key has signed this session's data.
fn proven(keys: &[PublicKey], fields: &[u8], session_id: &[u8], log: &mut Log<'_>) -> bool {
    let mut reader = Reader::new(fields);
    for key in keys {
        let Ok(signature) = reader.string() else { return false };
        let algorithm = Reader::new(signature).string().ok().and_then(|name| std::str::from_utf8(name).ok());
        let Some(algorithm) = algorithm.filter(|name| {
            // A SHA-1 signature is no proof.
            *name != "ssh-rsa" && key.signature_algorithms().contains(name)
        }) else {
            return false;
        };
        let mut signed = Vec::new();
        for part in [PROVE.as_bytes(), session_id, key.blob()] {
            signed.put_string(part);
        }
        if let Err(error) = key.verify(algorithm, &signed, signature) {
            let print = key.fingerprint(FingerprintHash::Sha256);
            log.error(&format!("server gave bad signature for {} key {print}: {error}", key.key_type()));
            return false;
        }
    }
    reader.is_empty()
}

/// Removes the old keys from the user's files and appends the new ones to the first.
fn write(policy: &Policy, plan: &Plan) -> Result<(), (PathBuf, std::io::Error)> {
    let address = policy.address.as_deref().filter(|_| policy.checks.ip);
    let obsolete = |entry: &Entry| {
        plan.old.contains(&entry.key)
            && (entry.matches(&policy.name) || address.is_some_and(|address| entry.matches(address)))
    };
    for path in &policy.user_files {
        let failed = |error| (path.clone(), error);
        let known = KnownHosts::read(path).map_err(failed)?;
        if known.entries().any(obsolete) {
            known_hosts::replace(path, &known.without_entries(obsolete)).map_err(failed)?;
        }
    }
    let Some(path) = policy.user_files.first() else { return Ok(()) };
    let names: Vec<&str> = std::iter::once(policy.name.as_str()).chain(address).collect();
    for key in &plan.new {
        let mut random = SystemRandom;
        let hash: Option<&mut dyn Random> = if policy.hash { Some(&mut random) } else { None };
        known_hosts::append(path, &names, key, hash).map_err(|error| (path.clone(), error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
