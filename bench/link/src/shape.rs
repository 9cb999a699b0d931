//! The arithmetic of a link: whether and when a packet arrives.
//!
//! The model is one first-in-first-out queue in front of a line. Bytes leave the queue at the line's rate,
//! arrive one delay later, and are refused while the queue is full. All of it follows from a single number,
//! the time at which the line becomes free. So departures need no event, and the link needs a timer for
//! arrivals only. Time is an argument (nanoseconds from any origin), so that the tests run in virtual time.

use std::time::Duration;

/// Parameters of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Rate on the wire, bits per second, link-layer header included.
    pub rate: u64,
    /// Time from the end of transmission to arrival: half the round-trip time.
    pub delay: Duration,
    /// Queue limit, bytes, the packet being transmitted included.
    pub queue: u64,
    /// Probability that a transmitted segment does not arrive.
    pub loss: f64,
    /// Probability for each transmitted segment that its packet is delayed by [`LATER`], so that later
    /// packets overtake it.
    pub reorder: f64,
    /// Each packet takes up to this much longer, by chance, and none overtakes another.
    pub jitter: Duration,
}

/// Additional delay of a packet that others overtake.
pub const LATER: Duration = Duration::from_millis(10);

impl Shape {
    /// Bytes on a busy line, without those in the queue.
    pub fn in_flight(&self) -> u64 {
        let bytes = u128::from(self.rate) * (self.delay + self.jitter).as_nanos() / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Result of sending one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives at this time.
    Arrives(u64),
    /// It is lost, after it occupied the line.
    Lost,
    /// The queue is full.
    Refused,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    rate: u128,
    delay: u64,
    queue: u128,
    /// Time at which the line has transmitted all accepted bytes.
    free_at: u64,
    /// Rounding remainder of `free_at`, in bit nanoseconds: less than `rate`.
    carry: u128,
    loss: Loss,
    reorder: Loss,
    /// Nanoseconds.
    jitter: u64,
    /// Arrival of the last packet.
    latest: u64,
    random: SplitMix,
}

/// Nanoseconds per second times bits per byte.
const BIT_NANOS: u128 = 8_000_000_000;

impl Link {
    /// An idle link. Equal seeds lose equal segments.
    pub fn new(shape: &Shape, seed: u64) -> Self {
        Self {
            rate: u128::from(shape.rate.max(1)),
            delay: u64::try_from(shape.delay.as_nanos()).unwrap_or(u64::MAX),
            queue: u128::from(shape.queue),
            free_at: 0,
            carry: 0,
            loss: Loss::new(shape.loss, seed),
            reorder: Loss::new(shape.reorder, seed.rotate_left(32)),
            jitter: u64::try_from(shape.jitter.as_nanos()).unwrap_or(u64::MAX),
            latest: 0,
            random: SplitMix(seed.rotate_left(16)),
        }
    }

    /// Bytes in the queue, the packet being transmitted included.
    pub fn backlog(&self, now: u64) -> u64 {
        let wait = u128::from(self.free_at.saturating_sub(now));
        u64::try_from((wait * self.rate).div_ceil(BIT_NANOS)).unwrap_or(u64::MAX)
    }

    /// Number of `count` segments of `len` wire bytes each that fit now. An idle line accepts one of any
    /// length, because it needs no queue.
    pub fn room(&self, now: u64, len: u64, count: u64) -> u64 {
        let backlog = u128::from(self.backlog(now));
        if backlog == 0 {
            return count.min(1.max(u64::try_from(self.queue / u128::from(len.max(1))).unwrap_or(u64::MAX)));
        }
        let free = self.queue.saturating_sub(backlog) / u128::from(len.max(1));
        count.min(u64::try_from(free).unwrap_or(u64::MAX))
    }

    /// Transmits `len` accepted wire bytes, and returns when the last of them arrives.
    pub fn transmit(&mut self, now: u64, len: u64) -> u64 {
        if self.free_at <= now {
            self.free_at = now;
            self.carry = 0;
        }
        let total = u128::from(len) * BIT_NANOS + self.carry;
        self.carry = total % self.rate;
        let took = u64::try_from(total / self.rate).unwrap_or(u64::MAX);
        self.free_at = self.free_at.saturating_add(took);
        let arrives = self.free_at.saturating_add(self.delay);
        if self.jitter > 0 {
            self.latest = self.latest.max(arrives.saturating_add(self.random.draw() % self.jitter));
            return self.latest;
        }
        arrives
    }

