//! Connection options: a loaded configuration and its sources.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use lh_config::client::{ClientConfig, CommandLine, JumpHost, Request, UserFile};
use lh_config::value::SecondsOrNone;
use lh_config::{Account, CommandFailure, ConfigError, Environment};
use lh_crypto::FingerprintHash;
use lh_sys::errno_text;
use lh_sys::private_group::Place;

use crate::commands::Commands;
use crate::log::Log;
use crate::resumptions::Resumptions;
use crate::ticket::Ticket;
use crate::ui::{LogLevel, UserInterface};

/// Longest time for connecting and the key exchange in an attempt to resume a session, seconds.
const CONNECT: u64 = 15;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Copying files, over a connection that is not shared.
    Copy,
    /// Running a command or a subsystem.
    Command,
    /// Running a shell without a terminal.
    Shell,
    /// Running a session with a terminal.
    Terminal,
    /// No session of its own: forwards, `-W`, or a jump host's connection.
    Forwards,
}

/// All inputs of [`connect`](crate::connect()).
#[derive(Debug, Clone)]
pub struct Options {
    /// The configuration for the destination.
    pub config: ClientConfig,
    /// The user's configuration file, which jump hosts use too.
    pub user_file: UserFile,
    /// The system's configuration file.
    pub system_file: Option<PathBuf>,
    /// Highest log level. From DEBUG1 on it is that of jump hosts, too.
    pub log_level: LogLevel,
    /// Purpose of the connection: for some purposes it stays encrypted in spite of `NoneSwitch`.
    pub purpose: Purpose,
    /// Joins the session of this ticket instead of logging in.
    pub ticket: Option<Arc<Ticket>>,
    /// The program's own rate limit, bytes/s, recorded by `Metrics`.
    pub rate_limit: Option<u64>,
    /// Runs each `ProxyCommand` as one of these commands. For this crate's own use.
    pub commands: Option<Commands>,
    /// Resumptions of the session, which connections with a ticket share by a clone of its options.
    pub resumptions: Resumptions,
    /// Connects with TCP segments that every path takes. For this crate's own use.
    pub short_segments: bool,
}

impl Options {
    /// Returns a log with the settings of the configuration.
    pub(crate) fn log<'u>(&self, ui: &'u mut dyn UserInterface) -> Log<'u> {
        let log = Log::new(ui, self.log_level, *self.config.batch_mode);
        log.with_places(self.config.log_verbose.value.clone())
    }

    /// Returns the hash of fingerprints in messages (`FingerprintHash`).
    pub(crate) fn fingerprint_hash(&self) -> FingerprintHash {
        match *self.config.fingerprint_hash {
            lh_config::enums::FingerprintHash::Sha256 => FingerprintHash::Sha256,
            lh_config::enums::FingerprintHash::Md5 => FingerprintHash::Md5,
        }
    }

    /// Reads the configuration for `request`.
    ///
    /// # Errors
    /// The configuration is invalid; exit status 255.
    pub fn load(request: &Request) -> Result<Self, ConfigError> {
        let config = lh_config::client::load(request, &SystemEnvironment)?;
        let log_level = *config.log_level;
        let rate_limit = request.rate_limit.into_iter().chain(config.tcp_pacing.bytes_per_second()).min();
        Ok(Self {
            config,
            user_file: request.user_file.clone(),
            system_file: request.system_file.clone(),
            log_level,
            purpose: Purpose::Copy,
            ticket: None,
            rate_limit,
            commands: None,
            resumptions: Resumptions::default(),
            short_segments: false,
        })
    }

    /// Returns the options for the jump host `hop`, reached through `before`. As with `ssh -J`, it inherits
    /// only the configuration file, `-v` and the hops before it; not `-q` or `LogLevel`.
    pub(crate) fn for_hop(&self, hop: &JumpHost, before: &[JumpHost]) -> Result<Self, ConfigError> {
        let mut request = Request::new(&hop.host, self.config.account.clone());
        request.user_file = self.user_file.clone();
        request.system_file = self.system_file.clone();
        let mut flag = |name, value: String| request.command_line.push(CommandLine::Flag(name, vec![value]));
        if let Some(user) = &hop.user {
            flag("User", user.clone());
        }
        if let Some(port) = hop.port {
            flag("Port", port.to_string());
        }
        if !before.is_empty() {
            let list: Vec<String> = before.iter().map(JumpHost::to_string).collect();
            flag("ProxyJump", list.join(","));
        }
        let mut options = Self::load(&request)?;
        // An attempt to resume a session has a level of its own.
        if self.log_level >= LogLevel::Debug1 || self.commands.is_some() {
            options.log_level = self.log_level;
        }
        options.purpose = Purpose::Forwards;
        options.commands = self.commands.clone();
        options.short_segments = self.short_segments;
        if options.commands.is_some() {
            options.bound_attempt();
        }
        Ok(options)
    }

    /// Bounds an attempt to resume a session, and the ways to its jump hosts.
    pub(crate) fn bound_attempt(&mut self) {
        let settings = &mut self.config.settings;
        let own = settings.connect_timeout.0.map_or(CONNECT, |seconds| seconds.clamp(1, CONNECT));
        settings.connect_timeout.force(SecondsOrNone(Some(own)));
        // Batch mode: questions are refused, so an unknown key is too. A method that asks the user would get
        // empty answers.
        settings.batch_mode.force(true);
        // A silent address would use up the attempt's time, and the next attempt would begin with it again.
        settings.happy_eyes.force(true);
    }

    /// Returns the path of the agent's socket: `IdentityAgent`, else `SSH_AUTH_SOCK`.
    pub(crate) fn agent_socket(&self) -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        match self.config.identity_agent.as_deref() {
            None | Some("SSH_AUTH_SOCK") => variable("SSH_AUTH_SOCK"),
            Some(text) if text.eq_ignore_ascii_case("none") => None,
            Some(text) => match text.strip_prefix('$').filter(|name| !name.starts_with('{')) {
                Some(name) => variable(name),
                // The configuration loader has expanded it.
                None => Some(PathBuf::from(text)),
            },
        }
    }
}

