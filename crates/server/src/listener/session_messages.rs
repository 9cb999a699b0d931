//! Handles the messages of sessions: logins, counters, and the state of resumable sessions.

use std::os::fd::OwnedFd;
use std::time::Instant;

use lh_session_list::Id;
use rustix::process::{Pid, Signal, kill_process};

use super::exporter::Exporter;
use super::reports::{Reports, SessionMessage};
use super::room::block_of;
use super::startup::Startup;
use super::waiting::{Owner, WaitingSessions};
use super::{Listener, Running, WaitEvents};
use crate::counters::Counters;
use crate::hand_over::AUTHENTICATED;
use crate::log::info;
use crate::penalties::Source;
use crate::quotas::Moved;
use crate::resuming::Notice;

/// The logged reason for ending sessions whose user has used up the quota.
const USED_UP: &str = "its user has used up the transfer quota (PerUserTransferQuota)";

/// The logged reason for ending sessions that wait for their clients while their user logs in again.
const TAKES_PLACE: &str =
    "it waits for its client, and another login of its user takes its place (PerUserMaxConnections)";

/// Reads a session's messages and adds its counts to the exporter's, if there is one; false at the end of the
/// messages.
fn read(reports: &mut Reports, exporter: Option<&mut Exporter>) -> (Vec<SessionMessage>, bool) {
    let (mut unused, mut messages) = (Counters::default(), Vec::new());
    let sum = exporter.map_or(&mut unused, |exporter| &mut exporter.seen.sessions);
    let goes_on = reports.read(sum, &mut messages);
    (messages, goes_on)
}

/// Returns the first byte from the session process: [`AUTHENTICATED`], or the kind of a report; `None` when
/// its end is closed.
pub(super) fn first_byte(control: &OwnedFd) -> Option<u8> {
    let mut byte = [0; 1];
    let got = rustix::net::recv(control, &mut byte, rustix::net::RecvFlags::DONTWAIT);
    matches!(got, Ok((1, _))).then_some(byte[0])
}

impl Listener {
    /// Takes what processes say.
    pub(super) fn handle_messages(&mut self, events: &WaitEvents) {
        // In this order: a ticket is reported before a client shows it, and a login before what its session
        // says.
        self.read_reports(&events.reporting);
        self.read_adopted_reports(&events.adopted);
        self.on_startups(&events.startups_ready);
        self.read_reports(&events.startups_ready);
    }

    /// Handles the messages of startups: they have logged in, or are gone. Either way they no longer count.
    fn on_startups(&mut self, startups_ready: &[Pid]) {
        for pid in startups_ready {
            let Some(at) = self.startups.iter().position(|startup| startup.pid == *pid) else { continue };
            let Some(startup) = self.startups.get_mut(at) else { continue };
            let ended = startup.serve(&mut self.users, &self.sessions.waiting, Instant::now());
            let says_more = startup.has_message();
            self.end_sessions(ended, TAKES_PLACE);
            if !says_more {
                continue;
            }
            let startup = self.startups.swap_remove(at);
            self.admission.end(*pid);
            if let Some(mut running) = self.sessions.running.remove(pid) {
                self.on_first_message(startup, &mut running);
                self.sessions.running.insert(*pid, running);
            }
        }
        if self.throttling
            && self.admission.waiting() < self.launch.hand_over.config.max_startups.value.begin as usize
        {
            self.throttling = false;
            info!(self.log, "exited MaxStartups throttling");
        }
    }

    /// Handles a startup's first message: a login, or the first report.
    pub(super) fn on_first_message(&mut self, mut startup: Startup, running: &mut Running) {
        // A session may have ended before its first message was read, and without the answers that it waited
        // for.
        let ended = startup.serve(&mut self.users, &self.sessions.waiting, Instant::now());
        self.end_sessions(ended, TAKES_PLACE);
        let first = first_byte(&startup.control);
        running.authenticated = first.is_some_and(|byte| [byte] == AUTHENTICATED);
        if running.authenticated {
            self.admission.logged_in(block_of(&self.launch.hand_over, running.address), Instant::now());
        }
        if let Some(exporter) = &mut self.exporter {
            exporter.seen.logged_in += u64::from(running.authenticated);
        }
        if running.authenticated || self.exporter.is_some() {
            running.reports = Some(Reports::new(startup.control, first));
        }
    }

