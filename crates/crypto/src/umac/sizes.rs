//! Sizes that the levels of UMAC share.

/// Key length, bytes, for tags of either length.
pub(crate) const KEY_LEN: usize = 16;

/// Bytes of message that the first level reduces to a 64-bit word.
pub(super) const CHUNK_LEN: usize = 1024;
