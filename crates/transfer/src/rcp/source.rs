//! The side that has the files.

use std::collections::VecDeque;
use std::fs::{File, Metadata, ReadDir};
use std::io::IoSliceMut;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Instant;

use bytes::Bytes;
use lh_sys::errno_text;
use lh_wire::Output;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::changed::{Changed, Precision};
use crate::end::{Info, Times};
use crate::flow::RateLimit;
use crate::names::{base_name, display_name, join};
use crate::{Current, local, wording};

use super::inbox::{Answer, Inbox};
use super::record::{MODE_BITS, Record};
use super::{Event, Options, Outbox, RcpRole};

/// Read and sent in one go at most.
const CHUNK: usize = 256 * 1024;

/// Longest unexpected answer: a peer that sends more does not speak this protocol.
const UNASKED: usize = 64 * 1024;

/// Sends files and directories to a [`Sink`](super::Sink).
pub struct Source {
    options: Options,
    /// Paths of the command line that are still to be sent.
    paths: VecDeque<Vec<u8>>,
    /// Directories that are open, the innermost last.
    dirs: Vec<(Vec<u8>, ReadDir)>,
    state: State,
    inbox: Inbox,
    out: Outbox,
    events: VecDeque<Event>,
    failures: u64,
    next_id: u64,
    rate: RateLimit,
    peer_gone: bool,
}

enum State {
    /// The peer says that it is there.
    Greeting,
    /// Times are sent, the item itself comes next.
    Times(Item),
    Header(Item),
    Data(Sending),
    /// Everything of a file is sent.
    Trailer(Option<Sending>),
    EndDir,
    /// The next item can be begun.
    Next,
    Finished,
}

/// A file or directory that is open.
struct Item {
    path: Vec<u8>,
    file: File,
    meta: Metadata,
}

struct Sending {
    id: u64,
    path: Vec<u8>,
    file: File,
    /// Before its first byte was read.
    before: Info,
    size: u64,
    sent: u64,
    started: Instant,
    /// Why the rest is zeros.
    fault: Option<String>,
}

impl Source {
    /// Will send `paths`.
    pub fn new(paths: Vec<Vec<u8>>, options: Options, now: Instant) -> Self {
        Self {
            rate: RateLimit::new(options.bits_per_second, now),
            options,
            paths: paths.into(),
            dirs: Vec::new(),
            state: State::Greeting,
            inbox: Inbox::default(),
            out: Outbox::default(),
            events: VecDeque::new(),
            failures: 0,
            next_id: 0,
            peer_gone: false,
        }
    }

    /// Reports a failure, to the peer and to the user.
    fn fail(&mut self, path: &[u8], why: &str) {
        let mut text = b"scp: ".to_vec();
        text.extend_from_slice(path);
        text.extend_from_slice(b": ");
        text.extend_from_slice(why.as_bytes());
        self.out.push(&Record::Failed { text, fatal: false }.encode());
        self.say(format!("{}: {why}", display_name(path)));
    }

    fn say(&mut self, text: String) {
        self.failures += 1;
        if !self.options.remote_side {
            self.events.push_back(Event::Failed(text));
        }
    }

    /// A file that was written to while it was sent: the peer has what was read, up to the size that it was
    /// told. The protocol has no warnings, so the peer is not told; the program may.
    fn report_changed(&mut self, sent: &Sending) {
        let after = info_of(&sent.file);
        let changed = Changed::between(&sent.before, &after, sent.sent, Precision::Exact);
        if let Some(changed) = changed {
            let text = wording::source_changed(&sent.path, changed);
            self.events.push_back(Event::Changed { path: sent.path.clone(), text });
        }
    }

    fn finish(&mut self) {
        self.dirs.clear();
        self.paths.clear();
        self.state = State::Finished;
    }

