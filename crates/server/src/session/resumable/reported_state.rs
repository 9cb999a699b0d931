//! The state of a resumable session, as reported to the listener: the address of its connection, or that it
//! waits for its client, and how much memory it keeps meanwhile.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use lh_resume::{BUDGET, Handle};
use lh_session_list::Wait;

use crate::resuming::Notice;

/// Upper bound of the memory that a session process keeps for its client, bytes: the budget, and as much in
/// excess of it.
pub(super) const MOST_KEPT: u64 = 2 * BUDGET as u64;

/// The start and the limit of a session's wait for its client.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Instant,
    grace: Duration,
    /// Bytes that the client has not acknowledged, as reported by the user session process.
    kept: u64,
}

/// The state that the listener knows. Notices to a listener that has ended are lost: when it has restarted,
/// it adopts the session and receives the state. See the module documentation.
pub(super) struct ReportedState {
    handle: Handle,
    /// Name of the account that the session counts for.
    account: String,
    /// Address of the client's last connection.
    address: IpAddr,
    /// The session's wait; `None` while it has a connection.
    waiting: Option<Waiting>,
}

impl ReportedState {
    /// Returns the state of a session whose connection comes from `address`.
    pub(super) const fn new(handle: Handle, account: String, address: IpAddr) -> Self {
        Self { handle, account, address, waiting: None }
    }

    /// True while the session waits for its client.
    pub(super) const fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Returns how long the session has waited for its client, and how long it still will.
    pub(super) fn wait(&self) -> Option<Wait> {
        let Waiting { since, grace, .. } = self.waiting?;
        let waited = since.elapsed();
        Some(Wait { waited: waited.as_secs(), left: grace.saturating_sub(waited).as_secs() })
    }

    /// Reports the full state to the listener.
    pub(super) fn notify(&self, listener: &mut impl Write) {
        let address = self.address;
        let Some(Waiting { since, grace, kept }) = self.waiting else {
            let _ = listener.write_all(&Notice::Connected(address).encode());
            return;
        };
        let (handle, user, waited) = (self.handle, self.account.clone(), since.elapsed());
        let _ = listener.write_all(&Notice::Waits { handle, user, address, waited, grace }.encode());
        if kept > 0 {
            let _ = listener.write_all(&Notice::Keeps { handle, bytes: kept }.encode());
        }
    }

    /// Records that the session has no connection. A wait that has begun is not restarted.
    pub(super) fn begin_to_wait(&mut self, grace: Duration, listener: &mut impl Write) {
        self.waiting.get_or_insert(Waiting { since: Instant::now(), grace, kept: 0 });
        self.notify(listener);
    }

    /// Records that the session uses a connection from `address`.
    pub(super) fn go_on(&mut self, address: IpAddr, listener: &mut impl Write) {
        (self.address, self.waiting) = (address, None);
        let _ = listener.write_all(&Notice::GoesOn(self.handle).encode());
        self.notify(listener);
    }

    /// Records that the waiting session keeps more for its client than before.
    pub(super) fn note_kept(&mut self, bytes: u64, listener: &mut impl Write) {
        // The user controls the reporting process. So the value is capped, and only growth is passed on: the
        // number of notices stays bounded.
        let bytes = bytes.min(MOST_KEPT);
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| bytes > waiting.kept) {
            waiting.kept = bytes;
            let _ = listener.write_all(&Notice::Keeps { handle: self.handle, bytes }.encode());
        }
    }
}
