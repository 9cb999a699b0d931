//! The state of one channel: two half-states, two windows, requests that wait for answers.

use std::collections::VecDeque;

use crate::window::ReceiveWindow;

/// Where the channel is between the open and the last CLOSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We sent CHANNEL_OPEN. `abandoned`: the owner has closed it since, so it is closed as soon as it opens.
    Opening { abandoned: bool },
    /// The peer's CHANNEL_OPEN waits for the owner's answer.
    Asked,
    /// Both sides have numbers.
    Open,
    /// Somebody else speaks for it.
    Relayed,
    /// The peer's first, which was refused: what is under way to it is dropped.
    Refused,
    /// Nothing can be said any more; the number is kept until the owner has seen the event.
    Gone,
}

/// What one side has said about ending its half. Only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Half {
    /// Data may flow.
    Open,
    /// EOF was said.
    Eof,
    /// CLOSE was said.
    Closed,
}

/// What the peer takes from us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendWindow {
    /// Bytes the peer's window allows now; never above 2^32-1.
    pub(crate) left: u64,
    /// Largest data per packet: the smaller of the peer's and our own limit.
    pub(crate) max_packet: usize,
    /// What has been sent since the channel opened.
    pub(crate) sent: u64,
    /// Somebody wanted more than `left`.
    pub(crate) blocked: bool,
}

impl SendWindow {
    /// Nothing can be sent before the peer has said what it takes.
    pub(crate) const UNKNOWN: Self = Self { left: 0, max_packet: 0, sent: 0, blocked: false };

    /// The peer adds to its window; `false` when that goes beyond what 32 bits hold.
    #[must_use]
    pub(crate) fn adjust(&mut self, bytes: u32) -> bool {
        let new = self.left + u64::from(bytes);
        if new > u64::from(u32::MAX) {
            return false;
        }
        self.left = new;
        true
    }
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) phase: Phase,
    /// Our half: what we have sent.
    pub(crate) local: Half,
    /// The peer's half: what we have received.
    pub(crate) remote: Half,
    /// The peer's number.
    pub(crate) remote_id: u32,
    pub(crate) send: SendWindow,
    pub(crate) receive: ReceiveWindow,
    /// Names of our requests that wait for an answer, oldest first.
    pub(crate) asked: VecDeque<String>,
    /// Requests of the peer that wait for our answer.
    pub(crate) unanswered: u32,
    /// Spoken on because the peer has promised to confirm it.
    pub(crate) unconfirmed: bool,
}

impl Channel {
    pub(crate) const fn new(phase: Phase, receive: ReceiveWindow) -> Self {
        Self {
            phase,
            local: Half::Open,
            remote: Half::Open,
            remote_id: 0,
            send: SendWindow::UNKNOWN,
            receive,
            asked: VecDeque::new(),
            unanswered: 0,
            unconfirmed: false,
        }
    }

    /// Data may be sent, as far as the state goes.
    pub(crate) fn can_send(&self) -> bool {
        self.phase == Phase::Open && self.local == Half::Open
    }

    /// Messages other than data may be sent.
    pub(crate) fn can_speak(&self) -> bool {
        self.phase == Phase::Open && self.local < Half::Closed
    }
}
