//! The server as the commands see it: requests with replies.

mod fault;
mod lists;

use std::cell::RefCell;
use std::rc::Rc;

use lh_sftp::link_order::Known;
use lh_sftp::link_trial::{Answer as Found, Failure, Step, Trial, Verdict};
use lh_sftp::{
    Attrs, Handle, Limits, Name, ReplyBody, Request, Session, StatVfs, StatusCode, extension, mode,
};
use lh_transfer::{Direction, Job, Options, Side, Summary};
use lh_wire::Reader;

use crate::conversation::{Carrier, Conversation};
use crate::say;
use crate::show::Show;

pub use fault::{Answer, Fault, SessionEnd};

/// Limit of the bytes of listings that one command keeps: some millions of names.
const MOST_KEPT: usize = 1 << 30;

/// A server at the other end of a [`Carrier`].
pub struct Remote {
    conversation: Rc<RefCell<Conversation>>,
    carrier: Box<dyn Carrier>,
    /// Bytes of listings that this command has kept.
    kept: usize,
    /// Limit of `kept`.
    most_kept: usize,
}

impl Remote {
    /// Sends INIT and waits for VERSION.
    ///
    /// # Errors
    /// Why there is no session.
    pub fn greet(
        conversation: Rc<RefCell<Conversation>>,
        carrier: Box<dyn Carrier>,
    ) -> Result<Self, SessionEnd> {
        let mut remote = Self { conversation, carrier, kept: 0, most_kept: MOST_KEPT };
        remote.run();
        if remote.interrupted() {
            return Err(SessionEnd::Interrupted);
        }
        match remote.loss() {
            Some(reason) => Err(SessionEnd::Lost(reason)),
            None => Ok(remote),
        }
    }

    fn run(&mut self) {
        self.carrier.run(&self.conversation);
    }

    /// Returns why the connection was lost, if it was.
    pub fn loss(&self) -> Option<String> {
        self.conversation.borrow().loss().map(str::to_owned)
    }

    /// Serves the connection until the console has something.
    pub fn wait_for_console(&mut self) {
        self.conversation.borrow_mut().wait_for_console();
        self.run();
    }

    /// Returns true when ^C was pressed during this command.
    pub fn interrupted(&self) -> bool {
        let mut conversation = self.conversation.borrow_mut();
        conversation.look_for_signals();
        conversation.interrupted()
    }

    /// A new command begins.
    pub fn begin_command(&mut self) {
        self.kept = 0;
        self.conversation.borrow_mut().forget_interrupt();
    }

    fn ask_session<T>(&self, ask: impl FnOnce(&Session) -> T) -> Option<T> {
        self.conversation.borrow().session().map(ask)
    }

    /// The version of SFTP in use.
    pub fn version(&self) -> u32 {
        self.ask_session(Session::version).flatten().unwrap_or_default()
    }

    /// Whether the server has an extension.
    pub fn supports(&self, name: &str) -> bool {
        self.ask_session(|session| session.supports(name)).unwrap_or_default()
    }

    /// The limits that the server reported.
    pub fn limits(&self) -> Limits {
        self.ask_session(|session| *session.limits()).unwrap_or_default()
    }

    fn send(&mut self, request: &Request<'_>) -> Answer<u32> {
        self.conversation.borrow_mut().ask(request).ok_or(Fault::Lost)
    }

