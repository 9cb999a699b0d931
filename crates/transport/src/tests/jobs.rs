//! Tests of sealing and opening by workers: same bytes, packets and errors, in any order of jobs.

use std::collections::VecDeque;

use bytes::Bytes;
use lh_crypto::{Cipher, Direction, Mac, PacketKey};
use proptest::prelude::*;

use super::*;
use crate::FreezeError;
use crate::job::{Job, Work};
use crate::padding::PaddingPool;
use crate::recv::Receiver;
use crate::send::Sender;

/// Worker pool that runs jobs in random order, at most `hands` per call.
pub(crate) struct Helpers {
    random: Seeded,
    hands: usize,
    taken: Vec<Job>,
}

impl Helpers {
    pub(crate) fn new(seed: u64, hands: usize) -> Self {
        Self { random: Seeded::new(seed), hands, taken: Vec::new() }
    }

    /// Takes new jobs and brings back some finished ones; returns true when it brought back any.
    pub(crate) fn work(&mut self, transport: &mut Transport) -> bool {
        while let Some(job) = transport.next_job() {
            self.taken.push(job);
        }
        let done = self.some();
        let any = !done.is_empty();
        done.into_iter().for_each(|job| transport.finish_job(job));
        any
    }

    fn some(&mut self) -> Vec<Job> {
        let count = self.taken.len().min(1 + self.random.below(self.hands));
        (0..count)
            .map(|_| {
                let mut job = self.taken.swap_remove(self.random.below(self.taken.len()));
                job.run();
                job
            })
            .collect()
    }
}

/// Returns every cipher with every MAC that it can have.
fn suites() -> Vec<(&'static Cipher, Option<&'static Mac>)> {
    let mut suites = Vec::new();
    for cipher in Cipher::ALL {
        if cipher.is_aead() {
            suites.push((cipher, None));
        } else {
            suites.extend(Mac::ALL.iter().map(|mac| (cipher, Some(mac))));
        }
    }
    suites
}

fn key(direction: Direction, (cipher, mac): (&'static Cipher, Option<&'static Mac>)) -> PacketKey {
    let mac_key = vec![3; mac.map_or(0, |mac| mac.key_len)];
    PacketKey::new(direction, cipher, mac, &vec![1; cipher.key_len], &vec![2; cipher.iv_len], &mac_key)
        .unwrap()
}

/// Returns the bytes sent when these payloads are queued in batches of `batch`. `hands` is the number of
/// workers; 0: none.
fn sealed(key: PacketKey, payloads: &[Vec<u8>], batch: usize, hands: usize) -> Vec<u8> {
    let mut sender = Sender::new(PaddingPool::new(random(5)));
    sender.new_keys(key, true);
    sender.set_workers(hands > 0);
    let mut helpers = Helpers::new(hands as u64, hands.max(1));
    let mut bytes = Vec::new();
    let mut rest = payloads;
    while !rest.is_empty() || sender.queued() > 0 {
        let (now, later) = rest.split_at(rest.len().min(batch));
        rest = later;
        if !now.is_empty() {
            let sizes: Vec<usize> = now.iter().map(Vec::len).collect();
            sender.reserve(&sizes);
            let mut slices = sender.reserved();
            slices.iter_mut().zip(now).for_each(|(slice, payload)| slice.copy_from_slice(payload));
            sender.commit(&sizes);
        }
        let mut jobs = VecDeque::new();
        sender.seal(&mut jobs).unwrap();
        helpers.taken.extend(jobs);
        for job in helpers.some() {
            let Work::Seal(work) = job.work else { panic!("not a job of the sender") };
            sender.sealed(job.id, work).unwrap();
        }
        let mut slices = Vec::new();
        sender.slices(&mut slices);
        // Write only part of the output, like a socket.
        let mut n = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(100_000)];
            bytes.extend_from_slice(part);
            n += part.len();
            if part.len() < slice.len() {
                break;
            }
        }
        sender.written(n);
    }
    bytes
}

