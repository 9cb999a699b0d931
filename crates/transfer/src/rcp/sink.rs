//! The side that gets the files, and believes nothing.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use lh_sys::errno_text;
use lh_wire::Output;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::Current;
use crate::end::Times;
use crate::names::{display_name, join};

use super::inbox::{Answer, Inbox};
use super::receiving::{Receiving, timestamps};
use super::record::{Malformed, Record};
use super::violation::Violation;
use super::{Event, Options, Outbox, RcpRole, Request};

/// Receives files and directories from a [`Source`](super::Source).
pub struct Sink {
    options: Options,
    request: Request,
    /// Bits that a mode loses unless modes are kept.
    umask: u32,
    /// Targets: the command's, then each directory that is being received, the innermost last.
    levels: Vec<Level>,
    /// For the next file or directory.
    times: Option<Times>,
    state: State,
    /// No record has come yet.
    first: bool,
    inbox: Inbox,
    out: Outbox,
    events: VecDeque<Event>,
    failures: u64,
    next_id: u64,
    peer_gone: bool,
}

enum State {
    Record,
    Data(Receiving),
    /// All bytes of the file are here: did the source read it?
    Trailer(Receiving),
    Finished,
}

struct Level {
    path: Vec<u8>,
    /// True if received items go into it; false if it is the name of the received item.
    is_dir: bool,
    mode: Option<u32>,
    times: Option<Times>,
}

impl Sink {
    /// Will receive into `target`, or as `target` where that is no directory, what `request` allows.
    pub fn new(target: Vec<u8>, request: Request, options: Options) -> Self {
        let is_dir = Path::new(std::ffi::OsStr::from_bytes(&target)).is_dir();
        let mut sink = Self {
            request,
            umask: current_umask(),
            levels: Vec::new(),
            times: None,
            state: State::Record,
            first: true,
            inbox: Inbox::default(),
            out: Outbox::default(),
            events: VecDeque::new(),
            failures: 0,
            next_id: 0,
            peer_gone: false,
            options,
        };
        if sink.options.target_must_be_dir && !is_dir {
            let why = match std::fs::metadata(std::ffi::OsStr::from_bytes(&target)) {
                Ok(_) => "Not a directory".to_owned(),
                Err(error) => errno_text(&error),
            };
            sink.fail(Some(&target), &why);
            sink.finish();
        } else {
            sink.acknowledge();
            sink.levels.push(Level { path: target, is_dir, mode: None, times: None });
        }
        sink
    }

    fn acknowledge(&mut self) {
        self.out.push(&[0]);
    }

    /// Reports a failure, to the peer and to the user.
    fn fail(&mut self, path: Option<&[u8]>, why: &str) {
        let mut text = b"scp: ".to_vec();
        if let Some(path) = path {
            text.extend_from_slice(path);
            text.extend_from_slice(b": ");
        }
        text.extend_from_slice(why.as_bytes());
        self.out.push(&Record::Failed { text, fatal: false }.encode());
        match path {
            Some(path) => self.say(format!("{}: {why}", display_name(path))),
            None => self.say(why.to_owned()),
        }
    }

    fn say(&mut self, text: String) {
        self.failures += 1;
        if !self.options.remote_side {
            self.events.push_back(Event::Failed(text));
        }
    }

    /// The peer broke a rule: nothing more is taken from it.
    fn break_off(&mut self, why: Violation) {
        self.fail(None, &format!("protocol error: {why}"));
        self.finish();
    }

    fn finish(&mut self) {
        self.state = State::Finished;
        self.levels.clear();
    }

    fn handle_input(&mut self, now: Instant) {
        loop {
            match &mut self.state {
                State::Finished => return,
                State::Record => match self.inbox.line() {
                    Ok(Some(line)) => self.line(&line, now),
                    Ok(None) => break,
                    Err(why) => return self.break_off(why),
                },
                State::Data(file) => {
                    let Some(data) = self.inbox.data(file.left) else { break };
                    file.take(data);
                    if file.left == 0
                        && let State::Data(mut file) = std::mem::replace(&mut self.state, State::Record)
                    {
                        file.write();
                        self.state = State::Trailer(file);
                    }
                }
                State::Trailer(_) => {
                    let Some(answer) = self.inbox.answer() else { break };
                    if let State::Trailer(file) = std::mem::replace(&mut self.state, State::Record) {
                        self.received_file(file, answer);
                    }
                }
            }
        }
        if self.peer_gone {
            self.ended();
        }
    }

