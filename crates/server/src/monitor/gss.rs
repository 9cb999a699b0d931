//! Kerberos (RFC 4462 section 3): a client with a ticket for this host may log in as each user whose
//! `~/.k5login` lists its principal, or as the user of the principal's name.
//!
//! The key table is readable only by root, so the monitor runs the library's exchange with the client, and
//! passes the client's tokens on unchanged. These are the only bytes of unauthenticated clients that are
//! interpreted in this process, by a library that is made for them. The library is called only where
//! `GSSAPIAuthentication` allows it.

use lh_auth::gss::{GssAttempt, GssReply, mic_data};
use lh_sys::gssapi::{Acceptor, GssError, KERBEROS, may_log_in};

use super::Monitor;
use super::candidate::Candidate;
use super::gss_context::Gss;
use crate::log::{debug, error, info};

/// The result of a step.
pub(super) enum Outcome {
    Reply(GssReply),
    /// The attempt has ended. True: the client has proven its identity and may log in.
    Over(bool),
}

impl Monitor {
    /// Runs one step. Steps for users that do not exist differ only in the result of the last one.
    pub(super) fn gss_step(&mut self, candidate: &Candidate, step: &GssAttempt) -> Outcome {
        let result = match step {
            GssAttempt::Begin(mechanisms) => self.gss_begin(candidate, mechanisms),
            GssAttempt::Token(token) => self.gss_token(token),
            GssAttempt::Mic(mic) => self.gss_mic(candidate, mic).map(Outcome::Over),
            // Kerberos supports MICs; without one a machine in the middle could have relayed the tokens.
            GssAttempt::Complete => Ok(Outcome::Over(false)),
        };
        let outcome = result.unwrap_or_else(|problem| {
            debug!(self.client.log, "GSSAPI: {problem}");
            self.gss.error_token = problem.token;
            Outcome::Over(false)
        });
        if matches!(outcome, Outcome::Over(_)) {
            self.gss.acceptor = None;
        }
        outcome
    }

    fn gss_begin(&mut self, candidate: &Candidate, mechanisms: &[Vec<u8>]) -> Result<Outcome, GssError> {
        self.gss = Gss::default();
        if !mechanisms.iter().any(|name| name[..] == KERBEROS) {
            debug!(self.client.log, "GSSAPI: the client offers no mechanism that is known");
            return Ok(Outcome::Over(false));
        }
        let own_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let strict = candidate.settings.gssapi_strict_acceptor_check.value;
        self.gss.acceptor = Some(Acceptor::new(strict.then_some(own_name.as_str()))?);
        Ok(Outcome::Reply(GssReply::Mechanism(KERBEROS.to_vec())))
    }

    fn gss_token(&mut self, token: &[u8]) -> Result<Outcome, GssError> {
        let Some(acceptor) = &mut self.gss.acceptor else { return Ok(Outcome::Over(false)) };
        let step = acceptor.step(token)?;
        if step.complete {
            self.gss.principal = acceptor.principal()?;
        }
        Ok(Outcome::Reply(GssReply::Token(step.token)))
    }

    /// Checks the last step: whether the MIC is right for this connection and user, and the principal may be
    /// that user.
    fn gss_mic(&mut self, candidate: &Candidate, mic: &[u8]) -> Result<bool, GssError> {
        let Some(acceptor) = &self.gss.acceptor else { return Ok(false) };
        let data = mic_data(&self.client.session_id, candidate.name.as_bytes());
        let principal = &self.gss.principal;
        if !acceptor.is_mic(&data, mic) {
            debug!(self.client.log, "GSSAPI: wrong checksum from {principal}");
            return Ok(false);
        }
        let Some(user) = &candidate.user else { return Ok(false) };
        if !may_log_in(principal, &user.name)? {
            info!(self.client.log, "krb5 principal {principal} is not authorized to be {}", user.name);
            return Ok(false);
        }
        info!(self.client.log, "Authorized to {}, krb5 principal {principal} (krb5_kuserok)", user.name);
        if candidate.settings.gssapi_delegate_credentials.value {
            match acceptor.delegated() {
                Ok(credentials) => self.gss.credentials = credentials,
                Err(problem) => error!(self.client.log, "GSSAPI: delegated credentials: {problem}"),
            }
        }
        Ok(true)
    }
}
