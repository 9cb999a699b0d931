//! SFTP over the pipes of programs: `-S` names one that leads to the host, `-D` a server that runs here.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use lh_sftp::server::Backlog;
use lh_ssh_transfer::VERSION_TIMEOUT;
use lh_sys::pipe::GrowingPipe;
use lh_transfer::{Direction, Engine, Plan, Report, Side, Summary};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command_line::{Arguments, HostAccess};
use crate::durable;
use crate::limits;
use crate::place::Host;
use crate::program::{Remote, ended_well, spawn, to_host};
use crate::record::RunRecord;
use crate::show::{Show, conclude, say, say_failed_uploads};

/// Bytes that wait for a program at most.
const QUEUE: usize = 1 << 20;

/// Read in one go.
const CHUNK: usize = 256 * 1024;

/// A program that serves one side of the copy, with its pipes.
struct End {
    side: Side,
    child: Child,
    stdin: Option<GrowingPipe<ChildStdin>>,
    stdout: GrowingPipe<ChildStdout>,
    queue: Backlog,
    /// Whether its output has ended.
    ended: bool,
    /// Whether it never answered and was killed.
    killed: bool,
}

/// Carries out `plan` with a program for each of `hosts`: the source's first where there are two.
pub(crate) fn copy(arguments: &Arguments, plan: Plan, hosts: &[&Host], record: &mut RunRecord) -> Summary {
    let lost = Summary { lost: true, failures: 1, ..Summary::default() };
    let sides: &[Side] = match plan.direction {
        Direction::Upload => &[Side::Target],
        Direction::Download => &[Side::Source],
        Direction::Relay => &[Side::Source, Side::Target],
    };
    let direction = plan.direction;
    let mut ends = Vec::new();
    for (&side, host) in sides.iter().zip(hosts) {
        match End::start(arguments, host, side) {
            Some(end) => ends.push(end),
            None => {
                say("Connection closed");
                return lost;
            }
        }
    }
    let mut show = Show::new(arguments, record.seen.clone());
    let options = durable::options(arguments, &plan, hosts);
    let mut engine = Engine::new(plan.clone(), options, Instant::now());
    let is_server = matches!(arguments.via, HostAccess::Server(_));
    // A program that leads to a host may have to ask for a password first.
    let first_answer = arguments.options.timeouts.first_answer;
    let limit = is_server.then_some(VERSION_TIMEOUT).or(first_answer);
    for end in &ends {
        engine.open(end.side);
        engine.expect_version(end.side, limit);
    }
    let start = limits::Start::now();
    run(&mut engine, &mut ends, &mut show);
    let mut summary = engine.summary();
    for end in ends.iter_mut().filter(|end| is_server && summary.lost && !end.ended) {
        // What never answered may not end with its input either. A program that leads to a host is left to
        // itself: it may have changed the modes of the terminal to ask for a password.
        end.killed = !engine.has_begun(end.side) && end.child.kill().is_ok();
    }
    // A journal that notes nothing is removed: there may have been no server.
    engine.leave_unbegun();
    Report::ended(&mut show, &summary, Instant::now());
    let rate_limit = arguments.rate_limit();
    let copy = limits::Copy { direction, rate_limit, bytes: summary.bytes, waits: engine.waits() };
    let verdict = start.verdict(&copy, &limits::Path::default());
    conclude(arguments, &start, &summary, verdict, record);
    say_failed_uploads(arguments, &plan, &summary, &engine.failed_sources());
    for mut end in ends {
        drop(end.stdin.take());
        // The last answers are not needed, but a server that cannot deliver them would exit with a failure.
        // Children of one that was killed may keep its output open.
        if !end.killed {
            let _ = lh_sys::fd::set_nonblocking(&end.stdout, false);
            let _ = std::io::copy(&mut end.stdout, &mut std::io::sink());
        }
        drop(end.stdout);
        if !ended_well(&mut end.child) && summary.failures == 0 {
            summary.failures = 1;
        }
    }
    summary
}

impl End {
    fn start(arguments: &Arguments, host: &Host, side: Side) -> Option<Self> {
        let mut command = match &arguments.via {
            HostAccess::Server(path) => Command::new(path),
            HostAccess::Program(path) => to_host(path, arguments, host, &Remote::Sftp),
            HostAccess::Inside => return None,
        };
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let (stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        for fd in [stdin.as_fd(), stdout.as_fd()] {
            lh_sys::fd::set_nonblocking(fd, true).ok()?;
        }
        let (stdin, stdout) = (Some(GrowingPipe::new(stdin)), GrowingPipe::new(stdout));
        Some(Self { side, child, stdin, stdout, queue: Backlog::new(QUEUE), ended: false, killed: false })
    }

    /// Handles the end of the program's output: the connection is lost.
    fn lost(&mut self, engine: &mut Engine, now: Instant) {
        self.ended = true;
        engine.lost(self.side, "Connection closed", now);
    }

    /// Writes the queued bytes. An error ends the connection.
    fn flush(&mut self) -> Result<(), ()> {
        let Some(stdin) = &mut self.stdin else { return Err(()) };
        while !self.queue.is_empty() {
            match stdin.write(self.queue.rest()) {
                Ok(written) => self.queue.advance(written),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(()),
            }
        }
        Ok(())
    }
}

fn run(engine: &mut Engine, ends: &mut [End], show: &mut Show) {
    let mut space = BytesMut::new();
    loop {
        let now = Instant::now();
        for end in ends.iter_mut() {
            engine.advance(end.side, &mut end.queue, now);
            if end.flush().is_err() && !engine.is_finished() {
                engine.lost(end.side, "Connection closed", now);
            }
        }
        while let Some(event) = engine.poll_event() {
            Report::event(show, event, now);
        }
        if engine.is_finished() {
            return;
        }
        let mut deadline = engine.next_deadline();
        if show.wants_progress() {
            Report::totals(show, engine.totals(), now);
            Report::progress(show, engine.current(), now);
            deadline = deadline.into_iter().chain(Report::next_deadline(show)).min();
        }
        for (end, readable) in wait(ends, deadline, now).into_iter().enumerate() {
            let Some(end) = ends.get_mut(end).filter(|_| readable) else { continue };
            if space.len() < CHUNK / 4 {
                // The same memory again, once everything that was read into it has been handed on.
                space.clear();
                if !space.try_reclaim(CHUNK) {
                    space = BytesMut::with_capacity(CHUNK);
                }
                space.resize(CHUNK, 0);
            }
            match end.stdout.read(&mut space) {
                Ok(0) => end.lost(engine, now),
                Ok(read) => engine.received(end.side, space.split_to(read).freeze(), now),
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => end.lost(engine, now),
            }
        }
    }
}

/// Waits until something can be read or written; says for each end whether it can be read.
fn wait(ends: &[End], deadline: Option<Instant>, now: Instant) -> Vec<bool> {
    let mut fds: Vec<PollFd<'_>> =
        ends.iter().map(|end| PollFd::from_borrowed_fd(end.stdout.as_fd(), PollFlags::IN)).collect();
    let writable: Vec<BorrowedFd<'_>> = ends
        .iter()
        .filter(|end| !end.queue.is_empty())
        .filter_map(|end| end.stdin.as_ref().map(AsFd::as_fd))
        .collect();
    fds.extend(writable.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::OUT)));
    // A millisecond more: a deadline that has nearly come must not make the loop spin.
    let left = deadline.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let _ = poll(&mut fds, left.as_ref());
    fds.iter().take(ends.len()).map(|fd| !fd.revents().is_empty()).collect()
}
