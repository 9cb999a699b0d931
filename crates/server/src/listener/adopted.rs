//! Sessions of earlier listeners. A new listener finds them after its start; from then on they report to it
//! when they lose their connections and when they resume.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use lh_session_list::{Id, Request, connect, find};

use super::reports::{Reports, SessionMessage};
use crate::counters::Counters;
use crate::log::{Log, debug};
use crate::resuming::END;

/// Times after the start at which sessions are searched for: at once, and later for those whose login was not
/// complete.
const SCANS: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(15), Duration::from_secs(150), Duration::from_secs(600)];

/// The adopted sessions. See the module documentation.
pub(super) struct Adopted {
    sessions: HashMap<Id, Reports>,
    started: Instant,
    scans: usize,
    /// The message sent to monitors to adopt their sessions.
    request: Vec<u8>,
}

impl Adopted {
    /// `mark` identifies the listener's server to its sessions.
    pub(super) fn new(mark: &[u8], started: Instant) -> Self {
        let request = [&[Request::Adopt.byte()], mark].concat();
        Self { sessions: HashMap::new(), started, scans: 0, request }
    }

    /// Time of the next [`scan`](Self::scan).
    pub(super) fn deadline(&self) -> Option<Instant> {
        SCANS.get(self.scans).and_then(|after| self.started.checked_add(*after))
    }

    /// Searches for sessions, if a scan is due.
    pub(super) fn scan(&mut self, now: Instant, log: &Log) {
        if self.deadline().is_none_or(|due| due > now) {
            return;
        }
        self.scans += 1;
        let ids = match find() {
            Ok(ids) => ids,
            Err(problem) => {
                debug!(log, "sessions of earlier listeners are not counted: /proc/net/unix: {problem}");
                return;
            }
        };
        let own = rustix::process::geteuid().as_raw();
        for id in ids {
            if self.sessions.contains_key(&id) {
                continue;
            }
            // Monitors that have a listener, or belong to another server, close the connection.
            if let Ok((mut socket, uid)) = connect(id)
                && uid == own
                && socket.write_all(&self.request).is_ok()
            {
                self.sessions.insert(id, Reports::new(OwnedFd::from(socket), None));
            }
        }
    }

    /// Number of adopted sessions.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the sockets to poll, one for each session.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (Id, BorrowedFd<'_>)> {
        self.sessions.iter().map(|(id, reports)| (*id, reports.control().as_fd()))
    }

    /// Reads the messages of these sessions. Returns for each its messages, and whether it has ended.
    pub(super) fn read(&mut self, ready: &[Id]) -> Vec<(Id, Vec<SessionMessage>, bool)> {
        let mut results = Vec::new();
        for id in ready {
            let Some(reports) = self.sessions.get_mut(id) else { continue };
            let mut messages = Vec::new();
            let goes_on = reports.read(&mut Counters::default(), &mut messages);
            if !goes_on {
                self.sessions.remove(id);
            }
            results.push((*id, messages, !goes_on));
        }
        results
    }

    /// Asks a session to end.
    pub(super) fn end(&self, id: Id) {
        if let Some(reports) = self.sessions.get(&id) {
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            // A session that cannot be reached ends when its waiting time is over.
            let _ = rustix::net::send(reports.control(), &[END], flags);
        }
    }
}
