//! `-O`: the protocol from before SFTP, over a connection of this process or over the pipes of `-S`'s
//! program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use lh_driver::{FdPump, LocalFd};
use lh_ssh_transfer::PumpUntilClosed;
use lh_sys::pipe::GrowingPipe;
use lh_terminal::TerminalUi;
use lh_transfer::rcp::{self, Options, Outcome, Peer, RcpRole, Request, Sink, Source};

use crate::command_line::{Arguments, HostAccess};
use crate::inside::{
    Connection, Ended, ReusedConnection, announce_login, await_login, connected, log_in_silently,
    run_command, run_role,
};
use crate::outcome::{FAILURE, LOST};
use crate::place::{Host, bytes};
use crate::program::{Remote, ended_well, scp_command, spawn, to_host};
use crate::record::Seen;
use crate::show::{Show, say};

fn options(arguments: &Arguments) -> Options {
    Options {
        recursive: arguments.options.recursive,
        preserve: arguments.options.preserve,
        target_must_be_dir: false,
        remote_side: false,
        bits_per_second: arguments.options.limits.bits_per_second,
    }
}

/// Local sources to one target, over one session.
pub(crate) fn upload(
    arguments: &Arguments,
    sources: Vec<Vec<u8>>,
    host: &Host,
    target: &[u8],
    kept: &mut ReusedConnection,
    seen: &Seen,
) -> u8 {
    let command = scp_command(arguments, "-t", target, arguments.needs_directory());
    let source = Source::new(sources, options(arguments), Instant::now());
    run(arguments, host, command, Box::new(source), Lost::Told, kept, seen)
}

/// Sources of one host, each in a session of its own: the protocol tells no two requests apart.
pub(crate) fn download(
    arguments: &Arguments,
    host: &Host,
    sources: &[Vec<u8>],
    target: &OsStr,
    kept: &mut ReusedConnection,
    seen: &Seen,
) -> u8 {
    let mut status = 0;
    for source in sources {
        let Some(request) = request(arguments, source) else {
            status = FAILURE;
            continue;
        };
        let command = scp_command(arguments, "-f", source, false);
        let sink = Sink::new(bytes(target), request, options(arguments));
        status = status.max(run(arguments, host, command, Box::new(sink), Lost::Silent, kept, seen));
    }
    status
}

/// Whether a failed connection gets a message of this program after the reason. Like in scp, only the sending
/// side prints one: the other side finds the end of its input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Told,
    Silent,
}

impl Lost {
    fn tell(self) {
        if self == Self::Told {
            eprintln!("{LOST}");
        }
    }
}

/// Runs one side here, the other there.
fn run(
    arguments: &Arguments,
    host: &Host,
    command: Vec<u8>,
    mut role: Box<dyn RcpRole>,
    lost: Lost,
    kept: &mut ReusedConnection,
    seen: &Seen,
) -> u8 {
    let mut show = Show::new(arguments, seen.clone());
    let (outcome, well) = match &arguments.via {
        HostAccess::Program(program) => {
            let mut command = to_host(program, arguments, host, &Remote::Command(&command));
            let child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
            let Some(mut child) = child else {
                lost.tell();
                return FAILURE;
            };
            if let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) {
                let (mut stdin, mut stdout) = (GrowingPipe::new(stdin), GrowingPipe::new(stdout));
                rcp::run(&mut *role, &mut stdout, &mut stdin, &mut show);
            }
            let outcome = Outcome { failures: role.failures(), finished: role.is_finished() };
            (outcome, ended_well(&mut child))
        }
        HostAccess::Server(_) => {
            say("-D is for SFTP");
            return FAILURE;
        }
        HostAccess::Inside => {
            let mut ui = TerminalUi::default();
            let Some(mut client) = connected(arguments, host, kept, &mut ui) else {
                lost.tell();
                return FAILURE;
            };
            let (outcome, ended) = run_role(arguments, &mut client, command, role, show, &mut ui);
            if ended.connected {
                *kept = Some((host.clone(), client));
            } else {
                client.close();
            }
            (outcome, ended.well)
        }
    };
    u8::from(outcome.failures > 0 || !outcome.finished || !well)
}

/// Returns the names that may be received for `source`; `None`, with a message, if they cannot be known.
fn request(arguments: &Arguments, source: &[u8]) -> Option<Request> {
    if arguments.unchecked_names {
        return Some(Request::anything());
    }
    Request::of(source, arguments.options.recursive).map_err(|error| say(&error.to_string())).ok()
}

