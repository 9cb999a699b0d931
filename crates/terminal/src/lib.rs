//! The programs' user interface: messages to standard error or a log file, questions at the terminal.
//!
//! `lh_client` asks its questions through a trait and knows no terminal; here are the answers of a program
//! that a person runs.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use lh_cli::prompt::{Kind, Prompter, Require};

use lh_client::{LogLevel, LogTarget, Logger, Notice, Permission, Secret, Syslog, UserInterface};

/// Writes messages to standard error; asks through `/dev/tty` or an `SSH_ASKPASS` program.
#[derive(Debug, Clone)]
pub struct TerminalUi {
    prompter: Prompter,
    log: LogTarget,
}

impl Default for TerminalUi {
    fn default() -> Self {
        Self { prompter: Prompter::from_environment(), log: LogTarget::Stderr }
    }
}

impl TerminalUi {
    /// Appends messages to a file instead (`-E`). Questions and banners are not redirected.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn log_to(&mut self, path: &std::path::Path) -> io::Result<()> {
        // As with ssh, a new file is for its owner alone.
        let file = File::options().append(true).create(true).mode(0o600).open(path)?;
        self.log = LogTarget::File(Arc::new(file));
        Ok(())
    }

    /// Sends messages to syslog instead (`-y`), under the name `ident`; `facility` is a value of
    /// `SyslogFacility`.
    pub fn log_to_syslog(&mut self, ident: &str, facility: &str) {
        self.log = LogTarget::Syslog(Arc::new(Syslog::open(ident, facility)));
    }

    /// Writes a message without a level prefix; for messages that are not filtered by level.
    pub fn say(&mut self, text: &str) {
        self.logger(LogLevel::Info).say(LogLevel::Info, text);
    }

    /// A logger for use while a loop runs, for messages up to `level`.
    pub fn logger(&self, level: LogLevel) -> Logger {
        Logger::new(level, self.log.clone())
    }

    fn question(&self, prompt: &str, kind: Kind) -> Option<Secret> {
        self.prompter.ask(prompt, kind).ok()
    }
}

impl UserInterface for TerminalUi {
    fn message(&mut self, level: LogLevel, text: &str) {
        self.logger(level).say(level, text);
    }

    fn banner(&mut self, text: &str) {
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn ask(&mut self, prompt: &str) -> Option<Secret> {
        self.question(prompt, Kind::Visible)
    }

    fn ask_secret(&mut self, prompt: &str) -> Option<Secret> {
        self.question(prompt, Kind::Secret)
    }

    fn confirm(&mut self, prompt: &str) -> bool {
        // The terminal may belong to the session by now, so an askpass program asks, as in ssh.
        let prompter = Prompter { require: Require::Force, ..self.prompter.clone() };
        prompter.confirm(prompt).unwrap_or(false)
    }

    fn notify(&mut self, text: &str) -> Option<Notice> {
        let notice = self.prompter.notify(text)?;
        Some(Box::new(notice))
    }
}

/// Asks at the terminal or through an askpass program, from any thread. No answer means no.
pub fn permission() -> Permission {
    Arc::new(|question| {
        Prompter::from_environment().ask(question, Kind::Confirm).is_ok_and(|answer| {
            let answer = answer.trim();
            answer.is_empty() || answer.eq_ignore_ascii_case("yes") || answer.eq_ignore_ascii_case("y")
        })
    })
}
