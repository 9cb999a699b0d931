//! The monitor: everything about a login that needs rights or secrets is decided here.
//!
//! Requests go in and replies come out as values ([`Monitor::decide`], [`Monitor::sign_first`]); it never
//! sees a byte of the network, and those who do are other processes (`session/`), which ask over a socket. It
//! believes them nothing: what a signature must cover, how many attempts there were and what may be asked
//! next it knows itself.

mod certificates;
mod chains;
mod external;
mod fingerprints;
mod gss;
mod gss_context;
mod hostbased;
mod joining;
mod journal;
mod judge;
mod keys;
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

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_auth::server::{Attempt, Method};
use lh_config::server_table::ServerSettings;
use lh_config::{ConnectionFacts, ServerConfig};
use lh_crypto::{CryptoError, PublicKey};
use lh_sys::time::now_unix;
use lh_sys::users::{self, Shadow, User};
use lh_wire::Writer;
use zeroize::Zeroizing;

use crate::account::{self, Origin};
use crate::grant::Grant;
use crate::hand_over::DelayKey;
use crate::host_keys::HostKey;
use crate::key_options::KeyOptions;
use crate::log::{Field, Log, error, info};
use crate::monitor_ipc::{Decision, MonitorSocket};
use crate::user_groups::KnownGroups;
use crate::verdict::Verdict;
pub(crate) use chains::unsatisfiable;
use fingerprints::{describe, fingerprint};
use gss_context::{Gss, is_offer};
use pam::Modules;
use resume_state::Resuming;
use revoked::RevokedKeys;
use signing::SigningRate;
use stage::Stage;
pub(crate) use stage::Unexpected;
use terminals::Presence;
use ticket_state::Joining;
use unfailing::Unfailing;
pub(crate) use who::Who;

/// A failed attempt takes at least this long, plus up to as much again that depends on the user name alone: the
/// time does not tell whether the user exists. (OpenSSH's numbers.)
const LEAST_FAIL_TIME: Duration = Duration::from_micros(5000);

/// The user a client says it is, whether or not there is one.
struct Candidate {
    name: String,
    /// Present only when the account exists and may log in.
    user: Option<User>,
    shadow: Option<Shadow>,
    settings: ServerSettings,
    /// What is left of each alternative of `AuthenticationMethods`; empty when any method will do.
    chains: Vec<Vec<String>>,
    options: KeyOptions,
    must_change_password: bool,
    /// Keys that have done their part: where two are asked for, they must be two.
    used_keys: Vec<PublicKey>,
    /// The methods that have succeeded, a line each.
    proofs: String,
    /// By ticket: the process of the session that is joined.
    joined: Option<u32>,
}

