//! Completes the settings after all files have been read: names, tokens, defaults.

use super::config::{ClientConfig, JumpHost};
use super::loader::Loader;
use crate::enums::LogLevel;
use crate::error::ConfigError;
use crate::names::{BAD_USER, user_is_safe};
use crate::table::{Origin, Setting};
use crate::token::{Tokens, expand_environment};

/// The default key files, in OpenSSH's order.
const DEFAULT_IDENTITIES: [&str; 6] = [
    "~/.ssh/id_rsa",
    "~/.ssh/id_ecdsa",
    "~/.ssh/id_ecdsa_sk",
    "~/.ssh/id_ed25519",
    "~/.ssh/id_ed25519_sk",
    "~/.ssh/id_mldsa44_ed25519",
];

impl Loader<'_> {
    /// Returns `Hostname` with its tokens expanded, or the original destination; in lower case.
    pub(super) fn resolved_host(&mut self) -> Result<String, ConfigError> {
        let host = match self.settings.hostname.as_deref() {
            Some(name) => match Tokens::new().with('h', &self.request.host).expand(name) {
                Ok(host) => host,
                Err(why) => return Err(self.fatal(format!("Hostname: {why}"))),
            },
            None => self.request.host.clone(),
        };
        Ok(host.to_ascii_lowercase())
    }

    /// Expands tokens and variables of `User`. As in OpenSSH, literal text from a file may contain anything,
    /// and is checked before a shell gets it. Text from the command line or an expansion must not contain
    /// shell syntax.
    fn resolve_user(&mut self) -> Result<(), ConfigError> {
        let Some(text) = self.settings.user.value.clone() else { return Ok(()) };
        let typed = self.settings.user.origin == Origin::CommandLine;
        let user = if self.user_as_typed || !text.contains(['%', '$']) {
            text.clone()
        } else {
            // %r would be the user itself, and %C depends on it.
            let tokens = self.current_tokens().only("Ldhijklnpu");
            let expanded = tokens.expand(&text).and_then(|text| expand_environment(&text, self.environment));
            expanded.map_err(|why| self.fatal(format!("User: {why}")))?
        };
        if (typed || user != text) && !user_is_safe(&user) {
            return Err(self.fatal(BAD_USER.to_string()));
        }
        self.settings.user.value = Some(user);
        Ok(())
    }

    /// Expands tokens and variables in the values of `SetEnv`.
    fn resolve_set_env(&mut self) -> Result<(), ConfigError> {
        if self.settings.set_env.value.0.is_empty() {
            return Ok(());
        }
        let tokens = self.current_tokens();
        let mut pairs = std::mem::take(&mut self.settings.set_env.value.0);
        for (name, value) in &mut pairs {
            let expanded = tokens.expand(value).and_then(|text| expand_environment(&text, self.environment));
            *value = expanded.map_err(|why| self.fatal(format!("SetEnv {name}: {why}")))?;
        }
        self.settings.set_env.value.0 = pairs;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<ClientConfig, ConfigError> {
        let host = self.host.clone();
        // From here on all criteria and tokens use the resolved host.
        self.final_pass = true;
        self.resolve_user()?;
        self.resolve_set_env()?;
        // Each of the two passes may add an equal note.
        let mut said = std::collections::HashSet::new();
        self.notes.retain(|note| note.level > LogLevel::Debug1 || said.insert(note.text.clone()));
        let s = &mut self.settings;
        if s.metrics_path.is_set() && !s.metrics.is_set() {
            s.metrics = Setting { value: true, origin: s.metrics_path.origin.clone() };
        }
        // As in OpenSSH, `UpdateHostKeys` is off by default for a user with other known_hosts files, or with
        // host keys in DNS.
        let own_files = s.user_known_hosts_file.is_set();
        s.fill_defaults();
        use crate::enums::YesNoAsk;
        if !s.update_host_keys.is_set() && (own_files || *s.verify_host_key_dns != YesNoAsk::No) {
            s.update_host_keys.value = YesNoAsk::No;
        }
        if !s.identity_file.is_set() {
            s.identity_file.value.0 = DEFAULT_IDENTITIES.iter().map(|file| file.to_string()).collect();
        }
        if *s.clear_all_forwardings {
            s.local_forward.value.0.clear();
            s.remote_forward.value.0.clear();
            s.dynamic_forward.value.0.clear();
        }
        if s.user.is_none() {
            s.user.value = Some(self.request.account.name.clone());
        }
        s.hostname.value = Some(host.clone());
        // Host names in known_hosts are in lower case.
        s.host_key_alias.value = s.host_key_alias.value.take().map(|alias| alias.to_ascii_lowercase());
        // The value `none` disables these keywords.
        let is_none = |text: &Option<String>| text.as_deref().is_some_and(|t| t.eq_ignore_ascii_case("none"));
        for command in
            [&mut s.proxy_command, &mut s.local_command, &mut s.remote_command, &mut s.known_hosts_command]
        {
            if is_none(&command.value.0) {
                command.value.0 = None;
            }
        }
        for word in [&mut s.control_path, &mut s.proxy_jump, &mut s.pkcs11_provider] {
            if is_none(&word.value) {
                word.value = None;
            }
        }
        if let Some(hops) = s.proxy_jump.as_deref().and_then(JumpHost::parse_list) {
            let hops: Vec<String> = hops.iter().map(JumpHost::to_string).collect();
            s.proxy_jump.value = Some(hops.join(","));
        }
        let mut config = ClientConfig {
            settings: self.settings,
            original_host: self.request.host.clone(),
            host,
            account: self.request.account.clone(),
            notes: self.notes,
        };
        config.expand_shared_paths(self.environment)?;
        Ok(config)
    }
}
