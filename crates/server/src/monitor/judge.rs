//! Decides about one attempt.

use lh_auth::gss::GSS_METHOD;
use lh_auth::server::Method;
use lh_config::enums::PermitRootLogin;
use lh_config::server_values::PermitUserEnvironment;
use lh_crypto::PublicKey;
use lh_sys::time::now_unix;
use zeroize::Zeroizing;

use super::account_rules::root_may;
use super::candidate::Candidate;
use super::chains::{advance, are_unsatisfiable, base, enabled};
use super::hostbased::{client_host, host_right};
use super::keys::{KeyVerdict, key_right};
use super::pam::{Facts, PasswordRules, Step};
use super::{Monitor, gss};
use crate::account::{self, PasswordAge};
use crate::log::error;
use crate::passwords;
use crate::verdict::Verdict;

/// The prompt of keyboard-interactive without PAM.
const PASSWORD_PROMPT: &str = "Password: ";

impl Monitor {
    pub(super) fn judge(&mut self, candidate: &mut Candidate, method: &Method) -> Verdict {
        let name = method.name().to_owned();
        let right = match method {
            Method::Ticket(attempt) => {
                let methods = offered_names(candidate);
                let joins = self.join(candidate, attempt);
                return if joins { Verdict::Accept } else { Verdict::Reject { methods, partial: false } };
            }
            Method::Resume(attempt) => {
                let methods = offered_names(candidate);
                let verdict = self.resume(candidate, attempt);
                return verdict.unwrap_or(Verdict::Reject { methods, partial: false });
            }
            _ if are_unsatisfiable(&candidate.chains) => return Verdict::NoMethods,
            // `none` is a login with an empty password: only where that is allowed, and only for an existing
            // user.
            Method::None => {
                may_begin_with(candidate, "none")
                    && candidate.settings.permit_empty_passwords.value
                    && candidate.settings.password_authentication.value
                    && self.password_right(candidate, b"")
            }
            _ if !offered(candidate).contains(&name.as_str()) => false,
            // A client that asks only for submethods that do not exist is refused.
            Method::KeyboardInteractive(wanted) if self.modules.is_some() && !names_pam(wanted) => false,
            Method::Password(password) => self.password_right(candidate, password),
            Method::KeyboardInteractive(_) => match self.interactive(candidate, None) {
                Step::Ask(prompts) => return Verdict::Prompt(prompts),
                Step::Done(right) => right,
            },
            Method::Responses(responses) => match self.interactive(candidate, Some(responses)) {
                Step::Ask(prompts) => return Verdict::Prompt(prompts),
                Step::Done(right) => right,
            },
            Method::PublicKey(key) => match key_right(&self.client, &self.lookups, candidate, key) {
                Some(KeyVerdict::WouldDo) => return Verdict::KeyOk,
                Some(KeyVerdict::Proven(found)) => match candidate.options.merged(&found.options) {
                    Ok(options) => {
                        candidate.options = options;
                        if let Some(place) = &found.place {
                            let permit = &candidate.settings.permit_user_environment.value;
                            let environment = *permit != PermitUserEnvironment::No;
                            candidate.remarks.extend(found.options.remarks(place, environment));
                        }
                        true
                    }
                    Err(why) => {
                        error!(self.client.log, "Inconsistent authentication options: {why}");
                        false
                    }
                },
                None => false,
            },
            Method::HostBased(attempt) => host_right(&self.client, &self.lookups, candidate, attempt),
            Method::Gss(step) => match self.gss_step(candidate, step) {
                gss::Outcome::Reply(reply) => return Verdict::Gss(reply),
                gss::Outcome::Over(right) => right,
            },
            Method::PasswordChange | Method::Other(_) => false,
        };
        if !right || !root_may(&self.client, candidate, &name) {
            if matches!(method, Method::Gss(_)) {
                // Drop the credentials: a later successful attempt must not use those of a refused one.
                self.gss.credentials = None;
            }
            return Verdict::Reject { methods: offered_names(candidate), partial: false };
        }
        note_proof(candidate, method, self.gss.principal());
        if candidate.chains.is_empty() {
            return Verdict::Accept;
        }
        advance(&mut candidate.chains, &name);
        if candidate.chains.iter().any(Vec::is_empty) {
            return Verdict::Accept;
        }
        Verdict::Reject { methods: offered_names(candidate), partial: true }
    }

