//! Records of logins at terminals (utmp, wtmp and lastlog), written on behalf of the user session process,
//! which lacks the rights for it.

use std::fs::File;
use std::io;
use std::time::Instant;

use lh_sys::pty::Pty;
use lh_sys::records::{Entry, Last, Records};
use lh_sys::time::now_unix;

use super::Monitor;
use super::stage::{Stage, Unexpected};
use super::terminals::is_own_terminal;
use crate::hosts::{known_ip, shown_ip};
use crate::log::{debug, error, info};
use crate::monitor_ipc::TerminalFacts;

impl Monitor {
    /// Allocates a terminal for a session inside a chroot, from outside of it. The terminal belongs to the
    /// user.
    ///
    /// # Errors
    /// The outer one: this session may not ask for a terminal. The inner one: none can be allocated.
    pub(crate) fn terminal(&self) -> Result<io::Result<Pty>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        let user = self.presence.user.as_ref().filter(|_| self.presence.allocates);
        let uid = user.ok_or(Unexpected::Terminal)?.uid;
        Ok(Pty::allocate().and_then(|pty| {
            pty.set_owner(uid)?;
            Ok(pty)
        }))
    }

    /// Creates the recording file of one of the user's terminals. `None`: the terminal is not recorded, or it
    /// cannot be and must not be used. `session` identifies the connection in all logs.
    ///
    /// # Errors
    /// The login is not complete.
    pub(crate) fn record(
        &mut self,
        session: &str,
        terminal: &TerminalFacts,
    ) -> Result<Option<File>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        let user = self.presence.user.clone().ok_or(Unexpected::Time)?;
        // Rate-limited, as are the other lines that a user can cause again and again.
        let (origin, log) = (shown_ip(self.client.peer).to_string(), self.client.log.of_requests());
        // Terminals that come and go, or are said to, must not fill a disk with files.
        if self.presence.recordings.are_made()
            && self.presence.recording_budget.spend(Instant::now()).is_none()
        {
            error!(log, "terminal of user {} refused: too many recordings (RecordTerminal)", user.name);
            return Ok(None);
        }
        match self.presence.recordings.make(&user, session, &origin, terminal) {
            Ok(Some((path, file))) => {
                info!(log, "terminal of user {} is recorded to {}", user.name, path.display());
                Ok(Some(file))
            }
            Ok(None) => Ok(None),
            Err(problem) => {
                error!(log, "terminal of user {} refused: {problem}", user.name);
                Ok(None)
            }
        }
    }

    /// Records the user's login at a terminal. Returns the last login, if it should be shown.
    ///
    /// # Errors
    /// The login is not complete, or the terminal is not the user's.
    pub(crate) fn arrived(&mut self, line: &str, pid: u32) -> Result<Option<Last>, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        let user = self.presence.user.clone().ok_or(Unexpected::Time)?;
        if !is_own_terminal(line, &user) {
            return Err(Unexpected::Terminal);
        }
        let records = Records::of_the_system();
        let last = records.last(user.uid).filter(|_| self.presence.show_last);
        if self.presence.may_record(Instant::now()) {
            let host = self.client.origin().to_string();
            let address = known_ip(self.client.peer.ip());
            let entry = Entry { user: &user.name, line, host: &host, address, pid, time: now_unix() };
            if let Err(problem) = records.login(user.uid, &entry) {
                debug!(self.client.log, "record of the login: {problem}");
            }
            self.presence.lines.push((line.to_owned(), pid));
        }
        Ok(last)
    }

    /// Records that a terminal is free again; all of the session's terminals when `line` is `None`.
    pub(crate) fn left(&mut self, line: Option<&str>) {
        let (gone, stay) = std::mem::take(&mut self.presence.lines)
            .into_iter()
            .partition(|(known, _)| line.is_none_or(|line| line == known));
        self.presence.lines = stay;
        let gone: Vec<(String, u32)> = gone;
        for (line, pid) in gone {
            if let Err(problem) = Records::of_the_system().logout(&line, pid, now_unix()) {
                debug!(self.client.log, "record of the logout: {problem}");
            }
        }
    }
}
