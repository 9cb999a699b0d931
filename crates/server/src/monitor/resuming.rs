//! Resumption of sessions over another connection (`ResumeGrace`).
//!
//! The session's own monitor checks that the client has the session's secret. This module checks, as at a
//! login and for the client's current address, that the account, its key and the current rules still allow
//! the session.

use std::io::ErrorKind;
use std::net::SocketAddr;

use lh_auth::gss::GSS_METHOD;
use lh_auth::server::ResumeAttempt;
use lh_crypto::{PublicKey, key_algorithms};
use lh_resume::message::Request;

use super::account_context::AccountContext;
use super::account_rules::{account_in_order, root_may};
use super::candidate::Candidate;
use super::chains::{advance, enabled};
use super::keys::usable_key;
use super::revoked::Revocation;
use super::stage::{Stage, Unexpected};
use super::{Monitor, session_rules};
use crate::host_keys::HostKey;
use crate::hosts::shown_endpoint;
use crate::key_options::KeyOptions;
use crate::log::{debug, info};
use crate::monitor_ipc::MonitorSocketError;
use crate::resuming::{Claimant, Claimed, Login, SessionTerms};
use crate::verdict::Verdict;

/// Why a session may not be resumed.
struct Forbidden {
    why: String,
    /// The reason holds even if a look-up has failed.
    is_certain: bool,
}

fn certain(why: &str) -> Forbidden {
    Forbidden { why: why.to_owned(), is_certain: true }
}

/// Returns a reason that a failed look-up could have caused.
fn unless_unknown(why: &str) -> Forbidden {
    Forbidden { why: why.to_owned(), is_certain: false }
}

impl Monitor {
    /// Lets the connection take over a session, if the client proves that the session is its own.
    pub(super) fn resume(&mut self, candidate: &mut Candidate, attempt: &ResumeAttempt) -> Option<Verdict> {
        self.resuming.uncharged = false;
        // Not as one of several steps: the login has completed all of them.
        if !candidate.proofs.is_empty() {
            return None;
        }
        let verdict = self.take_over(candidate, attempt);
        if !matches!(verdict, Some(Verdict::Resume(_))) {
            // The proofs are the old session's and must not count for a login over this connection.
            candidate.proofs.clear();
            candidate.host = None;
        }
        verdict
    }

    fn take_over(&mut self, candidate: &mut Candidate, attempt: &ResumeAttempt) -> Option<Verdict> {
        let request = Request::from_fields(&candidate.name, &attempt.fields).ok()?;
        let claimed =
            Claimant::claim(&request.handle, &candidate.name, &attempt.fields, &self.client.session_id);
        let (mut claimant, login) = match claimed {
            Ok(Claimed::Right(claimant, login)) => (claimant, login),
            Ok(Claimed::Refused { overtaken }) => {
                self.resuming.uncharged = overtaken;
                self.refused(
                    candidate,
                    if overtaken { "a later attempt was accepted" } else { "wrong proof" },
                );
                return None;
            }
            Err(MonitorSocketError::Io(problem)) if problem.kind() == ErrorKind::ConnectionRefused => {
                // A client claims its session also to end it, and then it may just have ended. One claim is
                // enough for that; to guess a handle is hopeless.
                self.resuming.uncharged = self.attempts.is_first();
                self.refused(candidate, "no such session");
                return None;
            }
            Err(problem) => {
                debug!(self.client.log, "session to resume: {problem}");
                self.refused(candidate, "it does not answer");
                return Some(Verdict::Later);
            }
        };
        // Another server of this host may have other rules, so it must not end the session.
        if !self.signer.fingerprints().any(|key| login.host_keys.contains(&key)) {
            self.refused(candidate, "the session is another server's");
            return None;
        }
        candidate.proofs.clone_from(&login.proofs);
        candidate.host.clone_from(&login.host);
        if let Err(why) = self.still_allowed(candidate, &login) {
            return self.forbid(candidate, &claimant, &why);
        }
        match account_in_order(self.modules.as_mut(), &self.client, &self.lookups, candidate) {
            Verdict::Accept if !candidate.must_change_password => {}
            denied => {
                let why = unless_unknown("the account is not in order");
                let verdict = self.forbid(candidate, &claimant, &why);
                return verdict.or(matches!(denied, Verdict::Denied(_)).then_some(denied));
            }
        }
        match claimant.take(&attempt.export, self.client.peer, self.client.local) {
            Ok(Some(answer)) => {
                self.resuming.claimant = Some(claimant);
                Some(Verdict::Resume(answer))
            }
            Ok(None) => {
                // Only the session's client has the right proof.
                self.resuming.uncharged = true;
                self.refused(candidate, "it cannot go on over another connection");
                None
            }
            Err(problem) => {
                debug!(self.client.log, "session to resume: {problem}");
                self.refused(candidate, "it does not answer");
                Some(Verdict::Later)
            }
        }
    }

