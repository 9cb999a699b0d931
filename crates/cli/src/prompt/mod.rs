//! Prompts to the user: passwords without echo, yes or no, through the terminal or an `SSH_ASKPASS` program.
//!
//! The terminal is `/dev/tty`, not standard input, which scripts use. An askpass program is used when there
//! is a display but no terminal, or according to `SSH_ASKPASS_REQUIRE` (`never`, `prefer`, `force`), by
//! ssh(1)'s rules.

mod answer;
mod askpass;
mod terminal;

pub use answer::{Kind, MAX_ANSWER, PromptError};
pub use askpass::Notice;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::fd::AsFd as _;

use zeroize::Zeroizing;

/// Askpass program when `SSH_ASKPASS` names none.
const DEFAULT_ASKPASS: &str = "/usr/bin/ssh-askpass";

/// Settings for prompts.
#[derive(Debug, Clone, Default)]
pub struct Prompter {
    /// Never prompt (`BatchMode`).
    pub batch: bool,
    /// Value of `SSH_ASKPASS`.
    pub askpass: Option<OsString>,
    /// Value of `SSH_ASKPASS_REQUIRE`.
    pub require: Require,
    /// `DISPLAY` or `WAYLAND_DISPLAY` is set.
    pub display: bool,
    /// Read from standard input when there is no terminal (ssh-keygen does; ssh does not).
    pub allow_stdin: bool,
}

/// Values of `SSH_ASKPASS_REQUIRE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Require {
    /// Not set: use an askpass program only without a terminal, with a display.
    #[default]
    Auto,
    /// Never use an askpass program.
    Never,
    /// Prefer an askpass program to the terminal, if there is a display.
    Prefer,
    /// Always use an askpass program, with or without a display.
    Force,
}

/// The means to prompt the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Askpass,
    Terminal,
    Unavailable,
}

impl Prompter {
    /// Reads the settings from the environment.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let require = set("SSH_ASKPASS_REQUIRE").map(|value| value.to_string_lossy().to_ascii_lowercase());
        Self {
            batch: false,
            askpass: set("SSH_ASKPASS"),
            require: match require.as_deref() {
                Some("never") => Require::Never,
                Some("prefer") => Require::Prefer,
                Some("force") => Require::Force,
                _ => Require::Auto,
            },
            display: set("DISPLAY").is_some() || set("WAYLAND_DISPLAY").is_some(),
            allow_stdin: false,
        }
    }

    /// Asks one question, on a line of its own, and returns the answer without its newline.
    ///
    /// When a signal ends or stops the process during the prompt, the terminal is restored first.
    ///
    /// # Errors
    /// [`PromptError`] when there is no answer.
    pub fn ask(&self, prompt: &str, kind: Kind) -> Result<Zeroizing<String>, PromptError> {
        if self.batch {
            return Err(PromptError::Unavailable);
        }
        let terminal = || OpenOptions::new().read(true).write(true).open("/dev/tty").ok();
        let tty = if self.uses_terminal() { terminal() } else { None };
        match self.route(tty.is_some()) {
            Route::Askpass => {
                let program = self.askpass.clone().unwrap_or_else(|| DEFAULT_ASKPASS.into());
                askpass::ask(&program, prompt, kind)
            }
            Route::Terminal => match tty.or_else(terminal) {
                Some(tty) => {
                    // The question starts at the beginning of the line, also behind an unfinished one.
                    let prompt = if self.allow_stdin { prompt.to_string() } else { format!("\r{prompt}") };
                    terminal::ask(tty.as_fd(), tty.as_fd(), &prompt, kind != Kind::Secret)
                }
                None if self.allow_stdin => {
                    let (input, output) = (std::io::stdin(), std::io::stderr());
                    terminal::ask(input.as_fd(), output.as_fd(), prompt, kind != Kind::Secret)
                }
                None => Err(PromptError::Unavailable),
            },
            Route::Unavailable => Err(PromptError::Unavailable),
        }
    }

    /// Shows a text until the value is dropped, where there is a display. For processes without a terminal.
    pub fn notify(&self, text: &str) -> Option<Notice> {
        if self.batch || !(self.display || self.require == Require::Force) {
            return None;
        }
        let program = self.askpass.clone().unwrap_or_else(|| DEFAULT_ASKPASS.into());
        askpass::notify(&program, text)
    }

    /// Asks a yes-or-no question. `yes`, `y` and an empty answer mean yes, any other answer no.
    ///
    /// # Errors
    /// [`PromptError`] when there is no answer.
    pub fn confirm(&self, prompt: &str) -> Result<bool, PromptError> {
        let answer = self.ask(prompt, Kind::Confirm)?;
        Ok(answer.eq_ignore_ascii_case("yes") || answer.eq_ignore_ascii_case("y") || answer.is_empty())
    }

    /// Returns whether the terminal may be used.
    const fn uses_terminal(&self) -> bool {
        match self.require {
            Require::Force => false,
            Require::Prefer => !self.display,
            Require::Auto | Require::Never => true,
        }
    }

    fn route(&self, terminal: bool) -> Route {
        let allowed = match self.require {
            Require::Never => false,
            Require::Force => true,
            Require::Auto | Require::Prefer => self.display,
        };
        let wanted = match self.require {
            Require::Force => true,
            Require::Prefer => allowed,
            Require::Auto | Require::Never => {
                if self.allow_stdin {
                    !rustix::termios::isatty(std::io::stdin())
                } else {
                    !terminal
                }
            }
        };
        if wanted && allowed {
            Route::Askpass
        } else if terminal || self.allow_stdin {
            Route::Terminal
        } else {
            Route::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Prompter {
        Prompter::from_variables(|name| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn askpass_needs_a_display_by_default() {
        assert_eq!(with(&[]).route(true), Route::Terminal);
        assert_eq!(with(&[]).route(false), Route::Unavailable);
        assert_eq!(with(&[("DISPLAY", "")]).route(false), Route::Unavailable);
        assert_eq!(with(&[("DISPLAY", ":0")]).route(true), Route::Terminal);
        assert_eq!(with(&[("DISPLAY", ":0")]).route(false), Route::Askpass);
        assert_eq!(with(&[("WAYLAND_DISPLAY", "w")]).route(false), Route::Askpass);
    }

    #[test]
    fn require_variable_selects_the_route() {
        let require = |value| with(&[("SSH_ASKPASS_REQUIRE", value)]);
        let shown = |value| with(&[("SSH_ASKPASS_REQUIRE", value), ("DISPLAY", ":0")]);
        assert_eq!(require("force").route(false), Route::Askpass);
        assert!(!require("force").uses_terminal());
        assert_eq!(require("prefer").route(true), Route::Terminal);
        assert_eq!(shown("PREFER").route(true), Route::Askpass);
        assert_eq!(shown("never").route(false), Route::Unavailable);
    }

    #[test]
    fn batch_mode_never_prompts() {
        let prompter = Prompter { batch: true, require: Require::Force, ..Prompter::default() };
        assert_eq!(prompter.ask("? ", Kind::Secret), Err(PromptError::Unavailable));
    }
}
