//! The requests of a session and their answers, without I/O.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::ClientError;
use lh_driver::ChannelCx;
use lh_sftp::{
    Attrs, Handle, Incoming, Name, OpenFlags, Reply, ReplyBody, Request, Session, SessionError, Status,
    StatusCode, mode,
};

use super::deadlines::Deadlines;
use super::steps::{Entry, Kind, Outcome, Refusal, Step};

/// Requests that wait for an answer at a time, where the server is known to take many, and elsewhere.
const MANY_AT_A_TIME: usize = 64;
const FEW_AT_A_TIME: usize = 16;
/// Most of the server's error output that is kept, bytes.
const LONGEST_ERROR_OUTPUT: usize = 4096;
/// Most entries of directories that are listed at a time: a server may list without end.
pub(super) const MOST_ENTRIES: usize = 20_000;

/// Why a session is of no more use.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum SessionLoss {
    /// The connection ended.
    #[error(transparent)]
    Connection(ClientError),
    /// The server opens no channel: its words.
    #[error("{0}")]
    ChannelRefused(String),
    /// The server refused this request of the channel.
    #[error("{0} request failed on channel 0")]
    RequestRefused(&'static str),
    /// An answer took too long.
    #[error("the server's SFTP did not answer in time")]
    Late,
    /// The server broke the protocol.
    #[error(transparent)]
    Protocol(SessionError),
    /// The answer about `path` has a form that its request does not have.
    #[error("{path}: the server's SFTP gave an answer of another kind")]
    OtherAnswer { path: String },
    /// The server ended the session, with this last line of error output.
    #[error("{0}")]
    EndedSaying(String),
    /// The server ended the session without a word.
    #[error("the server's SFTP ended")]
    Ended,
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
pub(super) struct Requests {
    session: Session,
    /// Jobs that have not begun.
    waiting: VecDeque<Job>,
    /// Jobs that wait for the answer with this id.
    asked: HashMap<u32, Job>,
    at_a_time: usize,
    /// Messages that the window of the channel has not let pass yet.
    out: Vec<u8>,
    outcome: Outcome,
    /// Entries that were listed since the jobs began, also those that are none of [`Outcome::entries`].
    listed: usize,
    /// No more jobs are begun.
    is_interrupted: bool,
    lost: Option<SessionLoss>,
    /// Error output of the server's program.
    error_output: Vec<u8>,
    pub(super) deadlines: Deadlines,
}

impl Requests {
    pub(super) fn new(server: Option<&str>, deadlines: Deadlines) -> Self {
        let mut session = Session::new();
        session.set_server(server, None);
        let at_a_time = if session.takes_many_requests() { MANY_AT_A_TIME } else { FEW_AT_A_TIME };
        let mut out = Vec::new();
        session.start(&mut out);
        Self {
            session,
            waiting: VecDeque::new(),
            asked: HashMap::new(),
            at_a_time,
            out,
            outcome: Outcome::default(),
            listed: 0,
            is_interrupted: false,
            lost: None,
            error_output: Vec::new(),
            deadlines,
        }
    }

    /// Adds steps, which begin at this time, and have `limit` for each answer.
    pub(super) fn add(&mut self, steps: Vec<Step>, now: Instant, limit: Duration) {
        self.waiting.extend(steps.into_iter().map(Job::of));
        self.listed = 0;
        self.deadlines = Deadlines::new(now, limit);
    }

    /// Returns what the steps had as results, or why the session is of no more use.
    pub(super) fn finish(&mut self) -> Result<Outcome, SessionLoss> {
        let outcome = std::mem::take(&mut self.outcome);
        match &self.lost {
            Some(why) => Err(why.clone()),
            None => Ok(outcome),
        }
    }

    /// Records why the session is of no more use; the first reason counts.
    pub(super) fn lose(&mut self, loss: SessionLoss) {
        self.lost.get_or_insert(loss);
    }

    /// Returns whether all jobs are done, or none is any more.
    pub(super) fn is_over(&self) -> bool {
        let is_done = self.session.version().is_some() && self.waiting.is_empty() && self.asked.is_empty();
        is_done || self.lost.is_some()
    }

    /// Drops the jobs that have not begun. The answers to the others are waited for, so that the server does
    /// nothing more once the session has ended.
    pub(super) fn interrupt(&mut self) {
        self.is_interrupted = true;
        self.waiting.clear();
    }

    /// Asks for what waits, as far as the channel's window and the number at a time allow.
    pub(super) fn ask(&mut self, cx: &mut ChannelCx<'_>) {
        loop {
            if self.out.is_empty() {
                self.write_next();
            }
            // One message in a packet: some servers read no more from it.
            let sent = cx.send(&self.out);
            self.out.drain(..sent);
            if sent == 0 {
                break;
            }
        }
    }

    /// Writes the next request, where there is one and the number at a time allows it; returns its id.
    pub(super) fn write_next(&mut self) -> Option<u32> {
        if self.session.version().is_none() || self.asked.len() >= self.at_a_time {
            return None;
        }
        let job = self.waiting.pop_front()?;
        let id = self.session.request(&job.request(), &mut self.out);
        self.asked.insert(id, job);
        Some(id)
    }

    /// Takes what the server has sent.
    pub(super) fn on_data(&mut self, data: bytes::Bytes, now: Instant) {
        self.session.input(data);
        loop {
            match self.session.poll() {
                Ok(Some(Incoming::Reply(reply))) => self.on_reply(reply, now),
                Ok(Some(_)) => self.deadlines.on_answer(now),
                Ok(None) => break,
                Err(error) => {
                    self.lose(SessionLoss::Protocol(error));
                    break;
                }
            }
        }
    }

    pub(super) fn on_error_output(&mut self, data: &[u8]) {
        let space = LONGEST_ERROR_OUTPUT.saturating_sub(self.error_output.len()).min(data.len());
        self.error_output.extend_from_slice(data.get(..space).unwrap_or_default());
    }

    pub(super) fn on_reply(&mut self, Reply { id, body }: Reply, now: Instant) {
        let Some(job) = self.asked.remove(&id) else { return };
        self.deadlines.on_answer(now);
        let next = self.next_job(job, body);
        // What goes on with an open file comes before new ones, so that few are open at a time.
        if let Some(job) = next.filter(|_| !self.is_interrupted) {
            self.waiting.push_front(job);
        }
    }

    /// The job that follows the answer to this one.
    fn next_job(&mut self, job: Job, body: ReplyBody) -> Option<Job> {
        match (job, body) {
            (Job::Open(path, content), ReplyBody::Handle(handle)) if content.is_empty() => {
                Some(Job::Close(path, handle))
            }
            (Job::Open(path, content), ReplyBody::Handle(handle)) => Some(Job::Write(path, handle, content)),
            (Job::OpenDirectory(path), ReplyBody::Handle(handle)) => Some(Job::ReadDirectory(path, handle)),
            // Some servers end a listing with an answer without names, and never with EOF.
            (Job::ReadDirectory(path, handle), ReplyBody::Names(names)) if names.is_empty() => {
                Some(Job::Close(path, handle))
            }
            (Job::ReadDirectory(path, handle), ReplyBody::Names(names)) => {
                self.listed += names.len();
                self.outcome.entries.extend(names.iter().filter_map(|name| entry(&path, name)));
                if self.listed <= MOST_ENTRIES {
                    return Some(Job::ReadDirectory(path, handle));
                }
                self.refuse(&path, format!("more than {MOST_ENTRIES} entries"), false);
                Some(Job::Close(path, handle))
            }
            (Job::ReadDirectory(path, handle), ReplyBody::Status(Status { code: StatusCode::EOF, .. }))
            | (Job::Write(path, handle, _), ReplyBody::Status(Status { code: StatusCode::OK, .. })) => {
                Some(Job::Close(path, handle))
            }
            (_, ReplyBody::Status(Status { code: StatusCode::OK, .. })) => None,
            (job, ReplyBody::Status(Status { code, message })) => {
                let words = if message.is_empty() { code.text().to_owned() } else { message };
                self.refuse(job.path(), words, code == StatusCode::NO_SUCH_FILE);
                match job {
                    Job::Write(path, handle, _) | Job::ReadDirectory(path, handle) => {
                        Some(Job::Close(path, handle))
                    }
                    _ => None,
                }
            }
            (job, _) => {
                self.lose(SessionLoss::OtherAnswer { path: job.path().to_owned() });
                None
            }
        }
    }

    fn refuse(&mut self, path: &str, words: String, is_missing: bool) {
        self.outcome.refused.push(Refusal { path: path.to_owned(), words, is_missing });
    }

    /// Notes that the server has ended the session.
    pub(super) fn on_end(&mut self) {
        let output = String::from_utf8_lossy(&self.error_output);
        let line = output.lines().map(str::trim).rfind(|line| !line.is_empty());
        let loss = line.map_or(SessionLoss::Ended, |line| SessionLoss::EndedSaying(line.to_owned()));
        self.lose(loss);
    }
}

/// An entry of a listing; `None` for the directory itself, its parent, and names that lead elsewhere.
fn entry(directory: &str, name: &Name) -> Option<Entry> {
    let is_other = matches!(&name.name[..], b"" | b"." | b"..") || name.name.contains(&b'/');
    let kind = match name.attrs.permissions.map(|bits| bits & mode::TYPE) {
        None | Some(0) => Kind::Unknown,
        Some(mode::DIRECTORY) => Kind::Directory,
        Some(_) => Kind::File,
    };
    let path = || format!("{directory}/{}", String::from_utf8_lossy(&name.name));
    (!is_other).then(|| Entry { path: path(), kind })
}