    /// Refuses the resumption and ends the session, because its user has lost the right to it. If a look-up
    /// has failed, the session keeps waiting and the client may try again.
    fn forbid(&self, candidate: &Candidate, claimant: &Claimant, no: &Forbidden) -> Option<Verdict> {
        let Forbidden { why, is_certain } = no;
        if self.lookups.in_doubt() && !is_certain {
            self.refused(
                candidate,
                &format!("{why}, as far as could be looked up; the session goes on to wait"),
            );
            return Some(Verdict::Later);
        }
        claimant.end();
        self.refused(candidate, why);
        None
    }

    fn refused(&self, candidate: &Candidate, why: &str) {
        let (name, from) = (&candidate.name, shown_endpoint(self.client.peer));
        info!(self.client.log, "resumption of a session of {name} from {from} refused: {why}");
    }

    /// Checks that the user could still log in with the methods and keys of the login.
    fn still_allowed(&self, candidate: &Candidate, login: &Login) -> Result<(), Forbidden> {
        let settings = &candidate.settings;
        if settings.refuse_connection.value {
            return Err(unless_unknown("connections are prohibited (RefuseConnection)"));
        }
        if settings.resume_grace.duration().is_none() {
            return Err(unless_unknown("sessions may not wait for their clients now (ResumeGrace)"));
        }
        let Some(user) = &candidate.user else { return Err(unless_unknown("the account is closed")) };
        // Made again after it was removed: the session has the rights of the old one.
        let (uid, rules_of_login) = session_rules::split_account(&login.rules);
        if uid.is_some_and(|uid| uid != user.uid.to_string()) {
            return Err(unless_unknown("the account has another user id now"));
        }
        let account = AccountContext { client: &self.client, lookups: &self.lookups, settings, user };
        let methods = enabled(settings);
        let mut chains = candidate.chains.clone();
        let mut now = KeyOptions::default();
        for proof in candidate.proofs.lines() {
            let (method, rest) = proof.split_once(' ').unwrap_or((proof, ""));
            let method = method.split('/').next().unwrap_or(method);
            advance(&mut chains, method);
            if method != "none" && !methods.contains(&method) {
                return Err(unless_unknown("the method of the login is not allowed any more"));
            }
            if !root_may(&self.client, candidate, method) {
                return Err(unless_unknown("root may not log in that way any more"));
            }
            if method == GSS_METHOD {
                let why = "the Kerberos principal may not be the user any more";
                match lh_sys::gssapi::may_log_in(rest, &user.name) {
                    Ok(true) => {}
                    Ok(false) => return Err(certain(why)),
                    Err(problem) => {
                        debug!(self.client.log, "GSSAPI: {problem}");
                        self.lookups.set_doubt();
                        return Err(unless_unknown(why));
                    }
                }
            }
            if !matches!(method, "publickey" | "hostbased") {
                continue;
            }
            let Some((key, _)) = PublicKey::from_openssh_line(rest) else {
                return Err(certain("the key of the login cannot be read"));
            };
            let accepted = match method {
                "publickey" => ("PubkeyAcceptedAlgorithms", &settings.pubkey_accepted_algorithms.value),
                _ => ("HostbasedAcceptedAlgorithms", &settings.hostbased_accepted_algorithms.value),
            };
            // The login's signature algorithm was not recorded.
            let names = accepted.1.apply(&key_algorithms::DEFAULT);
            let algorithm =
                key.signature_algorithms().iter().find(|name| names.iter().any(|one| one == *name));
            if algorithm
                .and_then(|name| usable_key(settings, key.blob(), name, accepted, &self.client.log))
                .is_none()
            {
                return Err(unless_unknown("keys like that of the login are not accepted any more"));
            }
            match self.lookups.revocation(settings, &key) {
                Revocation::No => {}
                Revocation::Yes => return Err(certain("the key of the login is revoked")),
                Revocation::Unknown => {
                    self.lookups.set_doubt();
                    return Err(unless_unknown("the key of the login may be revoked"));
                }
            }
            if method == "hostbased" {
                let host = login.host.as_ref().filter(|host| account.host_may(host, &key));
                host.ok_or_else(|| unless_unknown("the client's host may not log in as the user any more"))?;
            }
            if method == "publickey" {
                let found = account.find_key(&key);
                let found =
                    found.ok_or_else(|| unless_unknown("the key of the login is not accepted any more"))?;
                now = now
                    .merged(&found.options)
                    .map_err(|_| unless_unknown("the options of its keys contradict each other"))?;
            }
        }
        if !chains.is_empty() && !chains.iter().any(Vec::is_empty) {
            return Err(unless_unknown("the methods of the login are not enough any more"));
        }
        // The session would keep its old options, so it must not go on under new ones.
        if now != *login.options {
            return Err(unless_unknown("the key of the login has other options now"));
        }
        let rules = session_rules::of(settings);
        let changed = session_rules::differences(rules_of_login, &rules);
        if !changed.is_empty() {
            let changed = changed.join(", ");
            return Err(unless_unknown(&format!("the rules of the login were others: {changed}")));
        }
        Ok(())
    }

