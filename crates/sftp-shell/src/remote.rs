//! The server as the commands see it: requests with replies.

use std::cell::RefCell;
use std::rc::Rc;

use lh_sftp::batch::{LIST_LONG, LIST_NAMES, Listing};
use lh_sftp::link_order::Known;
use lh_sftp::link_trial::{Answer as Found, Failure, Step, Trial, Verdict};
use lh_sftp::{
    Attrs, Handle, Limits, Name, ReplyBody, Request, Session, StatVfs, Status, StatusCode, extension, mode,
};
use lh_transfer::{Direction, Job, MAX_LISTS, Options, Side, Summary, status_text};
use lh_wire::Reader;

use crate::conversation::{Carrier, Conversation};
use crate::detail::Detail;
use crate::say;
use crate::show::Show;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The server reported an error.
    Status(Status),
    /// The server's replies exceed a limit; the message for the user.
    Refused(String),
    /// The connection is lost.
    Lost,
}

/// Limit of the bytes of listings that one command keeps: some millions of names.
const MOST_KEPT: usize = 1 << 30;

/// Limit of consecutive replies without entries. A Longhaul server matches 128 Ki names before it sends one.
const MOST_EMPTY: usize = 10_000;

impl Fault {
    fn bad_message() -> Self {
        Self::Status(Status { code: StatusCode::BAD_MESSAGE, message: String::new() })
    }

    /// The reason, in the words of OpenSSH's `sftp`.
    pub fn text(&self) -> String {
        match self {
            Self::Status(status) => status_text(status),
            Self::Refused(why) => why.clone(),
            Self::Lost => "Connection closed".to_owned(),
        }
    }

    /// Returns true when the file does not exist.
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Status(Status { code: StatusCode::NO_SUCH_FILE, .. }))
    }
}

/// Why a session ended before its first command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The user pressed ^C.
    #[error("Interrupted")]
    Interrupted,
    /// The connection is lost, or the server does not speak SFTP: the reason for the user.
    #[error("{0}")]
    Lost(String),
    /// The server does not report the directory that it starts in.
    #[error("realpath .: {}\nNeed cwd", .0.text())]
    NoDirectory(Fault),
}

