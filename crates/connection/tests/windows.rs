//! Tests of window accounting: gigabytes through one channel, and a path in virtual time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_connection::{ChannelId, ChannelOptions, Config, Connection, Event, WindowPolicy};
use lh_wire::msg::{self, Rest};
use lh_wire::{Message, PacketSink, Slices};

/// A sink that returns the same buffers repeatedly, so that gigabytes cost no memory.
#[derive(Default)]
struct Lender {
    buffers: Vec<Vec<u8>>,
    /// Bytes of payload.
    bytes: u64,
    credit: u64,
    adjusts: u64,
}

impl PacketSink for Lender {
    fn payload(&mut self, payload: &[u8]) {
        if let Ok(adjust) = msg::ChannelWindowAdjust::decode(payload) {
            assert!(adjust.bytes > 0);
            self.credit += u64::from(adjust.bytes);
            self.adjusts += 1;
        }
    }

    fn reserve(&mut self, sizes: &[usize]) {
        self.buffers.resize_with(sizes.len(), Vec::new);
        for (buffer, &size) in self.buffers.iter_mut().zip(sizes.iter()) {
            buffer.resize(size, 0);
        }
    }

    fn reserved(&mut self, _: usize) -> Slices<'_> {
        self.buffers.iter_mut().map(|buffer| &mut buffer[..]).collect()
    }

    fn commit(&mut self, used: &[usize]) {
        self.bytes += used.iter().map(|&size| size as u64).sum::<u64>();
    }
}

fn opened(options: &ChannelOptions, window: u32, config: Config) -> (Connection, ChannelId, Lender) {
    let mut connection = Connection::new(config);
    let mut sink = Lender::default();
    let id = connection.open("session", b"", options, &mut sink).unwrap();
    let confirmation =
        msg::ChannelOpenConfirmation::new(id.number(), 3, window, 256 << 10, Rest(b"")).to_payload();
    connection.handle(Bytes::from(confirmation), Instant::now(), &mut sink).unwrap();
    connection.poll_event();
    (connection, id, sink)
}

#[test]
fn receiving_continues_beyond_4_gib() {
    let now = Instant::now();
    let options = ChannelOptions { window: WindowPolicy::BULK, max_packet: 256 << 10 };
    let config = Config { max_receive_packet: 256 << 10, ..Config::default() };
    let (mut connection, id, mut sink) = opened(&options, 0, config);
    let packet = Bytes::from(msg::ChannelData::new(id.number(), &vec![0; 256 << 10]).to_payload());
    let mut allowed = u64::from(options.window.initial);
    let (mut total, mut credited) = (0u64, 0);
    while total < (1 << 33) + (1 << 25) {
        while allowed >= 256 << 10 {
            connection.handle(packet.clone(), now, &mut sink).unwrap();
            allowed -= 256 << 10;
            total += 256 << 10;
            assert!(matches!(connection.poll_event(), Some(Event::Data { .. })));
            connection.consumed(id, 256 << 10, now, &mut sink);
        }
        assert!(sink.credit > credited, "no credit after {total} bytes");
        allowed += sink.credit - credited;
        credited = sink.credit;
    }
    assert!(credited <= total + u64::from(options.window.cap));
}

/// Receives `packets` packets of 32 KiB where the window permits, and passes them on at once. Returns the
/// most that the peer had left.
fn receive(
    connection: &mut Connection,
    id: ChannelId,
    sink: &mut Lender,
    allowed: &mut u64,
    packets: usize,
) -> u64 {
    let size = 32 << 10;
    let packet = Bytes::from(msg::ChannelData::new(id.number(), &vec![0; size]).to_payload());
    let now = Instant::now();
    let mut most = 0;
    for _ in 0..packets {
        assert!(*allowed >= size as u64, "the peer waits for credit that is not due");
        *allowed -= size as u64;
        connection.handle(packet.clone(), now, sink).unwrap();
        connection.poll_event();
        connection.consumed(id, size, now, sink);
        *allowed += std::mem::take(&mut sink.credit);
        most = most.max(*allowed);
    }
    most
}

#[test]
fn a_held_window_runs_out_to_its_limit_and_comes_back() {
    let hold = 256 << 10;
    let window = WindowPolicy { initial: 2 << 20, cap: 2 << 20 };
    let options = ChannelOptions { window, max_packet: 32 << 10 };
    let (mut connection, id, mut sink) = opened(&options, 0, Config::default());
    let mut allowed = u64::from(window.initial);
    receive(&mut connection, id, &mut sink, &mut allowed, 100);
    connection.hold_windows(Some(hold));
    receive(&mut connection, id, &mut sink, &mut allowed, 100);
    assert!(receive(&mut connection, id, &mut sink, &mut allowed, 1000) <= u64::from(hold));
    connection.hold_windows(None);
    assert!(receive(&mut connection, id, &mut sink, &mut allowed, 100) > 1 << 20);
}

