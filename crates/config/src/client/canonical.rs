//! `CanonicalizeHostname`: completes short names from `CanonicalDomains`, and follows permitted aliases.
//!
//! It runs between two passes over the files: the second pass uses the new name, so that `Host` and `Match
//! canonical` lines can match it.

use std::net::IpAddr;

use super::loader::Loader;
use crate::enums::CanonicalizeHostname;
use crate::error::ConfigError;
use crate::pattern::{ListMatch, match_list};

/// OpenSSH's default of `CanonicalizeMaxDots`.
const MAX_DOTS: u32 = 1;

impl Loader<'_> {
    /// Returns the name to continue with: `host` completed, the target of its alias, or `host` itself.
    ///
    /// # Errors
    /// The name is in none of the domains and `CanonicalizeFallbackLocal` is off, or the name does not exist
    /// and `CanonicalizePermittedCNAMEs` has rules.
    pub(super) fn canonical_host(&self, host: &str) -> Result<String, ConfigError> {
        let s = &self.settings;
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(address.to_string());
        }
        let mode = *s.canonicalize_hostname;
        // `:` and `%` (a scope) occur only in addresses.
        if host.contains([':', '%']) {
            return Ok(host.to_string());
        }
        if mode == CanonicalizeHostname::No {
            return self.permitted_alias(host, host);
        }
        // A proxy resolves names itself.
        if mode == CanonicalizeHostname::Yes && !self.is_direct() {
            return Ok(host.to_string());
        }
        let candidates: Vec<String> = if host.ends_with('.') {
            vec![host.to_string()]
        } else {
            let dots = host.matches('.').count();
            let most =
                if s.canonicalize_max_dots.is_set() { *s.canonicalize_max_dots } else { MAX_DOTS } as usize;
            if dots > most {
                return self.permitted_alias(host, host);
            }
            s.canonical_domains.0.iter().map(|domain| format!("{host}.{domain}.")).collect()
        };
        for full in &candidates {
            if self.environment.canonical_name(full, *s.address_family).is_some() {
                return self.permitted_alias(full, full.trim_end_matches('.'));
            }
        }
        if s.canonicalize_fallback_local.is_set() && !*s.canonicalize_fallback_local {
            return Err(ConfigError::new(format!("ssh: Could not resolve host \"{host}\"")));
        }
        self.permitted_alias(host, host)
    }

    /// Returns `name`, or the target of its alias if `CanonicalizePermittedCNAMEs` permits it. `asked` is the
    /// name to resolve.
    ///
    /// # Errors
    /// The name has no address, and no proxy will resolve it.
    fn permitted_alias(&self, asked: &str, name: &str) -> Result<String, ConfigError> {
        let s = &self.settings;
        let rules = &s.canonicalize_permitted_cnames.0;
        if rules.is_empty() || (!self.is_direct() && *s.canonicalize_hostname != CanonicalizeHostname::Always)
        {
            return Ok(name.to_string());
        }
        let Some(alias) = self.environment.canonical_name(asked, *s.address_family) else {
            if !self.is_direct() {
                return Ok(name.to_string());
            }
            let line = format!("ssh: Could not resolve hostname {name}: Name or service not known");
            return Err(ConfigError::new(line));
        };
        let alias = alias.trim_end_matches('.').to_ascii_lowercase();
        let fits = |text: &str, list: &str| match_list(text, list, true) == ListMatch::Yes;
        let permitted = alias != name
            && alias.parse::<IpAddr>().is_err()
            && rules.iter().any(|(source, target)| fits(name, source) && fits(&alias, target));
        Ok(if permitted { alias } else { name.to_string() })
    }

    /// Returns whether the connection uses neither a proxy command nor a jump host.
    fn is_direct(&self) -> bool {
        let none = |text: Option<&str>| text.is_none_or(|text| text.eq_ignore_ascii_case("none"));
        none(self.settings.proxy_command.0.as_deref()) && none(self.settings.proxy_jump.as_deref())
    }
}