/// See the module documentation.
pub(crate) struct Monitor {
    config: ServerConfig,
    facts: ConnectionFacts,
    peer: SocketAddr,
    local: SocketAddr,
    host_name: Option<String>,
    /// The end of LoginGraceTime.
    deadline: Option<Instant>,
    /// The process that runs PAM, where PAM is used and the login is not complete.
    modules: Option<Modules>,
    presence: Presence,
    /// The dialogue of gssapi-with-mic, as long as there is one.
    gss: Gss,
    host_keys: Vec<HostKey>,
    log: Log,
    candidate: Option<Candidate>,
    failures: u32,
    /// Failures by other methods than keys: passwords and prompts.
    failed_secrets: u32,
    attempts: u32,
    /// Queries about keys that would not do (`PubkeyAuthOptions max-pk-ok`).
    refused_queries: u32,
    /// Requests that did not fail.
    unfailing: Unfailing,
    /// How to wait; tests do not.
    pause: fn(Duration),
    /// Files of the user's that have been read, by path: once for each connection.
    files: RefCell<HashMap<PathBuf, Option<Rc<str>>>>,
    revoked: RevokedKeys,
    groups: KnownGroups,
    /// Something could not be looked up: what was not found may be there. A login fails then, a session that
    /// waits for its client does not end.
    doubt: Cell<bool>,
    /// Signatures of host keys after the login.
    signing: SigningRate,
    /// The listener's secret: how long a failure takes depends on it.
    delay_key: DelayKey,
    stage: Stage,
    /// Whether signatures with SHA-1 are offered.
    sha1: bool,
    /// The first exchange hash that was signed, and the key that signed it: what users' signatures must cover.
    session_id: Vec<u8>,
    host_key: Vec<u8>,
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
        let facts = crate::facts::of_connection(peer, local, None);
        let signing = SigningRate::new(config.rekey_limit.value.bytes, Instant::now());
        Self {
            config,
            facts,
            peer,
            local,
            host_name: None,
            deadline: None,
            modules: None,
            presence: Presence::default(),
            gss: Gss::default(),
            host_keys,
            log,
            candidate: None,
            failures: 0,
            failed_secrets: 0,
            attempts: 0,
            refused_queries: 0,
            unfailing: Unfailing::default(),
            pause: std::thread::sleep,
            files: RefCell::default(),
            revoked: RevokedKeys::default(),
            groups: KnownGroups::default(),
            doubt: Cell::default(),
            signing,
            delay_key: DelayKey::default(),
            stage: Stage::KeyExchange,
            sha1: false,
            session_id: Vec::new(),
            host_key: Vec::new(),
            joining: Joining::default(),
            resuming: Resuming::default(),
        }
    }

    /// The secret that decides how much longer a failure takes for each name.
    #[must_use]
    pub(crate) fn with_delay_key(mut self, key: DelayKey) -> Self {
        self.delay_key = key;
        self
    }

    /// Signatures with SHA-1 are among what is offered.
    #[must_use]
    pub(crate) const fn with_sha1(mut self, on: bool) -> Self {
        self.sha1 = on;
        self
    }

    /// The client's host name, as `UseDNS` found it.
    #[must_use]
    pub(crate) fn with_host_name(mut self, name: Option<String>) -> Self {
        self.facts = crate::facts::of_connection(self.peer, self.local, name.as_deref());
        self.host_name = name;
        self
    }

    /// What the monitor waits for is not waited for any longer than this.
    #[must_use]
    pub(crate) const fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Has PAM decide, in the process behind `ipc`.
    #[must_use]
    pub(crate) fn with_modules(mut self, ipc: MonitorSocket) -> Self {
        self.modules = Some(Modules::new(ipc, self.deadline, self.log.clone()));
        self
    }

    /// Ends the conversation with PAM's process when the client is gone: it ends once no descriptor of its socket is left.
    pub(crate) fn drop_modules(&mut self) {
        self.modules = None;
    }

    /// Signs the hash of the first key exchange: the session identifier, which is remembered. Once only: before a
    /// user is in there is no second exchange.
    ///
    /// # Errors
    /// Outside: the request was not to come. Inside: the key cannot sign.
    pub(crate) fn sign_first(
        &mut self,
        key_index: usize,
        algorithm: &str,
        hash: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        if self.stage != Stage::KeyExchange {
            return Err(Unexpected::Time);
        }
        let signature = self.sign(key_index, algorithm, hash)?;
        self.stage = Stage::Attempts { prompted: false };
        self.session_id = hash.to_vec();
        self.host_key =
            self.host_keys.get(key_index).map(|key| key.public().blob().to_vec()).unwrap_or_default();
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
        self.signing.take(Instant::now())?;
        self.sign(key_index, algorithm, hash)
    }

    fn sign(
        &mut self,
        key_index: usize,
        algorithm: &str,
        hash: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        // SHA-1, and the members of SHA-2 that key exchanges use. Nothing else that a host key signs is that short.
        if !matches!(hash.len(), 20 | 32 | 48 | 64) {
            return Err(Unexpected::HashLength(hash.len()));
        }
        let key = self.host_keys.get_mut(key_index).ok_or(Unexpected::HostKey)?;
        if !key.for_transport(self.sha1).algorithms.iter().any(|name| name == algorithm) {
            return Err(Unexpected::HostKey);
        }
        Ok(key.sign(algorithm, hash))
    }

    /// Proves to the client of this session, and of no other, that the host has a key.
    pub(crate) fn prove(
        &mut self,
        algorithm: &str,
        blob: &[u8],
    ) -> Result<Result<Vec<u8>, CryptoError>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        let mut data = Vec::new();
        data.put_string(b"hostkeys-prove-00@openssh.com");
        data.put_string(&self.session_id);
        data.put_string(blob);
        let key =
            self.host_keys.iter_mut().find(|key| key.public().blob() == blob).ok_or(Unexpected::HostKey)?;
        self.signing.take(Instant::now())?;
        if !key.public().signature_algorithms().contains(&algorithm) {
            return Err(Unexpected::HostKey);
        }
        Ok(key.sign(algorithm, &data))
    }

    /// How log lines name the client: `user root`, `invalid user x`, or nothing yet.
    pub(crate) fn client_name(&self) -> Option<String> {
        self.candidate.as_ref().map(|candidate| match candidate.user {
            Some(_) => format!("authenticating user {}", candidate.name),
            None => format!("invalid user {}", candidate.name),
        })
    }

    /// Text of the `Banner` file for this user, the first time.
    fn banner(&self) -> Option<String> {
        /// A login banner is a page, not a book.
        const LARGEST: usize = 100 * 1024;
        if self.attempts != 1 {
            return None;
        }
        let settings = &self.candidate.as_ref()?.settings;
        let path = settings.banner.as_deref()?;
        let text = std::fs::read(path).ok().filter(|text| text.len() <= LARGEST)?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Decides about one attempt. A failure takes its time, so that the time tells nothing.
    pub(crate) fn decide(&mut self, attempt: &Attempt) -> Result<Decision, Unexpected> {
        let Stage::Attempts { prompted } = self.stage else { return Err(Unexpected::Time) };
        if matches!(attempt.method, Method::Responses(_)) && !prompted {
            return Err(Unexpected::Time);
        }
        if self.candidate.as_ref().is_some_and(|candidate| candidate.name != attempt.user) {
            return Err(Unexpected::User);
        }
        let began = Instant::now();
        self.attempts = self.attempts.saturating_add(1);
        let mut candidate = match self.candidate.take() {
            Some(candidate) => candidate,
            None => self.admit(attempt)?,
        };
        let verdict = self.judge(&mut candidate, &attempt.method);
        self.log_attempt(&candidate, &attempt.method, &verdict);
        let mut verdict = self.count(&candidate, &attempt.method, verdict);
        if verdict == Verdict::Accept {
            verdict = self.account_in_order(&mut candidate);
        }
        self.candidate = Some(candidate);
        self.stage = match &verdict {
            Verdict::Accept | Verdict::Resume(_) => Stage::Accepted,
            Verdict::TooMany | Verdict::Denied(_) | Verdict::Later => Stage::Over,
            verdict => Stage::Attempts { prompted: matches!(verdict, Verdict::Prompt(_)) },
        };
        if matches!(verdict, Verdict::Reject { partial: false, .. })
            && !matches!(attempt.method, Method::None)
            && !is_offer(&attempt.method)
        {
            wait_out(began, &attempt.user, &self.delay_key);
        }
        let algorithms = match &self.candidate {
            Some(candidate) if self.attempts == 1 => {
                crate::session::names::user_key_algorithms(&candidate.settings)
            }
            _ => Vec::new(),
        };
        let (banner, client, level) = (self.banner(), self.client_name(), self.log.level());
        let error_token = self.gss.take_error();
        Ok(Decision { verdict, banner, client, level, algorithms, error_token })
    }

    /// True once a user is in and the connection has not moved yet.
    pub(crate) fn accepted(&self) -> bool {
        self.stage == Stage::Accepted
    }

    /// What the user session process is told, once. `state`: the connection as its process left it.
    pub(crate) fn grant(&mut self, state: Zeroizing<Vec<u8>>) -> Result<Grant, Unexpected> {
        if self.stage != Stage::Accepted {
            return Err(Unexpected::Time);
        }
        self.stage = Stage::Over;
        // They may be large, and a session may last.
        self.revoked.forget();
        self.files.take();
        let key = self.who().key;
        let candidate = self.candidate.take().ok_or(Unexpected::Time)?;
        let user = candidate.user.clone().ok_or(Unexpected::User)?;
        let groups = self.groups.of(&user).map_err(|_| Unexpected::User)?;
        let refusal =
            self.beyond_quota(&candidate, user.uid).or_else(|| self.beyond_limit(&candidate, user.uid));
        self.may_ask_for_tickets(&candidate);
        self.may_outlive_connection(&candidate);
        let rekey = candidate.settings.rekey_limit.value.bytes;
        self.signing = SigningRate::new(rekey, Instant::now());
        self.presence.logged_in(&user, &candidate.settings, &candidate.options);
        // From here on the process behind it serves the user.
        let said = self.modules.take().map(|modules| modules.said().to_owned()).unwrap_or_default();
        Ok(Grant {
            groups: groups.names.clone(),
            user,
            ids: groups.ids.clone(),
            options: candidate.options,
            must_change_password: candidate.must_change_password,
            joined: candidate.joined.is_some(),
            refusal,
            level: self.log.level(),
            proofs: candidate.proofs,
            key,
            said,
            credentials: self.gss.take_credentials(),
            session_id: self.session_id.clone(),
            state,
        })
    }

    fn origin(&self) -> Origin<'_> {
        Origin { address: self.peer.ip(), name: self.host_name.as_deref() }
    }

    /// The first word about a user. A connection that `RefuseConnection` prohibits ends, and so does the
    /// session that its client wants to take over.
    fn admit(&mut self, attempt: &Attempt) -> Result<Candidate, Unexpected> {
        let mut candidate = self.meet(&attempt.user);
        if !candidate.settings.refuse_connection.value {
            return Ok(candidate);
        }
        if let Method::Resume(claim) = &attempt.method {
            self.resume(&mut candidate, claim);
        }
        let (name, ip, port) = (&candidate.name, self.peer.ip(), self.peer.port());
        let invalid = if candidate.user.is_none() { "invalid user " } else { "" };
        info!(self.log, "administratively prohibited connection for {invalid}{name} from {ip} port {port}");
        Err(Unexpected::Prohibited)
    }

    /// Looks the account up and applies the `Match` blocks that fit it.
    /// What follows a colon is a style (`name:style`, BSD authentication's), which is part of what a signature covers but not of
    /// the account's name.
    fn meet(&self, name: &str) -> Candidate {
        let account = name.split_once(':').map_or(name, |(account, _)| account);
        self.log.set_field(Field::User, account);
        let mut user = account::find(account).unwrap_or_else(|problem| {
            error!(self.log, "cannot look up user {account}: {problem}");
            self.doubt.set(true);
            None
        });
        let mut groups: &[String] = &[];
        let known = user.as_ref().map(|user| self.groups.of(user)).transpose();
        match &known {
            Ok(None) => {}
            Ok(Some(known)) => {
                groups = &known.names;
                self.doubt.set(self.doubt.get() || !known.is_complete);
            }
            Err(problem) => {
                // Rules about groups could not be applied.
                error!(self.log, "cannot look up the groups of user {account}: {problem}");
                self.doubt.set(true);
                user = None;
            }
        }
        let facts = crate::facts::with_user(&self.facts, account, user.as_ref(), groups);
        let (settings, user) = match self.config.for_connection(&facts) {
            Ok(config) => (config.settings, user),
            Err(problem) => {
                // With rules that cannot be read every login is refused.
                error!(self.log, "{problem}");
                self.doubt.set(true);
                (self.config.settings.clone(), None)
            }
        };
        // A `Match` block is heeded also where it says less, and before a flag, as by sshd. Without one a flag counts.
        let own_level = settings.log_level.value != self.config.settings.log_level.value;
        if let Some(level) = Some(settings.log_level.value).filter(|_| own_level) {
            self.log.set_level(level);
        }
        self.log.set_places(&settings.log_verbose);
        let shadow = user.as_ref().and_then(|user| users::shadow(&user.name).ok().flatten());
        let user = match user {
            None => {
                info!(self.log, "Invalid user {name} from {} port {}", self.peer.ip(), self.peer.port());
                None
            }
            Some(user) => {
                match account::judge(&user, shadow.as_ref(), groups, &settings, self.origin(), now_unix()) {
                    Ok(()) => Some(user),
                    Err(refusal) => {
                        info!(self.log, "{refusal}");
                        None
                    }
                }
            }
        };
        let chains = chains::usable(&settings, &self.log);
        Candidate {
            name: name.to_owned(),
            user,
            shadow,
            settings,
            chains,
            options: KeyOptions::default(),
            must_change_password: false,
            used_keys: Vec::new(),
            joined: None,
            proofs: String::new(),
        }
    }
}

/// Sleeps until a failed attempt has taken long enough.
fn wait_out(began: Instant, user: &str, key: &DelayKey) {
    let mut least = LEAST_FAIL_TIME + extra_fail_time(user, key);
    let took = began.elapsed();
    // Work that takes longer (a slow hash) is rounded up to a multiple.
    while least < took {
        least *= 2;
    }
    std::thread::sleep(least.saturating_sub(took));
}

/// What a failure takes longer for this name: the same in all sessions of a listener, and not to be known without its secret.
fn extra_fail_time(user: &str, key: &DelayKey) -> Duration {
    let tag = lh_crypto::Hash::Sha256.hmac(key.bytes(), user.as_bytes());
    let number = tag.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    Duration::from_micros(number % 4000)
}

#[cfg(test)]
mod tests;