    /// The peer has closed the stream.
    fn ended(&mut self) {
        match &self.state {
            State::Finished => {}
            State::Record if self.inbox.mid_line() => self.fail(None, "protocol error: lost connection"),
            // The end of what a remote source was asked for, or of everything that an uploading client had.
            State::Record if self.levels.len() <= 1 => self.finish(),
            State::Record | State::Trailer(_) => self.say("lost connection".to_owned()),
            State::Data(_) => self.fail(None, "dropped connection"),
        }
        if let State::Data(file) | State::Trailer(file) = std::mem::replace(&mut self.state, State::Finished)
        {
            self.events.push_back(file.failed("lost connection".to_owned()));
        }
        self.finish();
    }

    fn line(&mut self, line: &[u8], now: Instant) {
        self.events.push_back(Event::Debug(format!("Sink: {}", display_name(line))));
        let first = std::mem::replace(&mut self.first, false);
        match Record::parse(line) {
            Ok(Record::Failed { text, fatal }) => {
                self.say(display_name(&text));
                if fatal {
                    self.finish();
                }
            }
            Ok(Record::EndDir) => self.end_dir(),
            Ok(Record::Times(times)) => {
                self.times = Some(times);
                self.acknowledge();
            }
            Ok(Record::File { mode, size, name }) if self.is_wanted(&name) => {
                self.begin_file(mode, size, name, now);
            }
            Ok(Record::Dir { .. }) if !self.options.recursive => {
                self.break_off(Violation::Directory);
            }
            Ok(Record::Dir { mode, name }) if self.is_wanted(&name) => self.begin_dir(mode, &name),
            Ok(Record::File { .. } | Record::Dir { .. }) => {
                self.break_off(Violation::Name);
            }
            // `scp remote:foo\*` where nothing matches: some shells say so themselves, on the same stream.
            Err(Malformed::Unknown) if first => {
                self.fail(None, &display_name(line));
                self.finish();
            }
            Err(Malformed::Unknown) => self.break_off(Violation::NoRecord),
            Err(Malformed::Protocol(why)) => self.break_off(why),
            Err(Malformed::Name(name)) => {
                self.fail(None, &format!("error: unexpected filename: {}", display_name(&name)));
                self.finish();
            }
        }
    }

    /// Only what is not inside of a directory was named by the user.
    fn is_wanted(&self, name: &[u8]) -> bool {
        self.levels.len() > 1 || self.request.allows(name)
    }

    /// Returns the local path of a received name.
    fn place(&self, name: &[u8]) -> Vec<u8> {
        match self.levels.last() {
            Some(level) if level.is_dir => join(&level.path, name),
            Some(level) => level.path.clone(),
            None => name.to_vec(),
        }
    }

    /// The mode that something new gets. Privileges of programs are kept only where modes are.
    fn mode(&self, mode: u32) -> u32 {
        if self.options.preserve { mode } else { mode & 0o777 & !self.umask }
    }

