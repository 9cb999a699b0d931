//! The commands.
//!
//! Each prints its own errors, in OpenSSH's words. The result only decides whether a batch continues.

mod files;
mod list;
mod local;
mod transfer;

use lh_cli::progress::printable;

use crate::command::{COMMANDS, Command};
use crate::paths::absolute_pattern;
use crate::remote::Fault;
use crate::shell::{Failed, Outcome, Shell};
use crate::{print, say};

/// Prints what went wrong.
pub(crate) fn failed(text: &str, fault: Fault) -> Failed {
    // A lost connection is reported once, at the end of the session.
    if fault != Fault::Lost {
        say(&format!("{text}: {}", fault.text()));
    }
    fault.into()
}

/// A directory, or what matches a pattern, cannot be listed.
pub(crate) fn unread(path: &[u8], fault: Fault) -> Failed {
    failed(&format!("remote readdir(\"{}\")", lh_cli::progress::printable(path)), fault)
}

impl Shell {
    pub(crate) fn carry_out(&mut self, command: Command) -> Outcome {
        match command {
            Command::Quit => Ok(()),
            Command::Help => {
                help();
                Ok(())
            }
            Command::Version => {
                print(&format!("SFTP protocol version {}", self.remote.version()));
                Ok(())
            }
            Command::Progress => {
                self.settings.progress = !self.settings.progress;
                print(if self.settings.progress {
                    "Progress meter enabled"
                } else {
                    "Progress meter disabled"
                });
                Ok(())
            }
            Command::Pwd => {
                print(&format!("Remote working directory: {}", printable(&self.directory)));
                Ok(())
            }
            Command::Lpwd => local::print_directory(),
            Command::Cd(path) => {
                let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| self.home.clone());
                self.change_directory(&path)
            }
            Command::Lcd(path) => local::change_directory(path),
            Command::Lmkdir { parents, path } => local::make_directory(&path, parents),
            Command::Lumask(mask) => {
                rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask as _));
                print(&format!("Local umask: {mask:03o}"));
                Ok(())
            }
            Command::Lls(arguments) => local::list(&arguments),
            Command::Escape(command) => local::run_shell(&command),
            Command::Ls { flags, pattern } => self.list(flags, pattern.as_deref()),
            Command::Df { shown, path } => self.disk(shown, path.as_deref()),
            Command::Get { flags, source, target } => {
                let pattern = absolute_pattern(&source, &self.directory);
                self.get_matching(flags, &pattern, target.as_deref())
            }
            Command::Put { flags, source, target } => self.put(flags, &source, target.as_deref()),
            Command::Change { what, no_follow, value, pattern } => {
                self.change_attribute(what, no_follow, value, &pattern)
            }
            Command::Rm(pattern) => self.remove(&pattern),
            Command::Mkdir { parents, path } => self.make_directory(&path, parents),
            Command::Rmdir(path) => self.remove_directory(&path),
            Command::Rename { legacy, from, to } => self.rename(legacy, &from, &to),
            Command::Link { symbolic, from, to } => self.link(symbolic, &from, &to),
            Command::Copy { from, to } => self.copy_there(&from, &to),
        }
    }
}

fn help() {
    print("Available commands:");
    for entry in COMMANDS {
        let Some((arguments, about)) = entry.help else { continue };
        let space = if arguments.is_empty() || entry.name == "!" { "" } else { " " };
        print(&format!("{:<34} {about}", format!("{}{space}{arguments}", entry.name)));
    }
}
