//! Two connections joined by a virtual link, with random operations: honest sides never break the rules.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lh_connection::{ChannelId, ChannelOptions, Config, Connection, Event, WindowPolicy};
use proptest::prelude::*;

/// One side of the link, and its owner's data.
struct Side {
    connection: Connection,
    out: Vec<Vec<u8>>,
    /// Messages in flight to this side.
    incoming: VecDeque<Vec<u8>>,
    channel: Option<ChannelId>,
    held: usize,
    sent: Vec<u8>,
    got: Vec<u8>,
    eof_sent: bool,
    eof_got: bool,
    closed: bool,
}

impl Side {
    fn new(budget: u64) -> Self {
        let config = Config { growth_budget: budget, max_send_packet: 100, ..Config::default() };
        Self {
            connection: Connection::new(config),
            out: Vec::new(),
            incoming: VecDeque::new(),
            channel: None,
            held: 0,
            sent: Vec::new(),
            got: Vec::new(),
            eof_sent: false,
            eof_got: false,
            closed: false,
        }
    }

    fn deliver(&mut self, count: usize, options: &ChannelOptions, now: Instant) {
        for _ in 0..count {
            let Some(payload) = self.incoming.pop_front() else { break };
            self.connection.handle(Bytes::from(payload), now, &mut self.out).expect("the peer is honest");
            while let Some(event) = self.connection.poll_event() {
                match event {
                    Event::OpenRequested { id, .. } => {
                        self.channel = Some(id);
                        assert!(self.connection.accept(id, options, b"", &mut self.out));
                    }
                    Event::Data { data, .. } => {
                        assert!(!self.eof_got && !self.closed);
                        self.held += data.len();
                        self.got.extend_from_slice(&data);
                        if let Some(channel) = self.channel.filter(|_| self.connection.holds_windows()) {
                            self.connection.consumed(channel, 0, now, &mut self.out);
                        }
                    }
                    Event::Eof { .. } => self.eof_got = true,
                    Event::Closed { .. } => self.closed = true,
                    Event::Opened { .. } | Event::Writable { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Send { side: usize, bytes: usize },
    Consume { side: usize, bytes: usize },
    Deliver { side: usize, messages: usize },
    Eof { side: usize },
    Close { side: usize },
    Pass { millis: u64 },
    Hold { side: usize, most: Option<u32> },
}

fn operation() -> impl Strategy<Value = Operation> {
    let side = 0..2usize;
    prop_oneof![
        8 => (side.clone(), 0..3000usize).prop_map(|(side, bytes)| Operation::Send { side, bytes }),
        8 => (side.clone(), 0..3000usize).prop_map(|(side, bytes)| Operation::Consume { side, bytes }),
        8 => (side.clone(), 0..40usize).prop_map(|(side, messages)| Operation::Deliver { side, messages }),
        4 => (0..50u64).prop_map(|millis| Operation::Pass { millis }),
        1 => (side.clone(), prop::option::of(800..4000u32))
            .prop_map(|(side, most)| Operation::Hold { side, most }),
        1 => side.clone().prop_map(|side| Operation::Eof { side }),
        1 => side.prop_map(|side| Operation::Close { side }),
    ]
}

fn options() -> impl Strategy<Value = ChannelOptions> {
    (1..2000u32, 0..20000u32, 1..200u32).prop_map(|(initial, cap, max_packet)| ChannelOptions {
        window: WindowPolicy { initial, cap },
        max_packet,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// For all operations of two honest sides: no rule is broken, the backlog never exceeds the cap, all
    /// bytes arrive in order, and nothing stalls once both sides consume.
    #[test]
    fn honest_sides_never_break_the_rules(
        operations in prop::collection::vec(operation(), 1..300),
        options in [options(), options()],
        budget in 0..30000u64,
    ) {
        let mut now = Instant::now();
        let mut sides = [Side::new(budget), Side::new(budget)];
        let mut out = Vec::new();
        sides[0].channel =
            Some(sides[0].connection.open("session", b"", &options[0], &mut out).unwrap());
        sides[0].out = out;
        let mut next = 0u8;
        for operation in operations {
            match operation {
                Operation::Send { side, bytes } => {
                    let side = &mut sides[side];
                    let Some(channel) = side.channel.filter(|_| !side.closed) else { continue };
                    let data: Vec<u8> = (0..bytes).map(|_| { next = next.wrapping_add(1); next }).collect();
                    let sent = side.connection.send(channel, None, &data, &mut side.out);
                    side.sent.extend_from_slice(&data[..sent]);
                }
                Operation::Consume { side, bytes } => {
                    let side = &mut sides[side];
                    let Some(channel) = side.channel.filter(|_| !side.closed) else { continue };
                    let bytes = bytes.min(side.held);
                    side.held -= bytes;
                    side.connection.consumed(channel, bytes, now, &mut side.out);
                }
                Operation::Deliver { side, messages } => sides[side].deliver(messages, &options[side], now),
                Operation::Eof { side } => {
                    let side = &mut sides[side];
                    let Some(channel) = side.channel.filter(|_| !side.closed) else { continue };
                    side.eof_sent |= side.connection.eof(channel, &mut side.out);
                }
                Operation::Close { side } => {
                    let side = &mut sides[side];
                    let Some(channel) = side.channel.filter(|_| !side.closed) else { continue };
                    side.connection.close(channel, &mut side.out);
                }
                Operation::Pass { millis } => now += Duration::from_millis(millis),
                Operation::Hold { side, most } => sides[side].connection.hold_windows(most),
            }
            exchange(&mut sides);
            for (side, options) in sides.iter().zip(&options) {
                let cap = u64::from(options.window.cap.max(options.window.initial));
                if let Some(channel) = side.channel.filter(|_| !side.closed) {
                    let window = side.connection.receive_window(channel);
                    prop_assert!(window <= cap && window <= u64::from(options.window.initial) + budget);
                    prop_assert!(side.connection.backlog(channel) <= window);
                }
            }
        }
        // Both sides consume, and everything that was sent arrives.
        for _ in 0..100 {
            for (side, options) in sides.iter_mut().zip(&options) {
                side.deliver(usize::MAX, options, now);
                if let Some(channel) = side.channel.filter(|_| !side.closed) {
                    side.connection.consumed(channel, std::mem::take(&mut side.held), now, &mut side.out);
                }
            }
            exchange(&mut sides);
        }
        for side in 0..2 {
            let (us, them) = (&sides[side], &sides[1 - side]);
            prop_assert!(us.sent.starts_with(&them.got));
            if !us.closed && !them.closed {
                prop_assert_eq!(&us.sent, &them.got);
                prop_assert_eq!(us.eof_sent, them.eof_got);
                // The window is open again, unless no data may be sent.
                if let Some(channel) = us.channel.filter(|&channel| us.connection.can_send(channel)) {
                    prop_assert!(them.channel.is_none() || us.connection.send_budget(channel) > 0);
                }
            }
            prop_assert_eq!(us.closed, them.closed);
        }
    }
}

fn exchange(sides: &mut [Side; 2]) {
    let [a, b] = sides;
    b.incoming.extend(a.out.drain(..));
    a.incoming.extend(b.out.drain(..));
}
