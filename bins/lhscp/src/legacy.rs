//! `-O`: the protocol from before SFTP, over a connection of this process or over the pipes of `-S`'s program.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use lh_client::TerminalUi;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, FdPump, Interests, LocalFd, Ready};
use lh_transfer::rcp::{self, Options, Outcome, Party, Request, Sink, Source};

use crate::FAILURE;
use crate::command_line::{Arguments, Via};
use crate::copy::{Kept, connected};
use crate::inside::{Connection, Ended, log_in, run_command, run_party};
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
        bits_per_second: arguments.options.bits_per_second,
    }
}

/// Local sources to one target, over one session.
pub(crate) fn upload(
    arguments: &Arguments,
    sources: Vec<Vec<u8>>,
    host: &Host,
    target: &[u8],
    kept: &mut Kept,
    seen: &Seen,
) -> u8 {
    let command = scp_command(arguments, "-t", target, arguments.needs_directory());
    let source = Source::new(sources, options(arguments), Instant::now());
    run(arguments, host, command, Box::new(source), kept, seen)
}

/// Sources of one host, each in a session of its own: the protocol tells no two requests apart.
pub(crate) fn download(
    arguments: &Arguments,
    host: &Host,
    sources: &[Vec<u8>],
    target: &OsStr,
    kept: &mut Kept,
    seen: &Seen,
) -> u8 {
    let mut status = 0;
    for source in sources {
        let request = if arguments.unchecked_names {
            Request::anything()
        } else {
            match Request::of(source, arguments.options.recursive) {
                Ok(request) => request,
                Err(why) => {
                    say(&why);
                    status = FAILURE;
                    continue;
                }
            }
        };
        let command = scp_command(arguments, "-f", source, false);
        let sink = Sink::new(bytes(target), request, options(arguments));
        status = status.max(run(arguments, host, command, Box::new(sink), kept, seen));
    }
    status
}

/// Runs one side here, the other there.
fn run(
    arguments: &Arguments,
    host: &Host,
    command: Vec<u8>,
    mut party: Box<dyn Party>,
    kept: &mut Kept,
    seen: &Seen,
) -> u8 {
    let mut show = Show::new(arguments, seen.clone());
    let (outcome, well) = match &arguments.via {
        Via::Program(program) => {
            let mut command = to_host(program, arguments, host, &Remote::Command(&command));
            let child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
            let Some(mut child) = child else { return FAILURE };
            if let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) {
                // As large as the kernel allows: fewer turns. Without it, it goes as well.
                let _ = rustix::pipe::fcntl_setpipe_size(&stdin, 1 << 20);
                let _ = rustix::pipe::fcntl_setpipe_size(&stdout, 1 << 20);
                rcp::run(&mut *party, &mut stdout, &mut stdin, &mut show);
            }
            let outcome = Outcome { failures: party.failures(), finished: party.is_finished() };
            (outcome, ended_well(&mut child))
        }
        Via::Server(_) => {
            say("-D is for SFTP");
            return FAILURE;
        }
        Via::Inside => {
            let mut ui = TerminalUi::default();
            let Some(mut client) = connected(arguments, host, kept, &mut ui) else { return FAILURE };
            let limit = arguments.options.bits_per_second;
            let (outcome, ended) = run_party(&mut client, command, party, show, limit, &mut ui);
            if ended.connected {
                *kept = Some((host.clone(), client));
            }
            (outcome, ended.well)
        }
    };
    u8::from(outcome.failures > 0 || !outcome.finished || !well)
}

