//! What the listener is told of a session that may be resumed: where its connection comes from, or that it
//! waits for its client, and how much memory it keeps meanwhile.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use lh_resume::{BUDGET, Handle};
use lh_session_list::Wait;

use crate::resuming::Notice;

/// More than a session process keeps for its client, bytes: the budget, and what may exceed it.
pub(super) const MOST_KEPT: u64 = 2 * BUDGET as u64;

/// Since when, and how long, a session waits for its client.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Instant,
    grace: Duration,
    /// Bytes that the client has not acknowledged, as the user session process says.
    kept: u64,
}

/// See the module documentation. Notices to a listener that is not there any more are lost: it adopts the
/// session when it has been restarted, and is told then.
pub(super) struct Whereabouts {
    handle: Handle,
    /// Name of the account that sessions are counted by.
    account: String,
    /// Where the client was last.
    address: IpAddr,
    /// The session has no connection.
    waiting: Option<Waiting>,
}

impl Whereabouts {
    /// Of a session whose connection comes from `address`.
    pub(super) const fn new(handle: Handle, account: String, address: IpAddr) -> Self {
        Self { handle, account, address, waiting: None }
    }

    /// How long the session has waited for its client, and still will.
    pub(super) fn wait(&self) -> Option<Wait> {
        let Waiting { since, grace, .. } = self.waiting?;
        let waited = since.elapsed();
        Some(Wait { waited: waited.as_secs(), left: grace.saturating_sub(waited).as_secs() })
    }

    /// Tells the listener all of it.
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

    /// The session has no connection. One that waits already goes on to wait.
    pub(super) fn begin_to_wait(&mut self, grace: Duration, listener: &mut impl Write) {
        self.waiting.get_or_insert(Waiting { since: Instant::now(), grace, kept: 0 });
        self.notify(listener);
    }

    /// The session goes on over a connection from `address`.
    pub(super) fn go_on(&mut self, address: IpAddr, listener: &mut impl Write) {
        (self.address, self.waiting) = (address, None);
        let _ = listener.write_all(&Notice::GoesOn(self.handle).encode());
        self.notify(listener);
    }

    /// The waiting session keeps more for its client than before.
    pub(super) fn note_kept(&mut self, bytes: u64, listener: &mut impl Write) {
        // What the user's own process says: no more than it can keep, and what only grows is told a bounded
        // number of times.
        let bytes = bytes.min(MOST_KEPT);
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| bytes > waiting.kept) {
            waiting.kept = bytes;
            let _ = listener.write_all(&Notice::Keeps { handle: self.handle, bytes }.encode());
        }
    }
}
