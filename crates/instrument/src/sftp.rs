//! Requests to the server's SFTP, many at a time: the files of a run at servers that run no commands.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::{SessionNote, SessionSetup, Start, answer_by_default};
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent,
};
use lh_sftp::{
    Attrs, Handle, Incoming, OpenFlags, Reply, ReplyBody, Request, Session, Status, StatusCode, mode,
};

use crate::fault::Fault;
use crate::target::Remote;

/// Requests that wait for an answer at a time; the lower number is for servers that are not known to take
/// many.
const AT_A_TIME: [usize; 2] = [16, 64];
/// Longest time without anything from the server.
const LIMIT: Duration = Duration::from_secs(60);
/// Kept of the server's error output, bytes.
const KEPT: usize = 4096;
/// Why a session has no result that did not answer in time.
const LATE: &str = "the server's SFTP did not answer in time";

/// One thing to do with the server's files.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    MakeDirectory(String),
    /// Makes a file with this content, which fits into one message.
    MakeFile(String, Rc<[u8]>),
    List(String),
    RemoveFile(String),
    RemoveDirectory(String),
}

/// An entry of a directory that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) is_directory: bool,
}

/// An SFTP session on a connection.
pub(crate) struct Sftp<'a> {
    remote: &'a mut Remote,
    channel: ChannelId,
    shared: Rc<RefCell<Shared>>,
}

impl<'a> Sftp<'a> {
    /// Starts the server's SFTP.
    ///
    /// # Errors
    /// The server has none, in its words, or the connection is lost.
    pub(crate) fn start(remote: &'a mut Remote) -> Result<Self, Fault> {
        let server = remote.client.driver().link().transport_ref().peer_identification().map(str::to_owned);
        let shared = Rc::new(RefCell::new(Shared::new(server.as_deref())));
        let setup = SessionSetup::new(Start::Subsystem("sftp".to_owned()));
        let handler = Box::new(Handler(Rc::clone(&shared)));
        let opened = remote.client.open_session(setup, &ChannelOptions::default(), handler);
        let channel = opened.map_err(|error| Fault::Server(error.to_string()))?;
        let mut sftp = Self { remote, channel, shared };
        sftp.perform(Vec::new())?;
        Ok(sftp)
    }

    /// Does these steps, in any order and many at a time; returns the entries of directories that were
    /// listed.
    ///
    /// # Errors
    /// The first step that the server refuses, after all others were done, or why the session has ended.
    pub(crate) fn perform(&mut self, steps: Vec<Step>) -> Result<Vec<Entry>, Fault> {
        let begins = Instant::now();
        {
            let mut shared = self.shared.borrow_mut();
            shared.waiting.extend(steps.into_iter().map(Job::of));
            shared.heard = begins;
        }
        let shared = Rc::clone(&self.shared);
        let mut control = Waits { shared, channel: self.channel, begins: Some(begins) };
        let run = self.remote.client.run(&mut control);
        let mut shared = self.shared.borrow_mut();
        if let Err(error) = run {
            shared.lost.get_or_insert_with(|| error.to_string());
        }
        let found = std::mem::take(&mut shared.found);
        match shared.lost.clone().or_else(|| shared.refusal.take()) {
            Some(why) => Err(Fault::Server(lh_client::sanitise(&why))),
            None => Ok(found),
        }
    }

    /// Removes a directory with all that is in it.
    ///
    /// # Errors
    /// As [`perform`](Self::perform).
    pub(crate) fn remove_tree(&mut self, path: &str) -> Result<(), Fault> {
        let mut directories = vec![path.to_owned()];
        let mut level = directories.clone();
        while !level.is_empty() {
            let entries = self.perform(level.into_iter().map(Step::List).collect())?;
            let (deeper, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.is_directory);
            self.perform(files.into_iter().map(|entry| Step::RemoveFile(entry.path)).collect())?;
            level = deeper.into_iter().map(|entry| entry.path).collect();
            directories.extend(level.iter().cloned());
        }
        // The deepest first: one can only be removed after what is in it.
        let depth = |path: &String| path.matches('/').count();
        directories.sort_by_key(|path| std::cmp::Reverse(depth(path)));
        for same in directories.chunk_by(|one, other| depth(one) == depth(other)) {
            self.perform(same.iter().cloned().map(Step::RemoveDirectory).collect())?;
        }
        Ok(())
    }
}

impl Drop for Sftp<'_> {
    fn drop(&mut self) {
        if let Some(mut channel) = self.remote.client.driver().control().channel(self.channel) {
            channel.close();
        }
    }
}

/// A request that waits for its turn or for its answer.
#[derive(Debug)]
enum Job {
    MakeDirectory(String),
    Open(String, Rc<[u8]>),
    Write(String, Handle, Rc<[u8]>),
    Close(String, Handle),
    OpenDirectory(String),
    ReadDirectory(String, Handle),
    Remove(String),
    RemoveDirectory(String),
}

