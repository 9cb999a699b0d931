//! The programs above a session: channels with data both ways, requests, ends. They detect every byte and
//! message that is missing, doubled or out of place.

use std::collections::BTreeMap;
use std::time::Instant;

use lh_connection::{ChannelId, ChannelOptions, Config, Connection, Event, WindowPolicy};
use lh_testkit::Seeded;
use lh_transport::Transport;
use lh_wire::{PacketSink, Slices};

/// Returns the options of the channel with this ordinal. Small windows of a few packets run empty again and
/// again. With larger windows, data waits for the memory for unacknowledged messages instead.
fn options(ordinal: u32) -> ChannelOptions {
    let window = WindowPolicy::fixed(if ordinal.is_multiple_of(2) { 6000 } else { 200_000 });
    ChannelOptions { window, max_packet: 2000 }
}

/// A transport, with a digest of each message that the connection layer gives it.
pub(crate) struct Recorded<'a> {
    pub(crate) transport: &'a mut Transport,
    pub(crate) sent: &'a mut Vec<u64>,
}

/// Returns a digest of a message (FNV-1a).
pub(crate) fn digest(payload: &[u8]) -> u64 {
    payload
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl PacketSink for Recorded<'_> {
    fn payload(&mut self, payload: &[u8]) {
        self.sent.push(digest(payload));
        self.transport.payload(payload);
    }

    fn reserve(&mut self, sizes: &[usize]) {
        self.transport.reserve(sizes);
    }

    fn reserved(&mut self, packets: usize) -> Slices<'_> {
        self.transport.reserved(packets)
    }

    fn commit(&mut self, used: &[usize]) {
        let mut slices = self.transport.reserved(used.len());
        for (slice, &size) in slices.iter_mut().zip(used).filter(|(_, size)| **size > 0) {
            self.sent.push(digest(&slice[..size]));
        }
        self.transport.commit(used);
    }
}

/// One channel, at one end.
struct Stream {
    /// Distinguishes the bytes of this stream from those of others.
    key: u32,
    to_send: usize,
    sent: usize,
    received: usize,
    /// Bytes received but not consumed by the program behind the channel.
    waiting: usize,
    eof_sent: bool,
    eof_received: bool,
    closed: bool,
    asked: u32,
    answered: u32,
    /// Number of times that the transport accepted no bulk data.
    refused: u64,
}

/// One end of the session above the transport. It outlives its connections.
pub(crate) struct Application {
    pub(crate) connection: Connection,
    is_client: bool,
    streams: BTreeMap<ChannelId, Stream>,
    /// Sizes of the channels that the client has not opened yet: client to server, server to client.
    to_open: Vec<(u32, u32)>,
    opened: u32,
    finished: usize,
    global: (u32, u32),
    /// Number of times that the transport accepted no bulk data.
    pub(crate) refused: u64,
}

/// Returns the byte at an offset of a stream.
fn byte(key: u32, offset: usize) -> u8 {
    (offset.wrapping_mul(0x9e37_79b1) >> 7) as u8 ^ (key as u8).wrapping_mul(29)
}

impl Application {
    pub(crate) fn new(is_client: bool, to_open: Vec<(u32, u32)>) -> Self {
        let connection = Connection::new(Config::default());
        Self {
            connection,
            is_client,
            streams: BTreeMap::new(),
            to_open,
            opened: 0,
            finished: 0,
            global: (0, 0),
            refused: 0,
        }
    }

    /// Performs one random action of a program.
    pub(crate) fn act(&mut self, random: &mut Seeded, now: Instant, sink: &mut Recorded<'_>) {
        match random.below(12) {
            0 if self.is_client => self.open(sink),
            1 => {
                self.connection.global_request("keepalive@openssh.com", true, b"", sink);
                self.global.0 += 1;
            }
            2 => {
                let Some((&id, stream)) = pick(&mut self.streams, random) else { return };
                if self.connection.request(id, "env", true, b"", sink) {
                    stream.asked += 1;
                }
            }
            3..8 => {
                let Some((&id, stream)) = pick(&mut self.streams, random) else { return };
                let size = 1 + random.below(5000);
                produce(&mut self.connection, id, stream, size, sink);
            }
            _ => {
                let Some((&id, stream)) = pick(&mut self.streams, random) else { return };
                let taken = stream.waiting.min(1 + random.below(8000));
                stream.waiting -= taken;
                self.connection.consumed(id, taken, now, sink);
                close_if_done(&mut self.connection, id, stream, sink);
            }
        }
    }

    /// Performs everything that is possible now.
    pub(crate) fn act_fully(&mut self, now: Instant, sink: &mut Recorded<'_>) {
        self.open(sink);
        for (&id, stream) in &mut self.streams {
            produce(&mut self.connection, id, stream, usize::MAX, sink);
            self.connection.consumed(id, std::mem::take(&mut stream.waiting), now, sink);
            close_if_done(&mut self.connection, id, stream, sink);
        }
    }

