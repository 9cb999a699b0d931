//! Packets and their encryption, without regard to their meaning.

use lh_crypto::{PacketIndex, PacketKey};
use lh_wire::Writer;

/// Longest packet of an honest peer, in bytes.
const LONGEST: usize = 256 << 10;

/// Transport of the bytes.
pub trait Wire {
    /// Sends all bytes. An error is reported when the next bytes are received.
    fn send(&mut self, bytes: &[u8]);
    /// Appends the bytes that have arrived. [`Received::Bytes`] means at least one.
    fn receive(&mut self, out: &mut Vec<u8>) -> Received;
}

/// Result of waiting for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// At least one byte has arrived.
    Bytes,
    /// The other end has closed the connection.
    Closed,
    /// Nothing arrives.
    Silent,
}

/// A payload of a message number and strings.
pub fn message(number: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut payload = vec![number];
    fields.iter().for_each(|field| payload.put_string(field));
    payload
}

/// Reason why nothing more can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// SSH_MSG_DISCONNECT with this reason.
    Disconnected(u32),
    /// The connection was closed without SSH_MSG_DISCONNECT.
    Closed,
    /// The server sent nothing for the whole wait.
    Silent,
    /// A packet that cannot be decrypted.
    Garbage,
}

/// Key and sequence number of one direction.
struct Stream {
    key: PacketKey,
    index: PacketIndex,
}

impl Stream {
    fn new() -> Self {
        Self { key: PacketKey::plain(), index: PacketIndex::default() }
    }

    fn switch(&mut self, key: PacketKey, strict: bool) {
        let seq = if strict { 0 } else { self.index.seq };
        *self = Self { key, index: PacketIndex { seq, ..PacketIndex::default() } };
    }

    fn advance(&mut self, total: usize) {
        self.index.offset += self.key.encrypted_len(total);
        self.index.seq = self.index.seq.wrapping_add(1);
        self.index.invocation += 1;
    }
}

/// One end of a connection.
pub struct Packets<W> {
    wire: W,
    incoming: Vec<u8>,
    sending: Stream,
    receiving: Stream,
}

impl<W: Wire> Packets<W> {
    /// Creates an end that has sent nothing and has no keys.
    pub fn new(wire: W) -> Self {
        Self { wire, incoming: Vec::new(), sending: Stream::new(), receiving: Stream::new() }
    }

    /// The wire.
    pub const fn wire(&mut self) -> &mut W {
        &mut self.wire
    }

    /// Sends with this key from now on.
    pub fn seal_with(&mut self, key: PacketKey, strict: bool) {
        self.sending.switch(key, strict);
    }

    /// Receives with this key from now on.
    pub fn open_with(&mut self, key: PacketKey, strict: bool) {
        self.receiving.switch(key, strict);
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.wire.send(bytes);
    }

    /// Sends one packet under the current keys.
    pub fn packet(&mut self, payload: &[u8]) {
        let packet = self.sealed(payload);
        self.wire.send(&packet);
    }

    /// Returns one packet under the current keys, for the caller to send.
    pub fn sealed(&mut self, payload: &[u8]) -> Vec<u8> {
        let key = &self.sending.key;
        let covered = 1 + payload.len() + if key.length_is_padded() { 4 } else { 0 };
        let mut padding = key.block_len() - covered % key.block_len();
        if padding < 4 {
            padding += key.block_len();
        }
        let mut packet = Vec::with_capacity(payload.len() + padding + 5 + key.tag_len());
        packet.put_u32(u32::try_from(1 + payload.len() + padding).unwrap_or(u32::MAX));
        packet.put_u8(u8::try_from(padding).unwrap_or(u8::MAX));
        packet.put_bytes(payload);
        packet.resize(packet.len() + padding, 0);
        let total = packet.len();
        packet.resize(total + key.tag_len(), 0);
        key.seal(&self.sending.index, &mut packet).expect("a packet of the right shape");
        self.sending.advance(total);
        packet
    }

    fn fill(&mut self, len: usize) -> Result<(), End> {
        while self.incoming.len() < len {
            match self.wire.receive(&mut self.incoming) {
                Received::Bytes => {}
                Received::Closed => return Err(End::Closed),
                Received::Silent => return Err(End::Silent),
            }
        }
        Ok(())
    }

    /// Returns the next packet of the peer.
    ///
    /// # Errors
    /// The connection is closed, or nothing arrives in time.
    pub fn receive(&mut self) -> Result<Vec<u8>, End> {
        self.fill(self.receiving.key.head_len())?;
        let stream = &self.receiving;
        let length = stream.key.packet_length(&stream.index, &self.incoming) as usize;
        if length == 0 || length > LONGEST {
            return Err(End::Garbage);
        }
        let (total, whole) = (4 + length, 4 + length + stream.key.tag_len());
        self.fill(whole)?;
        let mut packet: Vec<u8> = self.incoming.drain(..whole).collect();
        let stream = &mut self.receiving;
        stream.key.open(&stream.index, &mut packet).map_err(|_| End::Garbage)?;
        stream.advance(total);
        let padding = usize::from(packet[4]);
        let end = total.checked_sub(padding).filter(|&end| end > 5).ok_or(End::Garbage)?;
        let payload = packet[5..end].to_vec();
        if payload[0] == 1 {
            let reason = payload.get(1..5).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
            return Err(End::Disconnected(reason.unwrap_or(0)));
        }
        Ok(payload)
    }

    /// Returns the next line, without its end.
    ///
    /// # Errors
    /// No line arrives.
    pub fn line(&mut self) -> Result<Vec<u8>, End> {
        loop {
            if let Some(end) = self.incoming.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.incoming.drain(..=end).collect();
                return Ok(line.trim_ascii_end().to_vec());
            }
            self.fill(self.incoming.len() + 1)?;
        }
    }
}