#[test]
fn credit_that_was_kept_back_is_due_without_consumption() {
    let hold = 256 << 10;
    let window = WindowPolicy { initial: 2 << 20, cap: 2 << 20 };
    let options = ChannelOptions { window, max_packet: 32 << 10 };
    let (mut connection, id, mut sink) = opened(&options, 0, Config::default());
    let mut allowed = u64::from(window.initial);
    connection.hold_windows(Some(hold));
    receive(&mut connection, id, &mut sink, &mut allowed, 100);
    // A handler that waits for a message of a megabyte before it consumes anything.
    let size = 32 << 10;
    let packet = Bytes::from(msg::ChannelData::new(id.number(), &vec![0; size]).to_payload());
    let now = Instant::now();
    for received in 0..(1 << 20) / size {
        assert!(allowed >= size as u64, "stuck after {received} packets");
        allowed -= size as u64;
        connection.handle(packet.clone(), now, &mut sink).unwrap();
        connection.poll_event();
        connection.consumed(id, 0, now, &mut sink);
        allowed += std::mem::take(&mut sink.credit);
    }
}

#[test]
fn sending_continues_beyond_4_gib() {
    let config = Config { max_send_packet: 256 << 10, ..Config::default() };
    let (mut connection, id, mut sink) = opened(&ChannelOptions::default(), u32::MAX, config);
    assert_eq!(connection.send_budget(id), u32::MAX as usize, "2^32-1 is honoured");
    let (mut total, mut allowed) = (0u64, u64::from(u32::MAX));
    while total < 1 << 33 {
        let reserved = connection.reserve(id, None, usize::MAX, &mut sink);
        assert_eq!(connection.slices(&mut sink).total(), reserved);
        let sent = connection.commit(reserved, &mut sink);
        assert!(sent > 0, "nothing sent after {total} bytes");
        total += sent as u64;
        allowed -= sent as u64;
        assert_eq!(connection.send_budget(id) as u64, allowed);
        if allowed < 1 << 20 {
            let adjust = u32::MAX - u32::try_from(allowed).unwrap();
            let adjust = msg::ChannelWindowAdjust::new(id.number(), adjust).to_payload();
            connection.handle(Bytes::from(adjust), Instant::now(), &mut sink).unwrap();
            allowed = u64::from(u32::MAX);
        }
    }
}

/// A path in virtual time: a sender that is limited by the window, a rate, and a delay.
struct Path {
    /// Bytes per second.
    rate: u64,
    round_trip: Duration,
    /// Rate of the receiver's sink, bytes/s.
    sink_rate: u64,
}

