//! Sealing and opening packets in memory, with one key shared by 1 to N threads: the ciphers alone. The
//! pipeline's tables follow.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use lh_crypto::{Direction, PacketIndex, PacketKey};

use super::by_workers;
use crate::bench::Bench;
use crate::cipher_suite::CipherSuite;
use crate::table::Table;

/// Packets that each thread works on in turn: as many as a connection's slab holds.
const PACKETS: usize = 16;

/// Runs all suites, each with 1, 2, 4, … threads up to the limit.
pub(super) fn run(bench: &Bench) -> Result<Vec<Table>, String> {
    let most = bench.options.workers;
    let counts: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).chain([most]).collect();
    let time = Duration::from_millis(if bench.options.smoke { 10 } else { 150 });
    let payload = bench.options.packet;
    let ciphers = bench.options.suites.iter().map(|suite| {
        by_workers::table(bench, "ciphers", suite, &counts, &|workers| {
            let seal = together(suite, Direction::Seal, workers, payload, time)?;
            Ok((seal, together(suite, Direction::Open, workers, payload, time)?))
        })
    });
    let mut tables: Vec<Table> = ciphers.collect();
    tables.extend(super::pipeline::run(bench, &counts));
    Ok(tables)
}

/// Payload rate of all workers together, MB/s, measured while all of them work.
fn together(
    suite: &CipherSuite,
    direction: Direction,
    workers: usize,
    payload: usize,
    time: Duration,
) -> Result<f64, String> {
    let sealing = suite.key(Direction::Seal)?;
    let key = suite.key(direction)?;
    let layout = crate::wire::Layout::new(&key, payload);
    let mut sealed = Vec::with_capacity(PACKETS);
    let mut indices = Vec::with_capacity(PACKETS);
    let mut index = PacketIndex::default();
    for _ in 0..PACKETS {
        let mut packet = layout.packet(payload);
        if direction == Direction::Open {
            sealing.seal(&index, &mut packet).map_err(|error| format!("{}: {error}", suite.name()))?;
        }
        sealed.push(packet);
        indices.push(index);
        crate::wire::advance(&mut index, &key, layout.body);
    }
    let barrier = Barrier::new(workers);
    let work = || {
        let mut packets = sealed.clone();
        barrier.wait();
        one(&key, direction, &sealed, &mut packets, &indices, time)
    };
    let rates: Vec<Option<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    });
    let sum: Option<f64> = rates.into_iter().sum();
    sum.map(|packets| packets * payload as f64 / 1e6)
        .ok_or_else(|| format!("{}: a packet was refused", suite.name()))
}

/// Packets per second of one worker. Sealing overwrites its own output again and again. Opening needs a fresh
/// copy of the sealed packet each time, and the copying is not counted.
fn one(
    key: &PacketKey,
    direction: Direction,
    sealed: &[Vec<u8>],
    packets: &mut [Vec<u8>],
    indices: &[PacketIndex],
    time: Duration,
) -> Option<f64> {
    let started = Instant::now();
    let (mut busy, mut count) = (Duration::ZERO, 0_u64);
    while started.elapsed() < time {
        if direction == Direction::Open {
            for (packet, from) in packets.iter_mut().zip(sealed) {
                packet.copy_from_slice(from);
            }
        }
        let start = Instant::now();
        for (packet, index) in packets.iter_mut().zip(indices) {
            match direction {
                Direction::Seal => key.seal(index, packet).ok()?,
                Direction::Open => key.open(index, packet).ok()?,
            }
        }
        busy += start.elapsed();
        count += packets.len() as u64;
    }
    Some(count as f64 / busy.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_measured_with_several_workers() {
        for name in ["aes128-gcm", "chacha20-poly1305", "aes128-ctr+umac-64-etm", "aes256-ctr+hmac-sha2-512"]
        {
            let suite = CipherSuite::parse(name).unwrap();
            for direction in [Direction::Seal, Direction::Open] {
                let rate = together(&suite, direction, 2, 1000, Duration::from_millis(1)).unwrap();
                assert!(rate > 0.0, "{name}");
            }
        }
    }
}
