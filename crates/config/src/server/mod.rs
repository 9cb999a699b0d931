//! Loads the server's configuration, and applies its `Match` blocks to a connection.
//!
//! The listener process reads the files once. The session process gets the result as bytes
//! ([`ServerConfig::to_bytes`]). These contain statements rather than values, so that `Match` blocks can be
//! applied there when user and addresses are known. A file that changes meanwhile cannot affect only a part
//! of a connection.

mod criteria;
mod facts;
mod file_names;
mod load;
mod source;

pub use facts::{BadFact, ConnectionFacts};

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::enums::LogLevel;
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::note::Note;
use crate::server_table::{SERVER_KEYWORDS, ServerSettings};
use crate::server_values::ListenAddress;
use crate::table::Value as _;
use source::{Source, Statement};

/// The server's configuration. Dereferences to [`ServerSettings`], which has one field per keyword.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Every keyword.
    pub settings: ServerSettings,
    /// Notes for the log: keywords that are deprecated or have no effect, repeated subsystems.
    pub notes: Vec<Note>,
    source: Arc<Source>,
}

impl ServerConfig {
    /// Loads a file after the options of the command line (texts of `-o`, or `Keyword value` for flags such
    /// as `-p`), which take precedence. `Match` blocks are checked and stored, not applied.
    ///
    /// `file` is `None` for `-f none`.
    ///
    /// # Errors
    /// [`ConfigError`] with the lines to print.
    pub fn load(
        file: Option<&Path>,
        command_line: &[String],
        environment: &dyn Environment,
    ) -> Result<Self, ConfigError> {
        let source = load::read(file, command_line, environment)?;
        Self::from_source(Arc::new(source), None)
    }

    /// Like [`load`](Self::load), for the text of a file that was already read. Messages call it `name`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_text(name: &Path, text: &str, environment: &dyn Environment) -> Result<Self, ConfigError> {
        Self::from_source(Arc::new(load::read_text(name, text, environment)?), None)
    }

    /// Returns the configuration for a connection: `Match` blocks whose criteria match `facts` override the
    /// global section.
    ///
    /// # Errors
    /// Does not fail if loading succeeded.
    pub fn for_connection(&self, facts: &ConnectionFacts) -> Result<Self, ConfigError> {
        Self::from_source(Arc::clone(&self.source), Some(facts))
    }

    /// Returns whether a statement uses this keyword, inside a `Match` block or not.
    pub fn names(&self, keyword: &str) -> bool {
        let of_keyword = |statement: &Statement| {
            SERVER_KEYWORDS.get(statement.row).is_some_and(|row| row.name.eq_ignore_ascii_case(keyword))
        };
        self.source.statements.iter().any(of_keyword)
    }

    /// Serialises all statements for another process of the server.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.source.to_bytes()
    }

    /// Inverse of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// Bytes that this version's `to_bytes` did not produce.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ConfigError> {
        let source = Source::from_bytes(bytes)?;
        Self::from_source(Arc::new(source), None)
    }

    /// Returns the output of `sshd -T`; keywords in mixed case like OpenSSH 10, or in lower case like older
    /// versions. `defaults` returns the default list of an algorithm keyword.
    pub fn dump(&self, lower: bool, defaults: &dyn Fn(&str) -> Vec<String>) -> String {
        let mut settings = self.settings.clone();
        settings.resolve_edits(defaults);
        settings.listen_address.value.0 = self
            .listen_endpoints()
            .into_iter()
            .map(|(host, port)| ListenAddress { host, port: Some(port) })
            .collect();
        let mut out = String::new();
        for line in settings.dump_lines(lower) {
            out.push_str(&line);
            out.push('\n');
        }
        out
    }

    /// Returns the addresses and ports to listen on: each `ListenAddress` with its port or every `Port`;
    /// without any, the wildcard addresses of the enabled address families.
    pub fn listen_endpoints(&self) -> Vec<(String, u16)> {
        use crate::enums::AddressFamily;
        let ports = &self.settings.port.0;
        let mut out = Vec::new();
        for address in &self.settings.listen_address.0 {
            match address.port {
                Some(port) => out.push((address.host.clone(), port)),
                None => out.extend(ports.iter().map(|port| (address.host.clone(), *port))),
            }
        }
        if out.is_empty() {
            for port in ports {
                if *self.settings.address_family != AddressFamily::Inet {
                    out.push(("::".to_string(), *port));
                }
                if *self.settings.address_family != AddressFamily::Inet6 {
                    out.push(("0.0.0.0".to_string(), *port));
                }
            }
        }
        out
    }

    /// Converts statements to values: the global ones, overridden by those whose `Match` lines match.
    fn from_source(source: Arc<Source>, facts: Option<&ConnectionFacts>) -> Result<Self, ConfigError> {
        let mut settings = ServerSettings::unset();
        for statement in source.statements.iter().filter(|statement| statement.conditions.is_empty()) {
            source.apply(statement, &mut settings)?;
        }
        if let Some(facts) = facts {
            let mut matched = ServerSettings::unset();
            for statement in &source.statements {
                if !statement.conditions.is_empty() && source.holds(statement, facts) {
                    source.apply(statement, &mut matched)?;
                }
            }
            let everywhere = settings.subsystem.value.clone();
            settings.overlay(matched);
            // A block replaces the subsystems it names and keeps the others.
            settings.subsystem.value.append(everywhere);
        }
        let mut notes = source.notes.clone();
        let applies = |statement: &&Statement| {
            statement.conditions.is_empty() || facts.is_some_and(|facts| source.holds(statement, facts))
        };
        for statement in source.statements.iter().filter(applies) {
            let Some(row) = SERVER_KEYWORDS.get(statement.row) else { continue };
            let unsupported = row.is_unsupported().then(|| format!("Unsupported option {}", row.name));
            let text = unsupported.or_else(|| row.no_effect_note());
            notes.extend(text.map(|text| Note {
                level: LogLevel::Info,
                text: format!("{}: {text}", source.origin(statement)),
            }));
        }
        settings.fill_defaults();
        if !settings.host_key.is_set() {
            settings.host_key.value.0 =
                crate::names::HOST_KEY_FILES.iter().map(|file| file.to_string()).collect();
        }
        Ok(Self { settings, notes, source })
    }
}

impl Deref for ServerConfig {
    type Target = ServerSettings;
    fn deref(&self) -> &ServerSettings {
        &self.settings
    }
}
