//! SFTP inside the session process: no second process, no pipe, file bytes straight into packets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler};
use lh_sftp::server::{FileEvent, FileOutcome, LogLevel, LogSink, Output, Server};
use lh_sftp::{OpenFlags, StatusCode};
use lh_sftp_server::{Arguments, BAD_CLIENT, Verbosity};
use lh_wire::Writer;

use super::shared::Shared;
use crate::figures::{Kind, Outcome, Transfer};
use crate::log::{Level, Log, error};

/// The handler of a session channel that serves SFTP.
pub(super) struct Sftp {
    server: Server,
    log: Log,
    stderr: Stderr,
    eof: bool,
    ended: bool,
}

/// Accounts of files go to the monitor. The engine's lines go to the server's log, whose level they do not share: as with OpenSSH, only errors unless `-l` asks
/// for more. With `-e` they go to the client's standard error.
struct Lines {
    verbosity: Verbosity,
    to: Destination,
    shared: Rc<Shared>,
    /// When the files that are open were opened, by their numbers.
    open: HashMap<u64, Instant>,
    /// What paths begin at that do not begin at the root.
    start: PathBuf,
}

impl Lines {
    fn transferred(&self, path: &[u8], upload: bool, outcome: Outcome, since: Option<Instant>) -> Transfer {
        let time = since.map(|since| since.elapsed()).unwrap_or_default();
        Transfer {
            kind: Kind::Sftp,
            path: self.start.join(OsStr::from_bytes(path)).into_os_string().into_vec(),
            upload,
            bytes_in: 0,
            bytes_out: 0,
            start: 0,
            micros: u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
            outcome,
        }
    }
}

enum Destination {
    Log(Log),
    Client(Stderr),
}

/// What is to be sent on the client's standard error.
type Stderr = Rc<RefCell<Vec<u8>>>;

/// Lines that wait for the client; with more than this waiting, further ones are lost.
const STDERR: usize = 64 * 1024;

const fn level_of(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::Error,
        LogLevel::Info => Level::Info,
        LogLevel::Verbose => Level::Verbose,
        LogLevel::Debug => Level::Debug1,
    }
}

impl LogSink for Lines {
    fn level(&self) -> LogLevel {
        self.verbosity.level()
    }

    fn line(&mut self, level: LogLevel, line: std::fmt::Arguments<'_>) {
        if !self.verbosity.wants(level) {
            return;
        }
        match &self.to {
            Destination::Log(log) => log.line(level_of(level), line),
            Destination::Client(stderr) => {
                let line = format!("{line}\r\n");
                let mut stderr = stderr.borrow_mut();
                if stderr.len() + line.len() <= STDERR {
                    stderr.extend_from_slice(line.as_bytes());
                }
            }
        }
    }

    fn file_opened(&mut self, number: u64) {
        if self.shared.accounts {
            self.open.insert(number, Instant::now());
        }
    }

    fn file_closed(&mut self, event: &FileEvent) {
        let since = self.open.remove(&event.number);
        let outcome = match event.outcome {
            FileOutcome::Complete => Outcome::Complete,
            FileOutcome::Failed(code) => Outcome::Failed(code.text().to_owned()),
            FileOutcome::Abandoned => Outcome::Abandoned,
        };
        // Whoever may do both is judged by what he did.
        let upload = event.bytes_written > 0 || (event.bytes_read == 0 && event.flags.modifies());
        if !self.shared.accounts {
            return;
        }
        let transfer = Transfer {
            bytes_in: event.bytes_written,
            bytes_out: event.bytes_read,
            start: event.start,
            ..self.transferred(&event.path, upload, outcome, since)
        };
        let now = Instant::now();
        let record = self.shared.parts.borrow_mut().closed(transfer, since.unwrap_or(now), now);
        record.into_iter().for_each(|record| self.shared.transferred(record));
    }

