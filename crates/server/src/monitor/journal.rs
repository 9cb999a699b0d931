//! Records of login attempts: log lines in OpenSSH's words, and btmp.

use lh_auth::gss::GssReply;
use lh_auth::server::Method;
use lh_config::server_table::ServerSettings;
use lh_crypto::PublicKey;
use lh_sys::records::{Entry, Records};
use lh_sys::time::now_unix;

use super::Monitor;
use super::attempts::Asked;
use super::candidate::Candidate;
use super::fingerprints::{describe, fingerprint};
use crate::hosts::{known_ip, shown_endpoint};
use crate::log::{Field, Level, at_most, debug, error, shown_name};
use crate::verdict::Verdict;

impl Monitor {
    pub(super) fn log_attempt(&self, candidate: &Candidate, method: &Method, verdict: &Verdict) {
        // One attempt exchanges many tokens; only its result is logged.
        if matches!(verdict, Verdict::Gss(GssReply::Token(_))) {
            return;
        }
        if !is_logged(candidate, method, verdict) {
            return;
        }
        let word = match verdict {
            Verdict::Accept => "Accepted",
            Verdict::Resume(_) => "Resumed",
            Verdict::Reject { partial: true, .. } => "Partial",
            Verdict::Reject { .. } | Verdict::TooMany | Verdict::Denied(_) | Verdict::Later => "Failed",
            // The reason has been logged.
            Verdict::NoMethods => return,
            Verdict::KeyOk | Verdict::Prompt(_) | Verdict::Gss(_) => "Postponed",
        };
        let invalid = if candidate.user.is_none() { "invalid user " } else { "" };
        let described = |blob: &[u8]| match PublicKey::from_blob(blob) {
            Ok(key) => format!(": {}", describe_with_authority(&candidate.settings, &key)),
            Err(_) => String::new(),
        };
        let key = match method {
            Method::PublicKey(attempt) => {
                let key = PublicKey::from_blob(&attempt.key).ok();
                let key = key.map(|key| fingerprint(&candidate.settings, &key)).unwrap_or_default();
                self.client.log.set_field(Field::Fingerprint, &key);
                described(&attempt.key)
            }
            Method::HostBased(attempt) => {
                let (user, host) = (shown_name(&attempt.local_user), shown_name(&attempt.host));
                format!("{}, client user \"{user}\", client host \"{host}\"", described(&attempt.key))
            }
            Method::Gss(_) if !self.gss.principal().is_empty() => format!(": {}", self.gss.principal()),
            Method::Ticket(_) => candidate
                .joined
                .as_ref()
                .map_or_else(String::new, |joined| format!(": joined session of {}", joined.pid)),
            _ => String::new(),
        };
        // OpenSSH's levels: refused keys do not count among the failures that raise the level of later ones.
        let most = candidate.settings.max_auth_tries.value;
        let loud = matches!(verdict, Verdict::Accept | Verdict::Resume(_))
            || candidate.user.is_none()
            || self.attempts.failed_secrets() >= most / 2
            || matches!(method, Method::Password(_));
        let level = if loud { Level::Info } else { Level::Verbose };
        let (name, from) = (shown_name(&candidate.name), shown_endpoint(self.client.peer));
        let shown = match method {
            // The device is named only after the modules have decided, as in OpenSSH.
            Method::KeyboardInteractive(_) | Method::Responses(_) if word == "Postponed" => {
                "keyboard-interactive"
            }
            Method::KeyboardInteractive(_) | Method::Responses(_) => "keyboard-interactive/pam",
            Method::Ticket(_) => "ticket",
            // A method that is unknown here has a name of any length.
            other => at_most(other.name(), 100),
        };
        let by_pam = matches!(method, Method::Responses(_)) && self.modules.is_some();
        if by_pam && matches!(verdict, Verdict::Reject { partial: false, .. }) {
            let illegal = if candidate.user.is_none() { "illegal user " } else { "" };
            error!(
                self.client.log,
                "PAM: Authentication failure for {illegal}{name} from {}",
                self.client.origin()
            );
        }
        let line = format!("{word} {shown} for {invalid}{name} from {from} ssh2");
        match verdict {
            // An intermediate step: in OpenSSH the pre-auth process logs it, without a description of the
            // key.
            Verdict::KeyOk | Verdict::Prompt(_) | Verdict::Gss(_) => {
                self.client.log.preauth().line(level, format_args!("{line}"));
            }
            _ => self.client.log.line(level, format_args!("{line}{key}")),
        }
        if !matches!(verdict, Verdict::Accept | Verdict::Resume(_) | Verdict::Reject { partial: true, .. }) {
            self.client.log.set_field(Field::Fingerprint, "");
        }
        let typed = matches!(method, Method::Password(_) | Method::Responses(_));
        if typed && matches!(verdict, Verdict::Reject { partial: false, .. }) {
            self.record_failure(&candidate.name);
        }
    }

    fn record_failure(&self, user: &str) {
        let host = self.client.origin().to_string();
        let address = known_ip(self.client.peer.ip());
        let entry = Entry {
            user,
            line: "ssh:notty",
            host: &host,
            address,
            pid: std::process::id(),
            time: now_unix(),
        };
        if let Err(problem) = Records::of_the_system().failure(&entry) {
            debug!(self.client.log, "btmp: {problem}");
        }
    }

    /// Returns what the client has requested so far.
    pub(crate) fn asked(&self) -> Asked {
        if self.attempts.refused() > 0 {
            Asked::Failed {
                exists: self.candidate.as_ref().is_some_and(|candidate| candidate.user.is_some()),
            }
        } else if self.attempts.for_login() {
            Asked::Login
        } else {
            Asked::Nothing
        }
    }
}

/// Returns whether an attempt is logged. OpenSSH does not log requests for the list of methods, nor keys
/// offered for an account that may not log in; fail2ban would count their lines as guesses.
fn is_logged(candidate: &Candidate, method: &Method, verdict: &Verdict) -> bool {
    match method {
        // The session did not answer, or a look-up has failed; that has been logged.
        Method::Resume(_) if matches!(verdict, Verdict::Later) => false,
        _ if !matches!(verdict, Verdict::Reject { partial: false, .. }) => true,
        Method::None => candidate.settings.permit_empty_passwords.value,
        Method::PublicKey(_) | Method::HostBased(_) => candidate.user.is_some(),
        _ => true,
    }
}

/// Returns `ED25519-CERT SHA256:… ID name (serial 1) CA ED25519 SHA256:…`.
fn describe_with_authority(settings: &ServerSettings, key: &PublicKey) -> String {
    let plain = describe(settings, key);
    match key.certificate() {
        None => plain,
        Some(certificate) => {
            let (id, serial) = (certificate.key_id(), certificate.serial());
            format!("{plain} ID {id} (serial {serial}) CA {}", describe(settings, certificate.authority()))
        }
    }
}
