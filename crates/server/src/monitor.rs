//! The monitor: makes every decision about a login that needs rights or secrets.
//!
//! Requests go in and replies come out as values ([`Monitor::decide`], [`Monitor::sign_first`]). The monitor
//! never sees a byte of the network: other processes (`session/`) do, and ask it over a socket. It does not
//! trust them. It knows itself what a signature must cover, how many attempts there were, and which request
//! may come next.
//!
//! Each part owns its state: `client` the connection and what signatures must cover, `signing` the host keys,
//! `attempts` the counters, `lookups` what has been read for this login, `candidate` the account with its
//! rules. `judge` checks the methods (`keys` with `certificates`, `hostbased`, `pam`, `gss`, `joining`,
//! `resuming`), and `journal` logs the result.

mod account_context;
mod account_rules;
mod attempts;
mod candidate;
mod certificates;
mod chains;
mod client;
mod external;
mod fingerprints;
mod gss;
mod gss_context;
mod hostbased;
mod joining;
mod journal;
mod judge;
mod keys;
mod lookups;
mod pam;
mod patterns;
mod presence;
mod principals;
mod recordings;
mod resume_state;
mod resuming;
mod revoked;
mod rhosts;
mod session_rules;
mod signing;
mod stage;
mod terminals;
mod ticket_state;
mod unfailing;
mod who;

use std::net::SocketAddr;
use std::time::Instant;

use lh_auth::server::{Attempt, Method};
use lh_config::ServerConfig;
use lh_crypto::CryptoError;
use zeroize::Zeroizing;

use crate::grant::Grant;
use crate::hand_over::DelayKey;
use crate::host_keys::HostKey;
use crate::log::{Log, info, shown_name};
use crate::monitor_ipc::{Decision, MonitorSocket};
use crate::verdict::Verdict;
use account_rules::account_in_order;
pub(crate) use attempts::Asked;
use attempts::Attempts;
use candidate::Candidate;
pub(crate) use chains::unsatisfiable;
use client::Client;
use gss_context::{Gss, is_offer};
use lookups::Lookups;
use pam::Modules;
use resume_state::Resuming;
use signing::HostKeySigner;
use stage::Stage;
pub(crate) use stage::Unexpected;
use terminals::UserTerminals;
use ticket_state::Joining;
pub(crate) use who::ClientIdentity;

/// The monitor of one connection. See the module documentation.
pub(crate) struct Monitor {
    config: ServerConfig,
    client: Client,
    signer: HostKeySigner,
    attempts: Attempts,
    lookups: Lookups,
    stage: Stage,
    candidate: Option<Candidate>,
    /// The process that runs PAM, until the login is complete; `None` without PAM.
    modules: Option<Modules>,
    /// The state of gssapi-with-mic.
    gss: Gss,
    presence: UserTerminals,
    joining: Joining,
    resuming: Resuming,
}

impl Monitor {
    pub(crate) fn new(
        config: ServerConfig,
        host_keys: Vec<HostKey>,
        peer: SocketAddr,
        local: SocketAddr,
        log: Log,
    ) -> Self {
        let signer = HostKeySigner::new(host_keys, config.rekey_limit.value.bytes);
        Self {
            config,
            lookups: Lookups::new(log.clone()),
            client: Client::new(peer, local, log),
            signer,
            attempts: Attempts::default(),
            stage: Stage::KeyExchange,
            candidate: None,
            modules: None,
            gss: Gss::default(),
            presence: UserTerminals::default(),
            joining: Joining::default(),
            resuming: Resuming::default(),
        }
    }

    /// Sets the secret that determines the extra delay of failures for each user name.
    #[must_use]
    pub(crate) fn with_delay_key(mut self, key: DelayKey) -> Self {
        self.attempts.delay_key = key;
        self
    }

    /// Sets whether host keys sign with SHA-1.
    #[must_use]
    pub(crate) const fn with_sha1(mut self, on: bool) -> Self {
        self.signer.sha1 = on;
        self
    }

    /// Sets the client's host name, as `UseDNS` found it.
    #[must_use]
    pub(crate) fn with_host_name(mut self, name: Option<String>) -> Self {
        self.client.host_name = name;
        self
    }

