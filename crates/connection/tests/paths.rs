//! Tests of whole paths in virtual time. Receive windows for rates from 1 to 400 Gb/s and round trips from 1
//! to 200 ms; channels that share a path; stalled sinks; and senders that become slower with large windows.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_connection::{ChannelId, ChannelOptions, Config, Connection, Event, WindowPolicy};
use lh_wire::msg::{self, Rest};
use lh_wire::{Message, PacketSink, Slices};

const GIGABIT: f64 = 125e6;
const MIB: u64 = 1 << 20;

/// Collects credit by the number of the sender's channel.
#[derive(Default)]
struct Credits(Vec<(u32, u64)>);

impl PacketSink for Credits {
    fn payload(&mut self, payload: &[u8]) {
        if let Ok(adjust) = msg::ChannelWindowAdjust::decode(payload) {
            self.0.push((adjust.recipient, u64::from(adjust.bytes)));
        }
    }

    fn reserve(&mut self, _: &[usize]) {
        unreachable!("a receiver sends no data");
    }

    fn reserved(&mut self, _: usize) -> Slices<'_> {
        unreachable!("a receiver sends no data");
    }

    fn commit(&mut self, _: &[usize]) {
        unreachable!("a receiver sends no data");
    }
}

/// Behaviour of a sender.
#[derive(Clone, Copy)]
enum Sender {
    /// Sends as much as window and line permit.
    Willing,
    /// Takes time for each packet in proportion to its window beyond 15 MiB, as OpenSSH does since 8.9:
    /// seconds per packet and per MiB of window.
    SlowedByWindow(f64),
}

struct Channel {
    id: ChannelId,
    packet: Bytes,
    /// Bytes that the sender may send.
    allowed: u64,
    /// Bytes that have arrived.
    delivered: u64,
    stalled: bool,
    /// Number of packets that wait for the sink.
    waiting: u64,
    taken_at: f64,
}

/// A path with one bottleneck, and the receiver under test behind it.
struct Path {
    /// Bytes per second.
    rate: f64,
    round_trip: Duration,
    channels: usize,
    /// Number of channels, counted from the first, whose sink consumes nothing.
    stalled: usize,
    /// Rate of each of the other sinks, bytes/s, as a function of the time in round trips.
    sink: fn(f64) -> f64,
    sender: Sender,
    config: Config,
    packet_len: u32,
    /// The receiver's socket ends at a proxy nearby.
    behind_proxy: bool,
}

struct Outcome {
    /// Bytes that arrived in each round trip, sum of all channels.
    by_round_trip: Vec<f64>,
    /// Bytes that each channel received in the second half of the time.
    late: Vec<u64>,
    windows: Vec<u64>,
    most_held: u64,
    /// Largest backlog in each round trip, bytes.
    held: Vec<u64>,
    /// Bytes that sinks consumed in each round trip, sum of all channels.
    taken: Vec<f64>,
}

impl Path {
    fn new(rate: f64, round_trip_ms: u64) -> Self {
        Self {
            rate,
            round_trip: Duration::from_millis(round_trip_ms),
            channels: 1,
            stalled: 0,
            sink: |_| f64::INFINITY,
            sender: Sender::Willing,
            config: Config { growth_budget: u64::MAX, ..Config::default() },
            packet_len: 240 << 10,
            behind_proxy: false,
        }
    }

    fn capacity(&self) -> f64 {
        self.rate * self.round_trip.as_secs_f64()
    }

