//! Shell commands that a shell evaluates, and stopping the agent that they name.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Environment variable with the socket.
pub(crate) const SOCKET: &str = "SSH_AUTH_SOCK";
/// Environment variable with the process id.
pub(crate) const PID: &str = "SSH_AGENT_PID";

/// Syntax of the shell that evaluates the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// The C shell.
    Csh,
    /// The Bourne shell.
    Sh,
}

impl Syntax {
    /// The syntax of `$SHELL`.
    pub(crate) fn of_login_shell() -> Self {
        match std::env::var("SHELL") {
            Ok(shell) if shell.ends_with("csh") => Self::Csh,
            _ => Self::Sh,
        }
    }

    fn set(self, name: &str, value: &str) -> String {
        match self {
            Self::Csh => format!("setenv {name} {value};\n"),
            Self::Sh => format!("{name}={value}; export {name};\n"),
        }
    }

    fn unset(self, name: &str) -> String {
        match self {
            Self::Csh => format!("unsetenv {name};\n"),
            Self::Sh => format!("unset {name};\n"),
        }
    }
}

/// A path quoted for the shell. Plain paths stay unquoted, as expected by scripts that cut them out.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Commands for an agent in the foreground.
pub(crate) fn announce_socket(syntax: Syntax, socket: &Path, pid: i32) -> String {
    format!("{}echo Agent pid {pid};\n", syntax.set(SOCKET, &quoted(socket)))
}

/// Commands for an agent in the background.
pub(crate) fn announce(syntax: Syntax, socket: &Path, pid: i32) -> String {
    let process = syntax.set(PID, &pid.to_string());
    format!("{}{process}echo Agent pid {pid};\n", syntax.set(SOCKET, &quoted(socket)))
}

/// An agent that cannot be ended (`-k`).
#[derive(Debug, thiserror::Error)]
pub(crate) enum KillError {
    #[error("{name} not set, cannot kill agent", name = PID)]
    NoPid,
    #[error("{name}=\"{text}\", which is not a good PID: {why}", name = PID)]
    BadPid { text: String, why: &'static str },
    #[error("kill: {}", lh_sys::errno_text(.0))]
    Kill(std::io::Error),
}

/// `-k`: stops the agent and returns the commands that unset its variables.
///
/// # Errors
/// There is no agent to end, or it cannot be ended.
pub(crate) fn kill(syntax: Syntax) -> Result<String, KillError> {
    let text = std::env::var(PID).map_err(|_| KillError::NoPid)?;
    let pid = process_id(&text).map_err(|why| KillError::BadPid { text: text.clone(), why })?;
    kill_process(pid, Signal::TERM).map_err(|error| KillError::Kill(error.into()))?;
    Ok(format!("{}{}echo Agent pid {text} killed;\n", syntax.unset(SOCKET), syntax.unset(PID)))
}

/// Parses a process id. The error is OpenSSH's word for what is wrong with it.
fn process_id(text: &str) -> Result<Pid, &'static str> {
    use std::num::IntErrorKind;
    match text.trim_start().parse::<i32>() {
        // Process 1 is init.
        Ok(..=1) => Err("too small"),
        Ok(number) => Pid::from_raw(number).ok_or("invalid"),
        Err(error) => Err(match error.kind() {
            IntErrorKind::PosOverflow => "too large",
            IntErrorKind::NegOverflow => "too small",
            _ => "invalid",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_bad_process_id_is_named() {
        assert_eq!(KillError::NoPid.to_string(), "SSH_AGENT_PID not set, cannot kill agent");
        for (text, why) in [
            ("1", "too small"),
            ("-5000000000", "too small"),
            ("5000000000", "too large"),
            ("", "invalid"),
            ("7x", "invalid"),
        ] {
            assert_eq!(process_id(text), Err(why), "{text}");
        }
        assert!(process_id(" 7").is_ok());
        let bad = KillError::BadPid { text: "x".to_owned(), why: "invalid" };
        assert_eq!(bad.to_string(), "SSH_AGENT_PID=\"x\", which is not a good PID: invalid");
    }

    #[test]
    fn output_has_the_form_that_scripts_parse() {
        let path = Path::new("/home/me/.ssh/agent/s.Ab.agent.Cd");
        assert_eq!(
            announce(Syntax::Sh, path, 7),
            "SSH_AUTH_SOCK=/home/me/.ssh/agent/s.Ab.agent.Cd; export SSH_AUTH_SOCK;\n\
             SSH_AGENT_PID=7; export SSH_AGENT_PID;\necho Agent pid 7;\n"
        );
        assert_eq!(
            announce(Syntax::Csh, path, 7),
            "setenv SSH_AUTH_SOCK /home/me/.ssh/agent/s.Ab.agent.Cd;\nsetenv SSH_AGENT_PID 7;\necho Agent pid 7;\n"
        );
        assert_eq!(
            announce_socket(Syntax::Sh, Path::new("/tmp/it's;rm"), 7),
            "SSH_AUTH_SOCK='/tmp/it'\\''s;rm'; export SSH_AUTH_SOCK;\necho Agent pid 7;\n"
        );
    }
}
