//! `lhsftp`: files on another host, with the command line, the commands, the messages and the exit statuses
//! of sftp(1).
//!
//! The commands are in `lh_sftp_shell`. Here are the command line (`command_line`, `place`) and the
//! connections to a server: over SSH in this process (`over_ssh`), or on the pipes of a program
//! (`over_pipes`).

mod command_line;
mod over_pipes;
mod over_ssh;
mod place;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::rc::Rc;

use lh_cli::flags::{SFTP, Stop};
use lh_client::local_account;
use lh_sftp_shell::{
    Console, Conversation, FAILURE, NO_CONNECTION, Remote, SessionEnd, Shell, Watch, say, say_lost,
};
use lh_sys::signals::Signals;
use rustix::process::Signal;

use command_line::{Arguments, Batch, ServerAccess};

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::fd::reserve(lh_sys::fd::MANY);
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start())
}

fn start() -> u8 {
    let parsed = match SFTP.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return stop.print(),
    };
    let account = match local_account() {
        Ok(account) => account,
        Err(error) => {
            eprintln!("lhsftp: {error}");
            return FAILURE;
        }
    };
    match command_line::interpret(&parsed, account) {
        Ok(arguments) => run(arguments),
        Err(stop) => print(&stop),
    }
}

fn print(stop: &Stop) -> u8 {
    stop.print()
}

/// Source of commands.
enum Input {
    Terminal,
    File(File),
    Standard,
}

fn run(arguments: Arguments) -> u8 {
    let input = match &arguments.batch {
        Some(Batch::File(path)) => match File::open(path) {
            Ok(file) => Input::File(file),
            Err(error) => {
                let reason = lh_sys::errno_text(&error);
                let path = lh_cli::progress::printable(path.as_os_str().as_bytes());
                say(&format!("{reason} ({path})."));
                return NO_CONNECTION;
            }
        },
        None if std::io::stdin().is_terminal() => Input::Terminal,
        Some(Batch::Standard) | None => Input::Standard,
    };
    let Ok((ours, theirs)) = UnixStream::pair() else { return NO_CONNECTION };
    let connected = ours.set_nonblocking(true).map_err(ConnectError::Socket).and_then(|()| {
        // A program between us and the server must not get the SIGINT of ^C, which is for the running
        // command. Over SSH the signal is caught only when the connection stands, so that it can be used to
        // give up.
        connect(&arguments, ours, matches!(input, Input::Terminal))
    });
    let (remote, name) = match connected {
        Ok(connected) => connected,
        Err(error) => {
            say(&error.to_string());
            return NO_CONNECTION;
        }
    };
    if !arguments.settings.quiet {
        eprintln!("{name}");
    }
    let quiet = arguments.settings.quiet;
    let mut settings = arguments.settings;
    settings.echo = !matches!(input, Input::Terminal);
    let mut shell = match Shell::new(remote, settings) {
        Ok(shell) => shell,
        Err(error) => {
            say_lost(&error.to_string(), quiet);
            return NO_CONNECTION;
        }
    };
    if let Some(path) = &arguments.path
        && let Some(status) = shell.open(path, arguments.target.as_deref())
    {
        return status;
    }
    let console = match input {
        Input::Terminal => Console::terminal(theirs),
        Input::File(file) => Console::lines(theirs, Box::new(BufReader::new(file))),
        Input::Standard => Console::lines(theirs, Box::new(BufReader::new(std::io::stdin()))),
    };
    match console {
        Ok(console) => shell.run(&console),
        Err(error) => {
            say(&error.to_string());
            NO_CONNECTION
        }
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    /// The socket of the console cannot be used.
    #[error("{0}")]
    Socket(io::Error),
    /// The program between this one and the server does not run.
    #[error("{0}\r\nConnection closed")]
    Program(#[from] over_pipes::StartError),
    /// There is no channel.
    #[error(transparent)]
    Ssh(#[from] over_ssh::OpenError),
    /// The server does not start the session.
    #[error(transparent)]
    Session(#[from] SessionEnd),
}

/// Connects to the server and starts SFTP. The text is the message about the connection.
fn connect(
    arguments: &Arguments,
    console: UnixStream,
    catch: bool,
) -> Result<(Remote, String), ConnectError> {
    let signals = || if catch { Signals::collect(&[Signal::INT]).ok() } else { None };
    match &arguments.access {
        ServerAccess::Program { words, name } => {
            let conversation =
                Rc::new(RefCell::new(Conversation::new(Rc::new(Watch::new(console, signals())))));
            let carrier = over_pipes::start(words)?;
            Ok((Remote::greet(conversation, Box::new(carrier))?, name.clone()))
        }
        ServerAccess::Ssh { request, server, name } => {
            let watch = Rc::new(Watch::new(console, None));
            let conversation = Rc::new(RefCell::new(Conversation::new(Rc::clone(&watch))));
            let channels = arguments.settings.copy.limits.channels;
            let mut carrier = over_ssh::open(request, server, channels, &conversation)?;
            watch.catch(signals());
            if catch {
                carrier.tell_user();
            }
            Ok((Remote::greet(conversation, Box::new(carrier))?, name.clone()))
        }
    }
}
