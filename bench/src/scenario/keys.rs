//! Delay of keystrokes: how long a typed character takes to come back from a remote terminal while another
//! channel of the connection carries bulk.
//!
//! Longhaul uses two channels of one connection of the client library, OpenSSH two sessions through a
//! `ControlMaster`. Both ends of the typing are pipes of this process, so the measured time is the same: from
//! `write` to the `read` of the echo.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lh_client::{LogLevel, Pty, SessionSetup, Start, UserInterface, answer_by_default, local_account};
use lh_config::client::{CommandLine, Request, UserFile};
use lh_driver::{
    ChannelOptions, Control, ControlCx, ControlEvent, FdPump, Interest, Interests, LocalFd, Ready,
};
use lh_interop::held_fs::HeldFs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::master::{Master, destination, wait_for};
use crate::bench::Bench;
use crate::contestant::{Contestant, Contestants, Kind, Variation, client_options};
use crate::job::Running;
use crate::stats::{Better, percentile};
use crate::table::{Entry, Measured, Table, interleave};

/// Command in the terminal: like an editor, it reads single characters and writes them itself. All modes are
/// set, because a client whose own input is not a terminal sends modes that leave everything off.
const TERMINAL: &str = "stty sane -echo -icanon min 1; echo ready; exec cat";
/// Time limit for one character.
const TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Duration of each read of a slow file system, which returns at most 128 KiB.
const READ_TIME: Duration = Duration::from_millis(20);
/// Size of the file on the slow file system, bytes: more than a measurement reads.
const SLOW_FILE: usize = 64 << 20;

/// Load on the other channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bulk {
    None,
    Down,
    Up,
    /// A copy reads a file whose file system takes [`READ_TIME`] for each read.
    SlowFile,
}

impl Bulk {
    const fn command(self) -> Option<&'static str> {
        match self {
            Self::None | Self::SlowFile => None,
            Self::Down => Some("exec cat /dev/zero"),
            Self::Up => Some("exec cat >/dev/null"),
        }
    }
}

/// Idle, then with data in either direction. Longhaul runs as a library, others through a master.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    tables(bench, field, "keys", "keystroke and echo", true)
}

/// Like [`run`], with mux clients of a master for all contestants.
pub(super) fn mux_clients(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    tables(bench, field, "forward", "keystroke and echo of a mux client", false)
}

fn tables(
    bench: &Bench,
    field: &Contestants,
    scenario: &'static str,
    what: &str,
    as_library: bool,
) -> Result<Vec<Table>, String> {
    let with = Variation::of(&bench.options.suites[0]);
    let count = if bench.options.smoke { 5 } else { 60 };
    let mut tables = Vec::new();
    let mut loads =
        vec![(Bulk::None, "nothing else"), (Bulk::Down, "bulk downwards"), (Bulk::Up, "bulk upwards")];
    // As root, and where the kernel has FUSE.
    if !as_library && rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists() {
        loads.push((Bulk::SlowFile, "a copy from a file system that takes 20 ms a read"));
    }
    for (bulk, beside) in loads {
        let mut entries = Vec::new();
        for who in &field.all {
            let (Kind::Suite { ours, ssh, scp, .. }, Some(server)) = (&who.kind, who.server(bench, &with))
            else {
                continue;
            };
            let with = with.clone();
            entries.push(Entry::new(&who.name, Contestant::role(who), move || {
                let running = Running::start(bench, &server)?;
                let times = if *ours && as_library {
                    library(bench, &with, &running, bulk, count)
                } else {
                    master(bench, [ssh, scp], &with, &running, bulk, count)
                };
                times
                    .map(|times| measured(&times))
                    .map_err(|error| format!("{error} (server: {})", running.log_end()))
            }));
        }
        let title = format!("{what}, {beside} on the connection, {}", bench.options.suites[0].name());
        tables.push(interleave(scenario, title, bench.options.rounds, entries));
    }
    Ok(tables)
}

fn measured(times: &[f64]) -> Vec<Measured> {
    [("median ms", 0.5), ("95 % ms", 0.95), ("worst ms", 1.0)]
        .into_iter()
        .filter_map(|(name, q)| Some((name, Better::Lower, percentile(times, q)?)))
        .collect()
}