    /// Returns the claim on the session to take over, after the client has been answered.
    pub(crate) const fn take_claimant(&mut self) -> Option<Claimant> {
        self.resuming.claimant.take()
    }

    /// Stores the terms of the session that is about to start, if it may outlive its connection. A session
    /// joined by a ticket may not: it ends with the one that logged in.
    pub(super) fn may_outlive_connection(&mut self, candidate: &Candidate) {
        let Some(grace) = candidate.settings.resume_grace.duration() else { return };
        // Without a listener nothing would limit the number of waiting sessions.
        if candidate.must_change_password || candidate.joined.is_some() || self.joining.listener.is_none() {
            return;
        }
        let Some(user) = &candidate.user else { return };
        self.resuming.terms = Some(SessionTerms {
            name: candidate.name.clone(),
            account: user.name.clone(),
            proofs: candidate.proofs.clone(),
            host: candidate.host.clone(),
            options: candidate.options.clone(),
            rules: session_rules::of_login(&candidate.settings, user.uid),
            host_keys: self.signer.fingerprints().collect(),
            grace,
        });
    }

    /// Returns the session's terms, once, for the process that asks to outlive its connection.
    pub(crate) fn take_terms(&mut self) -> Result<Option<SessionTerms>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        Ok(self.resuming.terms.take())
    }

    /// Returns the marks by which listeners of this server are recognised, one for each host key.
    pub(crate) fn marks(&self) -> Vec<Vec<u8>> {
        self.signer.keys().iter().map(HostKey::mark).collect()
    }

    /// Returns the address of the client.
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.client.peer
    }

    /// Records that the session has moved to this connection: later proofs of host keys are for its session
    /// identifier.
    pub(crate) fn moved(&mut self, session_id: &[u8], peer: SocketAddr, local: SocketAddr) {
        self.client.session_id = session_id.to_vec();
        (self.client.peer, self.client.local) = (peer, local);
    }
}
