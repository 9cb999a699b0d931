//! A connection that is watched, with its latest samples.

use crate::pairs::Connection;

/// Samples that are kept of a connection.
pub(super) const KEPT: usize = 120;

/// One connection as it is now.
pub(super) struct Watched {
    /// Name: process, addresses, or the host of the record.
    pub(super) name: String,
    /// The latest samples of its ends.
    pub(super) connection: Connection,
    /// Bytes that have arrived here and that the program has not read.
    pub(super) unread: Option<u64>,
    /// Seconds since its latest sample, where its program writes them.
    pub(super) age: Option<f64>,
}
