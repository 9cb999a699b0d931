//! An SSH client that sends any message, valid or not, at any point of a connection.
//!
//! It shares only the cryptography with Longhaul. Order of messages, sequence numbers and keys are its own,
//! so that the tests do not repeat a mistake of the transport crate.

use lh_crypto::{EphemeralKey, KexAlgorithm, PacketKey, PrivateKey};
use lh_wire::{Reader, Writer};

use crate::exchange::{CIPHER, agreed};
use crate::packets::Packets;
pub use crate::packets::{End, Received, Wire};

/// The identification line of this client, without its end.
const IDENT: &[u8] = b"SSH-2.0-LonghaulCampaign";
pub(crate) const KEX: &str = "curve25519-sha256";
const STRICT_CLIENT: &str = "kex-strict-c-v00@openssh.com";
pub(crate) const STRICT_SERVER: &str = "kex-strict-s-v00@openssh.com";

/// Returns the method named [`KEX`].
pub(crate) fn kex() -> KexAlgorithm {
    KexAlgorithm::by_name(KEX).expect("a known method")
}

/// A key exchange in progress.
struct Exchange {
    ours: Vec<u8>,
    theirs: Vec<u8>,
    key: Option<EphemeralKey>,
    /// Keys of both directions, once the server has answered.
    keys: Option<(PacketKey, PacketKey)>,
}

/// The client.
pub struct Client<W> {
    packets: Packets<W>,
    /// Announces strict key exchange.
    announce_strict: bool,
    /// Both sides have announced it.
    strict: bool,
    their_ident: Vec<u8>,
    session: Option<Vec<u8>>,
    exchange: Option<Exchange>,
}

impl<W: Wire> Client<W> {
    /// Returns a client that has sent nothing yet.
    pub fn new(wire: W, announce_strict: bool) -> Self {
        Self {
            packets: Packets::new(wire),
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

    /// The wire.
    pub const fn wire(&mut self) -> &mut W {
        self.packets.wire()
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.packets.raw(bytes);
    }

    /// Sends one packet under the current keys.
    pub fn packet(&mut self, payload: &[u8]) {
        self.packets.packet(payload);
    }

    /// Returns one packet under the current keys, for the caller to send.
    pub fn sealed(&mut self, payload: &[u8]) -> Vec<u8> {
        self.packets.sealed(payload)
    }

    /// Returns the next packet of the server.
    ///
    /// # Errors
    /// The connection is closed, or nothing arrives in time.
    pub fn receive(&mut self) -> Result<Vec<u8>, End> {
        self.packets.receive()
    }

    /// Exchanges identification lines.
    ///
    /// # Errors
    /// No line arrives.
    pub fn identify(&mut self) -> Result<(), End> {
        self.packets.raw(&[IDENT, b"\r\n"].concat());
        self.their_ident = self.packets.line()?;
        Ok(())
    }

    /// Sends KEXINIT. A later call sends another one and starts a new exchange.
    pub fn send_kexinit(&mut self) {
        let mut names = vec![KEX];
        if self.session.is_none() && self.announce_strict {
            names.push(STRICT_CLIENT);
        }
        let ours = kexinit(&names);
        self.packet(&ours);
        self.exchange = Some(Exchange { ours, theirs: Vec::new(), key: None, keys: None });
    }

    /// Handles the server's KEXINIT.
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
        let key = EphemeralKey::generate(kex()).expect("a key");
        let mut init = vec![30];
        init.put_string(key.public());
        self.packet(&init);
        if let Some(exchange) = &mut self.exchange {
            exchange.key = Some(key);
        }
    }

    /// Handles the server's public value. The signature is not checked: this client accepts every server.
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
        let fields = [IDENT, &self.their_ident, &exchange.ours, &exchange.theirs, host_key, &public, theirs];
        let agreed = agreed(fields, &secret, &mut self.session, [b'C', b'D']);
        exchange.keys = Some((agreed.seal, agreed.open));
        Ok(())
    }

    /// Sends NEWKEYS and uses the new keys, if there are any, from then on.
    pub fn send_newkeys(&mut self) {
        self.packet(&[21]);
        let strict = self.strict;
        if let Some((seal, open)) = self.exchange.as_mut().and_then(|exchange| exchange.keys.take()) {
            self.packets.seal_with(seal, strict);
            if let Some(exchange) = &mut self.exchange {
                exchange.keys = Some((PacketKey::plain(), open));
            }
        }
    }

    /// Handles the server's NEWKEYS.
    pub fn on_newkeys(&mut self) {
        let strict = self.strict;
        if let Some((_, open)) = self.exchange.take().and_then(|exchange| exchange.keys) {
            self.packets.open_with(open, strict);
        }
    }

    /// Returns a USERAUTH_REQUEST of `user` with a public key, signed for this session (RFC 4252, section 7).
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
