//! [`Connection`]: the public interface of the crate.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_wire::msg::{self, Rest};
use lh_wire::{Message, PacketSink, Slices};

use crate::channel::{Channel, First, Half, Phase};
use crate::late::Late;
use crate::window::ReceiveWindow;
use crate::{ChannelId, ChannelOptions, Config, Event, OpenError, WindowPolicy};

/// Limit of channel numbers, as in OpenSSH.
const MAX_CHANNELS: usize = 16384;

/// Limit of packets in one [`Connection::reserve`].
const BATCH: usize = 64;

/// Bytes before the data: message number, recipient, length.
const DATA_HEAD: usize = 9;
/// Bytes before extended data: [`DATA_HEAD`] and the data type.
const EXTENDED_HEAD: usize = 13;

/// All channels of one SSH connection. The crate's documentation has the order of calls.
///
/// A call for a channel that is not open (any more) does nothing and returns 0 or `false`: the owner may
/// learn of a CLOSE later than the connection does.
#[derive(Debug)]
pub struct Connection {
    pub(crate) config: Config,
    pub(crate) channels: Vec<Option<Channel>>,
    pub(crate) free: BTreeSet<u32>,
    pub(crate) count: usize,
    pub(crate) growth_left: u64,
    /// See [`Self::hold_windows`].
    hold: Option<u64>,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) asked: VecDeque<String>,
    pub(crate) unanswered: u32,
    pub(crate) first: First,
    pub(crate) late: Late,
    /// Packets that are reserved in the sink and not committed.
    reserved: Option<Reserved>,
}

/// Data packets of one channel, see [`Connection::reserve`].
#[derive(Debug)]
struct Reserved {
    id: ChannelId,
    ext: Option<u32>,
    /// Bytes before the data of each packet.
    head: usize,
    packets: usize,
    /// Bytes of data in all packets.
    total: usize,
}

/// Shortest round trip for which a peer's answer replaces a smaller known value. On shorter paths the
/// difference in window size is negligible.
const LEAST_LONG_PATH: Duration = Duration::from_millis(5);

impl Connection {
    /// Creates a connection without channels.
    pub fn new(config: Config) -> Self {
        let config = Config { max_channels: config.max_channels.min(MAX_CHANNELS), ..config };
        Self {
            config,
            channels: Vec::new(),
            free: BTreeSet::new(),
            count: 0,
            growth_left: config.growth_budget,
            hold: None,
            round_trip: None,
            events: VecDeque::new(),
            asked: VecDeque::new(),
            unanswered: 0,
            first: First::Ordinary,
            late: Late::default(),
            reserved: None,
        }
    }