/// The result of a request.
pub type Answer<T> = Result<T, Fault>;

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

    /// Reads a directory with several READDIRs in flight, and passes each entry to `each` as it arrives, in
    /// the server's order. Ends early on ^C. A server that can match patterns leaves out entries that do not
    /// match `pattern` (empty: all match); other servers send all entries. Details beyond `detail` may be
    /// missing. `each` returns how many bytes it keeps of the entry.
    ///
    /// # Errors
    /// The request fails, the command would keep more than 1 GiB of names, or the server sends too many
    /// replies without entries.
    pub fn list(
        &mut self,
        path: &[u8],
        pattern: &[u8],
        detail: Detail,
        each: &mut dyn FnMut(Name) -> usize,
    ) -> Answer<()> {
        let mut matched_there = false;
        let mut outcome = Ok(());
        let handle = if self.supports(extension::LIST_DIR) {
            matched_there = !pattern.is_empty();
            let Listing { handle, names } = self.list_there(path, pattern, detail)?;
            outcome = self.keep(names, each);
            if handle.is_empty() {
                return outcome;
            }
            Handle::new(&handle)
        } else {
            self.open(&Request::Opendir { path })?
        };
        if outcome.is_ok() {
            outcome = self.list_on(&handle, matched_there, each);
        }
        // The status of a directory's CLOSE does not matter.
        match outcome {
            Err(Fault::Lost) => {}
            _ if self.perform(&Request::Close { handle: &handle }) == Err(Fault::Lost) => {
                return Err(Fault::Lost);
            }
            _ => {}
        }
        outcome
    }

    /// Passes entries to `each` until the limit of kept bytes is reached.
    fn keep(&mut self, names: Vec<Name>, each: &mut dyn FnMut(Name) -> usize) -> Answer<()> {
        for name in names {
            self.kept = self.kept.saturating_add(each(name));
            if self.kept > self.most_kept {
                let most = lh_cli::progress::size(self.most_kept as u64);
                return Err(Fault::Refused(format!(
                    "Listing too large (more than {} of names)",
                    most.trim()
                )));
            }
        }
        Ok(())
    }

    /// Asks a Longhaul server for the first part of a listing.
    fn list_there(&mut self, path: &[u8], pattern: &[u8], detail: Detail) -> Answer<Listing> {
        let flags = match detail {
            Detail::Names => LIST_NAMES,
            Detail::Attrs => 0,
            Detail::Lines => LIST_LONG,
        };
        match self.ask(&Request::ListDir { path, pattern, flags }) {
            Ok(ReplyBody::Extended(fields)) => {
                let read = if detail == Detail::Names { Listing::read_short } else { Listing::read };
                read(&fields).map_err(|_| Fault::bad_message())
            }
            Ok(_) => Err(Fault::bad_message()),
            // An older Longhaul server.
            Err(Fault::Status(Status { code: StatusCode::OP_UNSUPPORTED, .. }))
                if detail == Detail::Names =>
            {
                self.list_there(path, pattern, Detail::Attrs)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Continues a listing to its end. `matched_there`: a reply without entries means that nothing has
    /// matched yet.
    fn list_on(
        &mut self,
        handle: &Handle,
        matched_there: bool,
        each: &mut dyn FnMut(Name) -> usize,
    ) -> Answer<()> {
        let mut in_flight = std::collections::VecDeque::new();
        let mut allowed = 2;
        let mut outcome = Ok(());
        let mut ended = false;
        let mut empty = 0;
        while !ended || !in_flight.is_empty() {
            while !ended && in_flight.len() < allowed {
                in_flight.push_back(self.send(&Request::Readdir { handle })?);
            }
            let Some(id) = in_flight.pop_front() else { break };
            match self.receive(id)? {
                // Replies that are still in flight at the end are dropped.
                ReplyBody::Names(_) if outcome.is_err() => {}
                ReplyBody::Names(names) if names.is_empty() => {
                    ended |= !matched_there;
                    empty += 1;
                    if empty > MOST_EMPTY {
                        outcome = Err(Fault::Refused("Too many replies without entries".to_owned()));
                        ended = true;
                    }
                }
                ReplyBody::Names(names) => {
                    empty = 0;
                    outcome = self.keep(names, each);
                    ended |= outcome.is_err();
                }
                ReplyBody::Status(status) => {
                    if status.code != StatusCode::EOF && !ended {
                        outcome = Err(Fault::Status(status));
                    }
                    ended = true;
                }
                _ => {
                    outcome = Err(Fault::bad_message());
                    ended = true;
                }
            }
            allowed = (allowed + 1).min(MAX_LISTS as usize);
            ended |= self.interrupted();
        }
        outcome
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use crate::conversation::Watch;

    /// A server whose listings never end.
    struct Endless {
        /// The entries of an answer.
        entries: u32,
        /// It matches patterns itself, as ours does.
        ours: bool,
        asked: Vec<u8>,
    }

    struct Taken<'a>(&'a mut Vec<u8>);

    impl lh_transfer::Output for Taken<'_> {
        fn budget(&mut self) -> usize {
            usize::MAX
        }

        fn send(&mut self, data: &[u8]) -> usize {
            self.0.extend_from_slice(data);
            data.len()
        }

        fn reserve(&mut self, _want: usize) -> Option<lh_wire::Reservation<'_>> {
            None
        }
    }

    impl Endless {
        fn answer(&self, request: &[u8]) -> Vec<u8> {
            use lh_wire::Writer;
            let mut reply = Vec::new();
            let (kind, id) = (request[0], &request[1..5]);
            match kind {
                1 => {
                    reply.put_u8(2);
                    reply.put_u32(3);
                    if self.ours {
                        reply.put_string(extension::LIST_DIR.as_bytes());
                        reply.put_string(b"1");
                    }
                }
                // OPENDIR, or list-dir with an empty first part.
                11 | 200 => {
                    reply.put_u8(if kind == 11 { 102 } else { 201 });
                    reply.extend_from_slice(id);
                    reply.put_string(b"handle");
                    if kind == 200 {
                        reply.put_string(b"");
                    }
                }
                12 => {
                    reply.put_u8(104);
                    reply.extend_from_slice(id);
                    reply.put_u32(self.entries);
                    for number in 0..self.entries {
                        reply.put_string(format!("name{number}").as_bytes());
                        reply.put_string(b"");
                        reply.put_u32(0);
                    }
                }
                _ => {
                    reply.put_u8(101);
                    reply.extend_from_slice(id);
                    reply.put_u32(0);
                    reply.put_string(b"");
                    reply.put_string(b"");
                }
            }
            let mut packet = Vec::new();
            packet.put_string(&reply);
            packet
        }
    }

    impl Carrier for Endless {
        fn run(&mut self, conversation: &Rc<RefCell<Conversation>>) {
            let mut conversation = conversation.borrow_mut();
            while !conversation.settled() {
                conversation.advance(&mut Taken(&mut self.asked), Instant::now());
                let mut replies = Vec::new();
                while let Some((length, rest)) = self.asked.split_first_chunk::<4>() {
                    let length = u32::from_be_bytes(*length) as usize;
                    replies.extend(self.answer(&rest[..length]));
                    self.asked.drain(..4 + length);
                }
                conversation.received(Bytes::from(replies), Instant::now());
            }
        }
    }

    fn listed(ours: bool, entries: u32, most_kept: usize) -> (Answer<()>, usize) {
        let (console, _other) = UnixStream::pair().unwrap();
        let conversation = Rc::new(RefCell::new(Conversation::new(Rc::new(Watch::new(console, None)))));
        let carrier = Box::new(Endless { entries, ours, asked: Vec::new() });
        let mut remote = Remote::greet(conversation, carrier).unwrap();
        remote.most_kept = most_kept;
        let mut count = 0;
        let outcome = remote.list(b"/", b"*x", Detail::Names, &mut |name| {
            count += 1;
            name.name.len()
        });
        (outcome, count)
    }

    #[test]
    fn a_listing_that_never_ends_is_bounded() {
        for ours in [true, false] {
            let (outcome, count) = listed(ours, 100, 50_000);
            let text = "Listing too large (more than 50kB of names)";
            assert_eq!(outcome.map_err(|fault| fault.text()), Err(text.to_owned()));
            assert!((8_000..10_100).contains(&count), "{count}");
        }
    }

    #[test]
    fn replies_without_entries_come_to_an_end() {
        let (outcome, _) = listed(true, 0, MOST_KEPT);
        let text = "Too many replies without entries".to_owned();
        assert_eq!(outcome, Err(Fault::Refused(text)));
        assert_eq!(listed(false, 0, MOST_KEPT), (Ok(()), 0));
    }
}
