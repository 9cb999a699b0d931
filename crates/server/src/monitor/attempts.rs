//! Counters of login attempts on one connection: which attempts count, how many may fail, and how long a
//! failure is delayed.

use std::time::{Duration, Instant};

use lh_auth::server::Method;

use super::candidate::Candidate;
use super::client::Client;
use super::gss_context::is_offer;
use super::unfailing::{Throttle, Unfailing};
use crate::hand_over::DelayKey;
use crate::log::error;
use crate::verdict::Verdict;

/// Shortest duration of a failed attempt (OpenSSH's value). The user name adds up to as much again, so that
/// the time does not reveal whether the user exists.
const LEAST_FAIL_TIME: Duration = Duration::from_micros(5000);

/// The requests of a client that has not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// No login: nothing at all, or a resumption that was not refused, or not charged.
    Nothing,
    /// A login, and no attempt has failed.
    Login,
    /// An attempt has failed. `exists`: the user of the attempt exists.
    Failed { exists: bool },
}

/// The counters of one connection.
pub(super) struct Attempts {
    made: u32,
    /// An attempt was for a login, not for a resumption.
    for_login: bool,
    failures: u32,
    /// Failures by passwords and prompts, which are secrets that can be guessed.
    failed_secrets: u32,
    /// Queries about unacceptable keys that do not count as failures (`PubkeyAuthOptions max-pk-ok`).
    forgiven: u32,
    /// Counts and limits the requests that did not fail.
    unfailing: Unfailing,
    /// The function that sleeps; tests replace it.
    pub(super) pause: fn(Duration),
    /// The listener's secret, from which the delay of failures is derived.
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
    /// Records the beginning of an attempt.
    pub(super) const fn begin(&mut self, method: &Method) {
        self.made = self.made.saturating_add(1);
        self.for_login |= !matches!(method, Method::Resume(_));
    }

    /// Returns whether the first attempt is being decided.
    pub(super) const fn is_first(&self) -> bool {
        self.made == 1
    }

    /// Returns the number of refused attempts, whether or not they count against `MaxAuthTries`: a client
    /// that only queries keys has tried too.
    pub(super) const fn refused(&self) -> u32 {
        self.failures + self.forgiven
    }

    /// Returns whether a login was requested, by any method or by the request for the list of methods.
    pub(super) const fn for_login(&self) -> bool {
        self.for_login
    }

    pub(super) const fn failed_secrets(&self) -> u32 {
        self.failed_secrets
    }

    /// Counts a failure and limits further attempts. The first `none`, which only requests the list of
    /// methods, is no failure; nor are the first queries about keys. `uncharged`: the failure is not the
    /// client's fault.
    pub(super) fn count(
        &mut self,
        client: &Client,
        candidate: &Candidate,
        method: &Method,
        verdict: Verdict,
        uncharged: bool,
    ) -> Verdict {
        // The first `none` only requests the list of methods, and a missing Kerberos key table is not the
        // client's fault.
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

    /// Counts a request that did not fail. A login is the last request, so it never exceeds the limit.
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
            Throttle::Wait(time) => {
                (self.pause)(time);
                verdict
            }
            Throttle::TooMany => {
                let who = candidate.described(client);
                error!(client.log, "too many authentication requests without a failure for {who} ssh2");
                Verdict::TooMany
            }
        }
    }

    /// Sleeps until a failed attempt that began at `began` has taken its full time.
    pub(super) fn wait_out(&self, began: Instant, user: &str) {
        let mut least = LEAST_FAIL_TIME + extra_fail_time(user, &self.delay_key);
        let took = began.elapsed();
        // An attempt that takes longer (a slow hash) is rounded up to a multiple, which hides its exact time.
        while least < took {
            least *= 2;
        }
        (self.pause)(least.saturating_sub(took));
    }
}

/// Returns whether the client asks if a key is acceptable, without a signature.
fn is_query(method: &Method) -> bool {
    matches!(method, Method::PublicKey(attempt) if attempt.signature.is_none())
}

/// Returns the extra delay of failures for this name: constant within one listener, and unpredictable without
/// its secret.
pub(super) fn extra_fail_time(user: &str, key: &DelayKey) -> Duration {
    let tag = lh_crypto::Hash::Sha256.hmac(key.bytes(), user.as_bytes());
    let number = tag.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    Duration::from_micros(number % 4000)
}
