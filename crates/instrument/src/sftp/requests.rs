//! The requests of a session and their answers, without I/O.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_sftp::{Attrs, Handle, Name, OpenFlags, Reply, ReplyBody, Request, Status, StatusCode, mode};

use super::deadlines::{Deadlines, Due, HURRIED_LIMIT, LIMIT};
use super::session::{SessionLoss, SessionState, SessionWork};
use super::steps::{Entry, Kind, OnStop, Outcome, Refusal, Step};

/// Most entries of directories that are listed at a time: a server may list without end.
pub(super) const MOST_ENTRIES: usize = 20_000;

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

/// The steps of a session: their requests, and what they had as results.
pub(super) struct Requests {
    state: SessionState,
    /// Jobs that have not begun.
    waiting: VecDeque<Job>,
    /// Jobs that wait for the answer with this id.
    asked: HashMap<u32, Job>,
    outcome: Outcome,
    /// Entries that were listed since the jobs began, also those that are none of [`Outcome::entries`].
    listed: usize,
    on_stop: OnStop,
    /// The user wants an end.
    has_stopped: bool,
    pub(super) deadlines: Deadlines,
}

impl Requests {
    pub(super) fn new(server: Option<&str>, on_stop: OnStop) -> Self {
        Self {
            state: SessionState::new(server),
            waiting: VecDeque::new(),
            asked: HashMap::new(),
            outcome: Outcome::default(),
            listed: 0,
            on_stop,
            has_stopped: false,
            deadlines: Deadlines::new(Instant::now(), LIMIT),
        }
    }

    /// Begins steps at this time. Where the user wants an end already (`stops`) and does not wait for the
    /// steps, none begins.
    pub(super) fn begin(&mut self, steps: Vec<Step>, now: Instant, stops: bool) {
        self.has_stopped = stops;
        if !self.is_interrupted() {
            self.add(steps, now, if stops { HURRIED_LIMIT } else { LIMIT });
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
        match self.state.loss() {
            Some(why) => Err(why.clone()),
            None => Ok(outcome),
        }
    }

    /// Notes that the user wants an end: the server has a shorter time for its answers. Unless all steps are
    /// to be done, those that have not begun are dropped. The answers to the others are waited for, so that
    /// the server does nothing more once the session has ended.
    pub(super) fn on_stop(&mut self, now: Instant) {
        self.has_stopped = true;
        self.deadlines.hurry(now, HURRIED_LIMIT);
        if self.is_interrupted() {
            self.waiting.clear();
        }
    }

    /// Returns whether no more steps are begun.
    pub(super) fn is_interrupted(&self) -> bool {
        self.has_stopped && self.on_stop == OnStop::End
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
                self.state.lose(SessionLoss::OtherAnswer { path: job.path().to_owned() });
                None
            }
        }
    }

    fn refuse(&mut self, path: &str, words: String, is_missing: bool) {
        self.outcome.refused.push(Refusal { path: path.to_owned(), words, is_missing });
    }
}

impl SessionWork for Requests {
    fn state(&mut self) -> &mut SessionState {
        &mut self.state
    }

    fn write_next(&mut self, _: Instant) -> Option<u32> {
        if !self.state.has_begun() || self.asked.len() >= self.state.at_a_time() {
            return None;
        }
        let job = self.waiting.pop_front()?;
        let id = self.state.request(&job.request());
        self.asked.insert(id, job);
        Some(id)
    }

    fn on_version(&mut self, now: Instant) {
        self.deadlines.on_answer(now);
    }

    fn on_reply(&mut self, Reply { id, body }: Reply, now: Instant) {
        let Some(job) = self.asked.remove(&id) else { return };
        self.deadlines.on_answer(now);
        let next = self.next_job(job, body);
        // What goes on with an open file comes before new ones, so that few are open at a time.
        if let Some(job) = next.filter(|_| !self.is_interrupted()) {
            self.waiting.push_front(job);
        }
    }

    fn is_over(&self) -> bool {
        let is_done = self.state.has_begun() && self.waiting.is_empty() && self.asked.is_empty();
        is_done || self.state.loss().is_some()
    }

    fn next_deadline(&self) -> Instant {
        self.deadlines.next()
    }

    fn on_timeout(&mut self, now: Instant, stop: &dyn Fn() -> bool) {
        match self.deadlines.on_timeout(now) {
            Due::Look if !self.has_stopped && stop() => self.on_stop(now),
            Due::Begin | Due::Look => {}
            Due::End => self.state.lose(SessionLoss::Late),
        }
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