impl Path {
    /// Runs for `time`; returns the bytes delivered in the last second and the final window.
    fn run(&self, options: &ChannelOptions, config: Config, time: Duration) -> (u64, u64) {
        let start = Instant::now();
        let (mut connection, id, mut sink) = opened(options, 0, config);
        let packet_len = 32 << 10;
        let packet = Bytes::from(msg::ChannelData::new(id.number(), &vec![0; packet_len]).to_payload());
        // The step is the transmission time of one packet.
        let step = Duration::from_secs_f64(packet_len as f64 / self.rate as f64);
        let half = self.round_trip / 2;
        let mut credits: VecDeque<(Duration, u64)> = VecDeque::new();
        let mut packets: VecDeque<Duration> = VecDeque::new();
        let (mut allowed, mut seen, mut held) = (u64::from(options.window.initial), 0, 0usize);
        let (mut last_second, mut sink_credit) = (0, 0.0);
        let mut now = Duration::ZERO;
        while now < time {
            // Deliver credit to the sender.
            while credits.front().is_some_and(|(at, _)| *at <= now) {
                allowed += credits.pop_front().unwrap().1;
            }
            if allowed >= packet_len as u64 {
                allowed -= packet_len as u64;
                packets.push_back(now + half);
            }
            // Deliver packets to the receiver.
            let mut arrived = false;
            while packets.front().is_some_and(|at| *at <= now) {
                packets.pop_front();
                connection.handle(packet.clone(), start + now, &mut sink).unwrap();
                connection.poll_event();
                held += packet_len;
                arrived = true;
            }
            sink_credit = (sink_credit + step.as_secs_f64() * self.sink_rate as f64).min(1e6);
            let take = held.min(sink_credit as usize);
            if take > 0 && (arrived || take > 4096) {
                sink_credit -= take as f64;
                held -= take;
                connection.consumed(id, take, start + now, &mut sink);
                if now + Duration::from_secs(1) >= time {
                    last_second += take as u64;
                }
            }
            if sink.credit > seen {
                credits.push_back((now + half, sink.credit - seen));
                seen = sink.credit;
            }
            now += step;
        }
        (last_second, connection.receive_window(id))
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn window_grows_on_a_long_path() {
    // 1 Gb/s at 200 ms is 25 MB in flight: twelve times the initial window.
    let path = Path { rate: 125_000_000, round_trip: Duration::from_millis(200), sink_rate: u64::MAX };
    let (rate, window) = path.run(&ChannelOptions::default(), Config::default(), Duration::from_secs(6));
    assert!(rate > 115_000_000, "{rate} bytes in the last second, window {window}");
    assert!(window <= 64 * MIB);
}

#[test]
fn window_stays_small_on_a_short_path() {
    // 1 Gb/s at 2 ms is 250 kB in flight.
    let path = Path { rate: 125_000_000, round_trip: Duration::from_millis(2), sink_rate: u64::MAX };
    let (rate, window) = path.run(&ChannelOptions::default(), Config::default(), Duration::from_secs(3));
    assert!(rate > 115_000_000, "{rate}");
    assert!(window <= 4 * MIB, "{window}");
}

#[test]
fn slow_sink_does_not_grow_the_window() {
    let path = Path { rate: 125_000_000, round_trip: Duration::from_millis(100), sink_rate: 4_000_000 };
    let (_, window) = path.run(&ChannelOptions::default(), Config::default(), Duration::from_secs(5));
    assert!(window <= 4 * MIB, "{window}");
}

#[test]
fn caps_and_growth_budget_hold() {
    let path = Path { rate: 125_000_000, round_trip: Duration::from_millis(200), sink_rate: u64::MAX };
    let window = WindowPolicy::BULK.with_cap(15 << 20);
    let options = ChannelOptions { window, ..ChannelOptions::default() };
    let (_, size) = path.run(&options, Config::default(), Duration::from_secs(6));
    assert_eq!(size, 15 * MIB);
    let config = Config { growth_budget: MIB, ..Config::default() };
    let (_, size) = path.run(&ChannelOptions::default(), config, Duration::from_secs(6));
    assert_eq!(size, 3 * MIB);
}

/// The user's window configuration applies to every channel that may carry bulk data, and to no other.
///
/// Covers: ssh_config TcpRcvBufPoll; ssh_config HPNBufferSize; sshd_config TcpRcvBufPoll; sshd_config HPNBufferSize
#[test]
fn configured_window_applies_to_bulk_channels_only() {
    const MIB: u32 = 1 << 20;
    let policy = WindowPolicy::configured;
    assert_eq!(policy(true, None), WindowPolicy::BULK);
    assert_eq!(policy(true, Some(MIB)), WindowPolicy { initial: MIB, cap: MIB });
    assert_eq!(policy(true, Some(16 * MIB)), WindowPolicy::BULK.with_cap(16 * MIB));
    assert_eq!(policy(false, None), WindowPolicy::fixed(2 * MIB));
    assert_eq!(policy(false, Some(16 * MIB)), WindowPolicy::fixed(16 * MIB));
    for bulk_window in [WindowPolicy::BULK, WindowPolicy::fixed(3 * MIB)] {
        let mut connection = Connection::new(Config { bulk_window, ..Config::default() });
        let mut out: Vec<Vec<u8>> = Vec::new();
        let other = ChannelOptions { window: WindowPolicy::fixed(64 << 10), ..ChannelOptions::default() };
        for (options, window) in [(ChannelOptions::default(), bulk_window.initial), (other, 64 << 10)] {
            connection.open("session", b"", &options, &mut out).expect("a channel is free");
            let output = out.pop().expect("an open");
            assert_eq!(msg::ChannelOpen::decode(&output).expect("a CHANNEL_OPEN").window, window);
        }
    }
}

#[test]
fn credit_is_not_sent_for_every_packet() {
    let now = Instant::now();
    let (mut connection, id, mut sink) = opened(&ChannelOptions::default(), 0, Config::default());
    let packet = Bytes::from(msg::ChannelData::new(id.number(), &vec![0; 32 << 10]).to_payload());
    for _ in 0..1000 {
        connection.handle(packet.clone(), now, &mut sink).unwrap();
        connection.poll_event();
        connection.consumed(id, 32 << 10, now, &mut sink);
    }
    assert!((100..=250).contains(&sink.adjusts), "{}", sink.adjusts);
}