    /// Fails the file that is being sent.
    fn give_up(&mut self, why: &str) {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Data(sent) | State::Trailer(Some(sent)) => {
                self.events.push_back(sent.failed(why.to_owned()));
            }
            other => self.state = other,
        }
    }

    const fn awaits_answer(&self) -> bool {
        matches!(
            self.state,
            State::Greeting | State::Times(_) | State::Header(_) | State::Trailer(_) | State::EndDir
        )
    }

    fn handle_answers(&mut self, now: Instant) {
        if matches!(self.state, State::Finished) {
            return;
        }
        while self.awaits_answer() {
            let Some(answer) = self.inbox.answer() else { break };
            let mut said = String::new();
            let fine = match answer {
                Answer::Fine => true,
                Answer::Failed(text) => {
                    said = display_name(&text);
                    self.say(said.clone());
                    false
                }
                Answer::Fatal(text) => {
                    self.say(display_name(&text));
                    self.give_up(&display_name(&text));
                    return self.finish();
                }
            };
            self.state = match std::mem::replace(&mut self.state, State::Next) {
                State::Greeting if !fine => return self.finish(),
                State::Times(item) if fine => self.header(item),
                State::Header(item) if fine => self.begin(item, now),
                State::Trailer(Some(sent)) if fine => {
                    let name = base_name(&sent.path).to_vec();
                    self.report_changed(&sent);
                    let Sending { id, path, size, started, .. } = sent;
                    self.events.push_back(Event::FileDone { id, path, name, size, started });
                    State::Next
                }
                State::Trailer(Some(sent)) => {
                    self.events.push_back(sent.failed(said));
                    State::Next
                }
                State::Header(item) if !item.meta.is_dir() => {
                    let (path, started, why) = (item.path, now, said);
                    self.events.push_back(Event::FileFailed { path, moved: 0, started, why });
                    State::Next
                }
                _ => State::Next,
            };
        }
        if self.peer_gone && !matches!(self.state, State::Finished) && self.inbox.is_empty() {
            self.say("lost connection".to_owned());
            self.give_up("lost connection");
            self.finish();
        }
        if self.inbox.len() > UNASKED {
            self.say("protocol error: unexpected data".to_owned());
            self.finish();
        }
    }

    /// The next file or directory, or the end of one.
    fn next(&mut self) -> State {
        loop {
            let Some((dir, entries)) = self.dirs.last_mut() else {
                let Some(path) = self.paths.pop_front() else { return State::Finished };
                let end = path.iter().rposition(|&byte| byte != b'/').map_or(1, |at| at + 1);
                let path = path.get(..end.min(path.len())).unwrap_or_default().to_vec();
                match self.open(path) {
                    Some(item) => return self.announce(item),
                    None => continue,
                }
            };
            match entries.next() {
                Some(Ok(entry)) => {
                    let path = join(dir, &entry.file_name().into_vec());
                    if let Some(item) = self.open(path) {
                        return self.announce(item);
                    }
                }
                Some(Err(error)) => {
                    let dir = dir.clone();
                    self.fail(&dir, &errno_text(&error));
                }
                None => {
                    self.dirs.pop();
                    self.out.push(&Record::EndDir.encode());
                    return State::EndDir;
                }
            }
        }
    }

    /// Opens what is to be sent; says why when it cannot be.
    fn open(&mut self, path: Vec<u8>) -> Option<Item> {
        // O_NONBLOCK: opening a FIFO would hang.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(std::ffi::OsStr::from_bytes(&path))
            .and_then(|file| file.metadata().map(|meta| (file, meta)));
        match opened {
            Err(error) => {
                let why = errno_text(&error);
                self.fail(&path, &why);
                self.events.push_back(Event::FileFailed { path, moved: 0, started: Instant::now(), why });
            }
            Ok((file, meta)) if meta.is_file() || (meta.is_dir() && self.options.recursive) => {
                return Some(Item { path, file, meta });
            }
            Ok(_) => self.fail(&path, "not a regular file"),
        }
        None
    }

    /// Sends what comes first of an item.
    fn announce(&mut self, item: Item) -> State {
        if !self.options.preserve {
            return self.header(item);
        }
        let times = Times { access: (item.meta.atime(), 0), modification: (item.meta.mtime(), 0) };
        let record = Record::Times(times).encode();
        self.out.push(&record);
        State::Times(item)
    }

    fn header(&mut self, item: Item) -> State {
        let name = base_name(&item.path).to_vec();
        let mode = item.meta.mode() & MODE_BITS;
        let record = if item.meta.is_dir() {
            Record::Dir { mode, name }
        } else {
            // Sticky files mean nothing any more.
            Record::File { mode: mode & 0o6777, size: item.meta.len(), name }
        };
        let line = record.encode();
        self.events.push_back(Event::Debug(format!(
            "Sending file modes: {}",
            display_name(line.strip_suffix(b"\n").unwrap_or(&line))
        )));
        self.out.push(&line);
        State::Header(item)
    }

    /// The header was taken.
    fn begin(&mut self, item: Item, now: Instant) -> State {
        let Item { path, file, meta } = item;
        if !meta.is_dir() {
            let id = self.next_id;
            self.next_id += 1;
            let size = meta.len();
            let before = info_of(&file);
            return State::Data(Sending { id, path, file, before, size, sent: 0, started: now, fault: None });
        }
        match std::fs::read_dir(std::ffi::OsStr::from_bytes(&path)) {
            Ok(entries) => {
                self.dirs.push((path, entries));
                State::Next
            }
            Err(error) => {
                self.fail(&path, &errno_text(&error));
                self.out.push(&Record::EndDir.encode());
                State::EndDir
            }
        }
    }

    /// Sends file data; false when nothing more goes now.
    fn send_data(&mut self, out: &mut dyn Output, now: Instant) -> bool {
        let State::Data(file) = &mut self.state else { return false };
        let left = file.size - file.sent;
        if left == 0 {
            let State::Data(mut file) = std::mem::replace(&mut self.state, State::Trailer(None)) else {
                return false;
            };
            match file.fault.take() {
                None => {
                    self.out.push(&[0]);
                    self.state = State::Trailer(Some(file));
                }
                Some(why) => {
                    self.fail(&file.path, &why);
                    self.events.push_back(file.failed(why));
                }
            }
            return true;
        }
        if !self.rate.lets_pass(now) {
            return false;
        }
        let most = CHUNK.min(self.rate.request_bytes() as usize);
        let want = out.budget().min(most).min(usize::try_from(left).unwrap_or(usize::MAX));
        if want == 0 {
            return false;
        }
        let sent = out.reserve(want).map_or(0, |mut reservation| {
            let read = file.read(&mut reservation.slices());
            reservation.commit(read)
        });
        file.sent += sent as u64;
        self.rate.spend(sent as u64);
        // A file that ended is found out by a read that gives nothing; the next one gives zeros.
        sent > 0 || file.fault.is_some()
    }
}

