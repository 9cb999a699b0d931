//! The send queue: payloads are written to their final position in a slab, sealed there and sent from there.
//!
//! Slabs have two sizes. An idle or interactive connection uses one small slab. When more is queued than
//! fits, large slabs are taken from a pool, initialised once, reused, and freed after the bulk transfer.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use lh_crypto::{CryptoError, PacketKey, Random};
use lh_resume::CountError;
use lh_wire::Slices;

use crate::epoch::Position;
use crate::job::{Job, SealWork, Work};
use crate::padding::{HEADER, PaddingPool, packet_size};
use crate::retention::Retention;
use crate::seal::{PacketMeta, Pending};
use crate::slab::{LARGE_SLAB, Reserved, SMALL_SLAB, Slab};

/// Number of large slabs kept for reuse. Producers stop at 1 MiB queued at the latest, so this many
/// circulate.
const POOLED: usize = 6;

/// Smaller amounts in one slab are sealed immediately, because the user may be waiting for them, bytes.
const JOB_MIN: usize = 48 * 1024;

/// A drain (everything written) of fewer bytes than this counts as quiet.
const QUIET_BYTES: usize = 16 * 1024;

/// Number of consecutive quiet drains after which the large slabs are freed.
const QUIET_DRAINS: u32 = 16;

/// Limit of slices: more would not fit a `writev` call.
const MAX_SLICES: usize = 64;

/// The sending half of the packet layer.
pub(crate) struct Sender {
    key: Arc<PacketKey>,
    position: Position,
    slabs: VecDeque<Slab>,
    pool: Vec<Box<[u8]>>,
    padding: PaddingPool,
    queued: usize,
    /// Bytes written since the queue was last empty.
    drained: usize,
    /// Number of consecutive quiet drains.
    quiet: u32,
    /// Worker threads seal bulk data.
    workers: bool,
    /// Packets have no padding.
    bare: bool,
    next_job: u64,
    /// Packet lists of finished jobs, kept for reuse.
    lists: Vec<Pending>,
    /// Packets that are reserved behind the last slab's packets.
    reserved: Vec<Reserved>,
    next_slab: u64,
    /// Messages that the peer has not acknowledged, if sessions can be resumed.
    retention: Option<Box<Retention>>,
}

impl Sender {
    pub(crate) fn new(padding: PaddingPool) -> Self {
        Self {
            key: Arc::new(PacketKey::plain()),
            position: Position::default(),
            slabs: VecDeque::new(),
            pool: Vec::new(),
            padding,
            queued: 0,
            drained: 0,
            quiet: 0,
            workers: false,
            bare: false,
            next_job: 0,
            lists: Vec::new(),
            reserved: Vec::new(),
            next_slab: 0,
            retention: None,
        }
    }

    /// Sets whether bulk data becomes jobs.
    pub(crate) const fn set_workers(&mut self, workers: bool) {
        self.workers = workers;
    }

    /// Switches to packets without padding.
    pub(crate) const fn set_bare(&mut self) {
        self.bare = true;
    }

    /// Returns the generator that also makes the padding.
    pub(crate) fn random(&mut self) -> &mut dyn Random {
        self.padding.random()
    }

