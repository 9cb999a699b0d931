//! Resumption: messages sent on a connection that may break are kept, and sent again on the connection that
//! replaces it.
//!
//! The rules and messages of the extension are not here (`lh-resume`), and nothing here is visible to a peer.
//! The order of calls at each end:
//!
//! 1. [`retain`](Transport::retain) before the first message of the connection protocol is queued;
//! 2. [`acknowledge`](Transport::acknowledge) with each count that the peer sends;
//! 3. when the socket fails or is silent for too long, [`link_lost`](Transport::link_lost). The transport
//!    stays the destination of messages, and keeps them;
//! 4. [`resume_from`](Transport::resume_from) on the transport of a new connection that is authenticated.

use lh_resume::is_counted;
use zeroize::Zeroizing;

use crate::export::EXPORT_LEN;
use crate::retention::{Opener, Retention};
use crate::state::Phase;
use crate::{ResumeError, Transport, TransportError};

/// Memory for unacknowledged messages beyond the budget, bytes. Bulk data obeys the budget, so an honest peer
/// exceeds it only by answers and window adjustments.
const ALLOWANCE: usize = 16 << 20;

impl Transport {
    /// Returns key material that both ends of this connection derive and no other connection has. It comes
    /// from the first key exchange, under a label and a context. `None` before that exchange is complete.
    pub fn export(&self, label: &str, context: &[u8]) -> Option<Zeroizing<[u8; EXPORT_LEN]>> {
        self.exchange.first.exporter.as_ref()?.export(label, context)
    }

    /// Keeps the messages of the connection protocol that are queued from now on, until they are
    /// [acknowledged](Self::acknowledge). At `budget` bytes [`can_send_bulk`](Self::can_send_bulk) becomes
    /// false.
    ///
    /// # Errors
    /// There are no keys yet, or messages are kept already.
    pub fn retain(&mut self, budget: usize) -> Result<(), ResumeError> {
        self.retain_from(0, budget)
    }

    fn retain_from(&mut self, first: u64, budget: usize) -> Result<(), ResumeError> {
        let Some(keys) = self.exchange.sealing_keys.as_ref().filter(|_| !self.relayed && self.is_open())
        else {
            return Err(ResumeError::NotResumable);
        };
        if self.send.retention().is_some() {
            return Err(ResumeError::NotResumable);
        }
        let retention = Retention::new(first, keys.clone(), budget);
        self.send.set_retention(Some(Box::new(retention)));
        Ok(())
    }

    /// Records that the peer has received the first `count` kept messages of the session, and frees them.
    ///
    /// # Errors
    /// The count is impossible, or no messages are kept. End the connection.
    pub fn acknowledge(&mut self, count: u64) -> Result<(), ResumeError> {
        if self.send.retention().is_none() {
            return Err(ResumeError::NotResumable);
        }
        Ok(self.send.acknowledge(count)?)
    }

    /// Returns the number of messages that the peer has acknowledged, and the number of messages queued in
    /// the session. `None` when messages are not kept.
    pub fn message_counts(&self) -> Option<(u64, u64)> {
        let unacknowledged = self.send.retention()?.unacknowledged();
        let held = self.waiting.held.iter().filter(|held| counted(&held.payload)).count() as u64;
        Some((unacknowledged.acknowledged(), unacknowledged.sent() + held))
    }

    /// Returns the memory that unacknowledged messages keep beside the send queue, bytes.
    pub fn retained_bytes(&self) -> usize {
        self.send.retention().map_or(0, Retention::kept_bytes)
    }

    /// Stops keeping messages: the session will not continue over another connection.
    pub fn stop_retaining(&mut self) {
        self.send.set_retention(None);
    }

    /// Returns the bytes of messages that were queued after the connection broke, or that a key exchange
    /// holds back.
    pub const fn held_bytes(&self) -> usize {
        self.waiting.held_bytes
    }

    /// Records that the connection is broken although the socket may not report it. From now on messages are
    /// kept and not sent. Has no effect when messages are not kept, or the connection has ended.
    pub fn link_lost(&mut self) {
        if self.is_open() && self.send.retention().is_some() {
            self.phase = Phase::Failed(TransportError::Closed { mid_packet: false });
        }
    }

    /// Returns true when the connection broke in a way that another connection can repair, and all messages
    /// that the peer has not acknowledged are kept.
    pub fn is_resumable(&self) -> bool {
        let Phase::Failed(error) = &self.phase else { return false };
        self.send.retention().is_some() && self.is_repairable(error)
    }

    /// Continues the session of `old` on this connection: sends the messages that the peer has not received
    /// again, and keeps them as `old` did. Afterwards `old` is empty and has ended.
    ///
    /// # Errors
    /// Nothing has changed, except with [`ResumeError::Lost`], after which both connections are unusable.
    pub fn resume_from(&mut self, old: &mut Self, received: u64) -> Result<(), ResumeError> {
        if !old.is_resumable() || !self.authenticated {
            return Err(ResumeError::NotResumable);
        }
        old.run_jobs();
        if old.jobs_out() > 0 || self.holding() {
            return Err(ResumeError::Busy);
        }
        let Some(budget) = old.send.retention().map(Retention::budget) else {
            return Err(ResumeError::NotResumable);
        };
        old.send.acknowledge(received)?;
        self.retain_from(received, budget)?;
        let Some(mut retention) = old.send.take_retention() else { return Err(ResumeError::NotResumable) };
        old.phase = Phase::Ended;
        // The totals belong to the session, not to one connection.
        self.totals.bytes_in += old.totals.bytes_in;
        self.totals.bytes_out += old.totals.bytes_out;
        old.waiting.held_bytes = 0;
        let held = std::mem::take(&mut old.waiting.held);
        let mut opener = Opener::default();
        loop {
            match retention.next(&mut opener) {
                Ok(Some(opened)) => self.transmit(opened.payload(), self.compression.sending),
                Ok(None) => break,
                Err(_) => {
                    self.fail(&TransportError::Caller("a kept packet could not be opened"));
                    return Err(ResumeError::Lost);
                }
            }
        }
        for held in held.iter().filter(|held| counted(&held.payload)) {
            self.transmit(&held.payload, self.compression.sending);
        }
        self.rekey_if_due();
        Ok(())
    }

    /// Returns true when messages are kept for a connection that replaces this one, which is broken.
    pub(crate) fn keeps_after_break(&self, number: u8) -> bool {
        is_counted(number) && self.is_resumable()
    }

    /// Ends the connection when the peer acknowledges nothing but makes us send.
    pub(crate) fn check_retained(&mut self) {
        let over = |retention: &Retention| retention.kept_bytes() > retention.budget() + ALLOWANCE;
        if self.send.retention().is_some_and(over) {
            self.fail(&TransportError::TooMany("messages without acknowledging ours"));
        }
    }

    /// Restarts the count of messages: the server has dropped all messages queued so far.
    pub(crate) fn restart_retention(&mut self) {
        let Some(budget) = self.send.retention().map(Retention::budget) else { return };
        self.send.set_retention(None);
        // The keys exist, because messages were kept under them.
        let _ = self.retain_from(0, budget);
    }
}

fn counted(payload: &[u8]) -> bool {
    payload.first().is_some_and(|&number| is_counted(number))
}