    /// Returns whether this candidate may log in with a password at all.
    fn password_may_do(candidate: &Candidate) -> bool {
        candidate.user.as_ref().is_some_and(|user| {
            user.uid != 0 || candidate.settings.permit_root_login.value == PermitRootLogin::Yes
        })
    }

    fn password_right(&mut self, candidate: &mut Candidate, password: &[u8]) -> bool {
        let empty_allowed = candidate.settings.permit_empty_passwords.value;
        let facts = Facts::of(&self.client, candidate);
        if let Some(modules) = &mut self.modules {
            let real = Self::password_may_do(candidate) && (!password.is_empty() || empty_allowed);
            return modules.password(&facts, password, PasswordRules { real, empty_allowed });
        }
        let allowed = candidate.user.is_some() && (!password.is_empty() || empty_allowed);
        // The hash is computed for unknown users too, so that the time does not reveal which users exist.
        let hash =
            candidate.shadow.as_ref().filter(|_| candidate.user.is_some()).map(|shadow| &shadow.hash[..]);
        let right = passwords::check(password, hash, &self.client.log);
        if !(right && allowed) {
            return false;
        }
        if let Some(shadow) = &candidate.shadow {
            candidate.must_change_password =
                account::password_age(shadow, now_unix()) == PasswordAge::MustChange;
        }
        true
    }

    /// Runs a step of keyboard-interactive: the first one, or the one after the responses.
    fn interactive(&mut self, candidate: &mut Candidate, responses: Option<&[Zeroizing<Vec<u8>>]>) -> Step {
        let real = Self::password_may_do(candidate);
        let empty_allowed = candidate.settings.permit_empty_passwords.value;
        let facts = Facts::of(&self.client, candidate);
        match (&mut self.modules, responses) {
            (Some(modules), None) => modules.ask(&facts, PasswordRules { real, empty_allowed }),
            (Some(modules), Some(responses)) if modules.asking() => modules.answer(responses, real),
            (Some(_), Some(_)) => Step::Done(false),
            (None, None) => Step::Ask(vec![(PASSWORD_PROMPT.to_owned(), false)]),
            (None, Some([password])) => Step::Done(self.password_right(candidate, password)),
            (None, Some(_)) => Step::Done(false),
        }
    }
}

/// Returns whether an alternative continues with this method, or any method is enough.
pub(super) fn may_begin_with(candidate: &Candidate, name: &str) -> bool {
    candidate.chains.is_empty()
        || candidate.chains.iter().any(|chain| chain.first().is_some_and(|first| base(first) == name))
}

/// Returns the methods that this user may try now, in OpenSSH's order.
fn offered(candidate: &Candidate) -> Vec<&'static str> {
    enabled(&candidate.settings).into_iter().filter(|name| may_begin_with(candidate, name)).collect()
}

/// Returns whether the client's submethods include PAM, the only one there is. An empty list means any.
fn names_pam(submethods: &str) -> bool {
    submethods.is_empty() || submethods.split(',').any(|name| name == "pam")
}

fn offered_names(candidate: &Candidate) -> Vec<String> {
    offered(candidate).into_iter().map(str::to_owned).collect()
}

/// Records a method that succeeded, for `ExposeAuthInfo` and so that no key counts twice.
fn note_proof(candidate: &mut Candidate, method: &Method, principal: &str) {
    let proof = match method {
        Method::PublicKey(attempt) => match PublicKey::from_blob(&attempt.key) {
            Ok(key) => {
                candidate.used_keys.push(key.plain().clone());
                format!("publickey {}", key.to_openssh_line(""))
            }
            Err(_) => return,
        },
        Method::HostBased(attempt) => match PublicKey::from_blob(&attempt.key) {
            Ok(key) => {
                candidate.used_keys.push(key.plain().clone());
                candidate.host = Some(client_host(attempt));
                format!("hostbased {}", key.to_openssh_line(""))
            }
            Err(_) => return,
        },
        Method::KeyboardInteractive(_) | Method::Responses(_) => "keyboard-interactive/pam".to_owned(),
        Method::Gss(_) => format!("{GSS_METHOD} {principal}"),
        other => other.name().to_owned(),
    };
    candidate.proofs.push_str(&proof);
    candidate.proofs.push('\n');
}

#[cfg(test)]
mod tests {
    use super::names_pam;

    #[test]
    fn submethods_of_a_client_must_include_pam() {
        assert!(["", "pam", "skey,pam", "pam,skey"].iter().all(|list| names_pam(list)));
        assert!(["skey", "bsdauth,skey", "pamela", ","].iter().all(|list| !names_pam(list)));
    }
}
