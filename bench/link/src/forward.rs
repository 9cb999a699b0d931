//! One direction: packets from one device into the ring, and from the ring into the other device when they are due.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::packet::{Layout, VNET_HEADER_LEN};
use crate::ring::{Ring, SLOT};
use crate::shape::{Link, Shape};

/// Packets read before the ring is looked at again: at 10 Gb/s a millisecond's worth.
const BATCH: usize = 16;

/// Lateness that spoils a measurement, in nanoseconds.
const LATE: u64 = 1_000_000;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened in one direction. Segments are packets as the wire carries them.
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
            /// Reads back what `Display` wrote; names that it does not know are passed over.
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
    /// Pieces handed over by the kernel, up to 64 KiB each.
    packets,
    /// Segments that arrived.
    segments,
    /// Wire bytes that arrived.
    wire_bytes,
    /// Segments lost on the line, as asked for.
    lost,
    /// Segments for which the queue had no room.
    dropped,
    /// Packets for which the ring had no room although the queue had: should be none.
    overrun,
    /// Packets that the receiving device did not take for packets: should be none.
    refused,
    /// Packets handed over more than a millisecond after they were due.
    late,
    /// The latest, in microseconds.
    late_max_us,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// A device to take packets from, one to give them to, and what happens between.
#[derive(Debug)]
pub struct Direction<'a> {
    from: OwnedFd,
    to: OwnedFd,
    link: Link,
    ring: Ring,
    origin: Instant,
    /// A large segment that is being cut to pieces.
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
            origin: Instant::now(),
            scratch: vec![0; SLOT],
            counters,
        }
    }

    /// Forwards until a device fails, which is not before it is taken away.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            self.deliver();
            if self.take_in()? {
                continue;
            }
            let timeout = match self.ring.next_due() {
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

    /// Hands over everything that is due.
    fn deliver(&mut self) {
        let mut now = self.now();
        while let Some((due, packet)) = self.ring.due(now) {
            let late = now - due;
            if late > LATE {
                add(&self.counters.late, 1);
            }
            self.counters.late_max_us.fetch_max(late / 1000, Ordering::Relaxed);
            match rustix::io::write(self.to.as_fd(), packet) {
                // A device that is down, as one is for a moment while the path is set up, hears nothing.
                Ok(_) | Err(Errno::IO) => {}
                Err(_) => add(&self.counters.refused, 1),
            }
            self.ring.pop();
            // Handing over is receiving, as far as TCP is concerned, and takes its time.
            now = self.now();
        }
    }

    /// Takes packets in; false when there is none left.
    fn take_in(&mut self) -> io::Result<bool> {
        for _ in 0..BATCH {
            let overrun = self.ring.reserve().is_none();
            let place = match self.ring.reserve() {
                Some(place) => place,
                None => &mut self.scratch,
            };
            let len = match rustix::io::read(self.from.as_fd(), &mut *place) {
                Ok(0) => return Ok(false),
                Ok(len) => len,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let layout = Layout::of(place.get(..len).unwrap_or_default());
            add(&self.counters.packets, 1);
            if overrun {
                add(&self.counters.overrun, 1);
            } else if len > VNET_HEADER_LEN {
                self.admit(len, layout);
            }
        }
        Ok(true)
    }

    /// Decides on the packet of `len` bytes that lies in the reserved place of the ring.
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
            self.ring.commit(len, due);
            add(&self.counters.segments, all);
            add(&self.counters.wire_bytes, wire);
            return;
        }
        // The rare case: pieces are missing, the runs between them go on.
        if let Some(place) = self.ring.reserve() {
            self.scratch[..len].copy_from_slice(&place[..len]);
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
            // What got lost took its time on the line as well.
            self.link.transmit(now, layout.wire_len(end, 1));
            add(&self.counters.lost, 1);
            first = end + 1;
            lost = self.link.next_lost(fit - first);
        }
    }

    fn admit_run(&mut self, now: u64, len: usize, layout: Layout, first: u64, count: u64) {
        let wire = layout.wire_len(first, count);
        let due = self.link.transmit(now, wire);
        let Some(place) = self.ring.reserve() else {
            add(&self.counters.overrun, 1);
            return;
        };
        let packet = self.scratch.get(..len).unwrap_or_default();
        if let Some(cut) = layout.cut(packet, first, count, place) {
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
    fn counters_survive_being_written_and_read() {
        let counters = Counters::default();
        counters.lost.store(3, Ordering::Relaxed);
        counters.wire_bytes.store(1 << 40, Ordering::Relaxed);
        let text = counters.to_string();
        assert!(text.contains("lost=3") && text.contains("overrun=0"), "{text}");
        assert_eq!(Counters::parse(&text).to_string(), text);
    }
}