    fn renamed(&mut self, old: &[u8], new: &[u8]) {
        if !self.shared.accounts {
            return;
        }
        let [old, new] = [old, new].map(|path| self.start.join(OsStr::from_bytes(path)));
        let size =
            self.shared.shares_files.get().then(|| new.metadata().map(|file| file.len()).ok()).flatten();
        let record = self.shared.parts.borrow_mut().renamed(&old, &new, size);
        record.into_iter().for_each(|record| self.shared.transferred(record));
    }

    fn removed(&mut self, path: &[u8]) {
        if self.shared.accounts {
            let record = self.shared.parts.borrow_mut().removed(&self.start.join(OsStr::from_bytes(path)));
            record.into_iter().for_each(|record| self.shared.transferred(record));
        }
    }

    fn file_refused(&mut self, path: &[u8], flags: OpenFlags, code: StatusCode) {
        let outcome = Outcome::Failed(code.text().to_owned());
        self.shared.transferred(self.transferred(path, flags.modifies(), outcome, None));
    }
}

/// The channel as the engine's output.
struct Channel<'c, 'a>(&'c mut ChannelCx<'a>);

impl Output for Channel<'_, '_> {
    fn budget(&mut self) -> usize {
        // 0 while the queue is long, the turn's share is used up or keys are exchanged; otherwise all that the
        // peer's window takes, so that a whole reply goes in place.
        if self.0.budget() == 0 {
            return 0;
        }
        let id = self.0.id();
        self.0.control().connection().send_budget(id)
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.0.send(data)
    }

    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize {
        self.0.send_in_place(want, fill)
    }
}

impl Sftp {
    pub(super) fn new(arguments: &Arguments, shared: Rc<Shared>, client: Option<&str>) -> Self {
        let (user, log) = (shared.user.clone(), shared.log.clone());
        let address = shared.peer.ip().to_string();
        let stderr = Stderr::default();
        let to = if arguments.stderr {
            Destination::Client(Rc::clone(&stderr))
        } else {
            Destination::Log(log.of_its_own("internal-sftp", arguments.facility))
        };
        let directory = shared.start.directory.clone();
        let start = arguments.start_in(&directory);
        let lines = Lines { verbosity: arguments.verbosity, to, shared, open: HashMap::new(), start };
        let mut server = arguments.server(&user, address, directory, Box::new(lines));
        server.set_client(client);
        Self { server, log, stderr, eof: false, ended: false }
    }

    fn serve(&mut self, cx: &mut ChannelCx<'_>) {
        if self.ended {
            return;
        }
        match self.server.poll(&mut Channel(cx)) {
            Ok(progress) => {
                cx.consumed(progress.consumed);
                if progress.more {
                    cx.want_writable();
                }
                if self.eof && !progress.more && self.server.is_idle() {
                    self.end(0, cx);
                }
            }
            Err(problem) => {
                error!(self.log, "sftp: {problem}");
                self.end(BAD_CLIENT.into(), cx);
            }
        }
        self.say(cx);
    }

    /// Sends the log's lines, as far as the client takes them.
    fn say(&self, cx: &mut ChannelCx<'_>) {
        let mut stderr = self.stderr.borrow_mut();
        if !stderr.is_empty() {
            let sent = cx.send_ext(1, &stderr);
            stderr.drain(..sent);
        }
    }

    fn end(&mut self, status: u32, cx: &mut ChannelCx<'_>) {
        self.ended = true;
        self.server.close();
        self.say(cx);
        let mut fields = Vec::new();
        fields.put_u32(status);
        cx.request("exit-status", false, &fields);
        cx.eof();
        cx.close();
    }
}

impl ChannelHandler for Sftp {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Data { ext: None, data } if !self.ended => self.server.input(data),
            ChannelEvent::Data { data, .. } => cx.consumed(data.len()),
            ChannelEvent::Eof => self.eof = true,
            ChannelEvent::Closed => {
                self.ended = true;
                self.server.close();
            }
            ChannelEvent::Request { want_reply: true, .. } => cx.reply(false),
            _ => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.serve(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.serve(cx);
    }
}