impl Job {
    fn of(step: Step) -> Self {
        match step {
            Step::MakeDirectory(path) => Self::MakeDirectory(path),
            Step::MakeFile(path, content) => Self::Open(path, content),
            Step::List(path) => Self::OpenDirectory(path),
            Step::RemoveFile(path) => Self::Remove(path),
            Step::RemoveDirectory(path) => Self::RemoveDirectory(path),
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::MakeDirectory(path)
            | Self::Open(path, _)
            | Self::Write(path, ..)
            | Self::Close(path, _)
            | Self::OpenDirectory(path)
            | Self::ReadDirectory(path, _)
            | Self::Remove(path)
            | Self::RemoveDirectory(path) => path,
        }
    }

    fn request(&self) -> Request<'_> {
        match self {
            Self::MakeDirectory(path) => {
                let attrs = Attrs { permissions: Some(0o700), ..Attrs::NONE };
                Request::Mkdir { path: path.as_bytes(), attrs }
            }
            Self::Open(path, _) => {
                Request::Open { path: path.as_bytes(), flags: OpenFlags::NEW_FILE, attrs: Attrs::NONE }
            }
            Self::Write(_, handle, data) => Request::Write { handle, offset: 0, data },
            Self::Close(_, handle) => Request::Close { handle },
            Self::OpenDirectory(path) => Request::Opendir { path: path.as_bytes() },
            Self::ReadDirectory(_, handle) => Request::Readdir { handle },
            Self::Remove(path) => Request::Remove { path: path.as_bytes() },
            Self::RemoveDirectory(path) => Request::Rmdir { path: path.as_bytes() },
        }
    }
}

/// State of a session, which its channel's handler and the control share.
struct Shared {
    session: Session,
    /// Jobs that have not begun.
    waiting: VecDeque<Job>,
    /// Jobs that wait for the answer with this id.
    asked: HashMap<u32, Job>,
    at_a_time: usize,
    /// Messages that the window of the channel has not let pass yet.
    out: Vec<u8>,
    found: Vec<Entry>,
    /// The first step that was refused.
    refusal: Option<String>,
    /// Why the session is of no more use.
    lost: Option<String>,
    /// Error output of the server's program.
    said: Vec<u8>,
    /// When the server last sent something, or the steps began.
    heard: Instant,
}

impl Shared {
    fn new(server: Option<&str>) -> Self {
        let mut session = Session::new();
        session.set_server(server);
        let at_a_time = AT_A_TIME[usize::from(session.takes_many_requests())];
        let mut out = Vec::new();
        session.start(&mut out);
        Self {
            session,
            waiting: VecDeque::new(),
            asked: HashMap::new(),
            at_a_time,
            out,
            found: Vec::new(),
            refusal: None,
            lost: None,
            said: Vec::new(),
            heard: Instant::now(),
        }
    }

    /// True where all jobs are done.
    fn is_done(&self) -> bool {
        self.session.version().is_some() && self.waiting.is_empty() && self.asked.is_empty()
    }

    /// Asks for what waits, as far as the channel's window and the number at a time allow.
    fn ask(&mut self, cx: &mut ChannelCx<'_>) {
        loop {
            if self.out.is_empty() && self.session.version().is_some() && self.asked.len() < self.at_a_time {
                let Some(job) = self.waiting.pop_front() else { break };
                let id = self.session.request(&job.request(), &mut self.out);
                self.asked.insert(id, job);
            }
            // One message in a packet: some servers read no more from it.
            let sent = cx.send(&self.out);
            self.out.drain(..sent);
            if sent == 0 {
                break;
            }
        }
    }

    /// Takes what the server has sent.
    fn take(&mut self, data: bytes::Bytes) {
        self.session.input(data);
        loop {
            match self.session.poll() {
                Ok(Some(Incoming::Reply(reply))) => self.on_reply(reply),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    self.lost.get_or_insert_with(|| error.to_string());
                    break;
                }
            }
        }
    }

    fn on_reply(&mut self, Reply { id, body }: Reply) {
        let Some(job) = self.asked.remove(&id) else { return };
        // What goes on with an open file comes before new ones, so that few are open at a time.
        match (job, body) {
            (Job::Open(path, content), ReplyBody::Handle(handle)) => {
                self.waiting.push_front(if content.is_empty() {
                    Job::Close(path, handle)
                } else {
                    Job::Write(path, handle, content)
                })
            }
            (Job::OpenDirectory(path), ReplyBody::Handle(handle)) => {
                self.waiting.push_front(Job::ReadDirectory(path, handle));
            }
            (Job::ReadDirectory(path, handle), ReplyBody::Names(names)) => {
                let named = names.into_iter().filter(|name| name.name != b"." && name.name != b"..");
                self.found.extend(named.map(|name| Entry {
                    path: format!("{path}/{}", String::from_utf8_lossy(&name.name)),
                    is_directory: name.attrs.permissions.is_some_and(is_directory),
                }));
                self.waiting.push_front(Job::ReadDirectory(path, handle));
            }
            (Job::ReadDirectory(path, handle), ReplyBody::Status(Status { code: StatusCode::EOF, .. })) => {
                self.waiting.push_front(Job::Close(path, handle));
            }
            (Job::Write(path, handle, _), ReplyBody::Status(Status { code: StatusCode::OK, .. })) => {
                self.waiting.push_front(Job::Close(path, handle));
            }
            (_, ReplyBody::Status(Status { code: StatusCode::OK, .. })) => {}
            (job, ReplyBody::Status(Status { code, message })) => {
                let words = if message.is_empty() { code.text() } else { &message };
                self.refusal.get_or_insert_with(|| format!("{}: {words}", job.path()));
                if let Job::Write(path, handle, _) | Job::ReadDirectory(path, handle) = job {
                    self.waiting.push_front(Job::Close(path, handle));
                }
            }
            (job, _) => {
                let why = format!("{}: the server's SFTP gave an answer of another kind", job.path());
                self.lost.get_or_insert(why);
            }
        }
    }

    /// Why the session has ended before its jobs.
    fn end(&mut self) {
        let said = String::from_utf8_lossy(&self.said);
        let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let why = line.map_or_else(|| "the server's SFTP ended".to_owned(), str::to_owned);
        self.lost.get_or_insert(why);
    }
}

