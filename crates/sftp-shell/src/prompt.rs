//! Reads commands from the console and carries them out until the session ends.

use crate::command::{Command, CopyFlags, Line, parse};
use crate::complete::complete;
use crate::console::{Console, ConsoleEvent, PROMPT};
use crate::glob;
use crate::paths::{absolute, absolute_pattern};
use crate::shell::{Failed, Shell};
use crate::words::escaped;
use crate::{FAILURE, NO_CONNECTION, print, say, say_lost};

/// Next action after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    GoOn,
    /// `quit`.
    Quit,
    /// A command of a batch failed.
    Failed,
    Lost,
}

impl Shell {
    /// Opens the destination's path: changes to a directory, or fetches the file of this name or, where there
    /// is none, the files that match it as a pattern; to `target` if given. Returns the exit status when the
    /// session ends with that.
    pub fn open(&mut self, given: &[u8], target: Option<&[u8]>) -> Option<u8> {
        let path = absolute(given, &self.directory);
        let is_dir = match self.remote.is_dir(&path) {
            Ok(is_dir) => is_dir,
            Err(_) => return Some(self.lost()),
        };
        let outcome = if is_dir && target.is_none() {
            if !self.settings.quiet {
                print(&format!("Changing to: {}", lh_cli::progress::printable(&path)));
            }
            match self.change_directory(&path) {
                Ok(()) => return None,
                Err(failed) => Err(failed),
            }
        } else {
            let name = escaped(&path);
            let pattern = match glob::remote(&mut self.remote, &name) {
                Ok(found) if found.is_empty() => absolute_pattern(given, &self.directory),
                _ => name,
            };
            self.get_matching(CopyFlags::default(), &pattern, target)
        };
        Some(match outcome {
            Ok(()) => 0,
            Err(Failed::Command) => FAILURE,
            Err(Failed::Lost) => self.lost(),
        })
    }

    /// Carries out the lines of the console until its end; returns the exit status.
    pub fn run(&mut self, console: &Console) -> u8 {
        loop {
            console.ask(self.remote.interrupted());
            let line = loop {
                match console.take() {
                    Some(ConsoleEvent::Line(line)) => break line,
                    Some(ConsoleEvent::End) => return 0,
                    Some(ConsoleEvent::Complete { line }) => {
                        // ^C during an earlier completion is over.
                        self.remote.begin_command();
                        console.answer(|| complete(&line, &mut self.remote, &self.directory));
                    }
                    None => self.remote.wait_for_console(),
                }
                if self.remote.loss().is_some() {
                    return self.lost();
                }
            };
            match self.line(&line) {
                After::GoOn => {}
                After::Quit => return 0,
                After::Failed => return FAILURE,
                After::Lost => return self.lost(),
            }
        }
    }

    fn line(&mut self, text: &[u8]) -> After {
        self.remote.begin_command();
        let Line { ignore_errors, no_echo, command } = parse(text);
        if self.settings.echo && !no_echo {
            print(&format!("{PROMPT}{}", echoed(text)));
        }
        let outcome = match command {
            Ok(None) => Ok(()),
            Ok(Some(Command::Quit)) => return After::Quit,
            Ok(Some(command)) => self.carry_out(command),
            Err(error) => {
                say(&error.to_string());
                Err(Failed::Command)
            }
        };
        if self.remote.interrupted() && !self.settings.batch {
            say("\rInterrupt  ");
        }
        match outcome {
            Err(Failed::Lost) => After::Lost,
            Err(Failed::Command) if self.settings.batch && !ignore_errors => After::Failed,
            _ => After::GoOn,
        }
    }

    fn lost(&self) -> u8 {
        let reason = self.remote.loss().unwrap_or_else(|| "Connection closed".to_owned());
        say_lost(&reason, self.settings.quiet);
        NO_CONNECTION
    }
}

/// Returns a line of a batch as it is echoed: with its tabs, like sftp's echo. Batches written on Windows
/// have a carriage return at the end of each line.
fn echoed(line: &[u8]) -> String {
    let shown = line.strip_suffix(b"\r").unwrap_or(line);
    let cells: Vec<String> = shown.split(|byte| *byte == b'\t').map(lh_cli::progress::printable).collect();
    cells.join("\t")
}

#[cfg(test)]
mod tests {
    use super::echoed;

    #[test]
    fn echo_keeps_tabs_and_hides_control_characters() {
        assert_eq!(echoed(b"\tput\ta b\r"), "\tput\ta b");
        assert_eq!(echoed(b"ls \x1b[2J\xff"), "ls \\033[2J\\377");
    }
}
