//! Pieces of bulk that somebody else may seal or open.
//!
//! The transport has no threads. What it would hand to a worker it makes into a [`Job`]: the bytes themselves (moved, not
//! borrowed), the key, and where each packet stands. Whoever owns the transport takes jobs from it, runs them
//! wherever and in whatever order it likes, and brings them back; order is restored here. A job is some hundred
//! kilobytes, so that handing it over costs nothing against doing it, and no packet costs an allocation, a lock or a
//! wake-up of its own.

use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use lh_crypto::{CryptoError, PacketIndex, PacketKey};

use crate::seal::{PacketMeta, seal_batch};

/// Packets to seal or to open, with everything that takes. Run it on any thread, then bring it back with
/// [`Transport::finish_job`](crate::Transport::finish_job).
#[must_use = "the transport waits for its bytes to come back"]
pub struct Job {
    /// Which piece this is, in the order in which they were made.
    pub(crate) id: u64,
    pub(crate) work: Work,
}

/// What a job does.
pub(crate) enum Work {
    Seal(SealWork),
    Open(OpenWork),
}

/// Packets in a slab, some of it sealed before.
pub(crate) struct SealWork {
    pub(crate) data: Box<[u8]>,
    pub(crate) packets: Vec<PacketMeta>,
    pub(crate) result: Result<(), CryptoError>,
}

/// Neighbouring packets as they were received.
pub(crate) struct OpenWork {
    pub(crate) data: BytesMut,
    pub(crate) packets: Vec<Framed>,
    pub(crate) key: Arc<PacketKey>,
    /// Packets from the first on that are authentic. When it is over, fewer than all means that the next one is not.
    pub(crate) opened: usize,
}

/// A packet whose length is known, not authenticated yet.
#[derive(Debug, Clone)]
pub(crate) struct Framed {
    /// Length field to tag, as positions in the piece.
    pub(crate) range: Range<usize>,
    pub(crate) index: PacketIndex,
}

impl Job {
    /// Does the work.
    pub fn run(&mut self) {
        match &mut self.work {
            Work::Seal(seal) => seal.run(),
            Work::Open(open) => open.run(),
        }
    }

    /// Bytes to work through: how long it will take.
    pub fn len(&self) -> usize {
        match &self.work {
            Work::Seal(seal) => {
                let first = seal.packets.first().map_or(0, |packet| packet.range.start);
                seal.packets.last().map_or(0, |packet| packet.range.end.saturating_sub(first))
            }
            Work::Open(open) => open.data.len(),
        }
    }

    /// There is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Job {
    /// Says what kind of job and how long, and nothing of what is in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &self.work {
            Work::Seal(_) => "seal",
            Work::Open(_) => "open",
        };
        f.debug_struct("Job").field("id", &self.id).field("kind", &kind).field("len", &self.len()).finish()
    }
}

impl SealWork {
    fn run(&mut self) {
        self.result = seal_batch(&mut self.data, 0, &self.packets);
        self.packets.clear();
    }
}

impl OpenWork {
    fn run(&mut self) {
        for packet in self.packets.iter().skip(self.opened) {
            // Nothing behind a packet that is not authentic is looked at.
            let Some(bytes) = self.data.get_mut(packet.range.clone()) else { return };
            if self.key.open(&packet.index, bytes).is_err() {
                return;
            }
            self.opened += 1;
        }
    }
}
