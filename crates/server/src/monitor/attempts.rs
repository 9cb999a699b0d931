//! Attempts of one connection: which of them count, how many may fail, and how long a failure takes.

use std::time::{Duration, Instant};

use lh_auth::server::Method;

use super::candidate::Candidate;
use super::client::Client;
use super::gss_context::is_offer;
use super::unfailing::{Toll, Unfailing};
use crate::hand_over::DelayKey;
use crate::log::error;
use crate::verdict::Verdict;

/// A failed attempt takes at least this long, plus up to as much again that depends on the user name alone: the
/// time does not tell whether the user exists. (OpenSSH's numbers.)
const LEAST_FAIL_TIME: Duration = Duration::from_micros(5000);

/// What a client has asked for that has not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// For nothing, or to go on with a session, and that was not refused.
    Nothing,
    /// For a login, and no attempt has failed.
    Login,
    /// An attempt has failed. `exists`: its user does.
    Failed { exists: bool },
}

/// The counters of one connection.
pub(super) struct Attempts {
    made: u32,
    /// Some of them were for a login, not for a resumption.
    for_login: bool,
    failures: u32,
    /// Failures by other methods than keys: passwords and prompts.
    failed_secrets: u32,
    /// Queries about keys that would not do, and that count as no failures (`PubkeyAuthOptions max-pk-ok`).
    forgiven: u32,
    /// Requests that did not fail.
    unfailing: Unfailing,
    /// How to wait; tests do not.
    pub(super) pause: fn(Duration),
    /// The listener's secret: how long a failure takes depends on it.
    pub(super) delay_key: DelayKey,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            made: 0,
            for_login: false,
            failures: 0,
            failed_secrets: 0,
            forgiven: 0,
            unfailing: Unfailing::default(),
            pause: std::thread::sleep,
            delay_key: DelayKey::default(),
        }
    }
}

impl Attempts {
    /// An attempt begins.
    pub(super) const fn begin(&mut self, method: &Method) {
        self.made = self.made.saturating_add(1);
        self.for_login |= !matches!(method, Method::Resume(_));
    }

    /// True while the first attempt is decided.
    pub(super) const fn is_first(&self) -> bool {
        self.made == 1
    }

    /// Attempts that were refused, whether or not they count against `MaxAuthTries`: a client that only asks about keys has
    /// tried too.
    pub(super) const fn refused(&self) -> u32 {
        self.failures + self.forgiven
    }

    /// True when a login was asked for, by any method or by the question for methods.
    pub(super) const fn for_login(&self) -> bool {
        self.for_login
    }

    pub(super) const fn failed_secrets(&self) -> u32 {
        self.failed_secrets
    }

    /// Counts failures; the first `none` only asks for methods and is no failure, nor are the first queries about keys.
    /// `uncharged`: a failure that is not the client's fault.
    pub(super) fn count(
        &mut self,
        client: &Client,
        candidate: &Candidate,
        method: &Method,
        verdict: Verdict,
        uncharged: bool,
    ) -> Verdict {
        // The first `none` only asks for methods, and a missing key table is not the client's fault.
        let free = self.made <= 1 && matches!(method, Method::None) || is_offer(method) || uncharged;
        let failed = matches!(verdict, Verdict::Reject { partial: false, .. });
        if !failed || free {
            return self.count_unfailing(client, candidate, verdict);
        }
        let free_queries = candidate.settings.pubkey_auth_options.value.free_queries.unwrap_or(0);
        if is_query(method) && self.forgiven < u32::from(free_queries) {
            self.forgiven += 1;
            return verdict;
        }
        self.failures += 1;
        if !matches!(method, Method::PublicKey(_) | Method::HostBased(_)) {
            self.failed_secrets += 1;
        }
        if self.failures < candidate.settings.max_auth_tries.value {
            return verdict;
        }
        let who = candidate.described(client);
        error!(client.log.preauth(), "maximum authentication attempts exceeded for {who} ssh2");
        Verdict::TooMany
    }

    /// Counts a request that is no failure. A login is the last one, so it is never one too many.
    fn count_unfailing(&mut self, client: &Client, candidate: &Candidate, verdict: Verdict) -> Verdict {
        if matches!(
            verdict,
            Verdict::Accept
                | Verdict::Resume(_)
                | Verdict::TooMany
                | Verdict::Denied(_)
                | Verdict::Later
                | Verdict::NoMethods
        ) {
            return verdict;
        }
        match self.unfailing.count() {
            Toll::Wait(time) => {
                (self.pause)(time);
                verdict
            }
            Toll::TooMany => {
                let who = candidate.described(client);
                error!(client.log, "too many authentication requests without a failure for {who} ssh2");
                Verdict::TooMany
            }
        }
    }

    /// Sleeps until a failed attempt that began then has taken long enough.
    pub(super) fn wait_out(&self, began: Instant, user: &str) {
        let mut least = LEAST_FAIL_TIME + extra_fail_time(user, &self.delay_key);
        let took = began.elapsed();
        // Work that takes longer (a slow hash) is rounded up to a multiple.
        while least < took {
            least *= 2;
        }
        std::thread::sleep(least.saturating_sub(took));
    }
}

/// Whether the client asks if a key would do, without a signature.
fn is_query(method: &Method) -> bool {
    matches!(method, Method::PublicKey(attempt) if attempt.signature.is_none())
}

/// What a failure takes longer for this name: the same in all sessions of a listener, and not to be known without its secret.
pub(super) fn extra_fail_time(user: &str, key: &DelayKey) -> Duration {
    let tag = lh_crypto::Hash::Sha256.hmac(key.bytes(), user.as_bytes());
    let number = tag.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    Duration::from_micros(number % 4000)
}