/// From one host to another, the bytes passing through this one: each end is a remote `scp`, and they talk to each other.
pub(crate) fn relay(
    arguments: &Arguments,
    source: &Host,
    sources: &[Vec<u8>],
    target: &Host,
    target_path: &[u8],
) -> u8 {
    let mut status = 0;
    for path in sources {
        let from = scp_command(arguments, "-f", path, false);
        let to = scp_command(arguments, "-t", target_path, arguments.needs_directory());
        let done = match &arguments.via {
            Via::Program(program) => {
                let from = to_host(program, arguments, source, &Remote::Command(&from));
                let to = to_host(program, arguments, target, &Remote::Command(&to));
                relay_programs(from, to)
            }
            Via::Server(_) => {
                say("-D is for SFTP");
                return FAILURE;
            }
            Via::Inside => relay_inside(arguments, (source, from), (target, to)),
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

/// Two pipes, one each way: the reading and writing end for each of two programs.
fn crossed_pipes() -> io::Result<[(OwnedFd, OwnedFd); 2]> {
    let (first_reads, second_writes) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (second_reads, first_writes) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok([(first_reads, first_writes), (second_reads, second_writes)])
}

/// Both programs talk to each other directly.
fn relay_programs(mut from: Command, mut to: Command) -> io::Result<bool> {
    let [first, second] = crossed_pipes()?;
    let both = [spawn(from.stdin(first.0).stdout(first.1)), spawn(to.stdin(second.0).stdout(second.1))];
    // They hold our copies of the pipes, whose ends the programs must be able to find out about.
    drop((from, to));
    let ended: Vec<bool> =
        both.into_iter().map(|child| child.is_some_and(|mut child| ended_well(&mut child))).collect();
    Ok(ended.iter().all(|well| *well))
}

/// The same with two connections of this process: one here, the other on a thread of its own.
fn relay_inside(
    arguments: &Arguments,
    source: (&Host, Vec<u8>),
    target: (&Host, Vec<u8>),
) -> io::Result<bool> {
    let [first, second] = crossed_pipes()?;
    let mut ui = TerminalUi::default();
    let Some(mut client) = log_in(arguments, source.0, &mut ui) else { return Ok(false) };
    let (connected, both_connected) = mpsc::channel();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            // Only one of the two may ask for a password at a time: this one starts when the other is done.
            let mut ui = TerminalUi::default();
            let client = log_in(arguments, target.0, &mut ui);
            let _ = connected.send(client.is_some());
            let Some(mut client) = client else { return Ok(false) };
            let ended = pumped(&mut client, target.1, second, &mut ui);
            client.close();
            ended.map(|ended| ended.well)
        });
        let here = if both_connected.recv().unwrap_or(false) {
            pumped(&mut client, source.1, first, &mut ui).map(|ended| ended.well)
        } else {
            Ok(false)
        };
        client.close();
        let there = other.join().unwrap_or(Ok(false));
        Ok(here? && there?)
    })
}

/// Runs `command` with these pipes as its standard input and output.
fn pumped(
    client: &mut Connection,
    command: Vec<u8>,
    (input, output): (OwnedFd, OwnedFd),
    ui: &mut TerminalUi,
) -> io::Result<Ended> {
    let pump = FdPump::new().input(LocalFd::owned(input)?).output(LocalFd::owned(output)?).output_ext(
        LocalFd::inherited(std::os::fd::AsFd::as_fd(&io::stderr()), lh_driver::Direction::Write)?,
    );
    Ok(run_command(client, command, Box::new(UntilClosed { pump, closed: false }), ui))
}

/// A pump that stops the driver when the channel is closed and everything is handed on.
struct UntilClosed {
    pump: FdPump,
    closed: bool,
}

impl UntilClosed {
    fn stop_if_done(&self, cx: &mut ChannelCx<'_>) {
        if self.closed && self.pump.finished() {
            cx.stop(0);
        }
    }
}

impl ChannelHandler for UntilClosed {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        self.closed |= matches!(event, ChannelEvent::Closed | ChannelEvent::OpenFailed { .. });
        self.pump.on_event(event, cx);
        self.stop_if_done(cx);
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_batch_end(cx);
        self.stop_if_done(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_writable(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.pump.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        self.pump.on_ready(token, ready, cx);
        self.stop_if_done(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.pump.next_deadline()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.pump.on_timeout(cx);
    }

    fn finished(&self) -> bool {
        self.pump.finished()
    }
}
