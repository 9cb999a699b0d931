//! An SSH client that does what it is told, right or wrong, at any point of a connection.
//!
//! It shares the cryptography with Longhaul and nothing else: the order of messages, sequence numbers and keys are its own, so that a
//! mistake of the transport crate does not hide itself.

use lh_crypto::{
    Cipher, Direction, EphemeralKey, Hash, KexAlgorithm, PacketIndex, PacketKey, PrivateKey, derive_key,
};
use lh_wire::{Reader, Writer};

/// The identification line of this client, without its end.
const IDENT: &[u8] = b"SSH-2.0-LonghaulCampaign";
const CIPHER: &str = "chacha20-poly1305@openssh.com";
const KEX: KexAlgorithm = KexAlgorithm::Curve25519Sha256;
const STRICT_CLIENT: &str = "kex-strict-c-v00@openssh.com";
const STRICT_SERVER: &str = "kex-strict-s-v00@openssh.com";
/// No honest packet of a server is longer.
const LONGEST: usize = 256 << 10;

/// What carries the bytes.
pub trait Wire {
    /// Sends all bytes. An error shows when the next bytes are received.
    fn send(&mut self, bytes: &[u8]);
    /// Appends what has come, at least one byte where the result says so.
    fn receive(&mut self, out: &mut Vec<u8>) -> Received;
}

/// What came of waiting for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// At least one byte.
    Bytes,
    /// The other end has closed the connection.
    Closed,
    /// Nothing comes.
    Silent,
}

/// Why nothing more can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// SSH_MSG_DISCONNECT with this reason.
    Disconnected(u32),
    /// The connection is closed without one.
    Closed,
    /// The server waits.
    Silent,
    /// A packet that cannot be opened.
    Garbage,
}

/// One direction's key and place.
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

/// An exchange that has begun.
struct Exchange {
    ours: Vec<u8>,
    theirs: Vec<u8>,
    key: Option<EphemeralKey>,
    /// Keys of both directions, once the server has answered.
    keys: Option<(PacketKey, PacketKey)>,
}

/// The client.
pub struct Client<W> {
    wire: W,
    incoming: Vec<u8>,
    sending: Stream,
    receiving: Stream,
    /// Announce strict key exchange.
    announce_strict: bool,
    /// Both sides have announced it.
    strict: bool,
    their_ident: Vec<u8>,
    session: Option<Vec<u8>>,
    exchange: Option<Exchange>,
}

impl<W: Wire> Client<W> {
    /// A client that has said nothing yet.
    pub fn new(wire: W, announce_strict: bool) -> Self {
        Self {
            wire,
            incoming: Vec::new(),
            sending: Stream::new(),
            receiving: Stream::new(),
            announce_strict,
            strict: false,
            their_ident: Vec::new(),
            session: None,
            exchange: None,
        }
    }

    /// The session identifier, after the first exchange.
    pub fn session(&self) -> &[u8] {
        self.session.as_deref().unwrap_or_default()
    }

    /// The wire, to look at.
    pub const fn wire(&mut self) -> &mut W {
        &mut self.wire
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.wire.send(bytes);
    }

    /// Sends one packet under the keys of the moment.
    pub fn packet(&mut self, payload: &[u8]) {
        let packet = self.sealed(payload);
        self.wire.send(&packet);
    }

    /// One packet under the keys of the moment, to be sent by the caller.
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

    /// The next packet of the server, whatever it is.
    ///
    /// # Errors
    /// The connection is over, or nothing comes.
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

