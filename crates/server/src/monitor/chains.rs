//! `AuthenticationMethods`: the lists of methods that must succeed one after another.

use lh_auth::gss::GSS_METHOD;
use lh_config::server_table::ServerSettings;

use crate::log::{Log, error};

/// Returns the method without its submethod (`keyboard-interactive:pam`).
pub(super) fn base(method: &str) -> &str {
    method.split(':').next().unwrap_or(method)
}

/// Returns the methods that the settings enable, in OpenSSH's order.
fn configured(settings: &ServerSettings) -> Vec<&'static str> {
    [
        ("publickey", settings.pubkey_authentication.value),
        (GSS_METHOD, lh_sys::gssapi::SUPPORTED && settings.gssapi_authentication.value),
        ("password", settings.password_authentication.value),
        ("keyboard-interactive", settings.kbd_interactive_authentication.value),
        ("hostbased", settings.hostbased_authentication.value),
    ]
    .into_iter()
    .filter(|(_, on)| *on)
    .map(|(name, _)| name)
    .collect()
}

/// Returns the enabled methods that can succeed in this process: without root's rights only PAM can check
/// passwords.
pub(super) fn enabled(settings: &ServerSettings) -> Vec<&'static str> {
    let mut methods = configured(settings);
    let passwords = lh_sys::ids::is_root() || crate::pam_use::uses_pam(settings);
    methods.retain(|method| passwords || matches!(*method, "publickey" | "hostbased" | GSS_METHOD));
    methods
}

/// Returns the alternatives whose methods are all enabled. If there were alternatives and none is left, every
/// login must fail: the result is then one alternative that cannot be satisfied.
pub(super) fn usable(settings: &ServerSettings, log: &Log) -> Vec<Vec<String>> {
    let configured = &settings.authentication_methods.0;
    let (good, bad): (Vec<_>, Vec<_>) =
        configured.iter().cloned().partition(|chain| possible(settings, chain, &enabled(settings)));
    for chain in &bad {
        error!(log, "Disabled method in AuthenticationMethods list \"{}\"", chain.join(","));
    }
    if good.is_empty() && !configured.is_empty() {
        error!(log, "No AuthenticationMethods left after eliminating disabled methods");
        return vec![vec![String::new()]];
    }
    good
}

/// Returns whether [`usable`] has found that no alternative can be satisfied.
pub(super) fn are_unsatisfiable(chains: &[Vec<String>]) -> bool {
    matches!(chains, [chain] if chain.iter().map(String::as_str).eq([""]))
}

fn possible(settings: &ServerSettings, chain: &[String], enabled: &[&str]) -> bool {
    let pam = crate::pam_use::uses_pam(settings);
    chain.iter().all(|method| match method.split_once(':') {
        None => method == "none" || enabled.contains(&method.as_str()),
        // PAM is the only device.
        Some((base, device)) => enabled.contains(&base) && device == "pam" && pam,
    })
}

/// Returns why no alternative can be satisfied, in OpenSSH's words; empty where one can, or where there are
/// no alternatives.
pub(crate) fn unsatisfiable(settings: &ServerSettings) -> Vec<String> {
    let methods = configured(settings);
    let mut lines = Vec::new();
    for chain in &settings.authentication_methods.0 {
        let possible = |method: &&String| possible(settings, std::slice::from_ref(*method), &methods);
        let Some(method) = chain.iter().find(|method| !possible(method)) else { return Vec::new() };
        let list = chain.join(",");
        lines.push(format!("Disabled method \"{method}\" in AuthenticationMethods list \"{list}\""));
    }
    if !lines.is_empty() {
        lines.push("AuthenticationMethods cannot be satisfied by enabled authentication methods".to_owned());
    }
    lines
}

/// Removes a method that has succeeded from the chains that begin with it.
pub(super) fn advance(chains: &mut [Vec<String>], method: &str) {
    for chain in chains {
        if chain.first().is_some_and(|first| base(first) == method) {
            chain.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;

    #[test]
    fn chains_of_methods_end_when_one_is_used_up() {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut chains = vec![list("publickey,password"), list("publickey,keyboard-interactive:pam")];
        advance(&mut chains, "password");
        assert_eq!(chains[0], ["publickey", "password"]);
        advance(&mut chains, "publickey");
        assert_eq!(chains, [list("password"), list("keyboard-interactive:pam")]);
        advance(&mut chains, "keyboard-interactive");
        assert!(chains[1].is_empty() && !chains[0].is_empty());
    }

    #[test]
    fn alternatives_with_methods_that_are_off_do_not_count() {
        let log = Log::lines(Level::Info);
        let settings = crate::testing::settings(
            "PubkeyAuthentication no\nAuthenticationMethods publickey,password password publickey",
        );
        if lh_sys::ids::is_root() {
            assert_eq!(usable(&settings, &log), [["password"]]);
            assert_eq!(log.taken().len(), 2);
        }
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let settings = crate::testing::settings("PubkeyAuthentication no\nAuthenticationMethods publickey");
        assert_eq!(
            unsatisfiable(&settings),
            [
                "Disabled method \"publickey\" in AuthenticationMethods list \"publickey\"",
                "AuthenticationMethods cannot be satisfied by enabled authentication methods"
            ]
        );
        // No success empties this chain.
        let mut left = usable(&settings, &log);
        for method in ["publickey", "password", "keyboard-interactive", "none"] {
            advance(&mut left, method);
        }
        assert_eq!(left, [[""]]);
        assert!(
            are_unsatisfiable(&left) && !are_unsatisfiable(&[list("password")]) && !are_unsatisfiable(&[])
        );
        assert_eq!(usable(&crate::testing::settings(""), &log), Vec::<Vec<String>>::new());
    }
}
