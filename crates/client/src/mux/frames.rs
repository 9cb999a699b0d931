//! Framing between a master and its client in proxy mode: the length, a padding length of 0, the message.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use lh_config::forward::{Endpoint, Forward};
use lh_wire::msg::{self, Rest};
use lh_wire::{Message as _, Reader, WireError};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Longest message, bytes: the limit of OpenSSH's transport.
const MESSAGE_MAX: usize = 256 << 10;
/// Upper bound of the bytes that wait for a client. It is larger than any window, so the client has stopped
/// reading.
const QUEUE_MAX: usize = 1 << 30;
/// Bytes before a message.
const HEADER: usize = 5;
/// Number of slices per write call.
const SLICES_MAX: usize = 64;

/// Returns the first message in `input` and its framed length; `None` if it is incomplete.
pub(super) fn next(input: &[u8]) -> Result<Option<(&[u8], usize)>, &'static str> {
    let Some((head, rest)) = input.split_first_chunk::<HEADER>() else { return Ok(None) };
    let [length @ .., padding] = head;
    let length = u32::from_be_bytes(*length) as usize;
    if *padding != 0 || !(2..=MESSAGE_MAX).contains(&length) {
        return Err("something that is no message");
    }
    Ok(rest.get(..length - 1).map(|message| (message, length + 4)))
}

/// Checks all fields of a message about an open channel; returns its recipient and the length of its data.
pub(super) fn check(message: &[u8]) -> lh_wire::Result<(u32, Option<usize>)> {
    Ok(match message.first().copied().unwrap_or(0) {
        msg::ChannelData::NUMBER => {
            let data = msg::ChannelData::decode(message)?;
            (data.recipient, Some(data.data.len()))
        }
        msg::ChannelExtendedData::NUMBER => {
            let data = msg::ChannelExtendedData::decode(message)?;
            (data.recipient, Some(data.data.len()))
        }
        msg::ChannelWindowAdjust::NUMBER => (msg::ChannelWindowAdjust::decode(message)?.recipient, None),
        msg::ChannelEof::NUMBER => (msg::ChannelEof::decode(message)?.recipient, None),
        msg::ChannelClose::NUMBER => (msg::ChannelClose::decode(message)?.recipient, None),
        msg::ChannelRequest::NUMBER => (msg::ChannelRequest::decode(message)?.recipient, None),
        msg::ChannelSuccess::NUMBER => (msg::ChannelSuccess::decode(message)?.recipient, None),
        msg::ChannelFailure::NUMBER => (msg::ChannelFailure::decode(message)?.recipient, None),
        _ => return Err(WireError::Invalid { what: "message number" }),
    })
}

/// Returns the listener that a global request is about, and true if it is a cancellation. `None`: another
/// request.
pub(super) fn listener(name: &[u8], fields: &[u8]) -> lh_wire::Result<Option<(Forward, bool)>> {
    let mut reader = Reader::new(fields);
    let (cancel, tcp) = match name {
        b"tcpip-forward" => (false, true),
        b"cancel-tcpip-forward" => (true, true),
        b"streamlocal-forward@openssh.com" => (false, false),
        b"cancel-streamlocal-forward@openssh.com" => (true, false),
        _ => return Ok(None),
    };
    let address = String::from_utf8_lossy(reader.string()?).into_owned();
    let listen = if tcp {
        let port = u16::try_from(reader.u32()?).map_err(|_| WireError::Invalid { what: "port" })?;
        // `*` is sent as an empty address.
        Endpoint::Tcp { host: Some(if address.is_empty() { "*".to_owned() } else { address }), port }
    } else {
        Endpoint::Unix(address)
    };
    reader.finish()?;
    Ok(Some((Forward { listen, connect: None }, cancel)))
}

/// Returns the reply to a global request: success, with the port of a listener (0 for none), or failure.
///
/// OpenSSH's clients accept no message shorter than four bytes (its masters never reply), so neither reply is
/// shorter; the clients ignore the rest.
pub(super) fn answer(port: Option<u16>) -> Vec<u8> {
    match port {
        Some(port) => msg::RequestSuccess::new(Rest(&u32::from(port).to_be_bytes())).to_payload(),
        None => [&msg::RequestFailure::new().to_payload()[..], &[0; 4]].concat(),
    }
}

