//! Read-only properties of a connection, for its controls and handlers.
//!
//! Controls and handlers get values from here, not the transport and the channels. Operations on those are
//! methods of [`ControlCx`] and [`ChannelCx`].

use std::time::Duration;

use lh_connection::ChannelId;
use lh_resume::Export;
use lh_transport::{CompressionTotals, Negotiated};
use lh_wire::peer::Peer;

use crate::handler::{ChannelCx, ControlCx};

/// Bytes and packets of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes received from the socket.
    pub bytes_in: u64,
    /// Bytes written to the socket.
    pub bytes_out: u64,
    /// Complete authentic packets received; a thawed connection counts from zero.
    pub packets_in: u64,
}

impl ControlCx<'_> {
    /// Returns false when a cipher that does not encrypt is in use in either direction.
    pub fn is_encrypted(&self) -> bool {
        self.core.link.transport_ref().is_encrypted()
    }

    /// Returns the algorithms of the last key exchange; `None` before the first is complete.
    pub const fn negotiated(&self) -> Option<&Negotiated> {
        self.core.link.transport_ref().negotiated()
    }

    /// Returns the exchange hash of the first key exchange (RFC 4253 section 7.2); `None` before it is
    /// complete.
    pub fn session_id(&self) -> Option<&[u8]> {
        self.core.link.transport_ref().session_id()
    }

    /// Returns key material that both ends of this connection derive under a label and a context. `None`
    /// before the first key exchange is complete.
    pub fn export(&self, label: &str, context: &[u8]) -> Option<Export> {
        self.core.link.transport_ref().export(label, context)
    }

    /// Returns the host key that the server has proved to own, as a blob; `None` before that.
    pub fn host_key(&self) -> Option<&[u8]> {
        self.core.link.transport_ref().host_key()
    }

    /// Returns our own identification, without line ending.
    pub fn own_identification(&self) -> String {
        self.core.link.transport_ref().own_identification()
    }

    /// Returns the peer's identification, without line ending; everything but printable ASCII is escaped.
    pub fn peer_identification(&self) -> Option<&str> {
        self.core.link.transport_ref().peer_identification()
    }

    /// Returns the peer's implementation, as far as it is known.
    pub const fn peer(&self) -> Peer {
        self.core.link.transport_ref().peer()
    }

    /// Returns the value of an extension that the peer announced in EXT_INFO (RFC 8308).
    pub fn peer_extension(&self, name: &str) -> Option<&[u8]> {
        self.core.link.transport_ref().peer_extension(name)
    }

    /// Returns true when a message of `length` bytes can be sent to this peer.
    pub fn can_send_message(&self, length: usize) -> bool {
        self.core.link.transport_ref().can_send_message(length)
    }

    /// Returns false while bulk data must wait: during a key exchange, and while the memory for messages that
    /// the peer has not acknowledged is used up.
    pub fn can_send_bulk(&self) -> bool {
        self.core.link.transport_ref().can_send_bulk()
    }

    /// Returns the bytes and packets that the socket has carried.
    pub const fn traffic(&self) -> Traffic {
        let transport = self.core.link.transport_ref();
        Traffic {
            bytes_in: transport.bytes_in(),
            bytes_out: transport.bytes_out(),
            packets_in: transport.packets_in(),
        }
    }

    /// Returns the totals of compression since the last key exchange: of the received payloads, and of the
    /// sent ones.
    pub fn compression_totals(&self) -> (CompressionTotals, CompressionTotals) {
        self.core.link.transport_ref().compression_totals()
    }

    /// Returns the number of messages that the peer has acknowledged, and the number sent in the session.
    /// `None` when messages are not kept.
    pub fn message_counts(&self) -> Option<(u64, u64)> {
        self.core.link.transport_ref().message_counts()
    }

    /// Returns the round-trip estimate that window growth uses; `None` before the first answer.
    pub fn round_trip(&self) -> Option<Duration> {
        self.core.connection.round_trip()
    }

    /// Returns the open channels.
    pub fn channel_ids(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.core.connection.channel_ids()
    }

    /// Returns the bytes that all channels have moved, in both directions together.
    pub fn total_moved(&self) -> u64 {
        self.core.connection.total_moved()
    }
}

impl ChannelCx<'_> {
    /// Returns the exchange hash of the first key exchange (RFC 4253 section 7.2); `None` before it is
    /// complete.
    pub fn session_id(&self) -> Option<&[u8]> {
        self.core.link.session_id()
    }

    /// Returns the value of an extension that the peer announced in EXT_INFO (RFC 8308).
    pub fn peer_extension(&self, name: &str) -> Option<&[u8]> {
        self.core.link.peer_extension(name)
    }

    /// Returns our own identification, without line ending.
    pub fn own_identification(&self) -> String {
        self.core.link.transport_ref().own_identification()
    }

    /// Returns false when a cipher that does not encrypt is in use in either direction.
    pub fn is_encrypted(&self) -> bool {
        self.core.link.transport_ref().is_encrypted()
    }

    /// Returns the peer's identification, without line ending; everything but printable ASCII is escaped.
    pub fn peer_identification(&self) -> Option<&str> {
        self.core.link.transport_ref().peer_identification()
    }
}