    /// Queues bytes that are not a packet: the identification, or frozen output.
    pub(crate) fn push_raw(&mut self, bytes: &[u8]) {
        self.reserved.clear();
        let slab = self.slab_for(bytes.len());
        let start = slab.filled;
        if let Some(place) = slab.data.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
            slab.filled += bytes.len();
            self.queued += bytes.len();
        }
    }

    /// Returns the `packet_length` of a packet with `payload` bytes of payload.
    pub(crate) fn packet_length(&self, payload: usize) -> usize {
        packet_size(&self.key, self.bare, payload) - 4
    }

    /// Queues one packet.
    pub(crate) fn push(&mut self, payload: &[u8]) {
        self.reserve(&[payload.len()]);
        self.reserved().put(payload);
        self.commit(&[payload.len()]);
    }

    /// Reserves memory for packets, as [`PacketSink::reserve`](lh_wire::PacketSink::reserve) describes.
    pub(crate) fn reserve(&mut self, sizes: &[usize]) {
        let tag = self.key.tag_len();
        self.reserved.clear();
        for &size in sizes {
            self.reserved.push(Reserved { size, span: packet_size(&self.key, self.bare, size) + tag });
        }
        let total = self.reserved.iter().map(|packet| packet.span).sum();
        self.slab_for(total);
    }

    /// Returns the payload memory of the reserved packets.
    pub(crate) fn reserved(&mut self) -> Slices<'_> {
        let Some(slab) = self.slabs.back_mut() else { return Slices::new() };
        let mut rest = slab.data.get_mut(slab.filled..).unwrap_or_default();
        let mut slices = Slices::new();
        for &Reserved { size, span } in &self.reserved {
            let Some((packet, tail)) = rest.split_at_mut_checked(span) else { break };
            rest = tail;
            slices.push(packet.get_mut(HEADER..HEADER + size).unwrap_or_default());
        }
        slices
    }

    /// Queues the reserved packets, as [`PacketSink::commit`](lh_wire::PacketSink::commit) describes.
    pub(crate) fn commit(&mut self, used: &[usize]) {
        let Some(slab) = self.slabs.back_mut() else { return };
        let tag = self.key.tag_len();
        let start = slab.filled;
        // Only packets at the end may have shrunk, so no bytes move. If a caller breaks that rule, the bytes
        // move up and the packets are still correct.
        let (mut place, mut laid_out) = (start, start);
        for (&used, &Reserved { size: largest, span }) in used.iter().zip(&self.reserved) {
            let size = used.min(largest);
            let payload = place + HEADER;
            place += span;
            if size == 0 {
                continue;
            }
            if payload != laid_out + HEADER {
                slab.data.copy_within(payload..payload + size, laid_out + HEADER);
            }
            // Nearly all packets are filled, and have the shape that was reserved.
            let total = if size == largest { span - tag } else { packet_size(&self.key, self.bare, size) };
            let padding = total - HEADER - size;
            let Some(packet) = slab.data.get_mut(laid_out..laid_out + total) else { break };
            let length = u32::try_from(total - 4).unwrap_or(u32::MAX);
            packet[..4].copy_from_slice(&length.to_be_bytes());
            packet[4] = u8::try_from(padding).unwrap_or(u8::MAX);
            self.padding.fill(&mut packet[HEADER + size..]);
            let index = self.position.take(&self.key, total);
            let range = laid_out..laid_out + total + tag;
            laid_out = range.end;
            if let Some(retention) = &mut self.retention {
                let payload = packet.get(HEADER..HEADER + size).unwrap_or_default();
                let serial = self.key.is_serial();
                let kept = retention.on_packet(slab.number, range.clone(), index, serial, payload);
                slab.last = kept.or(slab.last);
            }
            slab.pending.push(PacketMeta { range, index }, &self.key);
        }
        self.reserved.clear();
        slab.filled = laid_out;
        self.queued += laid_out - start;
    }

    /// Returns a slab with space for `bytes` at the end of the queue.
    fn slab_for(&mut self, bytes: usize) -> &mut Slab {
        let fits = self.slabs.back().is_some_and(|slab| slab.job.is_none() && slab.free() >= bytes);
        if !fits {
            // A slab that is only kept for the case that its packets must be sent again leaves the queue
            // idle.
            let kept = self.retention.is_some() && self.queued == 0;
            let idle = self.slabs.back().is_none_or(|slab| slab.filled == 0);
            if idle {
                self.slabs.pop_back();
            }
            let data = if bytes > LARGE_SLAB {
                vec![0; bytes].into_boxed_slice()
            } else if (idle || kept) && bytes <= SMALL_SLAB {
                vec![0; SMALL_SLAB].into_boxed_slice()
            } else {
                self.pool.pop().unwrap_or_else(|| vec![0; LARGE_SLAB].into_boxed_slice())
            };
            self.slabs.push_back(Slab::new(self.next_slab, data));
            self.next_slab += 1;
        }
        let last = self.slabs.len() - 1;
        &mut self.slabs[last]
    }

    /// Uses these keys for packets that are queued from now on.
    pub(crate) fn new_keys(&mut self, key: PacketKey, strict: bool) {
        // Their place depends on the key.
        self.reserved.clear();
        self.key = Arc::new(key);
        self.position.new_keys(strict);
    }

    /// Seals everything that is queued, or turns it into jobs.
    pub(crate) fn seal(&mut self, jobs: &mut VecDeque<Job>) -> Result<(), CryptoError> {
        self.reserved.clear();
        for slab in &mut self.slabs {
            // The last slab may be empty behind a filled one: it was laid out for packets that were all
            // dropped.
            if slab.ready == slab.filled || slab.job.is_some() {
                continue;
            }
            let (ready, filled) = (slab.ready, slab.filled);
            // Suites that must seal in order are sealed here. A slab may begin with packets of the previous
            // keys.
            if self.workers && filled - ready >= JOB_MIN && !slab.pending.is_serial() {
                let id = self.next_job;
                self.next_job += 1;
                slab.job = Some(id);
                let packets = std::mem::replace(&mut slab.pending, self.lists.pop().unwrap_or_default());
                let data = std::mem::take(&mut slab.data);
                jobs.push_back(Job { id, work: Work::Seal(SealWork { data, packets, result: Ok(()) }) });
                continue;
            }
            if let Some(bytes) = slab.data.get_mut(ready..filled) {
                slab.pending.seal(bytes, ready)?;
            }
            slab.pending.clear();
            slab.ready = filled;
        }
        Ok(())
    }

    /// Stores a slab that a job has sealed.
    pub(crate) fn sealed(&mut self, id: u64, work: SealWork) -> Result<(), CryptoError> {
        // The connection ended in the meantime, so the slab is gone.
        let Some(slab) = self.slabs.iter_mut().find(|slab| slab.job == Some(id)) else { return Ok(()) };
        work.result?;
        slab.job = None;
        slab.data = work.data;
        slab.ready = slab.filled;
        self.lists.push(work.packets);
        Ok(())
    }

    /// Appends the sealed bytes in order, at most [`MAX_SLICES`] slices.
    pub(crate) fn slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        let here = self.slabs.iter().take_while(|slab| slab.job.is_none());
        let ready = here.filter_map(|slab| slab.data.get(slab.written..slab.ready));
        out.extend(ready.filter(|bytes| !bytes.is_empty()).take(MAX_SLICES).map(IoSlice::new));
    }

    /// Appends all sealed bytes in order, in any number of slices.
    pub(crate) fn slices_all<'a>(&'a self, out: &mut Vec<&'a [u8]>) {
        out.extend(self.slabs.iter().filter_map(|slab| slab.data.get(slab.written..slab.ready)));
    }

    /// Discards everything that is queued.
    pub(crate) fn abandon(&mut self) {
        self.slabs.clear();
        self.reserved.clear();
        self.queued = 0;
    }

    // ---- retention

    /// Keeps counted messages from now on, or stops; `None` also forgets what is kept.
    pub(crate) fn set_retention(&mut self, retention: Option<Box<Retention>>) {
        self.retention = retention;
    }

    pub(crate) fn retention(&self) -> Option<&Retention> {
        self.retention.as_deref()
    }

    pub(crate) fn retention_mut(&mut self) -> Option<&mut Retention> {
        self.retention.as_deref_mut()
    }

    /// Returns false when producers of bulk data must wait for an acknowledgement.
    pub(crate) fn within_budget(&self) -> bool {
        self.retention.as_ref().is_none_or(|retention| retention.kept_bytes() < retention.budget())
    }

    /// Frees the first `count` messages, which the peer has received.
    pub(crate) fn acknowledge(&mut self, count: u64) -> Result<(), CountError> {
        let Some(retention) = &mut self.retention else { return Ok(()) };
        // The same slabs circulate: new ones would have to be zeroed.
        let pooled = POOLED + retention.budget() / LARGE_SLAB;
        let pool = &mut self.pool;
        retention.acknowledge(count, |data| Self::recycle(pool, pooled, data))?;
        if self.queued == 0 && self.slabs.len() == 1 && self.reserved.is_empty() {
            self.reset_last();
        }
        Ok(())
    }

    /// Returns the unacknowledged messages together with the slabs of the queue. No job may be outstanding.
    pub(crate) fn take_retention(&mut self) -> Option<Box<Retention>> {
        let mut retention = self.retention.take()?;
        for Slab { number, last, data, ready, .. } in std::mem::take(&mut self.slabs) {
            retention.keep(number, last, data, ready);
        }
        self.abandon();
        Some(retention)
    }

    /// Records that the first `n` bytes were written. A larger number than was available counts as all.
    pub(crate) fn written(&mut self, mut n: usize) {
        while n > 0 {
            let Some(slab) = self.slabs.front_mut() else { break };
            let part = n.min(slab.ready - slab.written);
            slab.written += part;
            self.queued -= part;
            self.drained += part;
            n -= part;
            if slab.written < slab.filled || slab.job.is_some() {
                // Either all of `n` is used up, or the caller counted bytes that were never sealed.
                break;
            }
            if self.slabs.len() == 1 {
                self.drain();
                break;
            }
            if let Some(slab) = self.slabs.pop_front() {
                let Slab { number, last, data, ready, .. } = slab;
                let unused = match &mut self.retention {
                    Some(retention) => retention.keep(number, last, data, ready),
                    None => Some(data),
                };
                if let Some(data) = unused {
                    Self::recycle(&mut self.pool, POOLED, data);
                }
            }
        }
    }

    /// Resets the last slab when the queue is empty, and frees memory that a quiet connection does not need.
    fn drain(&mut self) {
        if self.drained < QUIET_BYTES {
            self.quiet = self.quiet.saturating_add(1);
        } else {
            self.quiet = 0;
        }
        self.drained = 0;
        let quiet = self.quiet >= QUIET_DRAINS;
        if quiet {
            self.pool.clear();
        }
        self.reset_last();
    }

    /// Empties the last slab when all of it is written and no message in it must be kept.
    fn reset_last(&mut self) {
        let quiet = self.quiet >= QUIET_DRAINS;
        let Some(slab) = self.slabs.front_mut() else { return };
        if self.retention.as_ref().is_some_and(|retention| retention.needs(slab.last)) {
            return;
        }
        if quiet && slab.data.len() > SMALL_SLAB {
            self.slabs.clear();
        } else {
            (slab.filled, slab.ready, slab.written) = (0, 0, 0);
        }
    }

    fn recycle(pool: &mut Vec<Box<[u8]>>, most: usize, data: Box<[u8]>) {
        if data.len() == LARGE_SLAB && pool.len() < most {
            pool.push(data);
        }
    }

    /// Returns the number of bytes queued but not written.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the memory held for sending, bytes.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> usize {
        self.slabs.iter().map(|slab| slab.data.len()).sum::<usize>()
            + self.pool.iter().map(|data| data.len()).sum::<usize>()
    }

    pub(crate) fn key(&self) -> &PacketKey {
        &self.key
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    pub(crate) fn set_position(&mut self, position: Position) {
        self.position = position;
    }
}