    fn receive(&mut self, id: u32) -> Answer<ReplyBody> {
        loop {
            let reply = self.conversation.borrow_mut().take_reply(id);
            if let Some(reply) = reply {
                return Ok(reply.body);
            }
            self.conversation.borrow_mut().wait_for_reply(id);
            self.run();
            let conversation = self.conversation.borrow();
            if conversation.loss().is_some() {
                return Err(Fault::Lost);
            }
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> Answer<ReplyBody> {
        let id = self.send(request)?;
        self.answer_to(id)
    }

    fn answer_to(&mut self, id: u32) -> Answer<ReplyBody> {
        match self.receive(id)? {
            ReplyBody::Status(status) if status.code != StatusCode::OK => Err(Fault::Status(status)),
            body => Ok(body),
        }
    }

    /// Sends a request whose reply is STATUS.
    pub fn perform(&mut self, request: &Request<'_>) -> Answer<()> {
        match self.ask(request)? {
            ReplyBody::Status(_) => Ok(()),
            _ => Err(Fault::bad_message()),
        }
    }

    /// Attributes of a path, symlinks followed or not.
    pub fn attrs(&mut self, path: &[u8], follow: bool) -> Answer<Attrs> {
        let request = if follow { Request::Stat { path } } else { Request::Lstat { path } };
        match self.ask(&request)? {
            ReplyBody::Attrs(attrs) => Ok(attrs),
            _ => Err(Fault::bad_message()),
        }
    }

    /// True when `path` is a directory, or a link to one.
    pub fn is_dir(&mut self, path: &[u8]) -> Answer<bool> {
        match self.attrs(path, true) {
            Ok(attrs) => Ok(attrs.is_dir()),
            Err(Fault::Lost) => Err(Fault::Lost),
            Err(_) => Ok(false),
        }
    }

    /// The absolute path without symlinks.
    pub fn real_path(&mut self, path: &[u8]) -> Answer<Vec<u8>> {
        let id = self.send(&Request::Realpath { path })?;
        self.path_in(id)
    }

    /// Returns the start directory of the session.
    pub fn home(&mut self) -> Answer<Vec<u8>> {
        let asked = self.conversation.borrow_mut().take_home();
        match asked {
            Some(id) => self.path_in(id),
            None => self.real_path(b"."),
        }
    }

    fn path_in(&mut self, id: u32) -> Answer<Vec<u8>> {
        match self.answer_to(id)? {
            ReplyBody::Names(names) => {
                let [name] = <[Name; 1]>::try_from(names).map_err(|_| Fault::bad_message())?;
                Ok(name.name)
            }
            _ => Err(Fault::bad_message()),
        }
    }

    /// Space on a file system.
    pub fn statvfs(&mut self, path: &[u8]) -> Answer<StatVfs> {
        match self.ask(&Request::Statvfs { path })? {
            ReplyBody::Extended(fields) => {
                StatVfs::read(&mut Reader::new(&fields)).map_err(|_| Fault::bad_message())
            }
            _ => Err(Fault::bad_message()),
        }
    }

    fn open(&mut self, request: &Request<'_>) -> Answer<Handle> {
        match self.ask(request)? {
            ReplyBody::Handle(handle) => Ok(handle),
            _ => Err(Fault::bad_message()),
        }
    }

    /// Opens a file.
    pub fn open_file(&mut self, path: &[u8], flags: lh_sftp::OpenFlags, attrs: Attrs) -> Answer<Handle> {
        self.open(&Request::Open { path, flags, attrs })
    }

    /// Makes a symbolic link. If the server's order of the two names is unknown, the new link is looked for
    /// and corrected.
    pub fn make_link(&mut self, target: &[u8], link: &[u8]) -> Answer<()> {
        let order = match self.ask_session(Session::link_order).ok_or(Fault::Lost)? {
            Known::Always(order) => return self.perform(&order.request(target, link)),
            Known::Mostly(order) => order,
        };
        let mut trial = Trial::new(target.to_vec(), link.to_vec(), order);
        let mut refused = None;
        loop {
            let outcome = match trial.step() {
                Step::Look(path) => self.attrs(path, false).map(|attrs| {
                    match attrs.permissions.map(|bits| bits & mode::TYPE) {
                        None | Some(0 | mode::SYMLINK) => Found::Link,
                        Some(_) => Found::NoLink,
                    }
                }),
                Step::Make(order) => {
                    let outcome = self.perform(&order.request(target, link));
                    refused = refused.or(outcome.clone().err());
                    outcome.map(|()| Found::Ok)
                }
                Step::Read(path) => self.read_link(path).map(Found::LeadsTo),
                Step::Remove(path) => self.perform(&Request::Remove { path }).map(|()| Found::Ok),
            };
            let found = match outcome {
                Ok(found) => found,
                Err(Fault::Lost) => return Err(Fault::Lost),
                Err(fault) if fault.is_missing() => Found::Missing,
                Err(_) => Found::Refused,
            };
            match trial.answer(found) {
                None => {}
                Some(Verdict::Made(order)) => {
                    self.conversation.borrow_mut().set_link_order(order);
                    return Ok(());
                }
                Some(Verdict::Failed(failure)) => {
                    let refused = refused.filter(|_| failure == Failure::Refused);
                    return Err(refused.unwrap_or_else(|| Fault::Refused(failure.to_string())));
                }
            }
        }
    }

    /// Returns the target of a symbolic link.
    fn read_link(&mut self, path: &[u8]) -> Answer<Vec<u8>> {
        let id = self.send(&Request::Readlink { path })?;
        self.path_in(id)
    }

    /// Names for ids, in the order of the ids; empty where the server knows none. `None` when it cannot be
    /// asked.
    pub fn names_of(&mut self, uids: &[u32], gids: &[u32]) -> Answer<Option<(Vec<String>, Vec<String>)>> {
        if !self.supports(extension::USERS_GROUPS_BY_ID) {
            return Ok(None);
        }
        let packed = |ids: &[u32]| ids.iter().flat_map(|id| id.to_be_bytes()).collect::<Vec<u8>>();
        let (users, groups) = (packed(uids), packed(gids));
        let answer = match self.ask(&Request::UsersGroupsById { users: &users, groups: &groups }) {
            Ok(ReplyBody::Extended(fields)) => fields,
            Err(Fault::Lost) => return Err(Fault::Lost),
            _ => return Ok(None),
        };
        let mut reader = Reader::new(&answer);
        let mut names = |count: usize| -> Option<Vec<String>> {
            let mut inner = Reader::new(reader.string().ok()?);
            (0..count).map(|_| Some(String::from_utf8_lossy(inner.string().ok()?).into_owned())).collect()
        };
        Ok(names(uids.len()).zip(names(gids.len())))
    }

    /// Copies `pairs` of source and target at the same time. Their targets must differ.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) fn copy(
        &mut self,
        direction: Direction,
        pairs: Vec<(Vec<u8>, Vec<u8>)>,
        options: Options,
        show: Show,
    ) -> Answer<Summary> {
        let side = if direction == Direction::Upload { Side::Target } else { Side::Source };
        let job = match Job::for_pairs(direction, pairs, options, Box::new(show)) {
            Ok(job) => job,
            Err(error) => {
                say(&error.to_string());
                return Ok(Summary { failures: 1, ..Summary::default() });
            }
        };
        self.conversation.borrow_mut().begin_copy(job, side);
        self.run();
        self.conversation.borrow_mut().end_copy().ok_or(Fault::Lost)
    }
}
