//! A program of the user's on a session channel.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, FdPump, Interest, Interests, LocalFd, Ready};
use lh_sys::child::{Ended, Watched};
use lh_sys::pty::Pty;
use lh_sys::spawn::Program;
use lh_wire::Writer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::Winsize;

use super::recording::Recording;
use super::title::ShownTerminal;

/// Poll token of the child; the pump's tokens are smaller.
const CHILD: usize = 64;

/// Longest delay of EOF while waiting for the program's exit status. A program closes its output just before
/// it ends, so the two nearly always coincide. Some clients (PuTTY) close the channel at EOF and ignore a
/// later status.
const STATUS_BEFORE_EOF: Duration = Duration::from_millis(100);

/// The running program, its descriptors and its terminal.
pub(super) struct Process {
    child: Watched,
    pump: Option<FdPump>,
    pty: Option<Pty>,
    /// The terminal in the title of this process.
    _shown: Option<ShownTerminal>,
    /// The recording of the terminal, if there is one.
    recording: Option<Recording>,
    /// Time at which to send EOF: the output has ended, but the program has not.
    eof_due: Option<Instant>,
    eof_said: bool,
    /// How the program ended, once that has been reported.
    ended: Option<Ended>,
    closing: bool,
    closed: bool,
}

/// The destination of a program's standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errors {
    /// Sent to the client.
    Sent,
    /// Discarded, as sshd does for subsystems: their clients read everything they receive as the protocol's
    /// messages.
    Discarded,
}

impl Process {
    /// Starts a program in a terminal.
    pub(super) fn in_terminal(
        program: Program,
        mut pty: Pty,
        shown: Option<ShownTerminal>,
        recording: Option<Recording>,
    ) -> io::Result<Self> {
        let slave = pty.open_slave()?;
        let child = program
            .stdio(slave.try_clone()?, slave.try_clone()?, slave)
            .controlling_terminal()
            .spawn_watched()?;
        pty.close_slave();
        let master = LocalFd::owned(pty.try_clone_master()?)?;
        let mut pump = FdPump::new().input(master.clone()).output(master).eof_by_hand();
        if let Some(recording) = &recording {
            pump = pump.filter(Box::new(recording.clone()));
        }
        Ok(Self { _shown: shown, recording, ..Self::new(child, pump, Some(pty)) })
    }

    /// Starts a program without a terminal.
    ///
    /// All three descriptors are pipes, as in OpenSSH on Linux: a socket cannot be opened as `/dev/stdin`,
    /// and fish takes it for a directory.
    pub(super) fn with_pipes(program: Program, errors: Errors) -> io::Result<Self> {
        let (stdin_theirs, stdin_ours) = lh_sys::fd::pipe()?;
        let (stdout_ours, stdout_theirs) = lh_sys::fd::pipe()?;
        let mut pump = FdPump::new()
            .input(LocalFd::owned(stdout_ours)?)
            .output(LocalFd::owned(stdin_ours)?)
            .eof_by_hand()
            .tell_broken_output();
        let null = || std::fs::OpenOptions::new().write(true).open("/dev/null");
        let stderr_theirs = match (errors, null()) {
            (Errors::Discarded, Ok(null)) => null.into(),
            // Sent also in a chroot without `/dev/null`: the program must not block on a pipe without a
            // reader.
            _ => {
                let (ours, theirs) = lh_sys::fd::pipe()?;
                pump = pump.input_ext(1, LocalFd::owned(ours)?);
                theirs
            }
        };
        let child =
            program.stdio(stdin_theirs, stdout_theirs, stderr_theirs).new_session().spawn_watched()?;
        Ok(Self::new(child, pump, None))
    }

    fn new(child: Watched, pump: FdPump, pty: Option<Pty>) -> Self {
        Self {
            child,
            pump: Some(pump),
            pty,
            _shown: None,
            recording: None,
            eof_due: None,
            eof_said: false,
            ended: None,
            closing: false,
            closed: false,
        }
    }

    /// Returns how the program ended, if it has.
    pub(super) const fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Returns the program's process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Begins to copy data. Called after the client's request has been answered.
    pub(super) fn start(&mut self, cx: &mut ChannelCx<'_>) {
        self.with_pump(cx, |pump, cx| pump.start(cx));
    }

    pub(super) fn resize(&self, size: Winsize) {
        if let Some(pty) = &self.pty {
            // A program that has just ended needs no new size.
            let _ = pty.resize(size);
        }
        if let Some(recording) = &self.recording {
            recording.resized(size);
        }
    }

