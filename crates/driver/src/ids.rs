//! Numbers of handlers and sources.

/// Identifies one handler for the life of the driver; unlike a [`ChannelId`](lh_connection::ChannelId) it is
/// never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub(crate) u64);

/// Identifies a [`Source`](crate::Source).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u64);