    /// Sets the time at which the monitor stops waiting for other processes.
    #[must_use]
    pub(crate) const fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        self.client.deadline = deadline;
        self
    }

    /// Lets PAM decide, in the process behind `ipc`.
    #[must_use]
    pub(crate) fn with_modules(mut self, ipc: MonitorSocket) -> Self {
        self.modules = Some(Modules::new(ipc, self.client.deadline, self.client.log.clone()));
        self
    }

    /// Closes the socket to PAM's process when the client is gone; the process ends when no descriptor of the
    /// socket is left.
    pub(crate) fn drop_modules(&mut self) {
        self.modules = None;
    }

    /// Signs the hash of the first key exchange and keeps it as the session identifier. Permitted once:
    /// before the login there is no second key exchange.
    ///
    /// # Errors
    /// The outer one: a signature is not expected now. The inner one: the key cannot sign.
    pub(crate) fn sign_first(
        &mut self,
        key_index: usize,
        algorithm: &str,
        hash: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        if self.stage != Stage::KeyExchange {
            return Err(Unexpected::Time);
        }
        let signature = self.signer.sign(key_index, algorithm, hash)?;
        self.stage = Stage::Attempts { prompted: false };
        self.client.session_id = hash.to_vec();
        let key = self.signer.keys().get(key_index);
        self.client.host_key = key.map(|key| key.public().blob().to_vec()).unwrap_or_default();
        Ok(signature)
    }

    /// Signs the hash of a later key exchange, for the user session process.
    pub(crate) fn sign_again(
        &mut self,
        key_index: usize,
        algorithm: &str,
        hash: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        self.signer.sign_at_rate(key_index, algorithm, hash)
    }

    /// Signs a proof that the host has a key, valid only for this session's client.
    pub(crate) fn prove(
        &mut self,
        algorithm: &str,
        blob: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        self.signer.prove(&self.client.session_id, algorithm, blob)
    }

    /// Returns the name of the client in log lines: `authenticating user root`, `invalid user x`; `None`
    /// until it has named a user.
    pub(crate) fn client_name(&self) -> Option<String> {
        self.candidate.as_ref().map(|candidate| match candidate.user {
            Some(_) => format!("authenticating user {}", candidate.name),
            None => format!("invalid user {}", shown_name(&candidate.name)),
        })
    }

    /// Returns the text of the `Banner` file for this user, at the first attempt.
    fn banner(&self) -> Option<Vec<u8>> {
        /// Largest banner, bytes: a login banner is a page, not a book.
        const LARGEST: usize = 100 * 1024;
        if !self.attempts.is_first() {
            return None;
        }
        let settings = &self.candidate.as_ref()?.settings;
        let path = settings.banner.as_deref()?;
        std::fs::read(path).ok().filter(|text| text.len() <= LARGEST)
    }

    /// Returns the texts to show before the verdict: the banner, and at the login what PAM's modules say
    /// ("Warning: your password will expire in 2 days."), which users without a shell see only here.
    fn texts(&self, verdict: &Verdict) -> Option<Vec<u8>> {
        let said = match (verdict, &self.modules) {
            (Verdict::Accept, Some(modules)) => modules.said(),
            _ => "",
        };
        let mut texts = self.banner().unwrap_or_default();
        texts.extend_from_slice(said.as_bytes());
        (!texts.is_empty()).then_some(texts)
    }

    /// Decides about one attempt. A failure is delayed, so that its time does not reveal whether the user
    /// exists.
    pub(crate) fn decide(&mut self, attempt: &Attempt) -> Result<Decision, Unexpected> {
        let Stage::Attempts { prompted } = self.stage else { return Err(Unexpected::Time) };
        if matches!(attempt.method, Method::Responses(_)) && !prompted {
            return Err(Unexpected::Time);
        }
        if self.candidate.as_ref().is_some_and(|candidate| candidate.name != attempt.user) {
            return Err(Unexpected::User);
        }
        let began = Instant::now();
        self.attempts.begin(&attempt.method);
        let mut candidate = match self.candidate.take() {
            Some(candidate) => candidate,
            None => self.admit(attempt)?,
        };
        let verdict = self.judge(&mut candidate, &attempt.method);
        let uncharged = std::mem::take(&mut self.resuming.uncharged);
        // Programs that block addresses count lines of failures; `resume` has logged the reason.
        if !uncharged {
            self.log_attempt(&candidate, &attempt.method, &verdict);
        }
        let mut verdict = self.attempts.count(&self.client, &candidate, &attempt.method, verdict, uncharged);
        if verdict == Verdict::Accept {
            let modules = self.modules.as_mut();
            verdict = account_in_order(modules, &self.client, &self.lookups, &mut candidate);
        }
        self.candidate = Some(candidate);
        self.stage = match &verdict {
            Verdict::Accept | Verdict::Resume(_) => Stage::Accepted,
            Verdict::TooMany | Verdict::Denied(_) | Verdict::Later | Verdict::NoMethods => Stage::Over,
            verdict => Stage::Attempts { prompted: matches!(verdict, Verdict::Prompt(_)) },
        };
        if matches!(verdict, Verdict::Reject { partial: false, .. })
            && !matches!(attempt.method, Method::None)
            && !is_offer(&attempt.method)
        {
            self.attempts.wait_out(began, &attempt.user);
        }
        let algorithms = match &self.candidate {
            Some(candidate) if self.attempts.is_first() => {
                crate::session::names::user_key_algorithms(&candidate.settings)
            }
            _ => Vec::new(),
        };
        let banner = self.texts(&verdict);
        let (client, level) = (self.client_name(), self.client.log.level());
        let error_token = self.gss.take_error();
        Ok(Decision { verdict, banner, client, level, algorithms, error_token })
    }

    /// Returns whether a user has logged in and the connection has not been handed over yet.
    pub(crate) fn accepted(&self) -> bool {
        self.stage == Stage::Accepted
    }

    /// Returns the grant for the user session process, once. `state` is the serialized connection of the
    /// pre-auth process.
    pub(crate) fn grant(&mut self, state: Zeroizing<Vec<u8>>) -> Result<Grant, Unexpected> {
        if self.stage != Stage::Accepted {
            return Err(Unexpected::Time);
        }
        self.stage = Stage::Over;
        self.lookups.forget();
        let key = self.who().key;
        let candidate = self.candidate.take().ok_or(Unexpected::Time)?;
        let user = candidate.user.clone().ok_or(Unexpected::User)?;
        let groups = self.lookups.groups(&user).map_err(|_| Unexpected::User)?;
        let refusal =
            self.beyond_quota(&candidate, user.uid).or_else(|| self.beyond_limit(&candidate, user.uid));
        self.may_ask_for_tickets(&candidate);
        self.may_outlive_connection(&candidate);
        self.signer.logged_in(candidate.settings.rekey_limit.value.bytes);
        self.presence.logged_in(&user, &candidate.settings, &candidate.options);
        // The process behind `modules` is about to serve the user and takes no further orders.
        let said = self.modules.take().map(|modules| modules.said().to_owned()).unwrap_or_default();
        Ok(Grant {
            groups: groups.names.clone(),
            user,
            ids: groups.ids.clone(),
            options: candidate.options,
            must_change_password: candidate.must_change_password,
            joined: candidate.joined.is_some(),
            refusal,
            level: self.client.log.level(),
            proofs: candidate.proofs,
            remarks: candidate.remarks,
            key,
            said,
            credentials: self.gss.take_credentials(),
            session_id: self.client.session_id.clone(),
            state,
        })
    }

    /// Handles the first request that names a user. When `RefuseConnection` prohibits the connection, it
    /// ends, and so does the session that its client wants to resume.
    fn admit(&mut self, attempt: &Attempt) -> Result<Candidate, Unexpected> {
        let mut candidate = Candidate::meet(&attempt.user, &self.config, &self.client, &self.lookups);
        if !candidate.settings.refuse_connection.value {
            return Ok(candidate);
        }
        if let Method::Resume(claim) = &attempt.method {
            self.resume(&mut candidate, claim);
        }
        let who = candidate.described(&self.client);
        info!(self.client.log, "administratively prohibited connection for {who}");
        Err(Unexpected::Prohibited)
    }
}

/// Reads files that users write.
#[cfg(fuzzing)]
pub(crate) fn fuzz_files(bytes: &[u8]) {
    hostbased::fuzz(bytes);
    principals::fuzz(bytes);
    rhosts::fuzz(bytes);
}

#[cfg(test)]
pub(crate) mod tests;
