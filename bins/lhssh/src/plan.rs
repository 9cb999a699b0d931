//! The plan of a session: what the command line and the configuration ask for, checked and combined.

use std::path::PathBuf;

use lh_client::{LogLevel, Options, Purpose, Start};
use lh_config::enums::{RequestTty, SessionType};
use lh_config::forward::Endpoint;
use lh_driver::Target;
use lh_sys::termios::is_terminal;
use lh_terminal::TerminalUi;
use rustix::stdio::stdin;

use crate::command_line::ControlCommand;
use crate::errors::PlanError;

/// Settings of the command line that are not in the configuration.
pub(crate) struct CommandLineSettings {
    /// The command, its words joined by blanks.
    pub(crate) command: Option<Vec<u8>>,
    /// `-W`.
    pub(crate) stdio: Option<Endpoint>,
    /// `-O`.
    pub(crate) control: Option<ControlCommand>,
    /// `-E`.
    pub(crate) log_file: Option<PathBuf>,
}

/// Settings of the session.
pub(crate) struct Plan {
    /// `None` for no session at all (`-N`).
    pub(crate) start: Option<Start>,
    /// Forward standard input and output to this target instead.
    pub(crate) stdio: Option<Target>,
    pub(crate) tty: bool,
    pub(crate) null_input: bool,
    pub(crate) background: bool,
    /// File for log messages.
    pub(crate) log_file: Option<PathBuf>,
}

impl Plan {
    /// Returns whether there is a session or a stdio forward, not only forwards.
    pub(crate) const fn has_session(&self) -> bool {
        self.start.is_some() || self.stdio.is_some()
    }

    /// Purpose of the connection.
    pub(crate) const fn purpose(&self) -> Purpose {
        match &self.start {
            _ if self.tty => Purpose::Terminal,
            _ if self.stdio.is_some() => Purpose::Forwards,
            None => Purpose::Forwards,
            Some(Start::Shell) => Purpose::Shell,
            Some(Start::Exec(_) | Start::Subsystem(_)) => Purpose::Command,
        }
    }

    /// Removes the session, which another process runs; only forwards remain.
    pub(crate) fn forget_session(&mut self) {
        self.start = None;
        self.stdio = None;
        self.tty = false;
        self.null_input = true;
    }

    /// Combines the command line with the configuration. Contradictions are errors.
    pub(crate) fn new(
        options: &Options,
        wanted: CommandLineSettings,
        ui: &mut TerminalUi,
    ) -> Result<Self, PlanError> {
        let CommandLineSettings { command, stdio, log_file, .. } = wanted;
        let config = &options.config;
        let remote = config.remote_command.command();
        if command.is_some() && remote.is_some() && !matches!(*config.session_type, SessionType::None) {
            return Err(PlanError::TwoCommands);
        }
        let command = match (command, remote) {
            (Some(command), _) => Some(command),
            // The loader has expanded its tokens.
            (None, Some(text)) => Some(text.as_bytes().to_vec()),
            (None, None) => None,
        };
        let start = match (*config.session_type, command) {
            (SessionType::None, _) => None,
            (SessionType::Subsystem, Some(name)) => {
                Some(Start::Subsystem(String::from_utf8_lossy(&name).into_owned()))
            }
            (SessionType::Subsystem, None) => return Err(PlanError::NoSubsystem),
            (SessionType::Default, Some(command)) => Some(Start::Exec(command)),
            (SessionType::Default, None) => Some(Start::Shell),
        };
        let background = *config.fork_after_authentication;
        if background && matches!(start, Some(Start::Shell)) {
            return Err(PlanError::NoCommand);
        }
        let null_input = *config.stdin_null || background;
        let request = *config.request_tty;
        let mut tty = match request {
            RequestTty::No => false,
            RequestTty::Yes | RequestTty::Force => start.is_some(),
            RequestTty::Auto => matches!(start, Some(Start::Shell)),
        };
        if tty && request != RequestTty::Force && (null_input || !is_terminal(stdin())) {
            if options.log_level >= LogLevel::Info {
                ui.say("Pseudo-terminal will not be allocated because stdin is not a terminal.");
            }
            tty = false;
        }
        Ok(Self {
            start,
            stdio: stdio.as_ref().map(lh_client::forward::target),
            tty,
            null_input,
            background,
            log_file,
        })
    }
}

/// The terminal type to request: `TERM` of `SetEnv` where that has one, otherwise this program's own.
pub(crate) fn terminal_type(options: &Options) -> String {
    let set = options.config.set_env.0.iter().find(|(name, value)| name == "TERM" && !value.is_empty());
    set.map_or_else(|| std::env::var("TERM").unwrap_or_default(), |(_, value)| value.clone())
}