    /// Sends one segment of `len` wire bytes.
    pub fn enqueue(&mut self, now: u64, len: u64) -> Fate {
        if self.room(now, len, 1) == 0 {
            return Fate::Refused;
        }
        let arrival = self.transmit(now, len);
        if self.loss.next_lost(1).is_some() { Fate::Lost } else { Fate::Arrives(arrival) }
    }

    /// Index of the first lost segment among the next `count` transmitted ones; call it again for the later
    /// ones.
    pub fn next_lost(&mut self, count: u64) -> Option<u64> {
        self.loss.next_lost(count)
    }

    /// Draws the fate of the next `count` transmitted segments; true if one of them is to be overtaken.
    pub fn next_overtaken(&mut self, count: u64) -> bool {
        let mut left = count;
        let mut is_overtaken = false;
        while let Some(at) = self.reorder.next_lost(left) {
            is_overtaken = true;
            left -= at + 1;
        }
        is_overtaken
    }
}

/// Independent random losses, as the number of segments until the next loss.
///
/// Drawing the distance (geometrically distributed) costs a logarithm per loss instead of a random number per
/// segment.
#[derive(Debug)]
struct Loss {
    /// `ln(1 - p)`; zero without loss.
    log_kept: f64,
    random: SplitMix,
    until: u64,
}

/// SplitMix64: a bijection of a counter, sufficient for losses and equal on all machines.
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Loss {
    fn new(probability: f64, seed: u64) -> Self {
        let log_kept = if probability > 0.0 { (-probability).ln_1p() } else { 0.0 };
        let mut this = Self { log_kept, random: SplitMix(seed), until: u64::MAX };
        this.draw();
        this
    }

    fn draw(&mut self) {
        if self.log_kept < 0.0 {
            // In (0, 1], because the logarithm of zero is infinite.
            let uniform = ((self.random.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            self.until = (uniform.ln() / self.log_kept) as u64;
        }
    }

    fn next_lost(&mut self, count: u64) -> Option<u64> {
        if self.log_kept == 0.0 {
            return None;
        }
        if self.until >= count {
            self.until -= count;
            return None;
        }
        let at = self.until;
        self.draw();
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn shape(rate: u64, delay_ms: u64, queue: u64, loss: f64) -> Shape {
        let delay = Duration::from_millis(delay_ms);
        Shape { rate, delay, queue, loss, reorder: 0.0, jitter: Duration::ZERO }
    }

    #[test]
    fn jitter_delays_packets_and_keeps_their_order() {
        let jittery = Shape { jitter: Duration::from_millis(30), ..shape(8_000_000_000, 20, 1 << 20, 0.0) };
        let mut link = Link::new(&jittery, 5);
        // A packet each 100 ms: each has its own delay.
        let delays: Vec<u64> =
            (0..200).map(|n| link.transmit(n * 100 * MS, 1000) - n * 100 * MS - 20 * MS).collect();
        assert!(delays.iter().all(|delay| *delay <= 30 * MS + 1000), "{delays:?}");
        assert!(
            delays.iter().min() < Some(&(3 * MS)) && delays.iter().max() > Some(&(27 * MS)),
            "{delays:?}"
        );
        // A packet each microsecond: none overtakes another.
        let arrivals: Vec<u64> = (0..200).map(|n| link.transmit(30_000 * MS + n * 1000, 1000)).collect();
        assert!(arrivals.is_sorted());
    }

    #[test]
    fn single_packet_takes_transmission_and_delay() {
        let mut link = Link::new(&shape(100_000_000, 25, 1 << 20, 0.0), 1);
        // 1250 bytes at 100 Mb/s: 100 µs.
        assert_eq!(link.enqueue(7 * MS, 1250), Fate::Arrives(7 * MS + 100_000 + 25 * MS));
        // The line is idle again: no state remains.
        assert_eq!(link.enqueue(9 * MS, 1250), Fate::Arrives(9 * MS + 100_000 + 25 * MS));
    }

    #[test]
    fn packets_in_a_row_leave_at_the_rate_and_in_order() {
        let mut link = Link::new(&shape(8_000_000, 10, 1 << 20, 0.0), 1);
        let arrivals: Vec<Fate> = (0..3).map(|_| link.enqueue(0, 1000)).collect();
        assert_eq!(arrivals, [1, 2, 3].map(|n| Fate::Arrives(n * MS + 10 * MS)));
        assert_eq!(link.backlog(0), 3000);
        assert_eq!(link.backlog(MS + MS / 2), 1500);
        assert_eq!(link.backlog(3 * MS), 0);
    }

    #[test]
    fn odd_rates_are_exact_over_a_second() {
        for rate in [1_000_003, 7_777_777, 2_000_000_000, 3_141_592_653, 9_999_999_967] {
            let mut link = Link::new(&shape(rate, 0, u64::MAX, 0.0), 1);
            let packets = rate / 8 / 54;
            let mut last = 0;
            for _ in 0..packets {
                let Fate::Arrives(at) = link.enqueue(0, 54) else { panic!("refused") };
                assert!(at >= last);
                last = at;
            }
            let exact = u128::from(packets) * 54 * BIT_NANOS / u128::from(rate);
            assert_eq!(u128::from(last), exact, "{rate}");
        }
    }

    #[test]
    fn queue_is_bounded_and_drains_at_the_rate() {
        let mut link = Link::new(&shape(8_000_000, 10, 5_000, 0.0), 1);
        let taken = (0..20).filter(|_| link.enqueue(0, 1000) != Fate::Refused).count();
        assert_eq!(taken, 5);
        assert_eq!(link.enqueue(MS - 1, 1000), Fate::Refused, "not one byte too early");
        assert_eq!(link.enqueue(MS, 1000), Fate::Arrives(16 * MS));
        assert_eq!(link.enqueue(MS, 1), Fate::Refused);
    }

    #[test]
    fn idle_line_takes_packets_beyond_the_queue_size() {
        let mut link = Link::new(&shape(8_000_000, 0, 100, 0.0), 1);
        assert_eq!(link.enqueue(0, 1000), Fate::Arrives(MS));
        assert_eq!(link.enqueue(MS / 2, 1000), Fate::Refused);
        assert_eq!(link.enqueue(MS, 1000), Fate::Arrives(2 * MS));
        assert_eq!(link.room(5 * MS, 10, 44), 10);
    }

    #[test]
    fn loss_rate_is_met_and_losses_occupy_the_line() {
        for loss in [0.5, 0.01, 0.0001] {
            let mut link = Link::new(&shape(8_000_000_000, 0, u64::MAX, loss), 42);
            let count = 2_000_000u32;
            let lost = (0..count).filter(|_| link.enqueue(0, 1000) == Fate::Lost).count() as f64;
            let expected = f64::from(count) * loss;
            let sigma = (expected * (1.0 - loss)).sqrt();
            assert!((lost - expected).abs() < 5.0 * sigma, "{loss}: {lost} of {count}");
            assert_eq!(link.backlog(0), u64::from(count) * 1000);
        }
    }

    #[test]
    fn batched_losses_equal_single_ones() {
        let mut one = Link::new(&shape(1 << 30, 0, u64::MAX, 0.03), 9);
        let mut many = Link::new(&shape(1 << 30, 0, u64::MAX, 0.03), 9);
        let singly: Vec<u64> = (0..44_000).filter(|_| one.next_lost(1).is_some()).collect();
        let mut together = Vec::new();
        for batch in 0..1000 {
            let mut at = 0;
            while let Some(lost) = many.next_lost(44 - at) {
                together.push(batch * 44 + at + lost);
                at += lost + 1;
            }
        }
        assert_eq!(singly, together);
        assert!(!singly.is_empty());
    }

    #[test]
    fn zero_loss_drops_no_segment() {
        let mut link = Link::new(&shape(1 << 40, 0, u64::MAX, 0.0), 3);
        assert_eq!(link.next_lost(u64::MAX), None);
        assert_eq!(shape(2_000_000_000, 25, 0, 0.0).in_flight(), 6_250_000);
    }
}