fn info_of(file: &File) -> Info {
    rustix::fs::fstat(file).map_or(Info::UNKNOWN, |stat| local::info(&stat))
}

impl Sending {
    /// Message for users when it does not arrive.
    fn failed(self, why: String) -> Event {
        Event::FileFailed { path: self.path, moved: self.sent, started: self.started, why }
    }

    /// Fills the slices from the file, or with zeros once it cannot be read: the peer waits for as many bytes
    /// as it was told, and is told behind them that they are worthless.
    fn read(&mut self, slices: &mut [IoSliceMut<'_>]) -> usize {
        if self.fault.is_some() {
            slices.iter_mut().for_each(|slice| slice.fill(0));
            return slices.iter().map(|slice| slice.len()).sum();
        }
        loop {
            match rustix::io::preadv(&self.file, slices, self.sent) {
                Ok(0) => self.fault = Some("file shrank while it was being copied".to_owned()),
                Ok(read) => return read,
                Err(Errno::INTR) => continue,
                Err(errno) => self.fault = Some(errno_text(&errno.into())),
            }
            return 0;
        }
    }
}

impl RcpRole for Source {
    fn received(&mut self, data: Bytes, now: Instant) {
        if matches!(self.state, State::Finished) {
            return;
        }
        self.inbox.push(data);
        self.handle_answers(now);
    }

    fn closed(&mut self) {
        self.peer_gone = true;
        self.handle_answers(Instant::now());
    }

    fn advance(&mut self, out: &mut dyn Output, now: Instant) {
        self.rate.try_again();
        loop {
            self.handle_answers(now);
            if matches!(self.state, State::Next) {
                self.state = self.next();
            }
            if !self.out.flush(out) {
                return;
            }
            let go_on = match self.state {
                State::Data(_) => self.send_data(out, now),
                State::Next => true,
                _ => self.awaits_answer() && !self.inbox.is_empty(),
            };
            if !go_on {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn current(&self) -> Option<Current<'_>> {
        let State::Data(file) = &self.state else { return None };
        Some(Current { id: file.id, name: base_name(&file.path), done: file.sent, size: file.size, kept: 0 })
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished) && self.out.is_empty()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.rate.deadline()
    }

    fn failures(&self) -> u64 {
        self.failures
    }
}
