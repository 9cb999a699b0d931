//! Effects of the peer's messages on the state.

use std::time::Instant;

use bytes::Bytes;
use lh_wire::msg;
use lh_wire::peer::STOCK_CHANNEL_PACKET;
use lh_wire::{Message, PacketSink, Reader};

use crate::channel::{Channel, Half, Phase, SendWindow};
use crate::first::confirm;
use crate::window::ReceiveWindow;
use crate::{ChannelId, Connection, ConnectionError, Event};

/// Upper limit of a packet that any transport accepts, bytes.
const TRANSPORT_MAX: u32 = 256 * 1024;

type Result<T> = core::result::Result<T, ConnectionError>;

impl Connection {
    /// Handles one message of the peer, number 80 to 100. Immediate answers are written to `sink`.
    ///
    /// # Errors
    /// The peer broke the protocol: disconnect with [`ConnectionError::disconnect_reason`] and the error's
    /// text.
    pub fn handle(&mut self, payload: Bytes, now: Instant, sink: &mut dyn PacketSink) -> Result<()> {
        if self.relayed(&payload) || self.refused(&payload) {
            return Ok(());
        }
        let number = payload.first().copied().unwrap_or(0);
        match self.dispatch(number, &payload, now, sink) {
            Err(error) if self.late.permits(number, &error, self.channels.len()) => Ok(()),
            result => result,
        }
    }

    fn dispatch(
        &mut self,
        number: u8,
        payload: &Bytes,
        now: Instant,
        sink: &mut dyn PacketSink,
    ) -> Result<()> {
        match number {
            msg::ChannelData::NUMBER => self.on_data(payload, now),
            msg::ChannelExtendedData::NUMBER => self.on_extended_data(payload, now),
            msg::ChannelWindowAdjust::NUMBER => self.on_adjust(payload),
            msg::ChannelOpen::NUMBER => self.on_open(payload, sink),
            msg::ChannelOpenConfirmation::NUMBER => self.on_confirmation(payload, sink),
            msg::ChannelOpenFailure::NUMBER => self.on_open_failure(payload),
            msg::ChannelEof::NUMBER => self.on_eof(payload),
            msg::ChannelClose::NUMBER => self.on_close(payload, sink),
            msg::ChannelRequest::NUMBER => self.on_request(payload),
            msg::ChannelSuccess::NUMBER => {
                let recipient = decode::<msg::ChannelSuccess<'_>>(payload, "channel success")?.recipient;
                self.on_reply(recipient, true, "channel success")
            }
            msg::ChannelFailure::NUMBER => {
                let recipient = decode::<msg::ChannelFailure<'_>>(payload, "channel failure")?.recipient;
                self.on_reply(recipient, false, "channel failure")
            }
            msg::GlobalRequest::NUMBER => self.on_global_request(payload),
            msg::RequestSuccess::NUMBER => {
                let fields = decode::<msg::RequestSuccess<'_>>(payload, "request success")?.fields.0.len();
                self.on_global_reply(true, tail(payload, fields));
                Ok(())
            }
            msg::RequestFailure::NUMBER => {
                // Trailing bytes are accepted: masters in proxy mode append four bytes for OpenSSH's clients.
                self.on_global_reply(false, Bytes::new());
                Ok(())
            }
            number => Err(ConnectionError::NotOurs { number }),
        }
    }

    fn on_data(&mut self, payload: &Bytes, now: Instant) -> Result<()> {
        let message = "channel data";
        let (recipient, length) = read_data(payload).map_err(|source| malformed(message, source))?;
        self.deliver(recipient, None, tail(payload, length), now, message)
    }

    fn on_extended_data(&mut self, payload: &Bytes, now: Instant) -> Result<()> {
        let message = "channel extended data";
        let data = decode::<msg::ChannelExtendedData<'_>>(payload, message)?;
        let (recipient, kind, length) = (data.recipient, data.kind, data.data.len());
        self.deliver(recipient, Some(kind), tail(payload, length), now, message)
    }

    fn deliver(
        &mut self,
        recipient: u32,
        ext: Option<u32>,
        data: Bytes,
        now: Instant,
        message: &'static str,
    ) -> Result<()> {
        let round_trip = &mut self.round_trip;
        let channel = find_open(&mut self.channels, recipient, message)?;
        // OpenSSH ignores data behind an EOF, and ends the connection for extended data there.
        let ignored = channel.remote == Half::Eof && ext.is_none();
        if channel.remote != Half::Open && !ignored {
            return Err(ConnectionError::DataAfterEof { channel: recipient });
        }
        if data.len() as u64 > u64::from(channel.receive.max_packet()) {
            let limit = channel.receive.max_packet();
            return Err(ConnectionError::PacketTooBig { channel: recipient, got: data.len(), limit });
        }
        if data.len() as u64 > channel.receive.left() {
            let window = channel.receive.left();
            return Err(ConnectionError::WindowExceeded { channel: recipient, got: data.len(), window });
        }
        channel.receive.on_data(data.len() as u64, now, round_trip);
        // Data in flight at the time of our CLOSE is dropped. It gets no credit, so its amount is limited.
        if channel.local != Half::Closed && !data.is_empty() && !ignored {
            self.events.push_back(Event::Data { id: ChannelId(recipient), ext, data });
        }
        Ok(())
    }