    fn begin_file(&mut self, mode: u32, size: u64, name: Vec<u8>, now: Instant) {
        let path = self.place(&name);
        let times = self.times.take();
        let os_path = std::ffi::OsStr::from_bytes(&path);
        let before = std::fs::metadata(os_path).ok();
        let wanted = self.mode(mode);
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            // Writable while it is being written.
            .mode((wanted & 0o777) | 0o200)
            .custom_flags(OFlags::NOCTTY.bits() as i32)
            .open(os_path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                let why = errno_text(&error);
                self.fail(Some(&path), &why);
                return self.events.push_back(Event::FileFailed { path, moved: 0, started: now, why });
            }
        };
        let change_mode = self.options.preserve || (before.is_none() && wanted & 0o200 == 0);
        let id = self.next_id;
        self.next_id += 1;
        self.acknowledge();
        let receiving = Receiving {
            id,
            name,
            file,
            special: before.is_some_and(|meta| !meta.is_file()),
            path,
            mode: change_mode.then_some(wanted),
            times,
            size,
            left: size,
            pieces: VecDeque::new(),
            held: 0,
            started: now,
            fault: None,
        };
        self.state = if size == 0 { State::Trailer(receiving) } else { State::Data(receiving) };
    }

    /// The source has said whether what it sent is what it has.
    fn received_file(&mut self, mut file: Receiving, answer: Answer) {
        let objection = match answer {
            Answer::Fine => None,
            Answer::Failed(text) => {
                self.say(display_name(&text));
                Some(display_name(&text))
            }
            Answer::Fatal(text) => {
                self.say(display_name(&text));
                self.events.push_back(file.failed(display_name(&text)));
                return self.finish();
            }
        };
        file.finish();
        match file.fault.clone() {
            Some(why) => {
                self.fail(Some(&file.path), &why);
                self.events.push_back(file.failed(why));
            }
            None => {
                self.acknowledge();
                let Receiving { id, name, path, size, started, .. } = file;
                self.events.push_back(match objection {
                    None => Event::FileDone { id, path, name, size, started },
                    Some(why) => Event::FileFailed { path, moved: size, started, why },
                });
            }
        }
    }

    fn begin_dir(&mut self, mode: u32, name: &[u8]) {
        let path = self.place(name);
        let times = self.times.take();
        let os_path = std::ffi::OsStr::from_bytes(&path);
        let wanted = self.mode(mode);
        let exists = match std::fs::metadata(os_path) {
            Ok(meta) if meta.is_dir() => true,
            Ok(_) => return self.fail(Some(&path), "Not a directory"),
            Err(_) => false,
        };
        let mut made = Ok(());
        if !exists {
            // Usable while it is being filled.
            made = std::fs::DirBuilder::new().mode(wanted | 0o700).create(os_path);
        }
        if let Err(error) = made {
            return self.fail(Some(&path), &errno_text(&error));
        }
        let keep_mode = self.options.preserve || !exists;
        self.levels.push(Level { path, is_dir: true, mode: keep_mode.then_some(wanted), times });
        self.acknowledge();
    }

    fn end_dir(&mut self) {
        if self.levels.len() <= 1 {
            // Nothing is open; OpenSSH takes it for the end of everything.
            self.acknowledge();
            return self.finish();
        }
        let Some(level) = self.levels.pop() else { return };
        let os_path = std::ffi::OsStr::from_bytes(&level.path);
        let mut result = Ok(());
        if let Some(times) = level.times {
            result = rustix::fs::utimensat(CWD, os_path, &timestamps(times), AtFlags::empty())
                .map_err(|errno| format!("set times: {}", errno_text(&errno.into())));
        }
        if let Some(mode) = level.mode
            && let Err(error) = std::fs::set_permissions(os_path, Permissions::from_mode(mode))
        {
            result = result.and(Err(format!("set mode: {}", errno_text(&error))));
        }
        match result {
            Ok(()) => self.acknowledge(),
            Err(why) => self.fail(Some(&level.path), &why),
        }
    }
}

impl RcpRole for Sink {
    fn received(&mut self, data: Bytes, now: Instant) {
        if !matches!(self.state, State::Finished) {
            self.inbox.push(data);
            self.handle_input(now);
        }
    }

    fn closed(&mut self) {
        self.peer_gone = true;
        self.handle_input(Instant::now());
    }

    fn refused(&mut self) {
        self.out.close();
    }

    fn advance(&mut self, out: &mut dyn Output, now: Instant) {
        self.handle_input(now);
        if let State::Data(file) = &mut self.state {
            file.write();
        }
        self.out.flush(out);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn current(&self) -> Option<Current<'_>> {
        let (State::Data(file) | State::Trailer(file)) = &self.state else { return None };
        Some(Current { id: file.id, name: &file.name, done: file.size - file.left, size: file.size, kept: 0 })
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished) && self.out.is_empty()
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn failures(&self) -> u64 {
        self.failures
    }
}

/// The process's file creation mask. It can only be asked for by setting it, which nothing else does
/// meanwhile: programs that copy make their sinks before there is another thread that makes files.
fn current_umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode() as _
}