    fn run(&self, round_trips: u32) -> Outcome {
        let start = Instant::now();
        let window = WindowPolicy { cap: u32::MAX, ..WindowPolicy::BULK };
        let options = ChannelOptions { window, max_packet: self.packet_len };
        let config = Config { max_receive_packet: self.packet_len, ..self.config };
        let mut connection = Connection::new(config);
        let mut sink = Credits::default();
        if self.behind_proxy {
            connection.round_trip_measured(Duration::from_micros(100));
            connection.peer_answered(self.round_trip);
        }
        let mut channels: Vec<Channel> = (0..self.channels)
            .map(|number| {
                let id = connection.open("session", b"", &options, &mut sink).unwrap();
                let remote = u32::try_from(number).unwrap();
                let confirmed = msg::ChannelOpenConfirmation::new(id.number(), remote, 0, 1 << 15, Rest(b""))
                    .to_payload();
                connection.handle(Bytes::from(confirmed), start, &mut sink).unwrap();
                connection.poll_event();
                let data = vec![0; self.packet_len as usize];
                Channel {
                    id,
                    packet: Bytes::from(msg::ChannelData::new(id.number(), &data).to_payload()),
                    allowed: u64::from(window.initial),
                    delivered: 0,
                    stalled: number < self.stalled,
                    waiting: 0,
                    taken_at: f64::INFINITY,
                }
            })
            .collect();
        let half = self.round_trip.as_secs_f64() / 2.0;
        let round_trip = self.round_trip.as_secs_f64();
        let end = round_trip * f64::from(round_trips);
        let line_time = f64::from(self.packet_len) / self.rate;
        // Elements are (arrival, channel) and (arrival, channel, bytes). Both directions preserve the order.
        let mut packets: VecDeque<(f64, usize)> = VecDeque::new();
        let mut credits: VecDeque<(f64, usize, u64)> = VecDeque::new();
        let mut by_round_trip = vec![0.0; round_trips as usize + 1];
        let mut held = vec![0; round_trips as usize + 1];
        let mut taken = vec![0.0; round_trips as usize + 1];
        // Time that a sink needs for a packet; a sink that stalls is asked again soon.
        let pace = |now: f64| match (self.sink)(now / round_trip) {
            0.0 => (round_trip / 50.0, false),
            rate => (f64::from(self.packet_len) / rate, true),
        };
        let mut at_half: Vec<u64> = Vec::new();
        let (mut free_at, mut turn, mut most_held, mut now) = (0.0f64, 0usize, 0u64, 0.0f64);
        while now < end {
            // The sender: one packet whenever the line is free, channels in turn.
            while free_at <= now {
                let ready = (0..channels.len())
                    .map(|step| (turn + step) % channels.len())
                    .find(|&channel| channels[channel].allowed >= u64::from(self.packet_len));
                let Some(channel) = ready else { break };
                turn = channel + 1;
                let extra = match self.sender {
                    Sender::Willing => 0.0,
                    Sender::SlowedByWindow(cost) => {
                        cost * (channels[channel].allowed as f64 / MIB as f64 - 15.0).max(0.0)
                    }
                };
                channels[channel].allowed -= u64::from(self.packet_len);
                free_at = free_at.max(now) + line_time.max(extra);
                packets.push_back((free_at + half, channel));
            }
            // Advance to the next event.
            let arrival = packets.front().map_or(f64::INFINITY, |packet| packet.0);
            let credit = credits.front().map_or(f64::INFINITY, |credit| credit.0);
            let can_send = channels.iter().any(|channel| channel.allowed >= u64::from(self.packet_len));
            let sink_ready = channels.iter().map(|channel| channel.taken_at).fold(f64::INFINITY, f64::min);
            let next =
                arrival.min(credit).min(sink_ready).min(if can_send { free_at } else { f64::INFINITY });
            assert!(next.is_finite(), "no event is pending");
            now = next.max(now);
            if at_half.is_empty() && now >= end / 2.0 {
                at_half = channels.iter().map(|channel| channel.delivered).collect();
            }
            while credits.front().is_some_and(|credit| credit.0 <= now) {
                let (_, channel, bytes) = credits.pop_front().unwrap();
                channels[channel].allowed += bytes;
                assert!(channels[channel].allowed <= u64::from(u32::MAX), "a window has 32 bits");
            }
            while packets.front().is_some_and(|packet| packet.0 <= now) {
                let (_, number) = packets.pop_front().unwrap();
                let channel = &mut channels[number];
                let at = start + Duration::from_secs_f64(now);
                connection.handle(channel.packet.clone(), at, &mut sink).unwrap();
                assert!(matches!(connection.poll_event(), Some(Event::Data { .. })));
                channel.delivered += u64::from(self.packet_len);
                by_round_trip[((now / round_trip) as usize).min(round_trips as usize)] +=
                    f64::from(self.packet_len);
                channel.waiting += 1;
                if !channel.stalled && channel.taken_at.is_infinite() {
                    channel.taken_at = now + pace(now).0;
                }
            }
            let number = ((now / round_trip) as usize).min(round_trips as usize);
            for channel in &mut channels {
                while channel.taken_at <= now {
                    let (step, takes) = pace(now);
                    if takes {
                        channel.waiting -= 1;
                        taken[number] += f64::from(self.packet_len);
                        let at = start + Duration::from_secs_f64(now);
                        connection.consumed(channel.id, self.packet_len as usize, at, &mut sink);
                    }
                    channel.taken_at =
                        if channel.waiting == 0 { f64::INFINITY } else { channel.taken_at + step };
                }
            }
            let holds = channels.iter().map(|channel| connection.backlog(channel.id)).sum();
            most_held = most_held.max(holds);
            held[number] = holds.max(held[number]);
            credits.extend(sink.0.drain(..).map(|(remote, bytes)| (now + half, remote as usize, bytes)));
        }
        let late =
            channels.iter().zip(&at_half).map(|(channel, before)| channel.delivered - before).collect();
        let windows = channels.iter().map(|channel| connection.receive_window(channel.id)).collect();
        Outcome { by_round_trip, late, windows, most_held, held, taken }
    }
}

