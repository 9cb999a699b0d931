//! What the transport of a link knows, for callers that use a link before a driver runs.

use lh_resume::Export;
use lh_transport::Negotiated;
use lh_wire::peer::Peer;

use super::Link;

impl Link {
    /// Returns the algorithms of the last key exchange; `None` before the first is complete.
    pub const fn negotiated(&self) -> Option<&Negotiated> {
        self.transport.negotiated()
    }

    /// Returns the exchange hash of the first key exchange (RFC 4253 section 7.2); `None` before it is
    /// complete.
    pub fn session_id(&self) -> Option<&[u8]> {
        self.transport.session_id()
    }

    /// Returns the host key that the server has proved to own, as a blob; `None` before that.
    pub fn host_key(&self) -> Option<&[u8]> {
        self.transport.host_key()
    }

    /// Returns key material that both ends of this connection derive under a label and a context. `None`
    /// before the first key exchange is complete.
    pub fn export(&self, label: &str, context: &[u8]) -> Option<Export> {
        self.transport.export(label, context)
    }

    /// Returns the peer's implementation, as far as it is known.
    pub const fn peer(&self) -> Peer {
        self.transport.peer()
    }

    /// Returns the peer's identification, without line ending; everything but printable ASCII is escaped.
    pub fn peer_identification(&self) -> Option<&str> {
        self.transport.peer_identification()
    }

    /// Returns the value of an extension that the peer announced in EXT_INFO (RFC 8308).
    pub fn peer_extension(&self, name: &str) -> Option<&[u8]> {
        self.transport.peer_extension(name)
    }

    /// Returns whether the peer answers `ping@openssh.com`.
    pub fn answers_pings(&self) -> bool {
        self.transport.answers_pings()
    }

    /// Returns the bytes received from the socket.
    pub const fn bytes_in(&self) -> u64 {
        self.transport.bytes_in()
    }

    /// Returns the bytes queued and not written to the socket, without packets held back by a key exchange.
    pub fn unsent_bytes(&self) -> usize {
        self.transport.unsent_bytes()
    }

    /// Returns the number of messages that the peer has acknowledged, and the number sent in the session.
    /// `None` when messages are not kept.
    pub fn message_counts(&self) -> Option<(u64, u64)> {
        self.transport.message_counts()
    }

    /// Returns the bytes written to the socket.
    pub const fn bytes_out(&self) -> u64 {
        self.transport.bytes_out()
    }

    /// Returns the bytes queued and not written to the socket, packets held back by a key exchange included.
    pub fn queued_bytes(&self) -> usize {
        self.transport.queued_bytes()
    }

    /// Returns false when a cipher that does not encrypt is in use in either direction.
    pub fn is_encrypted(&self) -> bool {
        self.transport.is_encrypted()
    }

    /// Client: returns the host key of the first key exchange and its signature over the session identifier,
    /// the proof that an agent checks before it signs for this session.
    pub fn session_proof(&self) -> Option<(&[u8], &[u8])> {
        self.transport.session_proof()
    }
}