/// Returns the packets and the error that result when these bytes arrive in pieces of `chunk` bytes.
fn opened(
    key: PacketKey,
    bytes: &[u8],
    chunk: usize,
    hands: usize,
) -> (Vec<(u32, Bytes)>, Option<TransportError>) {
    let mut receiver = Receiver::new(256 * 1024);
    receiver.new_keys(key, true).unwrap();
    receiver.set_workers(hands > 0);
    let mut helpers = Helpers::new(hands as u64, hands.max(1));
    let mut packets = Vec::new();
    let mut rest = bytes;
    loop {
        let space = receiver.space();
        let n = space.len().min(chunk).min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
        receiver.received(n);
        let mut jobs = VecDeque::new();
        loop {
            receiver.cut(true, &mut jobs);
            match receiver.next() {
                Ok(Some(packet)) => packets.push((packet.seq, packet.payload)),
                Ok(None) => break,
                Err(error) => return (packets, Some(error)),
            }
        }
        helpers.taken.extend(jobs);
        let done = helpers.some();
        if rest.is_empty() && n == 0 && done.is_empty() {
            return (packets, None);
        }
        for job in done {
            let Work::Open(work) = job.work else { panic!("not a job of the receiver") };
            receiver.opened(job.id, work);
        }
    }
}

/// Returns payloads of 1 byte to 100,000 bytes, about 2 MiB in total.
fn traffic(seed: u64) -> Vec<Vec<u8>> {
    let mut random = Seeded::new(seed);
    let mut payloads = Vec::new();
    let mut total = 0;
    while total < 2 << 20 {
        let largest = [100, 1000, 32_768, 100_000][random.below(4)];
        let mut payload = vec![0; 1 + random.below(largest)];
        random.fill(&mut payload);
        total += payload.len();
        payloads.push(payload);
    }
    payloads
}

#[test]
fn workers_do_not_change_bytes_or_packets() {
    const RUNS: [(usize, usize, usize); 5] =
        [(0, 8, 30_000), (1, 1, 1 << 20), (1, 16, 200_000), (2, 8, 65_536), (4, 24, 1 << 20)];
    let payloads = traffic(1);
    let mut seen = Vec::new();
    for (number, suite) in suites().into_iter().enumerate() {
        let serial = sealed(key(Direction::Seal, suite), &payloads, 1, 0);
        // Every run with each cipher, and one with each of its other MACs.
        let is_first = !seen.contains(&suite.0.name);
        seen.push(suite.0.name);
        let runs = if is_first { &RUNS[..] } else { &RUNS[number % RUNS.len()..][..1] };
        for &(hands, batch, chunk) in runs {
            let name = (suite.0.name, suite.1.map(|mac| mac.name), hands, batch, chunk);
            assert!(
                sealed(key(Direction::Seal, suite), &payloads, batch, hands) == serial,
                "sealing: {name:?}"
            );
            let (packets, error) = opened(key(Direction::Open, suite), &serial, chunk, hands);
            assert_eq!(error, None, "{name:?}");
            assert!(packets.iter().map(|(_, payload)| payload).eq(&payloads), "opening: {name:?}");
        }
    }
}

