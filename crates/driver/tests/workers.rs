//! Tests of bulk data with worker threads, and beside a stuck channel: no byte is lost, other channels
//! continue, memory is bounded.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use common::{Probe, Script, World, links};
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, ChannelOptions, Driver, Workers};

/// Sends `left` bytes; each packet is filled with the number of packets before it.
struct Source {
    left: usize,
    next: u8,
    /// Maximum of queued output after a call of this handler.
    queued: Rc<Cell<usize>>,
}

impl Source {
    fn new(left: usize) -> (Self, Rc<Cell<usize>>) {
        let queued = Rc::new(Cell::new(0));
        (Self { left, next: 0, queued: queued.clone() }, queued)
    }
}

impl ChannelHandler for Source {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if matches!(event, ChannelEvent::Opened { .. }) {
            cx.want_writable();
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        while self.left > 0 {
            let budget = cx.budget().min(self.left);
            if budget == 0 {
                break;
            }
            let Some(mut reservation) = cx.reserve(None, budget) else { break };
            for body in reservation.slices().iter_mut() {
                body.fill(self.next);
                self.next = self.next.wrapping_add(1);
            }
            let total = reservation.total();
            self.left -= reservation.commit(total);
        }
        self.queued.set(self.queued.get().max(cx.queued_output()));
        if self.left == 0 {
            cx.eof();
        }
    }
}

#[derive(Default)]
struct Arrived {
    bytes: usize,
    packets: u8,
    eof: bool,
    /// Stop the loop at EOF.
    stop: bool,
}

/// Consumes all data, and checks that it is the pattern of a [`Source`].
#[derive(Clone, Default)]
struct Drain(Rc<RefCell<Arrived>>);

impl ChannelHandler for Drain {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        let mut arrived = self.0.borrow_mut();
        match event {
            ChannelEvent::Data { data, .. } => {
                let expected = [arrived.packets; 2];
                assert_eq!([data[0], data[data.len() - 1]], expected, "after {} bytes", arrived.bytes);
                arrived.packets = arrived.packets.wrapping_add(1);
                arrived.bytes += data.len();
                cx.consumed(data.len());
            }
            ChannelEvent::Eof => {
                arrived.eof = true;
                if arrived.stop {
                    cx.stop(0);
                }
            }
            _ => {}
        }
    }

    fn on_batch_end(&mut self, _cx: &mut ChannelCx<'_>) {
        if self.0.borrow().stop {
            // Simulates the time of a write, in which workers finish jobs.
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
    }
}

#[test]
fn workers_and_rekeys_lose_no_data() {
    const TOTAL: usize = 24 << 20;
    for (ours, theirs) in [(1, 0), (0, 2), (2, 1), (4, 4)] {
        let mut world = World::new();
        world.client.set_workers(Workers::Exactly(ours));
        world.server.set_workers(Workers::Exactly(theirs));
        let (up, down) = (Drain::default(), Drain::default());
        world.serve(vec![Box::new(up.clone()), Box::new(Source::new(TOTAL).0)]);
        world.open(Source::new(TOTAL).0);
        world.open(down.clone());
        for part in 1..4 {
            world.until("a part", |_| up.0.borrow().bytes >= part * TOTAL / 4);
            world.client.control().request_rekey();
            world.until("keys", |world| {
                world.client_script.rekeys == part && world.server_script.rekeys == part
            });
        }
        world.until("the end", |_| up.0.borrow().eof && down.0.borrow().eof);
        assert_eq!((up.0.borrow().bytes, down.0.borrow().bytes), (TOTAL, TOTAL));
    }
}

#[test]
fn stuck_channel_delays_no_other_and_bounds_memory() {
    const TOTAL: usize = 256 << 20;
    let mut world = World::new();
    let (stuck, other, echo) = (Probe::default(), Drain::default(), Probe::default());
    stuck.0.borrow_mut().hold = true;
    world.serve(vec![Box::new(stuck.clone()), Box::new(other.clone()), Box::new(echo.clone())]);
    world.open(Source::new(TOTAL).0);
    world.until("the first is stuck", |_| stuck.got() >= 2 << 20);
    let (bulk, queued) = Source::new(TOTAL);
    world.open(bulk);
    let keys = world.open(Probe::default());
    let mut typed = 0;
    while !other.0.borrow().eof {
        // Sends a key occasionally. It must arrive before much more of the bulk data.
        let before = other.0.borrow().bytes;
        let sent = world.client.control().channel(keys).map_or(0, |mut channel| channel.send(b"k"));
        typed += sent;
        world.until("a key", |_| echo.got() == typed);
        let passed = other.0.borrow().bytes - before;
        assert!(sent == 0 || passed <= 8 << 20, "{passed} bytes went before a key");
        world.until("more", |_| other.0.borrow().eof || other.0.borrow().bytes >= before + (4 << 20));
    }
    assert_eq!(other.0.borrow().bytes, TOTAL);
    assert!(typed > 10);
    // The window does not grow for a stuck sink.
    assert!(stuck.got() <= 2 << 20, "{}", stuck.got());
    assert!(queued.get() <= 2 << 20, "{}", queued.get());
}

/// Loops that sleep, as in programs: a worker wakes its loop, which never sleeps over finished jobs.
#[test]
fn loops_that_sleep_are_woken() {
    const TOTAL: usize = 64 << 20;
    for (ours, theirs) in [(1, 0), (0, 1), (2, 2)] {
        let (client, server, key) = links();
        let sender = std::thread::spawn(move || {
            let mut script = Script::new(&key);
            script.accept = Box::new(|_| Some(Box::new(Source::new(TOTAL).0)));
            let mut driver = Driver::new(server, Default::default());
            driver.set_workers(Workers::Exactly(theirs));
            // Runs until the client disconnects.
            driver.run(&mut script).unwrap_err();
            key
        });
        let drain = Drain::default();
        drain.0.borrow_mut().stop = true;
        let key = lh_crypto::PrivateKey::generate(lh_crypto::KeyType::Ed25519, None).unwrap();
        let mut driver = Driver::new(client, Default::default());
        driver.set_workers(Workers::Exactly(ours));
        let options = ChannelOptions::default();
        driver.control().open("session", b"", &options, Box::new(drain.clone())).unwrap();
        assert_eq!(driver.run(&mut Script::new(&key)).unwrap(), 0);
        assert_eq!(drain.0.borrow().bytes, TOTAL);
        drop(driver);
        sender.join().unwrap();
    }
}
