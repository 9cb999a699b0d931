//! Tickets (`LonghaulTickets`): additional connections of an authenticated client.
//!
//! The joined session gets the rights of the first one and no others. The account is looked up again under
//! the current rules, and the restrictions of the key or certificate stay. The addresses of both ends and the
//! server's port must equal those of the first connection, so that `Match` blocks decide equally.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use lh_auth::TicketRequest;
use lh_auth::server::TicketAttempt;
use lh_crypto::PublicKey;

use super::Monitor;
use super::candidate::{Candidate, Joined};
use super::stage::{Stage, Unexpected};
use super::ticket_state::Joining;
use crate::hosts::shown_endpoint;
use crate::log::{debug, error, info};
use crate::quotas::Moved;
use crate::tickets::{LARGEST, Record, TAKE, id_of};
use crate::user_connections::{Member, UserConnection};

/// The key type of every ticket.
const KIND: &str = "ssh-ed25519";

/// The keyword that limits the connections of a user.
const KEYWORD: &str = "PerUserMaxConnections";

/// The keyword that limits the bytes that a user transfers.
const QUOTA: &str = "PerUserTransferQuota";

/// Longest wait for the listener's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Largest number of tickets that one session may have issued.
const MOST_ISSUED: u32 = 1024;

impl Monitor {
    /// Sets the listener, which keeps the tickets, at the other end of this socket.
    #[must_use]
    pub(crate) fn with_tickets(mut self, listener: UnixStream) -> Self {
        let bounded =
            listener.set_read_timeout(Some(TIMEOUT)).and_then(|()| listener.set_write_timeout(Some(TIMEOUT)));
        self.joining.listener = bounded.is_ok().then_some(listener);
        self
    }

    /// Returns whether the attempt's ticket admits this candidate, and gives the candidate the ticket's
    /// rights. The ticket is used up in either case.
    pub(super) fn join(&mut self, candidate: &mut Candidate, attempt: &TicketAttempt) -> bool {
        // Not as one of several steps: the holder of a ticket has completed all steps before.
        if !candidate.settings.longhaul_tickets.value
            || candidate.user.is_none()
            || !candidate.proofs.is_empty()
        {
            return false;
        }
        let Some(record) = self.take(&attempt.key) else {
            debug!(self.client.log, "no such ticket, or it is used or too old");
            return false;
        };
        let request = TicketRequest { key: &attempt.key, host_key: &self.client.host_key };
        let signed =
            request.signed_data(&record.session_id, &self.client.session_id, candidate.name.as_bytes());
        let key = PublicKey::from_blob(&attempt.key).ok().filter(|key| key.key_type() == KIND);
        let right = key.is_some_and(|key| key.verify(KIND, &signed, &attempt.signature).is_ok());
        let why = if record.user != candidate.name {
            "it is another user's"
        } else if record.peer != self.client.peer.ip() || record.local != self.client.local {
            "it is for other addresses"
        } else if !right {
            "wrong signature"
        } else {
            candidate.options = record.options;
            candidate.proofs = record.proofs;
            candidate.joined = Some(Joined { pid: record.pid, session_id: record.session_id });
            return true;
        };
        let (name, from) = (&candidate.name, shown_endpoint(self.client.peer));
        info!(self.client.log, "ticket for {name} from {from} refused: {why}");
        false
    }

    fn take(&mut self, key: &[u8]) -> Option<Record> {
        let record = self.joining.listener.as_mut().map(|listener| request_record(listener, key))?;
        match record {
            Ok(record) => record,
            Err(problem) => {
                debug!(self.client.log, "the listener does not say what a ticket is worth: {problem}");
                self.joining.give_up();
                None
            }
        }
    }

    /// Asks the listener to count this connection, where `PerUserMaxConnections` is set. Returns why the
    /// connection must end. A connection joined by a ticket is not counted: its session already is.
    pub(super) fn beyond_limit(&mut self, candidate: &Candidate, uid: u32) -> Option<String> {
        let limit = candidate.settings.per_user_max_connections.0;
        if !self.config.names(KEYWORD) {
            return None;
        }
        let joined = candidate.joined.as_ref();
        let session_id = joined.map_or(&self.client.session_id, |joined| &joined.session_id);
        self.joining.member = Some(Member::new(uid, session_id));
        if joined.is_some() {
            return None;
        }
        let name = &candidate.name;
        let answer = self.joining.ask(&UserConnection { uid, limit }.encode());
        match (answer, limit) {
            (Ok(false), Some(limit)) => {
                let from = shown_endpoint(self.client.peer);
                error!(
                    self.client.log,
                    "connection of user {name} from {from} refused: {limit} of this user are logged in \
                     ({KEYWORD})"
                );
                Some(format!("Too many connections of user {name} ({KEYWORD} {limit})"))
            }
            (Ok(_), _) => {
                self.joining.counted = Some(UserConnection { uid, limit: None });
                None
            }
            (Err(problem), Some(_)) => {
                error!(self.client.log, "{KEYWORD}: connections of user {name} are not counted: {problem}");
                None
            }
            (Err(_), None) => None,
        }
    }

