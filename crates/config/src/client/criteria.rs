//! The criteria of `Match` in `ssh_config`.

use super::config::tokens;
use super::loader::{Loader, Place};
use crate::cidr;
use crate::criteria_words::split_criteria;
use crate::enums::{LogLevel, SessionType};
use crate::match_error::MatchError;
use crate::pattern::{ListMatch, match_host, match_list, wildcard};
use crate::token::Tokens;

/// The version for `Match version`.
const VERSION: &str = concat!("Longhaul_", env!("CARGO_PKG_VERSION"));

impl Loader<'_> {
    /// Returns whether the criteria match. `live` is false inside blocks that do not apply, where no command
    /// may run. The log tells about each criterion.
    ///
    /// # Errors
    /// The reason, to print before "Bad Match condition".
    pub(super) fn criteria(&mut self, text: &str, place: &Place, live: bool) -> Result<bool, MatchError> {
        let original = &self.request.host;
        let host = self.current_host();
        let line = format!("checking match for '{text}' host {host} originally {original}");
        self.note(LogLevel::Debug2, line);
        let words = split_criteria(text)?;
        let mut words = words.into_iter();
        let mut result = true;
        let mut attributes = 0;
        while let Some(word) = words.next() {
            let (negated, attribute) = match word.strip_prefix('!') {
                Some(rest) => (true, rest.to_ascii_lowercase()),
                None => (false, word.to_ascii_lowercase()),
            };
            let mut shown = String::new();
            let hit = match attribute.as_str() {
                "all" => {
                    // As in OpenSSH, one attribute may precede `all`, for `canonical all`.
                    if attributes > 1 || words.next().is_some() {
                        return Err(MatchError::AllNotAlone);
                    }
                    true
                }
                "canonical" => self.final_pass,
                "final" => {
                    self.final_wanted = true;
                    self.final_pass
                }
                _ => {
                    let argument = words
                        .next()
                        .filter(|argument| {
                            !argument.is_empty() || attribute == "command" || attribute == "tagged"
                        })
                        .ok_or_else(|| MatchError::MissingArgument(attribute.clone()))?;
                    shown = format!(" \"{argument}\"");
                    self.criterion(&attribute, &argument, live && result)?
                }
            };
            attributes += 1;
            let (not, mark) = (if hit == negated { "not " } else { "" }, if negated { "!" } else { "" });
            // A command has not run where another criterion has failed before.
            if attribute != "exec" || (live && result) {
                self.note(LogLevel::Debug3, place.say(format!("{not}matched '{mark}{attribute}{shown}'")));
            }
            result &= hit != negated;
        }
        if attributes == 0 {
            return Err(MatchError::NoAttributes);
        }
        let outcome = if result { "match found" } else { "match not found" };
        self.note(LogLevel::Debug2, outcome.to_owned());
        Ok(result)
    }

    fn criterion(&mut self, attribute: &str, argument: &str, live: bool) -> Result<bool, MatchError> {
        let account = &self.request.account;
        Ok(match attribute {
            "host" => match_host(&self.current_host(), argument),
            "originalhost" => match_host(&self.request.host, argument),
            "user" => {
                let user = self.settings.user.as_deref().unwrap_or(&account.name);
                match_list(user, argument, false) == ListMatch::Yes
            }
            "localuser" => match_list(&account.name, argument, false) == ListMatch::Yes,
            "localnetwork" => {
                if !cidr::check_list(argument) {
                    return Err(MatchError::BadLocalNetwork(argument.to_owned()));
                }
                let addresses = self.environment.local_addresses();
                addresses.into_iter().any(|address| cidr::match_list(address, argument) == Ok(ListMatch::Yes))
            }
            "tagged" => {
                let tag = self.settings.tag.as_deref().unwrap_or("");
                if argument.is_empty() {
                    tag.is_empty()
                } else {
                    match_list(tag, argument, false) == ListMatch::Yes
                }
            }
            "version" => match_list(VERSION, argument, false) == ListMatch::Yes,
            "command" => {
                let command = self.request.command.as_deref().unwrap_or("");
                // A command may contain commas, so the argument is one pattern and not a list.
                wildcard(command.as_bytes(), argument.as_bytes())
            }
            "sessiontype" => {
                let kind = match (*self.settings.session_type, &self.request.command) {
                    (SessionType::None, _) => "none",
                    (SessionType::Subsystem, _) => "subsystem",
                    (SessionType::Default, Some(_)) => "exec",
                    (SessionType::Default, None) => "shell",
                };
                match_list(kind, argument, false) == ListMatch::Yes
            }
            "exec" => {
                let command =
                    self.current_tokens().expand_command(argument).map_err(MatchError::Unexpandable)?;
                if live {
                    self.debug(format!("Executing command: '{command}'"));
                }
                live && self.environment.run(&command).map_err(MatchError::Command)?
            }
            _ => return Err(MatchError::UnsupportedAttribute(attribute.to_owned())),
        })
    }

    /// Returns the host name as far as it is known at this point.
    pub(super) fn current_host(&self) -> String {
        match self.settings.hostname.as_deref().filter(|_| !self.final_pass) {
            Some(name) => {
                Tokens::new().with('h', &self.request.host).expand(name).unwrap_or_else(|_| name.to_string())
            }
            None => self.host.clone(),
        }
    }

    pub(super) fn current_tokens(&self) -> Tokens {
        let user = self.settings.user.as_deref().unwrap_or(&self.request.account.name);
        let port = self.settings.port.value.0;
        let alias = self.settings.host_key_alias.as_deref().unwrap_or(&self.request.host);
        let jump = self.settings.proxy_jump.as_deref().unwrap_or("");
        let host = self.current_host();
        tokens(&self.request.account, self.environment, &host, &self.request.host, user, port, alias, jump)
    }
}