/// From one host to another, the bytes passing through this one: each end is a remote `scp`, and what the
/// first sends is checked here before the second gets it.
pub(crate) fn relay(
    arguments: &Arguments,
    source: &Host,
    sources: &[Vec<u8>],
    target: &Host,
    target_path: &[u8],
) -> u8 {
    let mut status = 0;
    for path in sources {
        let Some(request) = request(arguments, path) else {
            status = FAILURE;
            continue;
        };
        let from = scp_command(arguments, "-f", path, false);
        let to = scp_command(arguments, "-t", target_path, arguments.needs_directory());
        let done = match &arguments.via {
            HostAccess::Program(program) => {
                let from = to_host(program, arguments, source, &Remote::Command(&from));
                let to = to_host(program, arguments, target, &Remote::Command(&to));
                relay_programs(arguments, &request, from, to)
            }
            HostAccess::Server(_) => {
                say("-D is for SFTP");
                return FAILURE;
            }
            HostAccess::Inside => relay_inside(arguments, &request, (source, from), (target, to)),
        };
        match done {
            Ok(true) => {}
            Ok(false) => status = FAILURE,
            Err(error) => {
                say(&error.to_string());
                status = FAILURE;
            }
        }
    }
    status
}

/// Carries one copy between two remote `scp`s; whether all went well, which is said where it did not.
fn carry<R: Read, W: Write>(
    arguments: &Arguments,
    request: &Request,
    mut source: (R, W),
    mut target: (R, W),
) -> bool {
    let result = {
        let mut from = Peer::new(&mut source.0, &mut source.1);
        let mut to = Peer::new(&mut target.0, &mut target.1);
        let recursive = arguments.options.recursive;
        rcp::relay(&mut from, &mut to, request, recursive, &mut |text| eprintln!("{text}"))
    };
    // The sink finds the end of its input. Its last output is read and dropped, or it could not exit.
    drop((source, target.1));
    let _ = io::copy(&mut target.0, &mut io::sink());
    match result {
        Ok(well) => well,
        Err(error) => {
            say(&error.to_string());
            false
        }
    }
}

/// Both programs talk to this one.
fn relay_programs(
    arguments: &Arguments,
    request: &Request,
    mut from: Command,
    mut to: Command,
) -> io::Result<bool> {
    let start = |command: &mut Command| {
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let ends = (child.stdout.take()?, child.stdin.take()?);
        Some((child, ends))
    };
    let Some((mut source, source_ends)) = start(&mut from) else { return Ok(false) };
    let Some((mut target, target_ends)) = start(&mut to) else {
        drop(source_ends);
        ended_well(&mut source);
        return Ok(false);
    };
    let well = carry(arguments, request, source_ends, target_ends);
    let ended = [ended_well(&mut source), ended_well(&mut target)];
    Ok(well && ended == [true, true])
}

/// Two pipes, one each way: what a channel reads and writes, and the other ends of both.
fn pipes() -> io::Result<((OwnedFd, OwnedFd), (File, File))> {
    let (channel_reads, writes) = lh_sys::fd::pipe()?;
    let (reads, channel_writes) = lh_sys::fd::pipe()?;
    Ok(((channel_reads, channel_writes), (reads.into(), writes.into())))
}

/// Relays a copy between two connections of this process: one on this thread, the other on one of its own.
fn relay_inside(
    arguments: &Arguments,
    request: &Request,
    source: (&Host, Vec<u8>),
    target: (&Host, Vec<u8>),
) -> io::Result<bool> {
    let (first, source_ends) = pipes()?;
    let (second, target_ends) = pipes()?;
    let mut ui = TerminalUi::default();
    let (announces, awaits) = UnixStream::pair()?;
    let Some(mut client) = log_in_silently(arguments, source.0, &mut ui) else { return Ok(false) };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            // Only one of the two may ask for a password at a time: this one starts when the other is done.
            let mut ui = TerminalUi::default();
            let client = log_in_silently(arguments, target.0, &mut ui);
            announce_login(announces, client.is_some());
            let Some(mut client) = client else { return Ok(false) };
            let ended = pumped(arguments, &mut client, target.1, second, &mut ui);
            client.close();
            ended.map(|ended| ended.well)
        });
        if !await_login(&mut client, awaits) {
            client.close();
            return Ok(false);
        }
        let between = scope.spawn(move || carry(arguments, request, source_ends, target_ends));
        let here = pumped(arguments, &mut client, source.1, first, &mut ui).map(|ended| ended.well);
        client.close();
        let well = between.join().unwrap_or(false);
        let there = other.join().unwrap_or(Ok(false));
        Ok(here? && there? && well)
    })
}

/// Runs `command` with these pipes as its standard input and output.
fn pumped(
    arguments: &Arguments,
    client: &mut Connection,
    command: Vec<u8>,
    (input, output): (OwnedFd, OwnedFd),
    ui: &mut TerminalUi,
) -> io::Result<Ended> {
    let pump = FdPump::new().input(LocalFd::owned(input)?).output(LocalFd::owned(output)?);
    Ok(run_command(arguments, client, command, Box::new(PumpUntilClosed::new(pump)), ui))
}
