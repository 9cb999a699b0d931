//! A scripted peer that checks what it receives.

use std::time::Instant;

use bytes::Bytes;
use lh_connection::{ChannelId, ChannelOptions, Config, Connection, ConnectionError, Event, WindowPolicy};
use lh_wire::Message;
use lh_wire::msg::{self, Rest};

/// A connection, the messages that it sent and the current time.
pub(crate) struct Ours {
    pub(crate) connection: Connection,
    pub(crate) out: Vec<Vec<u8>>,
    pub(crate) now: Instant,
}

/// The peer's number for channels it opens in these tests.
pub(crate) const THEIRS: u32 = 7;

pub(crate) const OPTIONS: ChannelOptions =
    ChannelOptions { window: WindowPolicy { initial: 1000, cap: 1000 }, max_packet: 100 };

impl Ours {
    pub(crate) fn new(config: Config) -> Self {
        Self { connection: Connection::new(config), out: Vec::new(), now: Instant::now() }
    }

    pub(crate) fn get<'a>(&mut self, message: &impl Message<'a>) -> Result<Vec<Event>, ConnectionError> {
        self.get_payload(message.to_payload())
    }

    pub(crate) fn get_payload(&mut self, payload: Vec<u8>) -> Result<Vec<Event>, ConnectionError> {
        self.connection.handle(Bytes::from(payload), self.now, &mut self.out)?;
        Ok(std::iter::from_fn(|| self.connection.poll_event()).collect())
    }

    /// Returns the messages sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }

    /// Returns the single message sent since the last call.
    pub(crate) fn sent_one(&mut self) -> Vec<u8> {
        let mut output = self.sent();
        assert_eq!(output.len(), 1, "{output:?}");
        output.remove(0)
    }

    /// Opens a channel and confirms it, granting `window` bytes in packets of `max_packet`.
    pub(crate) fn open(&mut self, window: u32, max_packet: u32) -> ChannelId {
        let id = self.connection.open("session", b"", &OPTIONS, &mut self.out).unwrap();
        self.sent();
        let events = self
            .get(&msg::ChannelOpenConfirmation::new(id.number(), THEIRS, window, max_packet, Rest(b"")))
            .unwrap();
        assert_eq!(events, [Event::Opened { id, fields: Bytes::new() }]);
        id
    }
}

/// Returns the message numbers of payloads.
pub(crate) fn numbers(payloads: &[Vec<u8>]) -> Vec<u8> {
    payloads.iter().map(|payload| payload[0]).collect()
}
