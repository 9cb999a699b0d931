//! Loads the configuration from files and the command line.

use super::config::ClientConfig;
use super::loader::{FileContext, Loader, Place};
use super::{CommandLine, Request, UserFile};
use crate::algorithms::{AlgorithmKind, all_known};
use crate::client_table::{CLIENT_KEYWORDS, ClientSettings};
use crate::enums::{CanonicalizeHostname, LogLevel};
use crate::environment::Environment;
use crate::error::{ConfigError, ConfigFault, errno_text};
use crate::line::{Arguments, Dialect, split_keyword};
use crate::table::{Origin, find};

/// Loads all settings that apply to `request.host`.
///
/// # Errors
/// [`ConfigError`] with the lines to print; exit status 255.
pub fn load(request: &Request, environment: &dyn Environment) -> Result<ClientConfig, ConfigError> {
    let mut loader = Loader {
        request,
        environment,
        settings: ClientSettings::unset(),
        notes: Vec::new(),
        lines: Vec::new(),
        log_level: LogLevel::Info,
        host: request.host.clone(),
        final_pass: false,
        final_wanted: false,
        user_as_typed: false,
    };
    loader.check_host(&request.host)?;
    loader.command_line().map_err(|error| ConfigError { fault: ConfigFault::Option, ..error })?;
    loader.log_level = *loader.settings.log_level;
    loader.files()?;
    let resolved = loader.resolved_host()?;
    loader.check_host(&resolved)?;
    loader.host = loader.canonical_host(&resolved)?;
    let host = loader.host.clone();
    loader.check_host(&host)?;
    if *loader.settings.canonicalize_hostname != CanonicalizeHostname::No {
        loader.debug("hostname canonicalisation enabled, will re-parse configuration".to_string());
        loader.final_wanted = true;
    }
    if loader.final_wanted {
        loader.final_pass = true;
        loader.files()?;
    }
    let attempts = &loader.settings.connection_attempts;
    if attempts.is_set() && attempts.value == 0 {
        return Err(loader.fatal("Invalid number of ConnectionAttempts".to_owned()));
    }
    loader.finish()
}

impl Loader<'_> {
    fn command_line(&mut self) -> Result<(), ConfigError> {
        let request = self.request;
        for given in &request.command_line {
            let mut place = Place { name: "command-line".to_string(), line: 0, origin: Origin::CommandLine };
            let mut active = true;
            match given {
                CommandLine::Option(text) => {
                    if let Some((keyword, _)) = split_keyword(text) {
                        let lower = keyword.to_ascii_lowercase();
                        if ["host", "match", "include"].contains(&lower.as_str()) {
                            // ssh's message uses "Host" for `Match` too.
                            let name = if lower == "include" { "Include" } else { "Host" };
                            let line = format!("{name} directive not supported as a command-line option");
                            return Err(ConfigError::new(line));
                        }
                    }
                    let context = FileContext { user: true, check_owner: false, depth: 0, never: false };
                    if !self.line(text, &place, &mut active, context)? {
                        return Err(self.give_up());
                    }
                }
                CommandLine::Flag(keyword, words) => {
                    let Some(row) = find(CLIENT_KEYWORDS, keyword) else { continue };
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    if let (Some(kind), [list, ..]) = (AlgorithmKind::of_keyword(keyword), &words[..])
                        && let Some(message) = kind.flag_message(list)
                        && !all_known(list, kind, self.environment)
                    {
                        return Err(ConfigError::new(message));
                    }
                    let args = Arguments::from_words(CLIENT_KEYWORDS[row].name, Dialect::Client, &words);
                    place.name = "command-line".to_string();
                    self.user_as_typed |= *keyword == "User" && !self.settings.user.is_set();
                    if !self.keyword(row, args, &place, active) {
                        return Err(self.give_up());
                    }
                }
            }
        }
        Ok(())
    }

    fn files(&mut self) -> Result<(), ConfigError> {
        let request = self.request;
        let mut active = true;
        match &request.user_file {
            UserFile::None => return Ok(()),
            UserFile::Skipped => {}
            UserFile::Text(name, text) => {
                let context = FileContext { user: true, check_owner: false, depth: 0, never: false };
                return self.text(name, text, context, &mut active);
            }
            UserFile::Named(path) => {
                let context = FileContext { user: true, check_owner: false, depth: 0, never: false };
                return match self.file(path, context, &mut active)? {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        let text = errno_text(&error);
                        Err(self.fatal(format!("Can't open user config file {}: {text}", path.display())))
                    }
                };
            }
            UserFile::Default => {
                let path = request.account.home.join(".ssh/config");
                let context = FileContext { user: true, check_owner: true, depth: 0, never: false };
                // A missing or unreadable file counts as empty.
                let _ = self.file(&path, context, &mut active)?;
            }
        }
        if let Some(path) = &request.system_file {
            active = true;
            let context = FileContext { user: false, check_owner: false, depth: 0, never: false };
            let _ = self.file(path, context, &mut active)?;
        }
        Ok(())
    }
}
