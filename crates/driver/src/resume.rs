//! Resumption over another link (`resume@longhaul`, docs/protocol.md): counts and acknowledges messages, and
//! handles the time without a link. The caller decides which client may resume, and makes the other link.

use std::time::Duration;

use lh_resume::message::{Acknowledge, Message, Session};
use lh_resume::{Pace, is_counted};
use lh_transport::{ResumeError, Role};
use lh_wire::PacketSink as _;

use crate::Link;
use crate::error::ResumeViolation;
use crate::handler::{ControlCx, Core};
use crate::link::LinkError;
use crate::resumption::{Break, Resumption};

impl Core {
    /// Counts a message of the session that is about to be acted on.
    pub(crate) fn count_message(&mut self, number: u8, len: usize) {
        let Some(resumption) = &mut self.resumption else { return };
        if !is_counted(number) {
            return;
        }
        if self.link.transport_ref().role() == Role::Client && resumption.session.is_none() {
            // The server sends its consent before its first message of the session, or never.
            self.resumption = None;
            self.link.transport().stop_retaining();
            return;
        }
        resumption.has_received = true;
        resumption.receipts.on_message(len, self.now);
    }

    /// Handles a message of the extension.
    ///
    /// # Errors
    /// The rule that the peer broke.
    pub(crate) fn on_resume_message(&mut self, payload: &[u8]) -> Result<(), ResumeViolation> {
        let Some(resumption) = &mut self.resumption else {
            self.link.transport().reply_unimplemented();
            return Ok(());
        };
        match Message::decode(payload)? {
            Message::Acknowledge(Acknowledge { received }) => {
                resumption.has_received = true;
                Ok(self.link.transport().acknowledge(received)?)
            }
            Message::Session(session) => {
                if self.link.transport_ref().role() == Role::Server || resumption.session.is_some() {
                    return Err(ResumeViolation::SecondSession);
                }
                resumption.session = Some(session);
                Ok(())
            }
        }
    }

    /// Queues the acknowledgement that is due.
    pub(crate) fn acknowledge(&mut self) {
        let Some(resumption) = self.resumption.as_mut().filter(|state| state.broken.is_none()) else {
            return;
        };
        let riding = self.link.transport_ref().queued_bytes() > 0;
        if let Some(received) = resumption.due(riding, self.now) {
            self.link.transport().payload(&Acknowledge { received }.to_payload());
            resumption.receipts.on_acknowledged(received);
        }
    }

    /// Sets the round trip, which determines how often messages are acknowledged.
    pub(crate) fn set_acknowledge_pace(&mut self, round_trip: Duration) {
        if let Some(resumption) = &mut self.resumption {
            resumption.receipts.set_pace(Pace::for_path(round_trip));
        }
    }

    /// Records a break, if the session survives it; otherwise returns it.
    pub(crate) fn record_break(&mut self, cause: Break) -> Result<(), Break> {
        let ready = self
            .resumption
            .as_ref()
            .is_some_and(|state| state.broken.is_none() && state.session.is_some() && !state.given_up);
        if !ready {
            return Err(cause);
        }
        self.link.transport().link_lost();
        if !self.link.transport_ref().is_resumable() {
            return Err(cause);
        }
        self.link.lose();
        self.congested = false;
        if let Some(resumption) = &mut self.resumption {
            resumption.broken = Some(cause);
        }
        Ok(())
    }

    /// Returns the break that ends the session, once it is given up.
    pub(crate) fn take_final_break(&mut self) -> Option<Break> {
        let resumption = self.resumption.as_mut().filter(|state| state.given_up)?;
        resumption.broken.take()
    }
}

impl ControlCx<'_> {
    /// Lets the session continue over another link when this one breaks. `session` is the server's consent: a
    /// server has sent it, a client will receive it. Messages must be [kept](lh_transport::Transport::retain)
    /// from the first message of the session on.
    pub fn survive_breaks(&mut self, session: Option<Session>) {
        if self.core.link.transport_ref().message_counts().is_some() {
            self.core.resumption = Some(Resumption::new(session));
        }
    }

    /// Client: the server's consent to resume this session, if it has arrived.
    pub fn resumable_session(&self) -> Option<&Session> {
        self.core.resumption.as_ref()?.session.as_ref()
    }

    /// True while the session has no link: it is broken, and no other has replaced it.
    pub fn is_away(&self) -> bool {
        self.core.resumption.as_ref().is_some_and(|state| state.broken.is_some())
    }

    /// Returns true while the session has no link because the peer, or a host on the path, has closed it by
    /// an end of file. A reset or silence does not count.
    pub fn has_peer_closed(&self) -> bool {
        let broken = self.core.resumption.as_ref().and_then(|state| state.broken.as_ref());
        matches!(broken, Some(Break::Link(LinkError::Closed { .. })))
    }

    /// Number of messages of the session that were received and acted on. Final while the session has no
    /// link.
    pub fn received_messages(&self) -> u64 {
        self.core.resumption.as_ref().map_or(0, |state| state.receipts.received())
    }

    /// Returns the memory of sent messages that the peer has not acknowledged, and of those that were queued
    /// since the link broke, bytes.
    pub fn unacknowledged_bytes(&self) -> usize {
        let transport = self.core.link.transport_ref();
        transport.retained_bytes() + transport.held_bytes()
    }

    /// Gives up the current link in favour of another one that has been authenticated for the session. True
    /// when the session has no link now.
    pub fn lose_link(&mut self) -> bool {
        let stage = self.core.link.stage();
        self.is_away() || self.core.record_break(Break::Link(LinkError::Closed { stage })).is_ok()
    }

    /// Continues over `link`, which is authenticated for this session. `received`: the number of messages
    /// that the peer has received.
    ///
    /// # Errors
    /// The session still has no link. If the error [is final](ResumeError::is_final), it can never get
    /// another one.
    pub fn resume(&mut self, mut link: Link, received: u64) -> Result<(), ResumeError> {
        let is_given_up = self.core.resumption.as_ref().is_some_and(|state| state.given_up);
        if !self.is_away() || is_given_up {
            return Err(ResumeError::NotResumable);
        }
        link.transport().resume_from(self.core.link.transport(), received)?;
        link.replace(&mut self.core.link);
        self.core.link = link;
        self.core.congested = false;
        if let Some(resumption) = &mut self.core.resumption {
            resumption.broken = None;
            resumption.has_received = false;
            // This acknowledgement shows the server that its answer has arrived.
            let received = resumption.receipts.received();
            self.core.link.transport().payload(&Acknowledge { received }.to_payload());
            resumption.receipts.on_acknowledged(received);
        }
        Ok(())
    }

    /// Ends a session without a link: the loop returns the error that broke it.
    pub const fn give_up(&mut self) {
        if let Some(resumption) = &mut self.core.resumption {
            resumption.given_up = true;
        }
    }

    /// True when the peer has sent a message of the session over the current link.
    pub fn has_heard(&self) -> bool {
        self.core.resumption.as_ref().is_some_and(|state| state.has_received)
    }

    /// While `covered`, sends acknowledgements only by amount of data and not by time: the time of an
    /// acknowledgement would reveal when a keystroke was answered.
    pub const fn cover_acknowledgements(&mut self, covered: bool) {
        if let Some(resumption) = &mut self.core.resumption {
            resumption.covered = covered;
        }
    }
}
