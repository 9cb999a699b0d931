//! `lhssh-agent`: holds private keys and signs with them, with the command line, output and sockets of
//! ssh-agent(1).
//!
//! One thread serves all clients. Another thread asks the user for confirmation, so that a pending
//! confirmation delays no other key. Private keys exist in this process only: it cannot be traced, leaves no
//! core file, and wipes removed keys.

mod answer;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod guard;
mod hardware;
mod keyring;
mod listen;
mod lock;
mod log;
mod options;
mod permit;
mod serve;
mod shell;
mod token;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use lh_cli::flags::AGENT;
use lh_cli::helper::protect_memory;
use lh_sys::service::Service;
use rustix::io::Errno;

use crate::error::StartError;
use crate::keyring::Keyring;
use crate::listen::Socket;
use crate::log::Log;
use crate::options::{Mode, Options, SocketDirectory};
use crate::serve::{EndEvent, Server};

/// Exit status of failures before the agent runs.
const FAILURE: u8 = 1;

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start(Service::take()))
}

fn start(service: Service) -> u8 {
    let parsed = match AGENT.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return stop.print(),
    };
    let options = match Options::new(&parsed) {
        Ok(options) => options,
        Err(error) => {
            fail(&error.to_string());
            return error.status();
        }
    };
    match options.mode {
        Mode::Version => {
            eprintln!("{}", AGENT.version());
            0
        }
        Mode::Kill => match shell::kill(options.syntax) {
            Ok(text) => print(&text),
            Err(why) => fail(&why.to_string()),
        },
        Mode::Clean => match listen::sockets_directory() {
            Ok(directory) => {
                listen::remove_stale(&directory, options.clean_all_hosts);
                0
            }
            Err(why) => fail(&why.to_string()),
        },
        Mode::Serve => serve(options, service).unwrap_or_else(|why| fail(&why.to_string())),
    }
}

/// Opens the socket and becomes the agent, or forks into the agent and the command that uses it.
fn serve(options: Options, mut service: Service) -> Result<u8, StartError> {
    protect_memory()?;
    // As OpenSSH's agent: a passed socket counts in the foreground, where no other was asked for.
    let own_place = options.bind.is_some()
        || matches!(options.directory, SocketDirectory::User(_) | SocketDirectory::Shared(_));
    let passed = match options.foreground && !own_place {
        true => Socket::passed(&mut service)?,
        false => None,
    };
    drop(service);
    let socket = passed.map_or_else(|| Socket::open(&options), Ok)?;
    if let Some((program, arguments)) = options.command.split_first() {
        let path = socket.path().to_path_buf();
        let parent = rustix::process::getpid();
        return match lh_sys::background::split().map_err(system("fork"))? {
            // The agent is the child, so that the command keeps the process id of this program.
            None => {
                let until = match EndEvent::process_ends(parent) {
                    // A short command has ended already.
                    Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(0),
                    until => until.map_err(system("pidfd_open"))?,
                };
                detach()?;
                let log = Log::silent(options.fingerprint);
                run(options, socket, until, log)
            }
            Some(agent) => {
                socket.leave_to_the_copy();
                let source = Command::new(program)
                    .args(arguments)
                    .env(shell::SOCKET, &path)
                    .env(shell::PID, agent.as_raw_nonzero().to_string())
                    .exec();
                Err(StartError::Command { program: program.into(), source })
            }
        };
    }
    if options.foreground {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        print(&shell::announce_socket(options.syntax, socket.path(), pid));
        let log = Log::new(options.debug, options.fingerprint);
        return run(options, socket, EndEvent::none(), log);
    }
    match lh_sys::background::split().map_err(system("fork"))? {
        Some(agent) => {
            let text = shell::announce(options.syntax, socket.path(), agent.as_raw_nonzero().get());
            socket.leave_to_the_copy();
            Ok(print(&text))
        }
        None => {
            detach()?;
            let log = Log::silent(options.fingerprint);
            run(options, socket, EndEvent::none(), log)
        }
    }
}

/// Detaches from terminal, working directory and standard descriptors.
fn detach() -> Result<(), StartError> {
    // `setsid` fails only for a group leader, which a forked child is not.
    rustix::process::setsid().map_err(|error| system("setsid")(error.into()))?;
    std::env::set_current_dir("/").map_err(system("/"))?;
    lh_sys::fd::null_stdio().map_err(system("/dev/null"))?;
    // A forked child does not inherit all of these protections.
    Ok(protect_memory()?)
}

/// Names the call that fails.
const fn system(call: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::System { call, source }
}

fn run(options: Options, socket: Socket, until: EndEvent, log: Log) -> Result<u8, StartError> {
    guard::lock_memory();
    let ring = Keyring::new(options.lifetime, options.rules);
    let server = Server::new(socket, ring, until, log, options.foreground).map_err(StartError::Serve)?;
    Ok(server.run())
}

fn print(text: &str) -> u8 {
    use std::io::Write as _;
    let mut out = std::io::stdout();
    // A closed pipe is no failure.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    0
}

fn fail(text: &str) -> u8 {
    eprintln!("{}", text.trim_end());
    FAILURE
}
