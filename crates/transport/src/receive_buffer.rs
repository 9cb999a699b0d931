//! The receive buffer: the socket is read into a slab, from whose front packets are split off.
//!
//! A slab is zeroed when it is allocated, and each time that it is reused: safe code cannot lend out
//! uninitialised memory, and `BytesMut` does not know that the memory was written before. When a slab is
//! used up, at most the beginning of one packet is copied to the next one. A slab is reused when all its
//! payloads have been dropped, so that steady traffic stays in warm memory.

use bytes::BytesMut;

/// Slab size for handshakes, terminals and idle connections, bytes.
const SMALL_SLAB: usize = 32 * 1024;

/// Slab size for bulk data, bytes. One `recv` can return many packets, and the end of a slab cuts only one
/// packet in sixteen. (Among sizes from 256 KiB to 1 MiB, this one was measured to be fastest.)
const LARGE_SLAB: usize = 1024 * 1024;

/// A read of at least this many bytes indicates bulk data, which needs a large slab.
const BULK_READ: usize = 16 * 1024;

/// Number of consecutive short reads after which a large slab is freed.
const QUIET_READS: u32 = 32;

/// Used slabs kept for reuse in steady state, when at least one is always free.
pub(crate) const RETIRED: usize = 3;

/// Limit of used slabs kept while the consumer of the payloads is behind. New memory, which the kernel maps
/// page by page, would cost more than receiving, just when time is short.
pub(crate) const RETIRED_BEHIND: usize = 16;

/// Number of consecutive turns in which a second slab was free, after which one slab is freed.
const IDLE_TURNS: u32 = 64;

/// Smallest read that is worth a system call, bytes.
const LEAST_READ: usize = 4 * 1024;

/// Memory for received bytes.
#[derive(Default)]
pub(crate) struct ReceiveBuffer {
    /// The slab is completely initialised; the first `filled` bytes came from the socket.
    slab: BytesMut,
    filled: usize,
    retired: Vec<BytesMut>,
    /// Number of consecutive turns in which an additional slab was free.
    idle: u32,
    large: bool,
    quiet: u32,
}

impl ReceiveBuffer {
    /// Returns whether the connection has become quiet, so that [`space`](Self::space) frees the large slab.
    pub(crate) fn is_idle(&self) -> bool {
        self.quiet >= QUIET_READS && self.slab.len() > SMALL_SLAB && self.filled == 0
    }

    /// Returns the memory for the next read. `expected` is the size of the first packet, bytes, where it is
    /// known, and `typical` that of the packets of a bulk stream, 0 if there is none.
    ///
    /// Packets of a bulk stream have equal lengths. The memory ends where one of them will end, and a new
    /// slab is started when no whole packet fits. So the beginning of a packet rarely has to be copied.
    pub(crate) fn space(&mut self, expected: Option<usize>, typical: usize) -> &mut [u8] {
        let missing = match expected {
            Some(total) => total.saturating_sub(self.filled),
            None if self.filled < typical => typical - self.filled,
            None => 0,
        };
        let free = self.slab.len() - self.filled;
        let shrink = self.is_idle();
        if free < missing.max(LEAST_READ) || shrink {
            if shrink {
                self.large = false;
            }
            self.renew(missing);
        }
        let free = self.slab.len() - self.filled;
        let end = match (free.saturating_sub(missing)).checked_div(typical) {
            Some(more) if missing > 0 => self.filled + missing + more * typical,
            _ => self.slab.len(),
        };
        self.slab.get_mut(self.filled..end).unwrap_or_default()
    }

    /// Starts a new slab with space for `missing` bytes behind the unhandled bytes.
    fn renew(&mut self, missing: usize) {
        let size = if self.large { LARGE_SLAB } else { SMALL_SLAB };
        let size = size.max(self.filled + missing + LEAST_READ);
        let mut next = self.reclaim(size);
        // Everything is zeroed here, once a turn of the slab; `split_to` keeps the rest initialised.
        next.resize(size, 0);
        if let (Some(to), Some(from)) = (next.get_mut(..self.filled), self.slab.get(..self.filled)) {
            to.copy_from_slice(from);
        }
        let mut old = std::mem::replace(&mut self.slab, next);
        old.clear();
        if self.large {
            if self.retired.len() >= RETIRED_BEHIND {
                self.retired.remove(0);
            }
            self.retired.push(old);
            self.give_up_idle(size);
        } else {
            self.retired.clear();
        }
    }

    /// Returns a used slab without remaining payloads, or new memory.
    fn reclaim(&mut self, size: usize) -> BytesMut {
        let free = self.retired.iter_mut().position(|slab| slab.try_reclaim(size));
        match free {
            Some(position) => self.retired.swap_remove(position),
            None => BytesMut::with_capacity(size),
        }
    }

    /// Frees memory that a backlog required, after the backlog is gone.
    fn give_up_idle(&mut self, size: usize) {
        let spare = self.retired.len() > RETIRED;
        let free = if spare { self.retired.iter_mut().position(|slab| slab.try_reclaim(size)) } else { None };
        self.idle = if free.is_some() { self.idle + 1 } else { 0 };
        if let (Some(position), IDLE_TURNS..) = (free, self.idle) {
            self.retired.swap_remove(position);
            self.idle = 0;
        }
    }

    /// Records that `n` bytes were read into [`space`](Self::space).
    pub(crate) fn received(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.slab.len());
        if n >= BULK_READ {
            self.large = true;
            self.quiet = 0;
        } else {
            self.quiet = self.quiet.saturating_add(1);
        }
    }

    /// Returns the bytes that were received but not handled.
    pub(crate) fn unread(&self) -> &[u8] {
        self.slab.get(..self.filled).unwrap_or_default()
    }

    /// Restores the received bytes of a frozen connection.
    pub(crate) fn restore(&mut self, bytes: &[u8]) {
        self.renew(bytes.len());
        if let Some(place) = self.slab.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
            self.filled = bytes.len();
        }
    }

    /// Removes `n` bytes from the front.
    pub(crate) fn take(&mut self, n: usize) -> BytesMut {
        let n = n.min(self.filled);
        self.filled -= n;
        self.slab.split_to(n)
    }

    /// Returns the number of bytes that were received but not handled.
    pub(crate) const fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the number of used slabs that are kept.
    #[cfg(test)]
    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Returns the memory held for receiving, bytes.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> usize {
        self.slab.len() + self.retired.iter().map(|slab| slab.capacity()).sum::<usize>()
    }
}
