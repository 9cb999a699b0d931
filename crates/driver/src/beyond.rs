//! What a channel's handler may ask of the connection beyond its own channel.
//!
//! Each is an operation with a name. A handler that needs another one sends a [note](ChannelCx::notify) to
//! the control, which has [`ControlCx`].

use std::io;
use std::os::fd::OwnedFd;

use lh_connection::{ChannelId, ChannelOptions, OpenError};
use lh_transport::Unencrypted;

use crate::dial::{Family, Target, dial};
use crate::handler::{ChannelCx, ChannelHandler, ControlCx, Source};
use crate::ids::SourceId;
use crate::resolve::Resolver;

impl ChannelCx<'_> {
    /// Asks the peer to open another channel. Its handler receives
    /// [`ChannelEvent::Opened`](crate::ChannelEvent::Opened) or
    /// [`ChannelEvent::OpenFailed`](crate::ChannelEvent::OpenFailed).
    ///
    /// # Errors
    /// All channel numbers are in use; the handler is dropped.
    pub fn open_channel(
        &mut self,
        kind: &str,
        fields: &[u8],
        options: &ChannelOptions,
        handler: Box<dyn ChannelHandler>,
    ) -> Result<ChannelId, OpenError> {
        self.control().open(kind, fields, options, handler)
    }

    /// Returns the context of another channel that this handler has opened, when one job uses several.
    /// `None` when it does not exist.
    pub fn sibling(&mut self, id: ChannelId) -> Option<ChannelCx<'_>> {
        self.core.channel_cx(id)
    }

    /// Returns the number of channels that have a handler, this one included.
    pub fn channel_count(&self) -> usize {
        self.core.slots.handlers()
    }

    /// Sends a global request (RFC 4254 section 4). With `want_reply`, the control receives
    /// [`ControlEvent::GlobalReply`](crate::ControlEvent::GlobalReply).
    pub fn global_request(&mut self, name: &str, want_reply: bool, fields: &[u8]) {
        self.control().global_request(name, want_reply, fields);
    }

    /// Sends SSH_MSG_DEBUG (RFC 4253 section 11.3), a text for the user at the peer.
    pub fn debug_message(&mut self, always_display: bool, text: &str) {
        self.control().debug_message(always_display, text);
    }

    /// Starts a key exchange, unless one is in progress.
    pub fn request_rekey(&mut self) {
        self.control().request_rekey();
    }

    /// Sets which unencrypted ciphers may be negotiated from the next key exchange on.
    pub const fn set_unencrypted(&mut self, unencrypted: Unencrypted) {
        self.control().set_unencrypted(unencrypted);
    }

    /// See [`ControlCx::cover_acknowledgements`].
    pub const fn cover_acknowledgements(&mut self, covered: bool) {
        self.control().cover_acknowledgements(covered);
    }

    /// Returns true while the session has no link: it is broken, and no other has replaced it.
    pub fn is_away(&mut self) -> bool {
        self.control().is_away()
    }

    /// Adds an event source. The loop asks it for its interests from the next wait on.
    pub fn add_source(&mut self, source: Box<dyn Source>) -> SourceId {
        self.control().add_source(source)
    }

    /// Drops an event source.
    pub fn remove_source(&mut self, id: SourceId) {
        self.control().remove_source(id);
    }

    /// Connects to `target` and calls `done`, maybe before this returns. See [`dial()`].
    pub fn dial(
        &mut self,
        target: &Target,
        family: Family,
        resolver: &Resolver,
        done: impl FnOnce(io::Result<OwnedFd>, &mut ControlCx<'_>) + 'static,
    ) {
        dial(target, family, resolver, &mut self.control(), done);
    }
}
