//! Tests of the buffers' content and memory use.

use super::*;
use crate::receive_buffer::{RETIRED, RETIRED_BEHIND};

#[test]
fn packets_written_in_place_arrive() {
    let mut pair = Pair::established(Config::client(), server_config());
    // All ways to use a batch: full, shortened at the end, dropped at the end, all dropped.
    let sizes = [[100, 200, 300], [100, 200, 150], [100, 7, 0], [50, 0, 0], [0, 0, 0]];
    let mut expected = Vec::new();
    for used in sizes {
        pair.client.transport.reserve(&[100, 200, 300]);
        let mut slices = pair.client.transport.reserved(3);
        assert_eq!(slices.iter().map(|slice| slice.len()).collect::<Vec<_>>(), [100, 200, 300]);
        for (i, &size) in used.iter().enumerate() {
            slices[i][..size].fill(94 + i as u8);
        }
        pair.client.transport.commit(&used);
        expected.extend(
            used.iter().enumerate().filter(|(_, size)| **size > 0).map(|(i, &size)| vec![94 + i as u8; size]),
        );
        pair.client.send(&[99]);
        expected.push(vec![99]);
    }
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.server.packets, expected);
}

#[test]
fn batch_shortened_in_the_middle_stays_correct() {
    let mut pair = Pair::established(Config::client(), server_config());
    pair.client.transport.reserve(&[100, 100, 100]);
    let mut slices = pair.client.transport.reserved(3);
    slices[0][..10].fill(94);
    slices[2].fill(95);
    pair.client.transport.commit(&[10, 0, 200]);
    pair.drive();
    pair.assert_well();
    assert_eq!(pair.server.packets, [vec![94; 10], vec![95; 100]]);
}

#[test]
fn partial_writes_keep_data() {
    let mut pair = Pair::established(Config::client(), server_config());
    let payloads: Vec<Vec<u8>> = (0..100).map(|number| numbered(number, 30_000)).collect();
    for payload in &payloads {
        pair.client.send(payload);
    }
    let queued = pair.client.transport.queued_bytes();
    let now = pair.clock.now();
    pair.client.transport.output(now);
    assert_eq!(pair.client.transport.queued_bytes(), queued);
    let mut written = 0;
    while pair.client.transport.queued_bytes() > 0 {
        let mut slices = Vec::new();
        pair.client.transport.output_slices(&mut slices);
        let part = &slices[0][..slices[0].len().min(77_777)];
        pair.link.up.push(now, part);
        let n = part.len();
        pair.client.transport.written(n);
        written += n;
    }
    assert_eq!(written, queued);
    pair.drive();
    pair.assert_well();
    assert!(pair.server.packets == payloads);
}

#[test]
fn idle_connections_use_little_memory() {
    let mut pair = Pair::established(Config::client(), server_config());
    let memory = |pair: &Pair| {
        let ends = [&pair.client.transport, &pair.server.transport];
        ends.map(|end| end.send.footprint() + end.recv.footprint())
    };
    assert!(memory(&pair).iter().all(|&bytes| bytes <= 128 << 10), "{:?}", memory(&pair));
    for _ in 0..20 {
        pair.exchange(&[32 << 10; 100]);
    }
    let busy = memory(&pair);
    assert!(busy.iter().all(|&bytes| bytes < 12 << 20), "{busy:?}");
    // Single keystrokes.
    for _ in 0..100 {
        pair.exchange(&[1]);
    }
    assert!(memory(&pair).iter().all(|&bytes| bytes <= 128 << 10), "{:?}", memory(&pair));
}

#[test]
fn backlog_memory_is_reused_and_then_freed() {
    let mut pair = Pair::established(Config::client(), server_config());
    let mut kept = Vec::new();
    let now = pair.clock.now();
    let receive = |pair: &mut Pair, kept: &mut Vec<bytes::Bytes>, most: usize| {
        for number in 0..8 {
            pair.client.send(&numbered(number, 30_000));
        }
        pair.client.flush(now, &mut pair.link.up);
        pair.server.fetch(now, &mut pair.link.up);
        while let Some(event) = pair.server.transport.poll(now).unwrap() {
            if let Event::Packet(payload) = event {
                kept.push(payload);
            }
        }
        kept.drain(..kept.len().saturating_sub(most));
    };
    // The consumer of the payloads stays 10 MiB behind.
    for _ in 0..200 {
        receive(&mut pair, &mut kept, 340);
    }
    let behind = pair.server.transport.recv.retired();
    assert!((8..=12).contains(&behind), "{behind}");
    // The consumer is farther behind than memory is kept for.
    for _ in 0..200 {
        receive(&mut pair, &mut kept, 1_500);
    }
    assert_eq!(pair.server.transport.recv.retired(), RETIRED_BEHIND);
    kept.clear();
    for _ in 0..5_000 {
        receive(&mut pair, &mut kept, 0);
    }
    assert_eq!(pair.server.transport.recv.retired(), RETIRED);
}

#[test]
fn payloads_outlive_their_receive_buffer() {
    let mut pair = Pair::established(Config::client(), server_config());
    let mut kept = Vec::new();
    let now = pair.clock.now();
    for number in 0..300 {
        pair.client.send(&numbered(number, 20_000));
        pair.client.flush(now, &mut pair.link.up);
        pair.server.fetch(now, &mut pair.link.up);
        while let Some(event) = pair.server.transport.poll(now).unwrap() {
            if let Event::Packet(payload) = event {
                kept.push(payload);
            }
        }
    }
    assert_eq!(kept.len(), 300);
    for (number, payload) in kept.iter().enumerate() {
        assert!(payload[..] == numbered(number, 20_000)[..], "packet {number}");
    }
}