/// Types `count` characters and returns the time of each until its echo, milliseconds.
fn type_and_time<R: Read + AsFd>(mut to: impl Write, from: &mut R, count: usize) -> Result<Vec<f64>, String> {
    let read = |from: &mut R| -> Result<u8, String> {
        let mut fds = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        let ready = poll(&mut fds, Some(&TIMEOUT)).map_err(|error| error.to_string())?;
        let mut byte = [0];
        if ready == 0 || from.read(&mut byte).map_err(|error| error.to_string())? == 0 {
            return Err("no echo from the terminal".to_owned());
        }
        Ok(byte[0])
    };
    while read(from)? != b'\n' {}
    let mut times = Vec::with_capacity(count);
    for index in 0..count {
        // Irregular pauses, so that typing is not in step with any timer.
        std::thread::sleep(Duration::from_micros(15_000 + (index as u64 * 7919) % 10_000));
        let start = Instant::now();
        to.write_all(b"x").map_err(|error| error.to_string())?;
        while read(from)? != b'x' {}
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}

/// A user interface without a user.
struct NoUser;

impl UserInterface for NoUser {
    fn message(&mut self, _level: LogLevel, _text: &str) {}
}

/// Stops the loop when its pipe is closed.
struct UntilClosed(PipeReader);

impl Control for UntilClosed {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        answer_by_default(event, cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        out.add(0, self.0.as_fd(), Interest::READ);
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        cx.stop(0);
    }
}

/// Two channels of one Longhaul connection.
fn library(
    bench: &Bench,
    with: &Variation,
    running: &Running,
    bulk: Bulk,
    count: usize,
) -> Result<Vec<f64>, String> {
    let mut request = Request::new(&bench.options.hosts.address, local_account().map_err(text)?);
    (request.user_file, request.system_file) = (UserFile::None, None);
    let options = client_options(bench, with);
    for option in options.iter().filter(|option| option.contains('=')) {
        request.command_line.push(CommandLine::Option(option.clone()));
    }
    request.command_line.push(CommandLine::Option(format!("Port={}", running.port)));
    request.command_line.push(CommandLine::Option(format!("User={}", bench.user())));
    let (keys, typing) = pipe().map_err(text)?;
    let (mut echo, echoed) = pipe().map_err(text)?;
    let (closed, close) = pipe().map_err(text)?;
    // Handlers must stay on the thread that created them.
    let connection = std::thread::spawn(move || carry(&request, keys, echoed, closed, bulk));
    let times = type_and_time(&typing, &mut echo, count);
    drop(close);
    match connection.join() {
        Ok(Ok(())) => times,
        Ok(Err(error)) => Err(error),
        Err(_) => Err("the connection's thread panicked".to_owned()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn carry(
    request: &Request,
    keys: PipeReader,
    echoed: PipeWriter,
    closed: PipeReader,
    bulk: Bulk,
) -> Result<(), String> {
    let options = lh_client::Options::load(request).map_err(text)?;
    let mut client = lh_client::connect(&options, &mut NoUser).map_err(text)?;
    let device = |path: &str, write: bool| {
        let file = std::fs::OpenOptions::new().read(!write).write(write).open(path).map_err(text)?;
        LocalFd::owned(OwnedFd::from(file)).map_err(text)
    };
    if let Some(command) = bulk.command() {
        let pump = match bulk {
            Bulk::Up => FdPump::new().input(device("/dev/zero", false)?),
            _ => FdPump::new().output(device("/dev/null", true)?),
        };
        let setup = SessionSetup::new(Start::Exec(command.into()));
        client.open_session(setup, &ChannelOptions::default(), Box::new(pump)).map_err(text)?;
    }
    let mut setup = SessionSetup::new(Start::Exec(TERMINAL.into()));
    setup.pty =
        Some(Pty { term: "dumb".to_owned(), columns: 80, rows: 24, modes: vec![0], ..Pty::default() });
    let pump = FdPump::new()
        .input(LocalFd::owned(OwnedFd::from(keys)).map_err(text)?)
        .output(LocalFd::owned(OwnedFd::from(echoed)).map_err(text)?);
    client.open_session(setup, &ChannelOptions::default(), Box::new(pump)).map_err(text)?;
    client.run(&mut UntilClosed(closed)).map_err(text)?;
    client.close();
    Ok(())
}

/// Two sessions through a master.
fn master(
    bench: &Bench,
    [ssh, scp]: [&Path; 2],
    with: &Variation,
    running: &Running,
    bulk: Bulk,
    count: usize,
) -> Result<Vec<f64>, String> {
    let slow = (bulk == Bulk::SlowFile).then(|| slow_file(bench)).transpose()?;
    let mut master = Master::start(bench, ssh, with, running.port)?;
    if let Some(command) = bulk.command() {
        let zeros = || std::fs::File::open("/dev/zero").map_err(text);
        let stdin = if bulk == Bulk::Up { Stdio::from(zeros()?) } else { Stdio::null() };
        master.mux_client(&[], command, stdin, Stdio::null())?;
    }
    if let Some(slow) = &slow {
        let mut args = client_options(bench, with);
        args.extend(["-o".to_owned(), format!("ControlPath={}", master.socket().display())]);
        args.extend(["-P".to_owned(), running.port.to_string()]);
        args.push(format!("{}:{}", destination(bench), slow.file().display()));
        args.push(bench.fresh("slow").display().to_string());
        master.programs.start(bench, scp, &args, Stdio::null(), Stdio::null())?;
        wait_for("read of the slow file", || (slow.reads() > 0).then_some(()))?;
    }
    let (to, from) = master.mux_client(&["-tt"], TERMINAL, Stdio::piped(), Stdio::piped())?;
    let (Some(to), Some(mut from)) = (to, from) else { return Err("no pipes".to_owned()) };
    let before = slow.as_ref().map(HeldFs::reads);
    let times = type_and_time(to, &mut from, count);
    if slow.as_ref().is_some_and(|slow| Some(slow.reads()) == before) {
        return Err("the copy from the slow file system had ended".to_owned());
    }
    times
}

/// Mounts a file system with a file that is slow to read.
fn slow_file(bench: &Bench) -> Result<HeldFs, String> {
    let slow = HeldFs::mount(&bench.fresh("slow-fs"), &vec![0; SLOW_FILE]).map_err(text)?;
    slow.slow_reads(READ_TIME);
    Ok(slow)
}