    /// Returns the next event. Polling [`Event::Closed`] or [`Event::OpenFailed`] frees the channel's number.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Closed { id } | Event::OpenFailed { id, .. } = &event {
            self.free(*id);
        }
        Some(event)
    }

    // ---- opening

    /// Sends CHANNEL_OPEN. [`Event::Opened`] or [`Event::OpenFailed`] follows.
    ///
    /// # Errors
    /// All channels are in use.
    pub fn open(
        &mut self,
        kind: &str,
        fields: &[u8],
        options: &ChannelOptions,
        sink: &mut dyn PacketSink,
    ) -> core::result::Result<ChannelId, OpenError> {
        let receive = self.granted_window(options, 0);
        let (window, max_packet) = (receive.initial(), receive.max_packet());
        let mut channel = Channel::new(Phase::Opening { abandoned: false }, receive);
        if let Some(send) = self.take_promise(kind) {
            (channel.phase, channel.send, channel.unconfirmed) = (Phase::Open, send, true);
        }
        let early = channel.unconfirmed;
        let id = self.allocate(channel).ok_or(OpenError::TooManyChannels)?;
        if early {
            self.events.push_back(Event::Opened { id, fields: Bytes::new() });
        }
        let open = msg::ChannelOpen::new(kind.as_bytes(), id.0, window, max_packet, Rest(fields));
        sink.payload(&open.to_payload());
        Ok(id)
    }

    /// Accepts a channel that the peer requested. Returns `false` when no request is pending.
    pub fn accept(
        &mut self,
        id: ChannelId,
        options: &ChannelOptions,
        fields: &[u8],
        sink: &mut dyn PacketSink,
    ) -> bool {
        let receive = self.granted_window(options, self.least_window(id));
        let Some(channel) = self.get_mut(id).filter(|channel| channel.phase == Phase::Asked) else {
            return false;
        };
        channel.phase = Phase::Open;
        channel.receive = receive;
        let confirmation = msg::ChannelOpenConfirmation::new(
            channel.remote_id,
            id.0,
            channel.receive.initial(),
            channel.receive.max_packet(),
            Rest(fields),
        );
        sink.payload(&confirmation.to_payload());
        true
    }

    fn granted_window(&self, options: &ChannelOptions, least: u32) -> ReceiveWindow {
        let policy = match options.window {
            WindowPolicy::BULK => self.config.bulk_window,
            policy => policy,
        };
        let max_packet = options.max_packet.min(self.config.max_receive_packet);
        ReceiveWindow::new(WindowPolicy { initial: policy.initial.max(least), ..policy }, max_packet)
    }

    /// Refuses a channel that the peer requested, with a reason of [`lh_wire::msg::open_failure`] and a text
    /// for the user; the number is free at once. Returns `false` when no request is pending.
    pub fn refuse(&mut self, id: ChannelId, reason: u32, text: &str, sink: &mut dyn PacketSink) -> bool {
        let Some(channel) = self.get(id).filter(|channel| channel.phase == Phase::Asked) else {
            return false;
        };
        let failure = msg::ChannelOpenFailure::new(channel.remote_id, reason, text.as_bytes(), b"");
        sink.payload(&failure.to_payload());
        if !self.retire_first(id) {
            self.free(id);
        }
        true
    }

    // ---- closing

    /// Sends EOF: no more data will be sent on this channel. Returns `false` when it was sent before.
    pub fn eof(&mut self, id: ChannelId, sink: &mut dyn PacketSink) -> bool {
        let Some(channel) = self.get_mut(id).filter(|channel| channel.can_send()) else { return false };
        channel.local = Half::Eof;
        sink.payload(&msg::ChannelEof::new(channel.remote_id).to_payload());
        true
    }

    /// Closes the channel: nothing more can be sent on it, and data that still arrives is dropped.
    /// [`Event::Closed`] follows when the peer has closed it too. Returns `false` when CLOSE was sent before.
    pub fn close(&mut self, id: ChannelId, sink: &mut dyn PacketSink) -> bool {
        let Some(channel) = self.get_mut(id) else { return false };
        if let Phase::Opening { abandoned } = &mut channel.phase {
            return !core::mem::replace(abandoned, true);
        }
        if !channel.can_send_messages() {
            return false;
        }
        channel.local = Half::Closed;
        sink.payload(&msg::ChannelClose::new(channel.remote_id).to_payload());
        true
    }

    // ---- requests

    /// Sends a channel request. With `want_reply`, [`Event::RequestReply`] follows, in the order of the
    /// requests. Returns `false` when the channel is not open.
    pub fn request(
        &mut self,
        id: ChannelId,
        name: &str,
        want_reply: bool,
        fields: &[u8],
        sink: &mut dyn PacketSink,
    ) -> bool {
        let Some(channel) = self.get_mut(id).filter(|channel| channel.can_send_messages()) else {
            return false;
        };
        if want_reply {
            channel.asked.push_back(name.to_owned());
        }
        let request = msg::ChannelRequest::new(channel.remote_id, name.as_bytes(), want_reply, Rest(fields));
        sink.payload(&request.to_payload());
        true
    }

    /// Answers the oldest unanswered request of this channel. Returns `false` when there is none.
    pub fn reply(&mut self, id: ChannelId, ok: bool, sink: &mut dyn PacketSink) -> bool {
        let Some(channel) = self.get_mut(id).filter(|channel| channel.can_send_messages()) else {
            return false;
        };
        let Some(left) = channel.unanswered.checked_sub(1) else { return false };
        channel.unanswered = left;
        let recipient = channel.remote_id;
        sink.payload(&if ok {
            msg::ChannelSuccess::new(recipient).to_payload()
        } else {
            msg::ChannelFailure::new(recipient).to_payload()
        });
        true
    }

    /// Sends a global request. With `want_reply`, [`Event::GlobalReply`] follows, in the order of the
    /// requests.
    pub fn global_request(&mut self, name: &str, want_reply: bool, fields: &[u8], sink: &mut dyn PacketSink) {
        if want_reply {
            self.asked.push_back(name.to_owned());
        }
        sink.payload(&msg::GlobalRequest::new(name.as_bytes(), want_reply, Rest(fields)).to_payload());
    }

    /// Answers the oldest unanswered global request; `fields` are sent only with success. Returns `false`
    /// when there is none.
    pub fn reply_global(&mut self, ok: bool, fields: &[u8], sink: &mut dyn PacketSink) -> bool {
        let Some(left) = self.unanswered.checked_sub(1) else { return false };
        self.unanswered = left;
        sink.payload(&if ok {
            msg::RequestSuccess::new(Rest(fields)).to_payload()
        } else {
            msg::RequestFailure::new().to_payload()
        });
        true
    }

    // ---- receiving

    /// Records that the owner has passed on `n` bytes of this channel (of the main stream or extended data).
    /// Window credit is returned to the peer when enough has accumulated.
    ///
    /// While other bytes of the channel are unconsumed, credit of less than one packet may be kept back. So
    /// never wait for more than the window minus one packet before consuming.
    pub fn consumed(&mut self, id: ChannelId, n: usize, now: Instant, sink: &mut dyn PacketSink) {
        let Some(channel) = self.channels.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        channel.receive.on_consumed(n as u64);
        // A peer that has sent EOF, or whose channel we have closed, needs no more credit.
        if channel.phase != Phase::Open || channel.local == Half::Closed || channel.remote != Half::Open {
            return;
        }
        let bytes = channel.receive.credit(now, self.round_trip, &mut self.growth_left, self.hold);
        if bytes > 0 {
            let mut payload = [0; 9];
            put_head(&mut payload, msg::ChannelWindowAdjust::NUMBER, &[channel.remote_id, bytes]);
            sink.payload(&payload);
        }
    }

    /// Returns the number of bytes of this channel that arrived and are not consumed.
    pub fn backlog(&self, id: ChannelId) -> u64 {
        self.get(id).map_or(0, |channel| channel.receive.backlog())
    }

    /// Returns the current size of the receive window in bytes, 0 for no channel. For statistics.
    pub fn receive_window(&self, id: ChannelId) -> u64 {
        self.get(id).map_or(0, |channel| channel.receive.size())
    }

    /// Changes the cap of the receive window's growth. The window never shrinks.
    pub fn set_window_cap(&mut self, id: ChannelId, cap: u32) {
        if let Some(channel) = self.get_mut(id) {
            channel.receive.set_cap(cap);
        }
    }

    /// Limits what each peer's channel may have left of its window, bytes, from the next credit on; `None`
    /// lifts the limit. A window that is larger is not taken back: it runs out. What is left of windows is
    /// what can wait in the queues between the two ends, in front of the bytes of other channels. At least
    /// four packets.
    pub fn hold_windows(&mut self, most: Option<u32>) {
        self.hold = most.map(u64::from);
    }

    /// True while [`hold_windows`](Self::hold_windows) limits what peers have left. Then a call of
    /// [`consumed`](Self::consumed), with 0 where nothing has been, is due after data has arrived.
    pub const fn holds_windows(&self) -> bool {
        self.hold.is_some()
    }

    /// Records a measured round trip (TCP_INFO, a ping). Only a value smaller than the known one counts.
    pub fn round_trip_measured(&mut self, round_trip: Duration) {
        self.round_trip = Some(self.round_trip.map_or(round_trip, |old| old.min(round_trip)));
    }

    /// Records that the peer itself answered after `round_trip`. This includes proxies and jump hosts on the
    /// path, behind which the socket's own measurement ends, so a larger value counts. If the peer was only
    /// busy for a moment, the first credits correct the value.
    pub fn peer_answered(&mut self, round_trip: Duration) {
        let longer = |known: Duration| round_trip >= LEAST_LONG_PATH && round_trip >= known * 3 / 2;
        if self.round_trip.is_none_or(longer) {
            self.round_trip = Some(round_trip);
        }
    }

    /// Returns the round-trip estimate that window growth uses.
    pub const fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    // ---- sending

    /// Returns the number of bytes that the peer's window permits now; 0 when no data may be sent.
    pub fn send_budget(&self, id: ChannelId) -> usize {
        self.get(id)
            .filter(|channel| channel.can_send())
            .map_or(0, |channel| usize::try_from(channel.send.left).unwrap_or(usize::MAX))
    }

    /// Returns the largest data per packet of this channel, bytes; 0 while it is not open.
    pub fn remote_max_packet(&self, id: ChannelId) -> usize {
        self.get(id).map_or(0, |channel| channel.send.max_packet)
    }

    /// Returns true while data may be sent, regardless of the window: the channel is open and neither EOF nor
    /// CLOSE was sent.
    pub fn can_send(&self, id: ChannelId) -> bool {
        self.get(id).is_some_and(Channel::can_send)
    }

    /// Requests [`Event::Writable`] for the time when the peer enlarges its window, which is empty now.
    pub fn want_writable(&mut self, id: ChannelId) {
        if let Some(channel) = self.get_mut(id) {
            channel.send.blocked = true;
        }
    }

    /// Sends as much of `data` as the peer's window permits and returns that number of bytes. `ext` is
    /// `Some(1)` for stderr. [`Event::Writable`] follows a short send.
    pub fn send(&mut self, id: ChannelId, ext: Option<u32>, data: &[u8], sink: &mut dyn PacketSink) -> usize {
        let mut sent = 0;
        while let Some(rest) = data.get(sent..).filter(|rest| !rest.is_empty()) {
            if self.reserve(id, ext, rest.len(), sink) == 0 {
                break;
            }
            let filled = self.slices(sink).put(rest);
            sent += self.commit(filled, sink);
        }
        if sent < data.len() {
            self.want_writable(id);
        }
        sent
    }

    /// Reserves packets for up to `want` bytes in the send buffer (limited by the peer's window and to 64
    /// packets). `ext` is `Some(1)` for stderr. Returns the number of bytes that fit, 0 when no data may be
    /// sent. Write the data to [`slices`](Self::slices), then [`commit`](Self::commit) it; send nothing in
    /// between.
    pub fn reserve(
        &mut self,
        id: ChannelId,
        ext: Option<u32>,
        want: usize,
        sink: &mut dyn PacketSink,
    ) -> usize {
        self.reserved = None;
        let budget = self.send_budget(id);
        let Some(channel) = self.get(id) else { return 0 };
        let head = if ext.is_some() { EXTENDED_HEAD } else { DATA_HEAD };
        let max = channel.send.max_packet;
        let total = want.min(budget).min(max.saturating_mul(BATCH));
        if total == 0 {
            return 0;
        }
        let packets = total.div_ceil(max);
        let mut sizes = [head + max; BATCH];
        if let Some(last) = sizes.get_mut(packets - 1) {
            *last = head + total - max * (packets - 1);
        }
        sink.reserve(sizes.get(..packets).unwrap_or_default());
        self.reserved = Some(Reserved { id, ext, head, packets, total });
        total
    }

    /// Returns the memory of the reserved packets for the data, without their headers.
    pub fn slices<'s>(&self, sink: &'s mut dyn PacketSink) -> Slices<'s> {
        let Some(reserved) = &self.reserved else { return Slices::new() };
        let mut slices = sink.reserved(reserved.packets);
        slices.skip_each(reserved.head);
        slices
    }

    /// Sends the first `used` bytes of the reserved packets, and drops packets without data. Returns the
    /// number of bytes sent.
    pub fn commit(&mut self, used: usize, sink: &mut dyn PacketSink) -> usize {
        let Some(Reserved { id, ext, head, packets, total }) = self.reserved.take() else { return 0 };
        let Some(channel) = self.get_mut(id) else { return 0 };
        let used = used.min(total);
        let mut sizes = [0; BATCH];
        let mut rest = used;
        for (slice, size) in sink.reserved(packets).iter_mut().zip(&mut sizes) {
            let data = rest.min(slice.len().saturating_sub(head));
            if data == 0 {
                break;
            }
            rest -= data;
            *size = head + data;
            let length = u32::try_from(data).unwrap_or(u32::MAX);
            match ext {
                None => put_head(slice, msg::ChannelData::NUMBER, &[channel.remote_id, length]),
                Some(kind) => {
                    put_head(slice, msg::ChannelExtendedData::NUMBER, &[channel.remote_id, kind, length]);
                }
            }
        }
        channel.send.left = channel.send.left.saturating_sub(used as u64);
        channel.send.sent += used as u64;
        sink.commit(sizes.get(..packets).unwrap_or_default());
        used
    }
}

/// Writes message number and `uint32` fields to the start of a payload that is long enough for them.
fn put_head(payload: &mut [u8], number: u8, fields: &[u32]) {
    let Some((first, rest)) = payload.split_first_mut() else { return };
    *first = number;
    for (place, field) in rest.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_be_bytes());
    }
}