/// True for the permissions of a directory.
const fn is_directory(permissions: u32) -> bool {
    permissions & mode::TYPE == mode::DIRECTORY
}

/// The handler of the session's channel.
struct Handler(Rc<RefCell<Shared>>);

impl ChannelHandler for Handler {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        let mut shared = self.0.borrow_mut();
        match event {
            ChannelEvent::Opened { .. } => shared.ask(cx),
            ChannelEvent::Data { ext, data } => {
                shared.heard = Instant::now();
                cx.consumed(data.len());
                if ext.is_some() {
                    let room = KEPT.saturating_sub(shared.said.len()).min(data.len());
                    shared.said.extend_from_slice(data.get(..room).unwrap_or_default());
                    return;
                }
                shared.take(data);
                shared.ask(cx);
                if shared.is_done() || shared.lost.is_some() {
                    cx.stop(0);
                }
            }
            _ => {}
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.0.borrow_mut().ask(cx);
    }
}

/// Runs the connection until the jobs are done.
struct Waits {
    shared: Rc<RefCell<Shared>>,
    channel: ChannelId,
    /// When the jobs begin, until they have.
    begins: Option<Instant>,
}

impl Control for Waits {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        let mut shared = self.shared.borrow_mut();
        match event {
            ControlEvent::Note { note, .. } => match note.downcast_ref::<SessionNote>() {
                Some(SessionNote::OpenFailed { description, .. }) => {
                    shared.lost.get_or_insert_with(|| description.clone());
                    cx.stop(0);
                }
                Some(SessionNote::StartRefused { request }) => {
                    shared.lost.get_or_insert_with(|| format!("{request} request failed on channel 0"));
                    cx.stop(0);
                }
                _ => {}
            },
            ControlEvent::ChannelGone { id, .. } if id == self.channel => {
                shared.end();
                cx.stop(0);
            }
            event => answer_by_default(event, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.begins.unwrap_or_else(|| self.shared.borrow().heard + LIMIT))
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let mut shared = self.shared.borrow_mut();
        if self.begins.take().is_some() {
            if let Some(mut channel) = cx.channel(self.channel) {
                shared.ask(&mut channel);
            }
            if shared.is_done() || shared.lost.is_some() {
                cx.stop(0);
            }
        } else if shared.heard + LIMIT <= cx.now() {
            shared.lost.get_or_insert_with(|| LATE.to_owned());
            cx.stop(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(id: u32, body: ReplyBody) -> Reply {
        Reply { id, body }
    }

    fn status(code: StatusCode) -> ReplyBody {
        ReplyBody::Status(Status { code, message: String::new() })
    }

    /// The job that follows the answer to a job.
    fn next(job: Job, body: ReplyBody) -> (Option<Job>, Shared) {
        let mut shared = Shared::new(None);
        shared.asked.insert(7, job);
        shared.on_reply(reply(7, body));
        (shared.waiting.pop_front(), shared)
    }

    #[test]
    fn file_is_opened_written_and_closed() {
        let handle = || ReplyBody::Handle(Handle::new(b"h"));
        let open = |content: &[u8]| Job::Open("a".to_owned(), content.into());
        assert!(matches!(next(open(b""), handle()).0, Some(Job::Close(..))));
        let (write, _) = next(open(b"x"), handle());
        assert!(matches!(write, Some(Job::Write(..))));
        let (close, _) = next(write.unwrap(), status(StatusCode::OK));
        assert!(matches!(close, Some(Job::Close(..))));
        assert!(next(close.unwrap(), status(StatusCode::OK)).0.is_none());
    }

    #[test]
    fn refusal_names_the_file_and_closes_it() {
        let job = Job::Write("a".to_owned(), Handle::new(b"h"), [1_u8][..].into());
        let (close, shared) = next(job, status(StatusCode::PERMISSION_DENIED));
        assert!(matches!(close, Some(Job::Close(..))));
        assert_eq!(shared.refusal.as_deref(), Some("a: Permission denied"));
        assert!(is_directory(0o040_755) && !is_directory(0o100_644) && !is_directory(0o120_777));
    }
}