    /// Sends a signal to the program's process group.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        self.child.signal(signal, true)
    }

    /// Sends a break to the terminal (RFC 4335). Returns false without a terminal, or if it fails.
    pub(super) fn send_break(&self) -> bool {
        self.pty.as_ref().is_some_and(|pty| rustix::termios::tcsendbreak(pty).is_ok())
    }

    fn with_pump(&mut self, cx: &mut ChannelCx<'_>, work: impl FnOnce(&mut FdPump, &mut ChannelCx<'_>)) {
        if let Some(pump) = &mut self.pump {
            work(pump, cx);
        }
        self.settle(cx);
    }

    /// Closes the terminal under its programs, like a hangup of a line: without a recording they must not go
    /// on.
    fn hang_up(&mut self, cx: &mut ChannelCx<'_>) {
        if self.pty.take().is_some()
            && let Some(pump) = &mut self.pump
        {
            pump.stop_input(cx);
            pump.end_output(cx);
        }
    }

    /// Reports the program's end once, and closes the channel after its output has been sent.
    fn settle(&mut self, cx: &mut ChannelCx<'_>) {
        if self.closed {
            // The status is not sent any more, but the child must be reaped.
            self.ended = self.ended.or_else(|| self.child.try_wait().ok().flatten());
            return;
        }
        if self.recording.as_ref().is_some_and(Recording::has_failed) {
            self.hang_up(cx);
        }
        let Ok(Some(ended)) = self.child.try_wait() else {
            if self.eof_due.is_none() && self.pump.as_ref().is_some_and(FdPump::input_ended) {
                self.eof_due = Some(cx.now() + STATUS_BEFORE_EOF);
            }
            return;
        };
        self.eof_due = None;
        if self.ended.is_none() {
            self.ended = Some(ended);
            report(ended, cx);
        }
        let drained = self.pty.as_ref().is_some_and(|pty| !readable(pty));
        let Some(pump) = &mut self.pump else { return };
        if drained && !pump.input_ended() {
            // With a terminal, the session ends with its program: a background process that keeps the
            // terminal open (`sleep 1000 &`) must not delay that.
            pump.end_input(cx);
        }
        if pump.input_ended() && !self.closing {
            self.closing = true;
            pump.send_eof(cx);
            cx.close();
        }
    }
}

/// Sends `exit-status` or `exit-signal` (RFC 4254 section 6.10).
fn report(ended: Ended, cx: &mut ChannelCx<'_>) {
    let mut fields = Vec::new();
    match ended {
        Ended::Exit(status) => {
            fields.put_u32(status.into());
            cx.request("exit-status", false, &fields);
        }
        Ended::Signal { number, core_dumped } => {
            fields.put_string(lh_sys::signals::name_of(number).as_bytes());
            fields.put_bool(core_dumped);
            fields.put_string(b"");
            fields.put_string(b"");
            cx.request("exit-signal", false, &fields);
        }
    }
}

/// Returns whether the terminal holds unread output.
fn readable(pty: &Pty) -> bool {
    let mut fds = [PollFd::new(pty, PollFlags::IN)];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&none)).is_ok() && fds.iter().any(|fd| fd.revents().contains(PollFlags::IN))
}

impl ChannelHandler for Process {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if event == ChannelEvent::Closed {
            // The terminal hangs up and pipes break, which programs notice. No process is killed, because a
            // command may be meant to outlive its session. Data that the client sent before its CLOSE still
            // goes to a program without a terminal, as in OpenSSH.
            self.closed = true;
            self.eof_due = None;
            match &mut self.pump {
                Some(pump) if self.pty.is_none() => pump.on_event(event, cx),
                _ => self.pump = None,
            }
            self.pty = None;
            return;
        }
        let terminal_eof = event == ChannelEvent::Eof && self.pty.is_some();
        if terminal_eof {
            // Closing our end of the terminal would hang it up; OpenSSH ignores the client's EOF here too.
            return;
        }
        self.with_pump(cx, |pump, cx| pump.on_event(event, cx));
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.with_pump(cx, |pump, cx| pump.on_batch_end(cx));
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.with_pump(cx, |pump, cx| pump.on_writable(cx));
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if self.ended.is_none() {
            out.add(CHILD, self.child.as_fd(), Interest::READ);
        }
        if let Some(pump) = &self.pump {
            pump.interests(out);
        }
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        if token == CHILD {
            self.settle(cx);
        } else {
            self.with_pump(cx, |pump, cx| pump.on_ready(token, ready, cx));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.eof_due.filter(|_| self.pump.is_some() && !self.eof_said)
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        if let (Some(pump), false) = (&mut self.pump, self.eof_said) {
            self.eof_said = true;
            pump.send_eof(cx);
        }
    }

    fn finished(&self) -> bool {
        self.closed && self.ended.is_some()
    }
}