impl Outcome {
    /// Returns the first round trip that reaches nine tenths of this share of `best` (bytes per round trip),
    /// and from which on the average reaches the share.
    fn ramp(&self, best: f64, share: f64) -> Option<usize> {
        let whole = &self.by_round_trip[..self.by_round_trip.len() - 1];
        (1..whole.len()).find(|&from| {
            let rest = &whole[from..];
            rest.iter().sum::<f64>() / rest.len() as f64 >= best * share && whole[from] >= best * share * 0.9
        })
    }
}

/// For every rate and round trip of the table, at least 97 % of the line (or of the largest possible window)
/// is used after a ramp that is counted in round trips.
#[test]
fn windows_fit_paths_from_1_to_400_gigabits() {
    println!(
        "| Gb/s | RTT ms | path holds MB | window MB | used | ramp, round trips |\n|---:|---:|---:|---:|---:|---:|"
    );
    for (gigabits, times) in [
        (1.0, [1, 10, 100, 200]),
        (10.0, [1, 10, 100, 200]),
        (100.0, [1, 10, 100, 200]),
        (400.0, [1, 10, 100, 200]),
    ] {
        for round_trip in times {
            let path = Path::new(gigabits * GIGABIT, round_trip);
            let best = path.capacity().min(f64::from(u32::MAX));
            // Fewer round trips where one has millions of packets, but at least 40.
            let round_trips = if path.capacity() > 1e9 { 40 } else { 120 };
            let outcome = path.run(round_trips);
            let ramp = outcome.ramp(best, 0.97);
            let tail = &outcome.by_round_trip[round_trips as usize * 3 / 4..round_trips as usize];
            let used = tail.iter().sum::<f64>() / tail.len() as f64 / best;
            println!(
                "| {gigabits} | {round_trip} | {:.1} | {:.1} | {:.1} % | {} |",
                path.capacity() / 1e6,
                outcome.windows[0] as f64 / 1e6,
                used * 100.0,
                ramp.map_or("-".to_owned(), |ramp| ramp.to_string())
            );
            assert!(used >= 0.97, "{gigabits} Gb/s, {round_trip} ms: {used}");
            let ramp = ramp.expect("the path is filled");
            assert!(ramp <= 16, "{gigabits} Gb/s, {round_trip} ms: {ramp} round trips");
        }
    }
}

#[test]
fn window_ends_at_a_small_multiple_of_the_bdp() {
    let path = Path { packet_len: 64 << 10, ..Path::new(2.0 * GIGABIT, 50) };
    let outcome = path.run(400);
    let window = outcome.windows[0] as f64;
    assert!(window >= path.capacity() && window <= 3.0 * path.capacity(), "{window}");
}