#[test]
fn first_bad_packet_ends_it_with_workers_too() {
    let payloads = traffic(2);
    let mut random = Seeded::new(3);
    let aes = ("aes128-ctr", Some("hmac-sha2-256"));
    let etm = ("aes256-ctr", Some("umac-128-etm@openssh.com"));
    let cbc = ("aes128-cbc", Some("hmac-sha2-256-etm@openssh.com"));
    for (cipher, mac) in
        [("aes128-gcm@openssh.com", None), ("chacha20-poly1305@openssh.com", None), aes, etm, cbc]
    {
        let suite = (Cipher::by_name(cipher).unwrap(), mac.map(|mac| Mac::by_name(mac).unwrap()));
        let good = sealed(key(Direction::Seal, suite), &payloads, 1, 0);
        for _ in 0..20 {
            let mut bytes = good.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            let serial = opened(key(Direction::Open, suite), &bytes, 1 << 20, 0);
            assert!(serial.0.len() < payloads.len());
            for (hands, chunk) in [(1, 300_000), (2, 1 << 20), (4, 70_000)] {
                let parallel = opened(key(Direction::Open, suite), &bytes, chunk, hands);
                assert!(parallel == serial, "{cipher}: {:?} is not {:?}", parallel.1, serial.1);
            }
        }
    }
}

/// Returns a pair whose ends use workers.
fn helped(client: Config, server: Config, hands: usize) -> Pair {
    let mut pair = Pair::established(client, server);
    for (end, seed) in [(&mut pair.client, 11), (&mut pair.server, 12)] {
        end.transport.set_workers(true);
        end.helpers = Some(Helpers::new(seed, hands));
    }
    pair
}

#[test]
fn rekeys_with_workers_keep_data() {
    for limit in [40 << 10, 256 << 10, 1 << 20] {
        let (mut client, mut server) = (Config::client(), server_config());
        client.rekey.bytes = Some(limit);
        server.rekey.bytes = Some(limit + 12_345);
        let mut pair = helped(client, server, 3);
        for _ in 0..4 {
            pair.exchange(&[32_000; 60]);
        }
        assert!(pair.client.kex_done() > 3, "{}", pair.client.kex_done());
    }
}

#[test]
fn rekey_in_the_middle_of_a_piece_keeps_data() {
    let mut pair = helped(Config::client(), server_config(), 2);
    let payloads: Vec<Vec<u8>> = (0..90).map(|number| numbered(number, 9_000)).collect();
    for (number, payload) in payloads.iter().enumerate() {
        pair.client.send(payload);
        pair.server.send(payload);
        if number == 40 {
            pair.server.transport.request_rekey();
        }
    }
    pair.drive();
    pair.assert_well();
    assert!(pair.server.packets == payloads && pair.client.packets == payloads);
    assert_eq!((pair.client.kex_done(), pair.server.kex_done()), (2, 2));
    pair.exchange(&[20_000; 50]);
}

#[test]
fn packets_before_a_disconnect_are_delivered() {
    let mut pair = helped(Config::client(), server_config(), 1);
    for number in 0..50 {
        pair.client.send(&numbered(number, 9_000));
    }
    pair.client.transport.disconnect(11, "enough");
    pair.drive();
    assert_eq!(pair.server.packets.len(), 50);
    assert_eq!(pair.server.disconnected(), Some(11));
    assert_eq!(pair.server.transport.poll(pair.clock.now()), Ok(None));
}

#[test]
fn end_of_stream_waits_for_outstanding_jobs() {
    let mut pair = helped(Config::client(), server_config(), 1);
    for number in 0..50 {
        pair.client.send(&numbered(number, 9_000));
    }
    let now = pair.clock.now();
    while pair.client.flush(now, &mut pair.link.up) || pair.client.help() {}
    pair.link.up.close();
    pair.drive();
    assert_eq!(pair.server.packets.len(), 50);
    assert_eq!(pair.server.error, Some(TransportError::Closed { mid_packet: false }));
}

