//! A scripted peer that sends correct or incorrect data before any keys are in use.

use lh_wire::{Reader, Writer};

/// Returns a payload as an unencrypted packet (RFC 4253 section 6) with zero padding.
pub fn plain_packet(payload: &[u8]) -> Vec<u8> {
    let mut padding = 8 - (payload.len() + 5) % 8;
    if padding < 4 {
        padding += 8;
    }
    let mut packet = Vec::with_capacity(payload.len() + padding + 5);
    packet.put_u32((payload.len() + padding + 1) as u32);
    packet.put_u8(padding as u8);
    packet.put_bytes(payload);
    packet.resize(packet.len() + padding, 0);
    packet
}

/// Returns a KEXINIT payload with a zero cookie and these offers, equal in both directions.
pub fn kexinit(
    kex: &[&str],
    host_key: &[&str],
    cipher: &[&str],
    mac: &[&str],
    compression: &[&str],
) -> Vec<u8> {
    let mut payload = vec![20];
    payload.put_bytes(&[0; 16]);
    for names in [kex, host_key, cipher, cipher, mac, mac, compression, compression, &[], &[]] {
        payload.put_name_list(names.iter().copied());
    }
    payload.put_bool(false);
    payload.put_u32(0);
    payload
}

/// A peer whose only state is the data sent and received.
#[derive(Debug, Default)]
pub struct ScriptedPeer {
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    identification: Option<String>,
}

impl ScriptedPeer {
    /// Creates a peer that has sent its identification, `line` without line ending.
    pub fn new(line: &str) -> Self {
        let mut peer = Self::default();
        peer.say(line.as_bytes());
        peer.say(b"\r\n");
        peer
    }

    /// Sends these bytes.
    pub fn say(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Sends a packet.
    pub fn packet(&mut self, payload: &[u8]) {
        self.say(&plain_packet(payload));
    }

    /// Takes the bytes to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Receives bytes.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.incoming.extend_from_slice(bytes);
    }

    /// Returns the other side's identification line, once it is complete.
    pub fn identification(&mut self) -> Option<&str> {
        if self.identification.is_none() {
            let end = self.incoming.iter().position(|&byte| byte == b'\n')?;
            let line: Vec<u8> = self.incoming.drain(..=end).collect();
            self.identification = Some(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        self.identification.as_deref()
    }

    /// Returns the next received payload, if a whole unencrypted packet is available.
    pub fn next_payload(&mut self) -> Option<Vec<u8>> {
        self.identification()?;
        let mut reader = Reader::new(&self.incoming);
        let length = reader.u32().ok()? as usize;
        let body = reader.bytes(length).ok()?;
        let (padding, rest) = body.split_first()?;
        let payload = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?.to_vec();
        self.incoming.drain(..4 + length);
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_packets_are_received() {
        let mut peer = ScriptedPeer::new("SSH-2.0-liar");
        for size in 1..40 {
            peer.packet(&vec![size; usize::from(size)]);
        }
        let output = peer.take_output();
        peer.hear(&output);
        assert_eq!(peer.identification(), Some("SSH-2.0-liar"));
        for size in 1..40 {
            assert_eq!(peer.next_payload().unwrap(), vec![size; usize::from(size)]);
        }
        assert_eq!(peer.next_payload(), None);
    }
}