    fn on_adjust(&mut self, payload: &Bytes) -> Result<()> {
        let message = "window adjust";
        let adjust = decode::<msg::ChannelWindowAdjust<'_>>(payload, message)?;
        let channel = find_open(&mut self.channels, adjust.recipient, message)?;
        if !channel.send.adjust(adjust.bytes) {
            return Err(ConnectionError::AdjustOverflow { channel: adjust.recipient, bytes: adjust.bytes });
        }
        self.tell_writable(ChannelId(adjust.recipient));
        Ok(())
    }

    /// Reports the enlarged window to an owner that waits for it.
    fn tell_writable(&mut self, id: ChannelId) {
        let Some(channel) = self.get_mut(id) else { return };
        if channel.send.left > 0 && channel.send.blocked && channel.can_send() {
            channel.send.blocked = false;
            self.events.push_back(Event::Writable { id });
        }
    }

    fn on_open(&mut self, payload: &Bytes, sink: &mut dyn PacketSink) -> Result<()> {
        let open = decode::<msg::ChannelOpen<'_>>(payload, "channel open")?;
        let send = self.send_window(open.window, open.max_packet)?;
        // The actual window is set when the owner accepts.
        let mut channel =
            Channel::new(Phase::Asked, ReceiveWindow::new(crate::WindowPolicy::fixed(1), open.max_packet));
        channel.remote_id = open.sender;
        channel.send = send;
        let Some(id) = self.allocate_for_peer(channel) else {
            let failure = msg::ChannelOpenFailure::new(
                open.sender,
                msg::open_failure::RESOURCE_SHORTAGE,
                b"too many channels",
                b"",
            );
            sink.payload(&failure.to_payload());
            return Ok(());
        };
        let kind = text(open.kind);
        self.events.push_back(Event::OpenRequested { id, kind, fields: tail(payload, open.fields.0.len()) });
        Ok(())
    }

    fn on_confirmation(&mut self, payload: &Bytes, sink: &mut dyn PacketSink) -> Result<()> {
        let message = "open confirmation";
        let confirmation = decode::<msg::ChannelOpenConfirmation<'_>>(payload, message)?;
        let send = self.send_window(confirmation.window, confirmation.max_packet)?;
        let id = ChannelId(confirmation.recipient);
        let channel = find(&mut self.channels, id.0, message)?;
        if channel.unconfirmed {
            confirm(channel, id, confirmation.sender, send)?;
            self.tell_writable(id);
            return Ok(());
        }
        let Phase::Opening { abandoned } = channel.phase else {
            let when = "for a channel that is not being opened";
            return Err(ConnectionError::Unexpected { channel: id.0, message, when });
        };
        channel.phase = Phase::Open;
        channel.remote_id = confirmation.sender;
        channel.send = send;
        if abandoned {
            self.close(id, sink);
        } else {
            let fields = tail(payload, confirmation.fields.0.len());
            self.events.push_back(Event::Opened { id, fields });
        }
        Ok(())
    }

    fn on_open_failure(&mut self, payload: &Bytes) -> Result<()> {
        let message = "open failure";
        let failure = decode::<msg::ChannelOpenFailure<'_>>(payload, message)?;
        let channel = find(&mut self.channels, failure.recipient, message)?;
        let phase = match channel.phase {
            Phase::Open if channel.unconfirmed => Phase::Opening { abandoned: channel.local == Half::Closed },
            phase => phase,
        };
        let Phase::Opening { abandoned } = phase else {
            let when = "for a channel that is not being opened";
            return Err(ConnectionError::Unexpected { channel: failure.recipient, message, when });
        };
        channel.phase = Phase::Gone;
        let id = ChannelId(failure.recipient);
        // An owner that abandoned the channel gets `Closed`, regardless of the peer's answer.
        self.events.push_back(if abandoned {
            Event::Closed { id }
        } else {
            Event::OpenFailed { id, reason: failure.reason, description: text(failure.description) }
        });
        Ok(())
    }

    fn on_eof(&mut self, payload: &Bytes) -> Result<()> {
        let message = "channel EOF";
        let recipient = decode::<msg::ChannelEof<'_>>(payload, message)?.recipient;
        let channel = find_open(&mut self.channels, recipient, message)?;
        // A second EOF has no effect; OpenSSH accepts it too.
        if channel.remote == Half::Open {
            channel.remote = Half::Eof;
            if channel.local != Half::Closed {
                self.events.push_back(Event::Eof { id: ChannelId(recipient) });
            }
        }
        Ok(())
    }