    /// Checks the user's quota (`PerUserTransferQuota`). Returns why the connection must end.
    pub(super) fn beyond_quota(&mut self, candidate: &Candidate, uid: u32) -> Option<String> {
        let quota = candidate.settings.per_user_transfer_quota.0?;
        let name = &candidate.name;
        let moved = Moved { uid, bytes: 0, quota };
        let answer = self.joining.ask(&moved.encode());
        if !matches!(answer, Ok(false)) {
            self.joining.quota = Some((moved, 0));
        }
        match answer {
            Ok(true) => None,
            Ok(false) => {
                let from = shown_endpoint(self.client.peer);
                error!(
                    self.client.log,
                    "connection of user {name} from {from} refused: the transfer quota is used up ({QUOTA})"
                );
                Some(format!("Transfer quota of user {name} is used up ({QUOTA})"))
            }
            Err(problem) => {
                error!(self.client.log, "{QUOTA}: bytes of user {name} are not counted: {problem}");
                None
            }
        }
    }

    /// Takes the connection's total of transferred bytes. Returns the increase to report to the listener,
    /// where there is a quota.
    pub(crate) fn count_moved(&mut self, bytes: u64) -> Option<Moved> {
        let (moved, told) = self.joining.quota.as_mut()?;
        let new = bytes.saturating_sub(*told);
        *told = bytes.max(*told);
        (new > 0).then_some(Moved { bytes: new, ..*moved })
    }

    /// Returns what a listener must count when it adopts the session: the messages about its user, about the
    /// session that this connection is one of several of, and about the user's quota.
    pub(crate) fn counted(&self) -> Vec<u8> {
        let Joining { counted, member, issued, quota, .. } = &self.joining;
        let mut messages = counted.map_or_else(Vec::new, |user| user.encode().to_vec());
        // An earlier version's listener does not know this message, and a session without tickets has no
        // other connections.
        if let Some(member) = member.filter(|_| counted.is_none() || *issued > 0) {
            messages.extend(member.encode());
        }
        // Sessions that move nothing end as well when others use up the quota.
        if let Some((moved, _)) = quota {
            messages.extend(moved.encode());
        }
        messages
    }

    /// Stores the record for tickets of the session that is about to start. A session joined by a ticket
    /// issues none, so that all of them end with the one that logged in.
    pub(super) fn may_ask_for_tickets(&mut self, candidate: &Candidate) {
        if !candidate.settings.longhaul_tickets.value
            || candidate.must_change_password
            || candidate.joined.is_some()
            || self.joining.listener.is_none()
        {
            return;
        }
        self.joining.worth = Some(Record {
            user: candidate.name.clone(),
            options: candidate.options.clone(),
            proofs: candidate.proofs.clone(),
            session_id: self.client.session_id.clone(),
            peer: self.client.peer.ip(),
            local: self.client.local,
            pid: std::process::id(),
        });
    }

    /// Makes a ticket of the client's `key`. Returns false where the session may have none, or no more.
    pub(crate) fn ticket(&mut self, key: &[u8]) -> Result<bool, Unexpected> {
        if self.stage != Stage::Over {
            return Err(Unexpected::Time);
        }
        let Joining { listener: Some(listener), worth: Some(worth), issued, .. } = &mut self.joining else {
            return Ok(false);
        };
        if *issued >= MOST_ISSUED || !PublicKey::from_blob(key).is_ok_and(|key| key.key_type() == KIND) {
            return Ok(false);
        }
        *issued += 1;
        let kept = worth.to_keep(key).is_some_and(|message| listener.write_all(&message).is_ok());
        debug!(
            self.client.log,
            "ticket for an additional connection: {}",
            if kept { "given" } else { "not given" }
        );
        Ok(kept)
    }
}

/// Asks the listener for the record of a ticket; `None` where there is none.
fn request_record(listener: &mut UnixStream, key: &[u8]) -> io::Result<Option<Record>> {
    let mut request = vec![TAKE];
    request.extend_from_slice(&id_of(key));
    listener.write_all(&request)?;
    let mut length = [0; 4];
    listener.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut record = vec![0; length];
    listener.read_exact(&mut record)?;
    Ok(Record::decode(&record).ok())
}