/// The socket of a server behind a jump host measures 0.1 ms, for which the first window looks large enough.
#[test]
fn proxy_does_not_hide_the_path_round_trip() {
    let path = Path { packet_len: 64 << 10, behind_proxy: true, ..Path::new(2.0 * GIGABIT, 50) };
    let outcome = path.run(60);
    let used = outcome.by_round_trip[30..60].iter().sum::<f64>() / (30.0 * path.capacity());
    assert!(used >= 0.97, "{used}");
}

/// A peer whose answer is late because it is busy is not far away; later credits correct the estimate.
#[test]
fn slow_answer_is_not_taken_for_a_long_path() {
    let ms = Duration::from_millis;
    let mut connection = Connection::new(Config::default());
    connection.round_trip_measured(Duration::from_micros(50));
    connection.peer_answered(ms(4));
    assert_eq!(connection.round_trip(), Some(Duration::from_micros(50)));
    connection.peer_answered(ms(80));
    assert_eq!(connection.round_trip(), Some(ms(80)));
    connection.round_trip_measured(ms(3));
    assert_eq!(connection.round_trip(), Some(ms(3)));
    let mut far = Connection::new(Config::default());
    far.round_trip_measured(ms(50));
    far.peer_answered(ms(60));
    assert_eq!(far.round_trip(), Some(ms(50)), "the kernel's value wins when both agree");
    let mut unknown = Connection::new(Config::default());
    unknown.peer_answered(ms(1));
    assert_eq!(unknown.round_trip(), Some(ms(1)));
}

#[test]
fn channels_share_a_path_fairly() {
    let path = Path { channels: 8, packet_len: 64 << 10, ..Path::new(2.0 * GIGABIT, 50) };
    let outcome = path.run(100);
    let (least, most) = (outcome.late.iter().min().unwrap(), outcome.late.iter().max().unwrap());
    assert!(*least * 10 >= *most * 9, "{:?}", outcome.late);
    let all: u64 = outcome.late.iter().sum();
    assert!(all as f64 >= 0.97 * path.capacity() * 50.0);
}

/// Half of the channels have sinks that consume nothing. The others lose no rate, and the memory is limited
/// by the windows.
#[test]
fn stalled_sinks_cost_bounded_memory_and_no_rate() {
    let config = Config { growth_budget: 256 * MIB, ..Config::default() };
    let path = Path { channels: 8, stalled: 4, config, packet_len: 64 << 10, ..Path::new(2.0 * GIGABIT, 50) };
    let outcome = path.run(100);
    assert!(outcome.late[..4].iter().all(|&bytes| bytes == 0));
    let flowing: u64 = outcome.late[4..].iter().sum();
    assert!(flowing as f64 >= 0.97 * path.capacity() * 50.0, "{flowing}");
    assert!(
        outcome.most_held <= 4 * 2 * MIB,
        "a stalled channel holds its first window: {}",
        outcome.most_held
    );
}

/// All windows together grow by no more than the connection's budget.
#[test]
fn growth_budget_bounds_all_windows() {
    let config = Config { growth_budget: 20 * MIB, ..Config::default() };
    let path = Path { channels: 4, config, packet_len: 64 << 10, ..Path::new(10.0 * GIGABIT, 50) };
    let outcome = path.run(100);
    assert!(outcome.windows.iter().sum::<u64>() <= 20 * MIB + 4 * 2 * MIB, "{:?}", outcome.windows);
    assert!(outcome.windows.iter().all(|&window| window >= 2 * MIB));
}

/// A sender that becomes slower with a larger window gets the window with which it is fastest.
#[test]
fn sender_slowed_by_large_windows_gets_a_smaller_one() {
    // With 15 MiB it fills the line (12.5 MB in flight); with 50 MB it reaches a third of that.
    let slow = Sender::SlowedByWindow(8e-6 * 4.0);
    let path = Path { sender: slow, packet_len: 64 << 10, ..Path::new(2.0 * GIGABIT, 50) };
    let outcome = path.run(600);
    let late = outcome.late[0] as f64 / (path.capacity() * 300.0);
    assert!(late >= 0.93, "{late}, window {}", outcome.windows[0]);
}