    /// Exchanges identification lines.
    ///
    /// # Errors
    /// There is none.
    pub fn identify(&mut self) -> Result<(), End> {
        self.wire.send(&[IDENT, b"\r\n"].concat());
        loop {
            if let Some(end) = self.incoming.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.incoming.drain(..=end).collect();
                self.their_ident = line.trim_ascii_end().to_vec();
                return Ok(());
            }
            self.fill(self.incoming.len() + 1)?;
        }
    }

    /// Sends KEXINIT. A later call sends another one and begins anew.
    pub fn send_kexinit(&mut self) {
        let mut names = vec![KEX.name()];
        if self.session.is_none() && self.announce_strict {
            names.push(STRICT_CLIENT);
        }
        let ours = kexinit(&names);
        self.packet(&ours);
        self.exchange = Some(Exchange { ours, theirs: Vec::new(), key: None, keys: None });
    }

    /// Takes the server's KEXINIT.
    pub fn on_kexinit(&mut self, payload: &[u8]) {
        let strict = payload.windows(STRICT_SERVER.len()).any(|window| window == STRICT_SERVER.as_bytes());
        if self.session.is_none() {
            self.strict = strict && self.announce_strict;
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.theirs = payload.to_vec();
        }
    }

    /// Sends our public value.
    pub fn send_public(&mut self) {
        let key = EphemeralKey::generate(KEX).expect("a key");
        let mut init = vec![30];
        init.put_string(key.public());
        self.packet(&init);
        if let Some(exchange) = &mut self.exchange {
            exchange.key = Some(key);
        }
    }

    /// Takes the server's public value. Its signature is not looked at: this client believes every server.
    ///
    /// # Errors
    /// The message cannot be read.
    pub fn on_reply(&mut self, payload: &[u8]) -> Result<(), End> {
        let Some(exchange) = &mut self.exchange else { return Err(End::Garbage) };
        let Some(key) = exchange.key.take() else { return Err(End::Garbage) };
        let mut reader = Reader::new(payload.get(1..).unwrap_or_default());
        let (Ok(host_key), Ok(theirs)) = (reader.string(), reader.string()) else { return Err(End::Garbage) };
        let public = key.public().to_vec();
        let secret = key.agree(theirs).map_err(|_| End::Garbage)?;
        let mut hashed = Vec::new();
        for field in [IDENT, &self.their_ident, &exchange.ours, &exchange.theirs, host_key, &public, theirs] {
            hashed.put_string(field);
        }
        hashed.put_bytes(secret.encoded());
        let hash = Hash::Sha256.digest(&[&hashed]);
        let session = self.session.get_or_insert_with(|| hash.as_ref().to_vec());
        let cipher = Cipher::by_name(CIPHER).expect("a cipher");
        let derive = |letter| {
            derive_key(Hash::Sha256, secret.encoded(), hash.as_ref(), letter, session, cipher.key_len)
        };
        let packet_key = |direction, letter| {
            PacketKey::new(direction, cipher, None, &derive(letter), &[], &[])
                .expect("keys of the right length")
        };
        exchange.keys = Some((packet_key(Direction::Seal, b'C'), packet_key(Direction::Open, b'D')));
        Ok(())
    }

    /// Sends NEWKEYS and uses the new keys from then on, where there are any.
    pub fn send_newkeys(&mut self) {
        self.packet(&[21]);
        let strict = self.strict;
        if let Some((seal, open)) = self.exchange.as_mut().and_then(|exchange| exchange.keys.take()) {
            self.sending.switch(seal, strict);
            if let Some(exchange) = &mut self.exchange {
                exchange.keys = Some((PacketKey::plain(), open));
            }
        }
    }

    /// Takes the server's NEWKEYS.
    pub fn on_newkeys(&mut self) {
        let strict = self.strict;
        if let Some((_, open)) = self.exchange.take().and_then(|exchange| exchange.keys) {
            self.receiving.switch(open, strict);
        }
    }

    /// A request to log in as `user` with a key, signed for this session.
    pub fn signed_request(&self, user: &str, key: &PrivateKey) -> Vec<u8> {
        const ALGORITHM: &str = "ssh-ed25519";
        let mut request = vec![50];
        for field in [user.as_bytes(), b"ssh-connection", b"publickey"] {
            request.put_string(field);
        }
        request.put_bool(true);
        request.put_string(ALGORITHM.as_bytes());
        request.put_string(key.public().blob());
        let mut data = Vec::new();
        data.put_string(self.session());
        data.put_bytes(&request);
        let signature = key.sign(ALGORITHM, &data).expect("a signature");
        request.put_string(&signature);
        request
    }
}

/// A KEXINIT with these methods, one cipher, and every host key algorithm that the servers have.
pub fn kexinit(methods: &[&str]) -> Vec<u8> {
    let host_keys = ["ssh-ed25519", "rsa-sha2-512", "ecdsa-sha2-nistp256"];
    let mut payload = vec![20];
    payload.put_bytes(&[7; 16]);
    payload.put_name_list(methods.iter().copied());
    payload.put_name_list(host_keys);
    for list in
        [&[CIPHER][..], &[CIPHER], &["hmac-sha2-256"], &["hmac-sha2-256"], &["none"], &["none"], &[], &[]]
    {
        payload.put_name_list(list.iter().copied());
    }
    payload.put_bool(false);
    payload.put_u32(0);
    payload
}
