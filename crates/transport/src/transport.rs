//! The object everybody holds.

use std::io::{IoSlice, IoSliceMut};
use std::time::Instant;

use lh_crypto::Random;
use lh_wire::PacketSink;
use zeroize::Zeroizing;

use crate::{AcceptedHostKey, Algorithms, Config, Event, FreezeError, Negotiated, TransportError};

/// One SSH connection, below the layer of services. See the crate's documentation for the order of calls.
pub struct Transport {
    config: Config,
    random: Box<dyn Random + Send>,
    negotiated: Negotiated,
    space: Vec<u8>,
}

impl Transport {
    /// Starts a connection: our identification and KEXINIT are queued at once.
    pub fn new(config: Config, random: Box<dyn Random + Send>, now: Instant) -> Self {
        let _ = now;
        Self { config, random, negotiated: Negotiated::default(), space: vec![0; 65536] }
    }

    /// Where to read the socket's bytes to. Never empty.
    pub fn recv_space(&mut self) -> &mut [u8] {
        &mut self.space
    }

    /// `n` bytes were read into the start of [`recv_space`](Self::recv_space).
    pub fn received(&mut self, n: usize) {
        let _ = n;
    }

    /// The peer will send no more. `poll` reports it once everything that arrived has been handled.
    pub fn received_eof(&mut self) {}

    /// The next thing that happened, `None` when more bytes (or an answer) are needed.
    ///
    /// # Errors
    /// The connection is over; a DISCONNECT is queued where one makes sense, so flush once more. Calling again
    /// gives the same error.
    pub fn poll(&mut self, now: Instant) -> Result<Option<Event>, TransportError> {
        let _ = now;
        Ok(None)
    }

    /// Client: the answer to [`Event::HostKey`]. Only the key that was asked about can be accepted.
    ///
    /// # Errors
    /// No key is waiting, or it is another one.
    pub fn host_key_accepted(&mut self, key: &AcceptedHostKey) -> Result<(), TransportError> {
        let _ = key;
        Ok(())
    }

    /// Server: the answer to [`Event::SignExchangeHash`], a signature blob (`string` algorithm, `string` signature).
    ///
    /// # Errors
    /// No signature is waited for.
    pub fn exchange_hash_signed(&mut self, signature: &[u8]) -> Result<(), TransportError> {
        let _ = signature;
        Ok(())
    }

    /// False while a key exchange keeps other packets back: whoever produces bulk waits, so that nothing piles up.
    pub fn can_send_bulk(&self) -> bool {
        true
    }

    /// Seals what is queued. Call before [`output_slices`](Self::output_slices).
    pub fn output(&mut self, now: Instant) {
        let _ = now;
    }

    /// Appends the sealed bytes that wait to be written, in order. At most 64 slices.
    pub fn output_slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        let _ = out;
    }

    /// The first `n` bytes of the output were written to the socket.
    pub fn written(&mut self, n: usize) {
        let _ = n;
    }

    /// Bytes queued and not yet written, packets held back during a key exchange included.
    pub fn queued_bytes(&self) -> usize {
        0
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Time has passed: starts a rekey whose interval is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// Starts a key exchange now, unless one is under way.
    pub fn request_rekey(&mut self) {}

    /// Offers other algorithms from the next key exchange on.
    pub fn set_algorithms(&mut self, algorithms: Algorithms) {
        self.config.algorithms = algorithms;
    }

    /// Queues SSH_MSG_DISCONNECT. Nothing can be sent afterwards.
    pub fn disconnect(&mut self, reason: u32, description: &str) {
        let _ = (reason, description);
    }

    /// The user is authenticated: delayed compression starts. A server calls this right *after* queueing
    /// USERAUTH_SUCCESS, a client when it *gets* it, before the next `poll`.
    pub fn set_authenticated(&mut self) {}

    /// Answers the packet last returned by [`poll`](Self::poll) with SSH_MSG_UNIMPLEMENTED (RFC 4253 section 11.4).
    pub fn reply_unimplemented(&mut self) {}

    /// The exchange hash of the first key exchange; `None` before it is done.
    pub fn session_id(&self) -> Option<&[u8]> {
        None
    }

    /// What the last key exchange agreed on; `None` before the first is done.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        Some(&self.negotiated)
    }

    /// The peer's identification line, without line ending.
    pub fn peer_identification(&self) -> Option<&str> {
        None
    }

    /// Value of an extension the peer announced in EXT_INFO.
    pub fn peer_extension(&self, name: &str) -> Option<&[u8]> {
        let _ = name;
        None
    }

    /// The host key blob of the last key exchange (the server's own, on a server): hostbound authentication
    /// signs it.
    pub fn host_key(&self) -> Option<&[u8]> {
        None
    }

    /// Bytes received from the socket.
    pub fn bytes_in(&self) -> u64 {
        0
    }

    /// Bytes written to the socket.
    pub fn bytes_out(&self) -> u64 {
        0
    }

    /// The whole state as bytes, so that another process can go on. They hold the keys.
    ///
    /// # Errors
    /// Not while a key exchange is under way, nor with compression running.
    pub fn freeze(&mut self) -> Result<Zeroizing<Vec<u8>>, FreezeError> {
        Err(FreezeError::KeyExchange)
    }

    /// Goes on from where [`freeze`](Self::freeze) stopped. `config` is this process's own.
    ///
    /// # Errors
    /// The bytes are not what `freeze` wrote.
    pub fn thaw(
        frozen: &[u8],
        config: Config,
        random: Box<dyn Random + Send>,
        now: Instant,
    ) -> Result<Self, FreezeError> {
        let _ = (frozen, config, random, now);
        Err(FreezeError::Version)
    }
}

impl PacketSink for Transport {
    fn payload(&mut self, payload: &[u8]) {
        let _ = payload;
        self.random.fill(&mut []);
    }

    fn payloads(&mut self, sizes: &mut [usize], fill: &mut dyn FnMut(&mut [IoSliceMut<'_>], &mut [usize])) {
        let _ = (sizes, fill);
    }
}