/// Memory does not compensate for a slow sink. The backlog of a sink slower than the path shrinks to a small
/// part of the bandwidth-delay product, while the sink gets all it can consume. When the sink becomes faster,
/// the path is full again within some round trips.
#[test]
fn slow_sink_shrinks_the_window_and_fast_one_grows_it() {
    fn sink(round_trips: f64) -> f64 {
        // Fast, then slow, then fast again.
        if (40.0..120.0).contains(&round_trips) { 4.0 * GIGABIT } else { f64::INFINITY }
    }
    let path = Path { sink, packet_len: 64 << 10, ..Path::new(8.0 * GIGABIT, 100) };
    let outcome = path.run(170);
    let capacity = path.capacity();
    let share = |from: usize, to: usize, of: f64| {
        outcome.taken[from..to].iter().sum::<f64>() / (to - from) as f64 / of
    };
    assert!(share(30, 40, capacity) >= 0.97, "{}", share(30, 40, capacity));
    assert!(share(40, 120, capacity / 2.0) >= 0.99, "{}", share(40, 120, capacity / 2.0));
    // No more than was granted before the sink became slow, and soon less.
    assert!(outcome.most_held as f64 <= 3.0 * capacity, "{}", outcome.most_held);
    let standing_queue = *outcome.held[70..120].iter().max().unwrap();
    assert!(
        standing_queue as f64 <= capacity / 4.0,
        "{standing_queue} bytes standing in the backlog of a slow sink"
    );
    assert!(share(130, 170, capacity) >= 0.97, "{:?}", &outcome.taken[118..140]);
}

/// A sink that works in bursts, and averages the path's rate, loses no rate: its backlog drains between
/// bursts.
#[test]
fn bursty_sink_keeps_its_window() {
    fn sink(round_trips: f64) -> f64 {
        if round_trips >= 20.0 && round_trips.fract() < 0.4 { 0.0 } else { 40.0 * GIGABIT }
    }
    let path = Path { sink, packet_len: 64 << 10, ..Path::new(8.0 * GIGABIT, 100) };
    let outcome = path.run(120);
    let share = outcome.taken[20..120].iter().sum::<f64>() / 100.0 / path.capacity();
    assert!(share >= 0.97, "{share}");
}

/// A sink with nearly the path's rate, sometimes faster and sometimes slower, neither fills memory nor waits.
#[test]
fn nearly_fast_enough_sink_never_waits() {
    fn sink(round_trips: f64) -> f64 {
        8.0 * GIGABIT * (0.9 + 0.15 * (round_trips / 7.0).sin())
    }
    let path = Path { sink, packet_len: 64 << 10, ..Path::new(8.0 * GIGABIT, 100) };
    let outcome = path.run(300);
    let possible: f64 = (100..300).map(|at| (sink(f64::from(at)) * 0.1).min(path.capacity())).sum();
    let share = outcome.taken[100..300].iter().sum::<f64>() / possible;
    let most = *outcome.held[100..].iter().max().unwrap() as f64;
    assert!(share >= 0.95, "{share}");
    assert!(most <= 2.0 * path.capacity(), "{most}");
}

/// A sink that kept up and then stalls receives only what was granted, which is close to what the path could
/// use.
#[test]
fn stalled_sink_receives_a_small_multiple_of_the_bdp() {
    fn sink(round_trips: f64) -> f64 {
        if round_trips < 15.0 { f64::INFINITY } else { 0.0 }
    }
    for (rate, times) in [(2.0, 50), (8.0, 100), (10.0, 20)] {
        let path = Path { sink, packet_len: 64 << 10, ..Path::new(rate * GIGABIT, times) };
        let outcome = path.run(40);
        assert!(outcome.most_held as f64 >= path.capacity(), "the path was full");
        assert!(outcome.most_held as f64 <= 2.6 * path.capacity(), "{rate} Gb/s: {}", outcome.most_held);
    }
}
