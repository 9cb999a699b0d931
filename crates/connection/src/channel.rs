//! State of one channel: two half-states, two windows, and requests that wait for answers.

use std::collections::VecDeque;

use crate::window::ReceiveWindow;

/// Phase of a channel between its open and the last CLOSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We sent CHANNEL_OPEN. `abandoned`: the owner has closed the channel since, so it is closed as soon as
    /// it opens.
    Opening { abandoned: bool },
    /// The peer's CHANNEL_OPEN waits for the owner's answer.
    Asked,
    /// Both sides have assigned their numbers.
    Open,
    /// A mux client exchanges the messages of this channel.
    Relayed,
    /// The peer's first channel, which was refused; messages in flight to it are dropped.
    Refused,
    /// No more messages are possible. The number is kept until the owner has polled the event.
    Gone,
}

/// What one side has sent about ending its half. It only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Half {
    /// Data may be sent.
    Open,
    /// EOF was sent.
    Eof,
    /// CLOSE was sent.
    Closed,
}

/// Limits of what we may send to the peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendWindow {
    /// Bytes that the peer's window permits now; never above 2^32-1.
    pub(crate) left: u64,
    /// Largest data per packet, bytes: the smaller of the peer's and our own limit.
    pub(crate) max_packet: usize,
    /// Bytes sent since the channel opened.
    pub(crate) sent: u64,
    /// The owner wanted to send more than `left`.
    pub(crate) blocked: bool,
}

impl SendWindow {
    /// Nothing can be sent before the peer has announced its limits.
    pub(crate) const UNKNOWN: Self = Self { left: 0, max_packet: 0, sent: 0, blocked: false };

    /// Enlarges the window by the peer's adjust; returns `false` when it would exceed 32 bits.
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
    /// The peer's number for the channel.
    pub(crate) remote_id: u32,
    pub(crate) send: SendWindow,
    pub(crate) receive: ReceiveWindow,
    /// Names of our requests that wait for an answer, oldest first.
    pub(crate) asked: VecDeque<String>,
    /// Number of requests of the peer that wait for our answer.
    pub(crate) unanswered: u32,
    /// The channel is used before its confirmation, because the peer promised to confirm it.
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

    /// Returns true when the state permits sending data.
    pub(crate) fn can_send(&self) -> bool {
        self.phase == Phase::Open && self.local == Half::Open
    }

    /// Returns true when the state permits sending messages other than data.
    pub(crate) fn can_send_messages(&self) -> bool {
        self.phase == Phase::Open && self.local < Half::Closed
    }
}

/// State of the promise for the first channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// The channel was opened without a promise.
    Ordinary,
    /// Server: number 0 is reserved for the channel, with this window in bytes.
    Kept(u32),
    /// Server: the channel has its number; its window is at least this many bytes.
    Given(u32),
    /// Client: the channel can be used at once, with this many bytes of data.
    Promised(u32),
}