/// The environment for the configuration loader: this process's variables, this machine's users.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn only_owner_writes(&self, path: &Path, metadata: &std::fs::Metadata, uid: u32) -> bool {
        lh_sys::private_group::only_owner_writes(metadata, Place::At(path), uid)
    }

    fn run(&self, command: &str) -> Result<bool, CommandFailure> {
        let shell = user_shell();
        rustix::fs::access(&shell, rustix::fs::Access::EXEC_OK).map_err(|error| CommandFailure::Shell {
            shell: shell.display().to_string(),
            why: errno_text(&error.into()),
        })?;
        let command = command.to_owned();
        let mut child = Command::new(&shell);
        child.arg("-c").arg(&command).stdin(Stdio::null()).stdout(Stdio::null());
        match child.status() {
            Ok(status) => status.code().map(|code| code == 0).ok_or(CommandFailure::Abnormal(command)),
            Err(error) => Err(CommandFailure::Start { command, why: errno_text(&error) }),
        }
    }

    fn sha1(&self, data: &[u8]) -> [u8; 20] {
        let digest = lh_crypto::Hash::Sha1.digest(&[data]);
        let mut out = [0; 20];
        for (to, from) in out.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        out
    }

    fn knows_algorithm(&self, kind: lh_config::algorithms::AlgorithmKind, name: &str, pattern: bool) -> bool {
        crate::algorithms::exists(kind, name, pattern)
    }

    fn matching_algorithms(
        &self,
        kind: lh_config::algorithms::AlgorithmKind,
        pattern: &str,
    ) -> Vec<&'static str> {
        crate::algorithms::matching(kind, pattern)
    }

    fn canonical_name(&self, name: &str, family: lh_config::enums::AddressFamily) -> Option<String> {
        lh_sys::forward_lookup::canonical_name(name, crate::resolve::family(family))
    }

    fn local_addresses(&self) -> Vec<std::net::IpAddr> {
        let all = lh_sys::interfaces::addresses().unwrap_or_default();
        all.into_iter().filter(|each| each.up).map(|each| each.address.ip()).collect()
    }

    fn home_of(&self, user: &str) -> Option<PathBuf> {
        lh_sys::users::by_name(user.as_ref()).ok().flatten().map(|user| user.home)
    }
}

/// Returns the shell for the commands of the configuration.
pub fn user_shell() -> PathBuf {
    std::env::var_os("SHELL")
        .filter(|shell| !shell.is_empty())
        .map_or_else(|| "/bin/sh".into(), PathBuf::from)
}

/// Error: the user database has no user with this id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("No user exists for uid {0}")]
pub struct UnknownUid(pub u32);

/// Returns the user who runs this process.
///
/// # Errors
/// The user database does not know the user id.
pub fn local_account() -> Result<Account, UnknownUid> {
    let uid = rustix::process::getuid().as_raw();
    let user = lh_sys::users::by_uid(uid).ok().flatten().ok_or(UnknownUid(uid))?;
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(Account { name: user.name, uid, home: user.home, host_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty answer to a jump host's question is a failed login there, and a silent address of it uses up
    /// the time of an attempt.
    #[test]
    fn attempts_are_bounded_at_jump_hosts() {
        let account =
            Account { name: "me".into(), uid: 1, home: "/nonexistent".into(), host_name: "here".into() };
        let mut request = Request::new("host", account);
        request.user_file = UserFile::None;
        let mut options = Options::load(&request).expect("a configuration");
        let hop = JumpHost::parse("hop").expect("a host");
        let bounds = |options: &Options| {
            let config = options.for_hop(&hop, &[]).expect("options").config;
            (*config.batch_mode, *config.happy_eyes, config.connect_timeout.duration())
        };
        assert_eq!(bounds(&options), (false, false, None));
        options.commands = Some(Commands::detached());
        assert_eq!(bounds(&options), (true, true, Some(std::time::Duration::from_secs(CONNECT))));
        assert!(!options.for_hop(&hop, &[]).expect("options").short_segments);
        options.short_segments = true;
        assert!(options.for_hop(&hop, &[]).expect("options").short_segments);
    }

    #[test]
    fn jump_hosts_are_printed_in_the_form_they_are_parsed() {
        for text in ["host", "me@host:2222", "me@[::1]:22"] {
            assert_eq!(JumpHost::parse(text).map(|hop| hop.to_string()).as_deref(), Some(text));
        }
    }
}