/// Messages that wait for a client.
#[derive(Default)]
pub(super) struct Queue {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// The socket buffer is full: further messages may wait for long.
    stuck: bool,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Queues a message unchanged.
    pub(super) fn push(&mut self, message: Bytes) {
        self.put(head(message.len()).into(), message);
    }

    /// Queues a server message with the client's number for the channel.
    pub(super) fn push_for(&mut self, client: u32, message: &Bytes) {
        let mut front = head(message.len());
        front.extend(message.first());
        front.extend(client.to_be_bytes());
        self.put(front.into(), message.slice(5.min(message.len())..));
    }

    fn put(&mut self, front: Bytes, rest: Bytes) {
        self.bytes += front.len() + rest.len();
        // A slice keeps its whole receive buffer alive.
        let rest = if self.stuck { Bytes::copy_from_slice(&rest) } else { rest };
        self.pieces.extend([front, rest].into_iter().filter(|piece| !piece.is_empty()));
    }

    /// Writes as much as fits; returns true if something is left.
    pub(super) fn flush(&mut self, socket: &UnixStream) -> Result<bool, Errno> {
        while !self.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(piece);
                count += 1;
            }
            let flags = SendFlags::DONTWAIT | lh_sys::socket::NO_SIGNAL;
            match sendmsg(socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => self.advance(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.bytes <= QUEUE_MAX => {
                    self.stuck = true;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        self.stuck = false;
        Ok(false)
    }

    fn advance(&mut self, mut sent: usize) {
        self.bytes -= sent;
        while let Some(first) = self.pieces.front_mut() {
            if sent < first.len() {
                bytes::Buf::advance(first, sent);
                return;
            }
            sent -= first.len();
            self.pieces.pop_front();
        }
    }
}

/// Returns the bytes before a message: length and padding.
fn head(message: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(2 * HEADER);
    head.extend(u32::try_from(message + 1).unwrap_or(u32::MAX).to_be_bytes());
    head.push(0);
    head
}

/// Cuts bytes of a proxy client into messages, and checks each.
#[cfg(fuzzing)]
pub(super) fn fuzz(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((message, length))) = next(rest) {
        assert_eq!(length, message.len() + HEADER, "a message is what follows its header");
        if let Ok((_, Some(data))) = check(message) {
            assert!(data < message.len(), "more data than bytes");
        }
        rest = &rest[length..];
    }
    for name in [&b"tcpip-forward"[..], b"cancel-streamlocal-forward@openssh.com"] {
        let _ = listener(name, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_keep_content_and_order() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut queue = Queue::default();
        queue.push(Bytes::from_static(&[81]));
        queue.push_for(7, &Bytes::from_static(&[96, 0, 0, 0, 1]));
        assert_eq!(queue.flush(&ours), Ok(false));
        drop(ours);
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).unwrap();
        let (first, length) = next(&got).unwrap().unwrap();
        assert_eq!(first, [81]);
        assert_eq!(next(&got[length..]).unwrap().unwrap(), (&[96, 0, 0, 0, 7][..], 10));
        assert_eq!(next(&got[..length - 1]), Ok(None));
        assert!(next(&[0, 0, 0, 5, 4, 1, 1, 1, 1]).is_err(), "padding");
        assert!(next(&[0, 0, 0, 1, 0]).is_err(), "nothing in it");
        assert!(next(&[0, 16, 0, 0, 0]).is_err(), "too long");
    }

    #[test]
    fn client_that_does_not_read_delays_only_itself() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut queue = Queue::default();
        let block = Bytes::from(vec![5; 100_000]);
        while queue.flush(&ours) == Ok(false) {
            queue.push(block.clone());
        }
        assert!(queue.bytes > 0);
        queue.push(block);
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).map(|_| got.len())
        });
        while queue.flush(&ours) == Ok(true) {
            std::thread::yield_now();
        }
        drop(ours);
        assert_eq!(reader.join().unwrap().unwrap() % 100_005, 0);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(input in proptest::collection::vec(any::<u8>(), 0..80), number in 80u8..110) {
            let _ = next(&input);
            let mut message = vec![number];
            message.extend(&input);
            let _ = check(&message);
            for name in [&b"tcpip-forward"[..], b"cancel-streamlocal-forward@openssh.com", b"x"] {
                let _ = listener(name, &input);
            }
        }
    }
}
