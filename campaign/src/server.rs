//! An SSH server that sends any message, valid or not, at any point of a connection: the counterpart of
//! [`client`](crate::client), independent of the transport crate as well.

use lh_crypto::{PacketKey, PrivateKey, kex_respond};
use lh_wire::{Reader, Writer};

use crate::client::{KEX, STRICT_SERVER, kex, kexinit};
use crate::exchange::agreed;
use crate::packets::{End, Packets, Wire};

const IDENT: &[u8] = b"SSH-2.0-LonghaulCampaign";
const HOST_KEY: &str = "ssh-ed25519";

/// The server.
pub struct Server<'a, W> {
    packets: Packets<W>,
    key: &'a PrivateKey,
    strict: bool,
    their_ident: Vec<u8>,
    session: Option<Vec<u8>>,
    ours: Vec<u8>,
    theirs: Vec<u8>,
    keys: Option<(PacketKey, PacketKey)>,
}

impl<'a, W: Wire> Server<'a, W> {
    /// Returns a server that has sent nothing yet. It announces strict key exchange if `strict`.
    pub fn new(wire: W, key: &'a PrivateKey, strict: bool) -> Self {
        let packets = Packets::new(wire);
        let (their_ident, session, ours, theirs, keys) = (Vec::new(), None, Vec::new(), Vec::new(), None);
        Self { packets, key, strict, their_ident, session, ours, theirs, keys }
    }

    /// The wire.
    pub const fn wire(&mut self) -> &mut W {
        self.packets.wire()
    }

    /// Sends one packet under the current keys.
    pub fn packet(&mut self, payload: &[u8]) {
        self.packets.packet(payload);
    }

    /// Returns one packet under the current keys, for the caller to send.
    pub fn sealed(&mut self, payload: &[u8]) -> Vec<u8> {
        self.packets.sealed(payload)
    }

    /// Returns the next packet of the client.
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

    /// Sends KEXINIT.
    pub fn send_kexinit(&mut self) {
        let mut names = vec![KEX];
        if self.session.is_none() && self.strict {
            names.push(STRICT_SERVER);
        }
        self.ours = kexinit(&names);
        let ours = self.ours.clone();
        self.packet(&ours);
    }

    /// Handles the client's KEXINIT.
    pub fn on_kexinit(&mut self, payload: &[u8]) {
        self.theirs = payload.to_vec();
    }

    /// Handles the client's public value and sends ours, signed.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn on_public(&mut self, payload: &[u8]) -> Result<(), End> {
        let method = kex();
        let mut reader = Reader::new(payload.get(1..).unwrap_or_default());
        let theirs = reader.string().map_err(|_| End::Garbage)?;
        let (public, secret) = kex_respond(method, theirs).map_err(|_| End::Garbage)?;
        let blob = self.key.public().blob();
        let fields = [&self.their_ident, IDENT, &self.theirs, &self.ours, blob, theirs, &public];
        let agreed = agreed(fields, &secret, &mut self.session, [b'D', b'C']);
        self.keys = Some((agreed.seal, agreed.open));
        let mut reply = vec![31];
        reply.put_string(blob);
        reply.put_string(&public);
        reply.put_string(&self.key.sign(HOST_KEY, &agreed.hash).expect("a signature"));
        self.packet(&reply);
        Ok(())
    }

    /// Sends NEWKEYS and uses the new keys from then on.
    pub fn send_newkeys(&mut self) {
        self.packet(&[21]);
        if let Some((seal, open)) = self.keys.take() {
            self.packets.seal_with(seal, self.strict);
            self.keys = Some((PacketKey::plain(), open));
        }
    }

    /// Handles the client's NEWKEYS.
    pub fn on_newkeys(&mut self) {
        if let Some((_, open)) = self.keys.take() {
            self.packets.open_with(open, self.strict);
        }
    }
}
