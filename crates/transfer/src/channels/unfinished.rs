//! A WRITE that the channel's window ended in the middle of.

use bytes::Bytes;
use lh_sftp::PieceSum;

use crate::table::Key;

/// A WRITE of which not everything is sent.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(crate) key: Key,
    /// Rest of the header that is not sent yet.
    pub(crate) head: Vec<u8>,
    /// Offset in the file of the next byte to send.
    pub(crate) offset: u64,
    pub(crate) left: usize,
    pub(crate) rest: Rest,
    /// Over what has been sent of it.
    pub(crate) sum: Option<PieceSum>,
}

/// Source of the rest of a half-sent WRITE.
#[derive(Debug)]
pub(crate) enum Rest {
    File,
    Memory(Vec<Bytes>),
    /// There is nothing left that is worth sending.
    Zeros,
}

impl Unfinished {
    /// Its file.
    pub(crate) const fn key(&self) -> Key {
        self.key
    }
}
