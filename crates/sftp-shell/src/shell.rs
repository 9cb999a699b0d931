//! One session at the prompt, or through a batch.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use lh_transfer::{Direction, Options, journal};

use crate::command::{Line, parse};
use crate::complete::complete;
use crate::console::{Console, PROMPT, Said};
use crate::remote::{Fault, Remote};
use crate::{FAILURE, NO_CONNECTION, print, say, say_lost};

/// What the command line of the program says about all commands.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `-b`: the first failure ends it.
    pub batch: bool,
    /// `-q`, `-b`: names of files that are copied or changed are not shown.
    pub quiet: bool,
    /// The progress meter is shown.
    pub progress: bool,
    /// Lines are shown with the prompt in front: nobody has typed them here.
    pub echo: bool,
    /// `-a`: copies are resumed.
    pub resume: bool,
    /// `-f`: copies are written to the disk.
    pub sync: bool,
    /// `-p`: times and modes are kept.
    pub preserve: bool,
    /// `-v`: what a copy decides is told.
    pub verbose: bool,
    /// `-r`: directories are copied.
    pub recursive: bool,
    /// Where the journals of copies are, so that one that was cut off can be gone on with.
    pub journals: Option<Journals>,
    /// How copies are done otherwise (`-B`, `-l`, `-R`, `-X`).
    pub copy: Options,
}

/// See [`Settings::journals`].
#[derive(Debug, Clone)]
pub struct Journals {
    /// The directory they are in.
    pub directory: PathBuf,
    /// What tells this server from others.
    pub server: Vec<u8>,
}

impl Journals {
    /// The journal of the copies of these sources to the names beside them.
    pub(crate) fn of(&self, direction: Direction, pairs: &[(Vec<u8>, Vec<u8>)]) -> PathBuf {
        let absolute = |path: &Vec<u8>| match std::path::absolute(OsStr::from_bytes(path)) {
            Ok(path) => path.into_os_string().into_vec(),
            Err(_) => path.clone(),
        };
        let upload = direction == Direction::Upload;
        let mut words = vec![if upload { b"put".to_vec() } else { b"get".to_vec() }, self.server.clone()];
        for (source, copy) in pairs {
            words.push(if upload { absolute(source) } else { source.clone() });
            words.push(if upload { copy.clone() } else { absolute(copy) });
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        journal::file_for(&self.directory, &words, None)
    }
}

/// Why a command did not do what was asked. What there was to say has been said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// A batch ends here.
    Command,
    /// The connection is gone.
    Lost,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Lost => Self::Lost,
            Fault::Status(_) | Fault::Refused(_) => Self::Command,
        }
    }
}

/// What a line led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    GoOn,
    /// `quit`.
    Quit,
    /// A command of a batch failed.
    Failed,
    Lost,
}

/// See the module documentation.
pub struct Shell {
    pub(crate) remote: Remote,
    pub(crate) settings: Settings,
    /// Where the session started; absolute.
    pub(crate) home: Vec<u8>,
    /// The remote working directory; absolute.
    pub(crate) directory: Vec<u8>,
}

impl Shell {
    /// A session in the directory the server starts in.
    ///
    /// # Errors
    /// The message: the server does not say where that is.
    pub fn new(mut remote: Remote, settings: Settings) -> Result<Self, String> {
        match remote.home() {
            Ok(home) => Ok(Self { remote, settings, directory: home.clone(), home }),
            Err(Fault::Lost) => Err(remote.loss().unwrap_or_default()),
            Err(fault) => Err(format!("realpath .: {}\nNeed cwd", fault.text())),
        }
    }

    /// What the destination's path asks for: a directory to start in, or a file to be fetched, to `target` if given.
    /// Returns the exit status when that is all there was to do.
    pub fn open(&mut self, path: &[u8], target: Option<&[u8]>) -> Option<u8> {
        let path = crate::run::absolute(path, &self.directory);
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
            let flags = crate::command::CopyFlags::default();
            self.get(flags, &path, target)
        };
        Some(match outcome {
            Ok(()) => 0,
            Err(Failed::Command) => FAILURE,
            Err(Failed::Lost) => self.lost(),
        })
    }

    /// Carries out what the console says until it ends; returns the exit status.
    pub fn run(&mut self, console: &Console) -> u8 {
        loop {
            console.ask();
            let line = loop {
                match console.take() {
                    Some(Said::Line(line)) => break line,
                    Some(Said::End) => return 0,
                    Some(Said::Complete { line }) => {
                        console.answer(complete(&line, &mut self.remote, &self.directory));
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
            print(&format!("{PROMPT}{}", lh_cli::progress::printable(text)));
        }
        let outcome = match command {
            Ok(None) => Ok(()),
            Ok(Some(crate::command::Command::Quit)) => return After::Quit,
            Ok(Some(command)) => self.carry_out(command),
            Err(text) => {
                say(&text);
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