#[test]
fn outstanding_jobs_prevent_freezing() {
    let mut pair = helped(Config::client(), server_config(), 1);
    // Fills large slabs.
    pair.exchange(&[30_000; 20]);
    pair.server.packets.clear();
    let payloads: Vec<Vec<u8>> = (0..30).map(|number| numbered(number, 9_000)).collect();
    payloads.iter().for_each(|payload| pair.client.send(payload));
    let now = pair.clock.now();
    pair.client.transport.output(now);
    let mut job = pair.client.transport.next_job().unwrap();
    assert_eq!(pair.client.transport.freeze().unwrap_err(), FreezeError::Jobs);
    job.run();
    pair.client.transport.finish_job(job);
    // Jobs that were not taken are run by `freeze`.
    let frozen = pair.client.transport.freeze().unwrap();
    pair.client.transport = Transport::thaw(&frozen, Config::client(), random(9), now).unwrap();
    // The other side first has pieces with workers, then pieces that are not polled.
    while pair.client.flush(now, &mut pair.link.up) {}
    pair.server.fetch(now, &mut pair.link.up);
    assert!(matches!(pair.server.transport.poll(now), Ok(None)));
    let mut jobs: Vec<Job> = std::iter::from_fn(|| pair.server.transport.next_job()).collect();
    assert!(!jobs.is_empty());
    assert_eq!(pair.server.transport.freeze().unwrap_err(), FreezeError::Jobs);
    jobs.iter_mut().for_each(Job::run);
    jobs.into_iter().for_each(|job| pair.server.transport.finish_job(job));
    assert_eq!(pair.server.transport.freeze().unwrap_err(), FreezeError::Jobs);
    pair.server.poll(now);
    let frozen = pair.server.transport.freeze().unwrap();
    pair.server.transport = Transport::thaw(&frozen, server_config(), random(10), now).unwrap();
    pair.drive();
    pair.assert_well();
    assert!(pair.server.packets == payloads);
    pair.exchange(&[100; 3]);
}

#[test]
fn small_packets_do_not_become_jobs() {
    let mut pair = helped(Config::client(), server_config(), 1);
    pair.client.send(&numbered(1, 20_000));
    let now = pair.clock.now();
    assert!(pair.client.flush(now, &mut pair.link.up), "sealed and written at once");
    pair.server.fetch(now, &mut pair.link.up);
    assert!(matches!(pair.server.transport.poll(now), Ok(Some(Event::Packet(_)))));
    assert!(pair.client.transport.next_job().is_none() && pair.server.transport.next_job().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_traffic_arrives_unchanged(
        sizes in proptest::collection::vec((1usize..120_000, any::<bool>()), 1..60),
        rekeys in proptest::collection::vec((0usize..60, any::<bool>()), 0..4),
        limit in prop_oneof![Just(None), (20_000u64..2_000_000).prop_map(Some)],
        chunk in prop_oneof![Just(usize::MAX), 1usize..400_000],
        hands in (0usize..5, 0usize..5),
        zlib in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let (mut client, mut server) = (Config::client(), server_config());
        client.rekey.bytes = limit;
        if zlib {
            set_compression(&mut client, "zlib@openssh.com");
        }
        server.max_packet = 256 * 1024;
        let chunking = Chunking::Random(Seeded::new(seed), chunk.min(1 << 20));
        let mut pair = Pair::over(Link::new(Duration::ZERO, chunking), client, server);
        pair.establish();
        for (end, hands) in [(&mut pair.client, hands.0), (&mut pair.server, hands.1)] {
            end.transport.set_workers(hands > 0);
            end.helpers = (hands > 0).then(|| Helpers::new(seed ^ hands as u64, hands));
        }
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for (number, &(size, is_up)) in sizes.iter().enumerate() {
            let payload = numbered(number, size);
            let (end, sent) = if is_up { (&mut pair.client, &mut up) } else { (&mut pair.server, &mut down) };
            end.send(&payload);
            sent.push(payload);
            for &(_, by_client) in rekeys.iter().filter(|(at, _)| *at == number) {
                let end = if by_client { &mut pair.client } else { &mut pair.server };
                end.transport.request_rekey();
            }
            if number % 3 == 0 {
                pair.step();
            }
        }
        pair.drive();
        prop_assert_eq!(pair.errors(), (None, None));
        prop_assert!(pair.server.packets == up && pair.client.packets == down);
    }
}