    /// Takes what sessions have counted.
    fn read_reports(&mut self, reporting: &[Pid]) {
        for pid in reporting {
            let Some(running) = self.sessions.running.get_mut(pid) else { continue };
            let Some(reports) = &mut running.reports else { continue };
            let (messages, goes_on) = read(reports, self.exporter.as_mut());
            if !goes_on {
                running.reports = None;
            }
            let address = running.address;
            for message in messages {
                match message {
                    SessionMessage::Ticket((id, record)) => {
                        self.users.tickets.keep(*pid, address, id, record, Instant::now());
                    }
                    // Only a session that an earlier listener started sends this; ours is counted at the
                    // login.
                    SessionMessage::User(_) | SessionMessage::Member(_) => {}
                    SessionMessage::Notice(notice) => self.on_notice(Owner::Process(*pid), notice),
                    SessionMessage::Moved(moved) => {
                        self.users.quotas.begin(Owner::Process(*pid), &moved);
                        self.on_moved(moved);
                    }
                }
            }
        }
    }

    /// Takes what sessions of earlier listeners say.
    fn read_adopted_reports(&mut self, ready: &[Id]) {
        for (id, messages, has_ended) in self.sessions.adopted.read(ready) {
            let owner = Owner::Adopted(id);
            for message in messages {
                match message {
                    SessionMessage::Ticket(_) => {}
                    SessionMessage::User(connection) => {
                        self.users.connections.admit(owner, connection);
                    }
                    SessionMessage::Member(member) => self.users.connections.adopt(owner, member),
                    SessionMessage::Notice(notice) => self.on_notice(owner, notice),
                    SessionMessage::Moved(moved) => {
                        if !has_ended {
                            self.users.quotas.begin(owner, &moved);
                        }
                        self.on_moved(moved);
                    }
                }
            }
            if has_ended {
                self.sessions.end_resumable(owner);
                self.users.end(&owner);
            }
        }
    }

    /// Handles a notice of a resumable session, and ends sessions that exceed the limits.
    fn on_notice(&mut self, owner: Owner, notice: Notice) {
        match &notice {
            Notice::Connected(address) => {
                let block = self.launch.hand_over.config.per_source_net_block_size.value;
                self.sessions.connected.begin(owner, Source::of(*address, block), Instant::now());
            }
            Notice::Waits { .. } => self.sessions.connected.end(owner),
            Notice::GoesOn(_) | Notice::Keeps { .. } => {}
        }
        let why = WaitingSessions::reason(&notice);
        let owners = self.sessions.waiting.record(owner, notice, Instant::now());
        self.end_sessions(owners, why);
    }

    /// Counts the transferred bytes, and ends the user's sessions whose quota is used up.
    fn on_moved(&mut self, moved: Moved) {
        self.users.quotas.add(moved, Instant::now());
        let ended = self.users.quotas.used_up(moved.uid);
        self.end_sessions(ended, USED_UP);
    }

    /// Ends these sessions, which exceed a limit.
    fn end_sessions(&self, owners: Vec<Owner>, why: &str) {
        for owner in owners {
            match owner {
                // One that has been waited for has no id any more.
                Owner::Process(pid) if !self.sessions.running.contains_key(&pid) => {}
                Owner::Process(pid) => {
                    let number = pid.as_raw_nonzero();
                    info!(self.log, "session of process {number} ends: {why}");
                    let _ = kill_process(pid, Signal::TERM);
                }
                Owner::Adopted(id) => {
                    info!(self.log, "session {id} ends: {why}");
                    self.sessions.adopted.end(id);
                }
            }
        }
    }

    /// Reads the last reports of a session that has ended.
    pub(super) fn read_last(&mut self, running: &mut Running) {
        let Some(reports) = &mut running.reports else { return };
        let (mut unused, mut messages) = (Counters::default(), Vec::new());
        let sum = self.exporter.as_mut().map_or(&mut unused, |exporter| &mut exporter.seen.sessions);
        reports.read_last(sum, &mut messages);
        for message in messages {
            if let SessionMessage::Moved(moved) = message {
                self.on_moved(moved);
            }
        }
    }
}
