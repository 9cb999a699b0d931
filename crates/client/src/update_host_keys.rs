//! `UpdateHostKeys`: learning the host's other keys, and forgetting those it no longer has (`hostkeys-00@openssh.com` and
//! `hostkeys-prove-00@openssh.com`, OpenSSH's PROTOCOL section 2.5).
//!
//! The server lists its keys once, over a connection whose host key known_hosts vouches for. It has to prove that it holds the
//! new ones, so that nobody can make us learn somebody else's. A file that was arranged by hand (wildcards, several
//! names, authorities, the same keys under other names) is left alone, as OpenSSH leaves it.

use std::path::PathBuf;

use lh_crypto::{FingerprintHash, PublicKey, Random, SystemRandom};
use lh_driver::{ControlCx, ControlEvent};
use lh_wire::{Reader, Writer};

use crate::hostkey::Policy;
use crate::identity::short_type;
use crate::known::check_not_revoked;
use crate::known_hosts::{self, Entry, KnownHosts, Marker};
use crate::log::Log;
use crate::ui::{LogLevel, UserInterface};

const ANNOUNCE: &str = "hostkeys-00@openssh.com";
const PROVE: &str = "hostkeys-prove-00@openssh.com";

/// The most keys a server may have; more are not looked at.
const MAX_KEYS: usize = 64;

/// How often a person is asked until something else than yes or no means no.
const TRIES: usize = 3;

/// A request of the connection, looked at by whoever runs the session.
pub struct HostKeyUpdate {
    policy: Policy,
    /// `UpdateHostKeys ask`.
    ask: bool,
    /// Key types that the configuration accepts.
    types: Vec<String>,
    state: State,
}

enum State {
    /// Nothing has been announced.
    Waiting,
    /// The server is to prove that it has the new keys.
    Proving(Plan),
    Done,
}

/// What is to be changed.
struct Plan {
    new: Vec<PublicKey>,
    old: Vec<PublicKey>,
}

impl HostKeyUpdate {
    pub(crate) const fn new(policy: Policy, ask: bool, types: Vec<String>) -> Self {
        Self { policy, ask, types, state: State::Waiting }
    }

    /// Takes the event where it is about host keys; false leaves it to others. `ask` puts a question to a person whose
    /// terminal may be raw.
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
                    let session_id = cx.transport().session_id().unwrap_or_default().to_vec();
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

    /// The keys of an announcement that are of use here. `None` when it is malformed.
    fn keys(&self, fields: &[u8], log: &mut Log<'_>) -> Option<Vec<PublicKey>> {
        let mut reader = Reader::new(fields);
        let mut keys: Vec<PublicKey> = Vec::new();
        while !reader.is_empty() && keys.len() < MAX_KEYS {
            let blob = reader.string().ok()?;
            // Types of the future are skipped, not refused.
            let Ok(key) = PublicKey::from_blob(blob) else { continue };
            let wanted = self.types.iter().any(|each| each == key.key_type());
            if wanted && !keys.contains(&key) && check_not_revoked(&self.policy, &key, log).is_ok() {
                keys.push(key);
            }
        }
        Some(keys)
    }

    /// Writes the files, after asking where that is wanted.
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
            let why = crate::dial::errno_text(&error);
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

/// Compares an announcement with the user's files.
///
/// # Errors
/// Why nothing is to be done.
fn survey(policy: &Policy, keys: &[PublicKey]) -> Result<Plan, String> {
    if keys.is_empty() {
        return Err("server sent no hostkeys".to_owned());
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
            return Err("CA/revocation marker, manual host list or wildcard host pattern found, \
                        skipping UserKnownHostsFile update"
                .to_owned());
        }
        if !keys.contains(&entry.key) && !old.contains(&entry.key) {
            old.push(entry.key.clone());
        }
    }
    let known = |key: &PublicKey| entries().any(|entry| ours(entry) && entry.key == *key);
    let elsewhere = |key: &PublicKey| entries().any(|entry| !ours(entry) && entry.key == *key);
    if keys.iter().chain(&old).any(elsewhere) {
        return Err(
            "host key found matching a different name/address, skipping UserKnownHostsFile update".to_owned()
        );
    }
    let new: Vec<PublicKey> = keys.iter().filter(|key| !known(key)).cloned().collect();
    // Somebody who shows keys that we know nothing of is not to make us forget all that we know.
    if new.len() == keys.len() {
        return Err("none of the server's keys is known, skipping UserKnownHostsFile update".to_owned());
    }
    if new.is_empty() && old.is_empty() {
        return Err("no new or deprecated keys from server".to_owned());
    }
    Ok(Plan { new, old })
}

/// Whether each signature is made by its key over this session.
fn proven(keys: &[PublicKey], fields: &[u8], session_id: &[u8], log: &mut Log<'_>) -> bool {
    let mut reader = Reader::new(fields);
    for key in keys {
        let Ok(signature) = reader.string() else { return false };
        let algorithm = Reader::new(signature).string().ok().and_then(|name| std::str::from_utf8(name).ok());
        let Some(algorithm) = algorithm.filter(|name| {
            // A signature with SHA-1 proves nothing.
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

/// Takes the old keys out of the user's files and adds the new ones to the first.
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
