//! Messages of a control outside its channels, and its answers in key exchanges.

use lh_connection::{ChannelId, HandedOver};
use lh_transport::{AcceptedHostKey, TransportError, Unencrypted};
use lh_wire::Message as _;
use lh_wire::msg::{Debug, Ping};

use crate::handler::ControlCx;

impl ControlCx<'_> {
    /// Sends a global request. With `want_reply`,
    /// [`ControlEvent::GlobalReply`](crate::ControlEvent::GlobalReply) follows in order.
    pub fn global_request(&mut self, name: &str, want_reply: bool, fields: &[u8]) {
        let (connection, sink) = self.core.speak();
        connection.global_request(name, want_reply, fields, sink);
    }

    /// Answers the oldest unanswered global request. `fields` are sent with a success only.
    pub fn reply_global(&mut self, ok: bool, fields: &[u8]) {
        let (connection, sink) = self.core.speak();
        connection.reply_global(ok, fields, sink);
    }

    /// Sends SSH_MSG_DEBUG (RFC 4253 section 11.3), a text for the user at the peer.
    pub fn debug_message(&mut self, always_display: bool, text: &str) {
        let message = Debug::new(always_display, text.as_bytes(), b"");
        let (_, sink) = self.core.speak();
        sink.payload(&message.to_payload());
    }

    /// Answers [`ControlEvent::HostKey`](crate::ControlEvent::HostKey).
    ///
    /// # Errors
    /// No key waits for an answer, or it is a different one.
    pub fn host_key_accepted(&mut self, key: &AcceptedHostKey) -> Result<(), TransportError> {
        self.core.link.transport().host_key_accepted(key)
    }

    /// Answers [`ControlEvent::SignExchangeHash`](crate::ControlEvent::SignExchangeHash).
    ///
    /// # Errors
    /// No signature is expected.
    pub fn exchange_hash_signed(&mut self, signature: &[u8]) -> Result<(), TransportError> {
        self.core.link.transport().exchange_hash_signed(signature)
    }

    /// Starts a key exchange, unless one is under way.
    pub fn request_rekey(&mut self) {
        self.core.link.transport().request_rekey();
    }

    /// Sets which unencrypted ciphers may be negotiated from the next key exchange on.
    pub const fn set_unencrypted(&mut self, unencrypted: Unencrypted) {
        self.core.link.transport().set_unencrypted(unencrypted);
    }

    /// Sends `ping@openssh.com` with this content, to a peer that answers it.
    /// [`ControlEvent::Pong`](crate::ControlEvent::Pong) follows.
    pub fn ping(&mut self, content: &[u8]) {
        let (_, sink) = self.core.speak();
        sink.payload(&Ping::new(content).to_payload());
    }

    /// Sends SSH_MSG_DISCONNECT. No further message can be sent; stop the loop too.
    pub fn disconnect(&mut self, reason: u32, text: &str) {
        self.core.link.transport().disconnect(reason, text);
    }
}

/// Channels of mux clients, whose messages the mux clients exchange themselves.
impl ControlCx<'_> {
    /// Reserves a number for a channel that a mux client opens and handles.
    /// [`send_message`](Self::send_message) sends that client's messages;
    /// [`ControlEvent::Relayed`](crate::ControlEvent::Relayed) contains the peer's. Returns `None` when all
    /// numbers are in use.
    pub fn relay(&mut self) -> Option<ChannelId> {
        self.core.connection.relay()
    }

    /// Hands a channel open of the peer over to a mux client, which answers it and handles the channel.
    /// Returns `None` when no such request is pending.
    pub fn hand_over(&mut self, id: ChannelId) -> Option<HandedOver> {
        self.core.connection.hand_over(id)
    }

    /// Releases the number of a relayed channel, after the last message about it.
    pub fn end_relay(&mut self, id: ChannelId) {
        self.core.connection.end_relay(id);
    }

    /// Sends a message of the connection protocol unchanged. For relayed channels.
    pub fn send_message(&mut self, message: &[u8]) {
        let (_, sink) = self.core.speak();
        sink.payload(message);
    }
}
