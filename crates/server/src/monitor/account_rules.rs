//! Checks whether an authenticated user may use the account: `PermitRootLogin` and PAM's account check.

use lh_auth::gss::GSS_METHOD;
use lh_config::enums::PermitRootLogin;

use super::candidate::Candidate;
use super::client::Client;
use super::lookups::Lookups;
use super::pam::{Facts, Modules};
use crate::hosts::shown_endpoint;
use crate::log::info;
use crate::modules::Outcome;
use crate::verdict::Verdict;

/// Returns whether `PermitRootLogin` permits an otherwise successful login.
pub(super) fn root_may(client: &Client, candidate: &Candidate, method: &str) -> bool {
    if candidate.user.as_ref().is_none_or(|user| user.uid != 0) {
        return true;
    }
    let allowed = match candidate.settings.permit_root_login.value {
        PermitRootLogin::Yes => true,
        PermitRootLogin::No => false,
        PermitRootLogin::ProhibitPassword => matches!(method, "publickey" | "hostbased" | GSS_METHOD),
        PermitRootLogin::ForcedCommandsOnly => {
            let forced = candidate.options.command.is_some();
            if forced {
                info!(client.log, "Root login accepted for forced command.");
            }
            forced
        }
    };
    if !allowed {
        let from = shown_endpoint(client.peer);
        info!(client.log, "ROOT LOGIN REFUSED FROM {from}");
    }
    allowed
}

/// Runs PAM's account check for an authenticated user; without PAM the account is accepted.
pub(super) fn account_in_order(
    modules: Option<&mut Modules>,
    client: &Client,
    lookups: &Lookups,
    candidate: &mut Candidate,
) -> Verdict {
    let Some(modules) = modules else { return Verdict::Accept };
    match modules.account(&Facts::of(client, candidate), &candidate.proofs) {
        Outcome::Good => Verdict::Accept,
        Outcome::MustChange => {
            candidate.must_change_password = true;
            Verdict::Accept
        }
        Outcome::Bad => Verdict::Denied(modules.said().to_owned()),
        Outcome::Unavailable => {
            lookups.set_doubt();
            Verdict::Denied(modules.said().to_owned())
        }
    }
}
