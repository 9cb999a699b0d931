//! What callers do with a link's transport before a driver runs: they answer its questions during the key
//! exchange, send messages of the login, and prepare the session. Channels have contexts for theirs.

use std::time::Instant;

use lh_transport::{AcceptedHostKey, Event, FreezeError, ResumeError, TransportError, Unencrypted};
use lh_wire::PacketSink;
use zeroize::Zeroizing;

use super::{Link, LinkError};

impl Link {
    /// Client: accepts the server's host key. See [`Transport::host_key_accepted`].
    ///
    /// # Errors
    /// No key waits for an answer, or it is a different one.
    ///
    /// [`Transport::host_key_accepted`]: lh_transport::Transport::host_key_accepted
    pub fn host_key_accepted(&mut self, key: &AcceptedHostKey) -> Result<(), TransportError> {
        self.transport.host_key_accepted(key)
    }

    /// Server: provides the signature for [`Event::SignExchangeHash`].
    ///
    /// # Errors
    /// No signature is expected.
    pub fn exchange_hash_signed(&mut self, signature: &[u8]) -> Result<(), TransportError> {
        self.transport.exchange_hash_signed(signature)
    }

    /// Returns the next event of the bytes that have been read already; `None` when there is none.
    ///
    /// # Errors
    /// [`LinkError::Transport`]: the connection is over.
    pub fn event_already_read(&mut self) -> Result<Option<Event>, LinkError> {
        self.transport.poll(Instant::now()).map_err(LinkError::Transport)
    }

    /// Puts events back, to be returned first by [`next_event`](Self::next_event) or delivered by a driver.
    pub fn put_back_events(&mut self, events: Vec<Event>) {
        self.transport.put_back_events(events);
    }

    /// Queues one packet with this payload, message number included.
    pub fn send(&mut self, payload: &[u8]) {
        self.transport.payload(payload);
    }

    /// Returns the queue for packets, for the dialogues of authentication.
    pub fn sink(&mut self) -> &mut dyn PacketSink {
        &mut self.transport
    }

    /// Server: announces the signature algorithms for the requested user. See
    /// [`Transport::announce_signature_algorithms`].
    ///
    /// [`Transport::announce_signature_algorithms`]: lh_transport::Transport::announce_signature_algorithms
    pub fn announce_signature_algorithms(&mut self, algorithms: &[String]) {
        self.transport.announce_signature_algorithms(algorithms);
    }

    /// Records that the user is authenticated: a server calls this right after it has queued
    /// USERAUTH_SUCCESS, a client when it receives that message.
    pub fn set_authenticated(&mut self) {
        self.transport.set_authenticated();
    }

    /// Keeps the messages of the connection protocol that are queued from now on until the peer acknowledges
    /// them, up to `budget` bytes.
    ///
    /// # Errors
    /// There are no keys yet, or messages are kept already.
    pub fn retain_messages(&mut self, budget: usize) -> Result<(), ResumeError> {
        self.transport.retain(budget)
    }

    /// Client: keeps messages of the connection protocol until [`send_early`](Self::send_early) or
    /// [`release_early`](Self::release_early) sends them.
    pub fn keep_early(&mut self) {
        self.transport.keep_early();
    }

    /// Client: sends the kept messages behind a request that may authenticate the user.
    pub fn send_early(&mut self) {
        self.transport.send_early();
    }

    /// Client: marks the early messages as unsent, because the request before them failed.
    pub fn early_dropped(&mut self) {
        self.transport.early_dropped();
    }

    /// Client: sends the kept messages that were not sent before, after authentication.
    pub fn release_early(&mut self) {
        self.transport.release_early();
    }

    /// Sets whether the next key exchange may agree on the cipher that does not encrypt.
    pub const fn set_unencrypted(&mut self, unencrypted: Unencrypted) {
        self.transport.set_unencrypted(unencrypted);
    }

    /// Starts a key exchange now, unless one is in progress. Only after authentication.
    pub fn request_rekey(&mut self) {
        self.transport.request_rekey();
    }

    /// Returns the transport's whole state, with the keys, so that another process can continue. The link
    /// must not be used afterwards.
    ///
    /// # Errors
    /// The state cannot be frozen now; see [`Transport::freeze`]. It is unchanged.
    ///
    /// [`Transport::freeze`]: lh_transport::Transport::freeze
    pub fn freeze(&mut self) -> Result<Zeroizing<Vec<u8>>, FreezeError> {
        self.transport.freeze()
    }
}