    fn on_close(&mut self, payload: &Bytes, sink: &mut dyn PacketSink) -> Result<()> {
        let message = "channel close";
        let recipient = decode::<msg::ChannelClose<'_>>(payload, message)?.recipient;
        let channel = find_open(&mut self.channels, recipient, message)?;
        channel.remote = Half::Closed;
        if channel.local != Half::Closed {
            channel.local = Half::Closed;
            sink.payload(&msg::ChannelClose::new(channel.remote_id).to_payload());
        }
        channel.phase = Phase::Gone;
        self.late.on_closed();
        self.events.push_back(Event::Closed { id: ChannelId(recipient) });
        Ok(())
    }

    fn on_request(&mut self, payload: &Bytes) -> Result<()> {
        let message = "channel request";
        let request = decode::<msg::ChannelRequest<'_>>(payload, message)?;
        let limit = self.config.max_unanswered;
        let channel = find_open(&mut self.channels, request.recipient, message)?;
        if channel.local == Half::Closed {
            // Nothing may follow our CLOSE, not even the answer.
            return Ok(());
        }
        if request.want_reply {
            if channel.unanswered >= limit {
                return Err(ConnectionError::TooManyRequests { limit });
            }
            channel.unanswered += 1;
        }
        self.events.push_back(Event::Request {
            id: ChannelId(request.recipient),
            name: text(request.name),
            want_reply: request.want_reply,
            fields: tail(payload, request.fields.0.len()),
        });
        Ok(())
    }

    fn on_reply(&mut self, recipient: u32, ok: bool, message: &'static str) -> Result<()> {
        let channel = find_open(&mut self.channels, recipient, message)?;
        // An unexpected answer is ignored, as in OpenSSH: some peers answer requests that wanted no reply.
        if let Some(name) = channel.asked.pop_front()
            && channel.local != Half::Closed
        {
            self.events.push_back(Event::RequestReply { id: ChannelId(recipient), name, ok });
        }
        Ok(())
    }

    fn on_global_request(&mut self, payload: &Bytes) -> Result<()> {
        let request = decode::<msg::GlobalRequest<'_>>(payload, "global request")?;
        if request.want_reply {
            let limit = self.config.max_unanswered;
            if self.unanswered >= limit {
                return Err(ConnectionError::TooManyRequests { limit });
            }
            self.unanswered += 1;
        }
        self.events.push_back(Event::GlobalRequest {
            name: text(request.name),
            want_reply: request.want_reply,
            fields: tail(payload, request.fields.0.len()),
        });
        Ok(())
    }

    fn on_global_reply(&mut self, ok: bool, fields: Bytes) {
        if let Some(name) = self.asked.pop_front() {
            self.events.push_back(Event::GlobalReply { name, ok, fields });
        }
    }

    fn send_window(&self, window: u32, max_packet: u32) -> Result<SendWindow> {
        if max_packet == 0 {
            return Err(ConnectionError::ZeroMaxPacket);
        }
        let meant = if max_packet > TRANSPORT_MAX { STOCK_CHANNEL_PACKET } else { max_packet };
        let max_packet = meant.min(self.config.max_send_packet.max(1)) as usize;
        Ok(SendWindow { left: u64::from(window), max_packet, sent: 0, blocked: false })
    }
}

/// Returns a channel that the peer may name in any message.
fn find<'a>(channels: &'a mut [Option<Channel>], id: u32, message: &'static str) -> Result<&'a mut Channel> {
    channels
        .get_mut(id as usize)
        .and_then(Option::as_mut)
        .filter(|channel| channel.phase != Phase::Gone)
        .ok_or(ConnectionError::NoChannel { message, channel: id })
}

/// Returns a channel that is open on both sides.
fn find_open<'a>(
    channels: &'a mut [Option<Channel>],
    id: u32,
    message: &'static str,
) -> Result<&'a mut Channel> {
    let channel = find(channels, id, message)?;
    if channel.phase != Phase::Open {
        return Err(ConnectionError::NotYetOpen { channel: id, message });
    }
    Ok(channel)
}

fn malformed(message: &'static str, source: lh_wire::WireError) -> ConnectionError {
    ConnectionError::Malformed { message, source }
}

fn decode<'a, M: Message<'a>>(payload: &'a [u8], message: &'static str) -> Result<M> {
    M::decode(payload).map_err(|source| malformed(message, source))
}

/// Returns the recipient and the length of the data at the end of the payload, without decoding the message
/// struct.
fn read_data(payload: &[u8]) -> lh_wire::Result<(u32, usize)> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let recipient = reader.u32()?;
    let length = reader.string()?.len();
    reader.finish()?;
    Ok((recipient, length))
}

/// Returns the last `length` bytes, as a slice of the same buffer.
fn tail(payload: &Bytes, length: usize) -> Bytes {
    payload.slice(payload.len().saturating_sub(length)..)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
