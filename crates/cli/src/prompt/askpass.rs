//! Prompts through a graphical askpass program.

use std::ffi::OsStr;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use lh_sys::spawn::spawn_like_execvp;
use zeroize::Zeroizing;

use super::answer::{Kind, MAX_ANSWER, PromptError, text};

/// Runs the program with the prompt as its argument; its first line of output is the answer.
pub(super) fn ask(program: &OsStr, prompt: &str, kind: Kind) -> Result<Zeroizing<String>, PromptError> {
    let mut command = Command::new(program);
    command.arg(prompt).stdout(Stdio::piped());
    match kind {
        Kind::Confirm => command.env("SSH_ASKPASS_PROMPT", "confirm"),
        Kind::Secret | Kind::Visible => command.env_remove("SSH_ASKPASS_PROMPT"),
    };
    let mut child = spawn_like_execvp(&mut command).map_err(|error| {
        let problem = lh_sys::errno_text(&error);
        crate::helper::say(&format!("ssh_askpass: exec({}): {problem}", program.display()));
        PromptError::Unavailable
    })?;
    // Large enough for any answer, so that growing leaves no copy of a secret behind.
    let mut answer = Zeroizing::new(Vec::with_capacity(MAX_ANSWER + 1));
    let read = match child.stdout.take() {
        Some(output) => output.take(MAX_ANSWER as u64 + 1).read_to_end(&mut answer).is_ok(),
        None => false,
    };
    let succeeded = child.wait().is_ok_and(|status| status.success());
    if !read || !succeeded {
        return Err(PromptError::NoAnswer);
    }
    let end =
        answer.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(answer.len()).min(MAX_ANSWER);
    text(&answer[..end])
}

/// A displayed text, which disappears when the value is dropped.
#[derive(Debug)]
pub struct Notice(Child);

impl Drop for Notice {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the program show a text without a question.
pub(super) fn notify(program: &OsStr, text: &str) -> Option<Notice> {
    let mut command = Command::new(program);
    command.arg(text).env("SSH_ASKPASS_PROMPT", "none").stdin(Stdio::null()).stdout(Stdio::null());
    spawn_like_execvp(&mut command).ok().map(Notice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn answer(script: &str, kind: Kind) -> Result<String, PromptError> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("askpass");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("mode set");
        asked(&path, kind)
    }

    fn asked(path: &Path, kind: Kind) -> Result<String, PromptError> {
        // Another test's fork may still hold the script open for writing.
        for _ in 0..50 {
            match ask(path.as_os_str(), "Password: ", kind) {
                Err(PromptError::Unavailable) => std::thread::yield_now(),
                result => return result.map(|text| text.to_string()),
            }
        }
        Err(PromptError::Unavailable)
    }

    #[test]
    fn first_line_of_output_is_the_answer() {
        assert_eq!(answer("echo \"$1|\"; echo more", Kind::Secret).as_deref(), Ok("Password: |"));
        assert_eq!(answer("printf 'no newline'", Kind::Secret).as_deref(), Ok("no newline"));
        assert_eq!(answer("echo ${SSH_ASKPASS_PROMPT-none}", Kind::Visible).as_deref(), Ok("none"));
        assert_eq!(answer("echo $SSH_ASKPASS_PROMPT", Kind::Confirm).as_deref(), Ok("confirm"));
    }

    #[test]
    fn script_without_interpreter_is_run_by_a_shell() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("askpass");
        fs::write(&path, "echo \"plain $1\"\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("mode set");
        assert_eq!(asked(&path, Kind::Secret).as_deref(), Ok("plain Password: "));
    }

    #[test]
    fn failed_askpass_gives_no_answer() {
        assert_eq!(answer("echo secret; exit 1", Kind::Secret), Err(PromptError::NoAnswer));
        assert_eq!(answer("printf '\\377'", Kind::Secret), Err(PromptError::NoAnswer));
        assert_eq!(ask(OsStr::new("/nonexistent/askpass"), "", Kind::Secret), Err(PromptError::Unavailable));
    }
}
