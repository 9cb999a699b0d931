//! Batches of bulk packets that another thread may seal or open.
//!
//! The transport has no threads. It puts the work for a worker into a [`Job`]: the bytes (moved, not
//! borrowed), the key, and the index of each packet. The owner of the transport takes jobs, runs them on any
//! thread and in any order, and brings them back; the transport restores the order. A job holds some hundred
//! kilobytes, so that handing it over costs little compared with the work, and no packet costs its own
//! allocation, lock or wake-up.

use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use lh_crypto::{CryptoError, PacketIndex, PacketKey};

use crate::seal::Pending;

/// Packets to seal or to open, with all inputs. Run it on any thread, then bring it back with
/// [`Transport::finish_job`](crate::Transport::finish_job).
#[must_use = "the transport waits for its bytes to come back"]
pub struct Job {
    /// Number of the job, in order of creation.
    pub(crate) id: u64,
    pub(crate) work: Work,
}

/// The task of a job.
pub(crate) enum Work {
    Seal(SealWork),
    Open(OpenWork),
}

/// Packets in a slab, the first part of which may be sealed already.
pub(crate) struct SealWork {
    pub(crate) data: Box<[u8]>,
    pub(crate) packets: Pending,
    pub(crate) result: Result<(), CryptoError>,
}

/// Consecutive packets as received.
pub(crate) struct OpenWork {
    pub(crate) data: BytesMut,
    pub(crate) packets: Vec<Framed>,
    pub(crate) key: Arc<PacketKey>,
    /// Number of packets, counted from the first, that are authentic. After the run, a smaller number than
    /// `packets.len()` means that the next packet is not.
    pub(crate) opened: usize,
}

/// A packet whose length is known but which is not authenticated yet.
#[derive(Debug, Clone)]
pub(crate) struct Framed {
    /// From the length field to the end of the tag, as offsets into the job's data.
    pub(crate) range: Range<usize>,
    pub(crate) index: PacketIndex,
}

impl Job {
    /// Runs the job.
    pub fn run(&mut self) {
        match &mut self.work {
            Work::Seal(seal) => seal.run(),
            Work::Open(open) => open.run(),
        }
    }

    /// Returns the number of bytes to process: a measure of the job's duration.
    pub fn len(&self) -> usize {
        match &self.work {
            Work::Seal(seal) => seal.packets.len(),
            Work::Open(open) => open.data.len(),
        }
    }

    /// Returns true when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Job {
    /// Prints the kind and length of the job, but none of its content.
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
        self.result = self.packets.seal(&mut self.data, 0);
        self.packets.clear();
    }
}

impl OpenWork {
    fn run(&mut self) {
        for packet in self.packets.iter().skip(self.opened) {
            // Packets behind one that is not authentic are not processed.
            let Some(bytes) = self.data.get_mut(packet.range.clone()) else { return };
            if self.key.open(&packet.index, bytes).is_err() {
                return;
            }
            self.opened += 1;
        }
    }
}