    fn open(&mut self, sink: &mut Recorded<'_>) {
        let Some((up, down)) = self.to_open.pop() else { return };
        let fields = [self.opened, up, down].map(u32::to_be_bytes).concat();
        let id = self.connection.open("session", &fields, &options(self.opened), sink).unwrap();
        self.streams.insert(id, Stream::new(self.opened * 2, up as usize));
        self.opened += 1;
    }

    /// Handles what the peer sent.
    pub(crate) fn handle(&mut self, payload: bytes::Bytes, now: Instant, sink: &mut Recorded<'_>) {
        self.connection.handle(payload, now, sink).expect("the peer keeps the rules");
        while let Some(event) = self.connection.poll_event() {
            self.on_event(event, sink);
        }
    }

    fn on_event(&mut self, event: Event, sink: &mut Recorded<'_>) {
        match event {
            Event::Opened { .. } | Event::Writable { .. } => {}
            Event::OpenRequested { id, fields, .. } => {
                let field = |at: usize| u32::from_be_bytes(fields[at..at + 4].try_into().unwrap());
                assert_eq!(field(0), self.opened, "channels are opened in order, each once");
                self.opened += 1;
                self.streams.insert(id, Stream::new(field(0) * 2 + 1, field(8) as usize));
                assert!(self.connection.accept(id, &options(field(0)), b"", sink));
            }
            Event::Data { id, data, .. } => {
                let stream = self.streams.get_mut(&id).expect("data for an open channel");
                for &got in &data {
                    // The other end's key differs in its last bit.
                    assert_eq!(got, byte(stream.key ^ 1, stream.received), "at {}", stream.received);
                    stream.received += 1;
                }
                stream.waiting += data.len();
            }
            Event::Eof { id } => {
                let stream = self.streams.get_mut(&id).unwrap();
                assert!(!std::mem::replace(&mut stream.eof_received, true));
                close_if_done(&mut self.connection, id, stream, sink);
            }
            Event::Closed { id } => {
                let stream = self.streams.remove(&id).unwrap();
                assert!(stream.eof_received && stream.eof_sent && stream.sent == stream.to_send);
                // The peer may close before it answers the last requests.
                assert!(stream.answered <= stream.asked);
                self.finished += 1;
                self.refused += stream.refused;
            }
            Event::Request { id, want_reply, .. } => {
                assert!(want_reply);
                // No reply may follow our own CLOSE.
                self.connection.reply(id, true, sink);
            }
            Event::RequestReply { id, ok, .. } => {
                let stream = self.streams.get_mut(&id).unwrap();
                stream.answered += 1;
                assert!(ok && stream.answered <= stream.asked);
                close_if_done(&mut self.connection, id, stream, sink);
            }
            Event::GlobalRequest { .. } => assert!(self.connection.reply_global(false, b"", sink)),
            Event::GlobalReply { .. } => {
                self.global.1 += 1;
                assert!(self.global.1 <= self.global.0);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns true when all channels have been opened and closed, and all requests answered.
    pub(crate) fn is_done(&self, channels: usize) -> bool {
        self.finished == channels && self.global.0 == self.global.1
    }
}

impl Stream {
    const fn new(key: u32, to_send: usize) -> Self {
        Self {
            key,
            to_send,
            sent: 0,
            received: 0,
            waiting: 0,
            eof_sent: false,
            eof_received: false,
            closed: false,
            asked: 0,
            answered: 0,
            refused: 0,
        }
    }
}

fn pick<'a>(
    streams: &'a mut BTreeMap<ChannelId, Stream>,
    random: &mut Seeded,
) -> Option<(&'a ChannelId, &'a mut Stream)> {
    let count = streams.len();
    if count == 0 { None } else { streams.iter_mut().nth(random.below(count)) }
}

/// Sends data as far as the window and the transport's budget allow, then EOF.
fn produce(
    connection: &mut Connection,
    id: ChannelId,
    stream: &mut Stream,
    most: usize,
    sink: &mut Recorded<'_>,
) {
    let want = (stream.to_send - stream.sent).min(most);
    if want > 0 && !sink.transport.can_send_bulk() {
        stream.refused += 1;
    } else if want > 0 {
        let total = connection.reserve(id, None, want, sink);
        if total > 0 {
            let data: Vec<u8> =
                (stream.sent..stream.sent + total).map(|offset| byte(stream.key, offset)).collect();
            connection.slices(sink).put(&data);
            stream.sent += connection.commit(total, sink);
        }
    }
    if stream.sent == stream.to_send && !stream.eof_sent && connection.can_send(id) {
        stream.eof_sent = connection.eof(id, sink);
    }
}

fn close_if_done(connection: &mut Connection, id: ChannelId, stream: &mut Stream, sink: &mut Recorded<'_>) {
    let done = stream.eof_sent && stream.eof_received && stream.asked == stream.answered;
    if done && !stream.closed {
        stream.closed = connection.close(id, sink);
    }
}
