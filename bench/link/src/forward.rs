//! One direction of the link: reads packets from one device into the ring, and writes them to the other
//! device when they are due.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::packet::{Layout, VNET_HEADER_LEN};
use crate::ring::{Ring, SLOT};
use crate::shape::{LATER, Link, Shape};

/// Packets read before the ring is checked again: at 10 Gb/s a millisecond's worth.
const BATCH: usize = 16;

/// Lateness that spoils a measurement, nanoseconds.
const LATE: u64 = 1_000_000;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one direction. Segments are packets as on the wire.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64,)* }

        impl std::fmt::Display for Counters {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut space = "";
                $(
                    write!(f, "{space}{}={}", stringify!($name), self.$name.load(Ordering::Relaxed))?;
                    space = " ";
                )*
                Ok(())
            }
        }

        impl Counters {
            /// Parses the output of `Display`; unknown names are skipped.
            pub fn parse(text: &str) -> Self {
                let this = Self::default();
                for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
                    let value = value.parse().unwrap_or(0);
                    match name {
                        $(stringify!($name) => this.$name.store(value, Ordering::Relaxed),)*
                        _ => {}
                    }
                }
                this
            }
        }
    };
}

counters! {
    /// Packets from the kernel, up to 64 KiB each.
    packets,
    /// Arrived segments.
    segments,
    /// Arrived bytes, as on the wire.
    wire_bytes,
    /// Segments dropped by the configured random loss.
    lost,
    /// Segments dropped by the full queue.
    dropped,
    /// Packets that did not fit the ring although they fitted the queue: should be 0.
    overrun,
    /// Packets that the receiving device refused as invalid: should be 0.
    refused,
    /// Packets delivered more than a millisecond after they were due.
    late,
    /// Largest lateness, microseconds.
    late_max_us,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// One direction: source device, destination device and the emulated link between them.
#[derive(Debug)]
pub struct Direction<'a> {
    from: OwnedFd,
    to: OwnedFd,
    link: Link,
    ring: Ring,
    /// Packets to be overtaken by others, with their due times, in order.
    overtaken: VecDeque<(u64, Vec<u8>)>,
    origin: Instant,
    /// Buffer for a large segment that is being split.
    scratch: Vec<u8>,
    counters: &'a Counters,
}

impl<'a> Direction<'a> {
    /// Both descriptors are non-blocking TUN devices with vnet headers ([`lh_sys::tun::open`]).
    pub fn new(from: OwnedFd, to: OwnedFd, shape: &Shape, seed: u64, counters: &'a Counters) -> Self {
        Self {
            from,
            to,
            link: Link::new(shape, seed),
            ring: Ring::new(shape.in_flight() + shape.queue),
            overtaken: VecDeque::new(),
            origin: Instant::now(),
            scratch: vec![0; SLOT],
            counters,
        }
    }

    /// Forwards until a device fails, which happens when it is removed.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            self.deliver();
            if self.take_in()? {
                continue;
            }
            let due = [self.ring.next_due(), self.overtaken.front().map(|(due, _)| *due)];
            let timeout = match due.into_iter().flatten().min() {
                None => None,
                Some(due) => match due.saturating_sub(self.now()) {
                    0 => continue,
                    wait => Some(timespec(wait)),
                },
            };
            let mut fds = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Delivers all packets that are due.
    fn deliver(&mut self) {
        let mut now = self.now();
        while let Some((_, packet)) = self.overtaken.pop_front_if(|(due, _)| *due <= now) {
            self.write(&packet);
        }
        while let Some((due, packet)) = self.ring.due(now) {
            let late = now - due;
            if late > LATE {
                add(&self.counters.late, 1);
            }
            self.counters.late_max_us.fetch_max(late / 1000, Ordering::Relaxed);
            self.write(packet);
            self.ring.pop();
            // The write runs the receiver's TCP, which takes time.
            now = self.now();
        }
    }

    fn write(&self, packet: &[u8]) {
        match rustix::io::write(self.to.as_fd(), packet) {
            // A device that is down, as for a moment during setup, drops the packet.
            Ok(_) | Err(Errno::IO) => {}
            Err(_) => add(&self.counters.refused, 1),
        }
    }

    /// Reads packets into the ring; false when no more are available.
    fn take_in(&mut self) -> io::Result<bool> {
        for _ in 0..BATCH {
            let overrun = self.ring.reserve().is_none();
            let slot = match self.ring.reserve() {
                Some(slot) => slot,
                None => &mut self.scratch,
            };
            let len = match rustix::io::read(self.from.as_fd(), &mut *slot) {
                Ok(0) => return Ok(false),
                Ok(len) => len,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let layout = Layout::of(slot.get(..len).unwrap_or_default());
            add(&self.counters.packets, 1);
            if overrun {
                add(&self.counters.overrun, 1);
            } else if len > VNET_HEADER_LEN {
                self.admit(len, layout);
            }
        }
        Ok(true)
    }

    /// Decides on the packet of `len` bytes in the reserved slot of the ring.
    fn admit(&mut self, len: usize, layout: Layout) {
        let now = self.now();
        let all = layout.segments;
        let fit = self.link.room(now, layout.full_segment_len(), all);
        add(&self.counters.dropped, all - fit);
        if fit == 0 {
            return;
        }
        let mut lost = self.link.next_lost(fit);
        if fit == all && lost.is_none() {
            let wire = layout.wire_len(0, all);
            let due = self.link.transmit(now, wire);
            let is_overtaken = self.link.next_overtaken(all);
            match self.ring.reserve().filter(|_| is_overtaken).and_then(|slot| slot.get(..len)) {
                Some(packet) => self.overtaken.push_back((due + LATER.as_nanos() as u64, packet.to_vec())),
                None => self.ring.commit(len, due),
            }
            add(&self.counters.segments, all);
            add(&self.counters.wire_bytes, wire);
            return;
        }
        // Some segments are lost: forward the runs between them.
        if let Some(slot) = self.ring.reserve() {
            self.scratch[..len].copy_from_slice(&slot[..len]);
        }
        let mut first = 0;
        loop {
            let end = lost.map_or(fit, |distance| first + distance);
            if end > first {
                self.admit_run(now, len, layout, first, end - first);
            }
            if lost.is_none() || end >= fit {
                break;
            }
            // A lost segment occupies the line as well.
            self.link.transmit(now, layout.wire_len(end, 1));
            add(&self.counters.lost, 1);
            first = end + 1;
            lost = self.link.next_lost(fit - first);
        }
    }

    fn admit_run(&mut self, now: u64, len: usize, layout: Layout, first: u64, count: u64) {
        let wire = layout.wire_len(first, count);
        let due = self.link.transmit(now, wire);
        let Some(slot) = self.ring.reserve() else {
            add(&self.counters.overrun, 1);
            return;
        };
        let packet = self.scratch.get(..len).unwrap_or_default();
        if let Some(cut) = layout.cut(packet, first, count, slot) {
            self.ring.commit(cut, due);
            add(&self.counters.segments, count);
            add(&self.counters.wire_bytes, wire);
        }
    }
}

fn timespec(nanos: u64) -> Timespec {
    // Both parts fit: 2^64 nanoseconds are 585 years.
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_round_trip_through_text() {
        let counters = Counters::default();
        counters.lost.store(3, Ordering::Relaxed);
        counters.wire_bytes.store(1 << 40, Ordering::Relaxed);
        let text = counters.to_string();
        assert!(text.contains("lost=3") && text.contains("overrun=0"), "{text}");
        assert_eq!(Counters::parse(&text).to_string(), text);
    }
}
