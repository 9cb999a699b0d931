//! Interactive channels beside bulk: what is typed does not wait behind a long queue.

mod common;

use std::time::{Duration, Instant};

use common::World;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler};

/// Turns of the loop after which a queue that has stayed short counts as short.
const TURNS: usize = 300;

/// Sends zeros without end.
struct Bulk;

impl ChannelHandler for Bulk {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if matches!(event, ChannelEvent::Opened { .. }) {
            cx.want_writable();
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        loop {
            let budget = cx.budget();
            if budget == 0 {
                return;
            }
            let Some(reservation) = cx.reserve(None, budget) else { return };
            let total = reservation.total();
            reservation.commit(total);
        }
    }
}

/// Sends a character every few milliseconds.
struct Typist(Option<Instant>);

impl ChannelHandler for Typist {
    fn on_event(&mut self, event: ChannelEvent, _cx: &mut ChannelCx<'_>) {
        if matches!(event, ChannelEvent::Opened { .. }) {
            self.0 = Some(Instant::now());
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.0 = Some(cx.now() + Duration::from_millis(5));
        cx.send(b"x");
    }
}

/// Takes what comes.
struct Taker;

impl ChannelHandler for Taker {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        if let ChannelEvent::Data { data, .. } = event {
            cx.consumed(data.len());
        }
    }
}

#[test]
fn typing_beside_bulk_waits_behind_a_short_queue() {
    let mut world = World::new();
    world.serve(vec![Box::new(Taker), Box::new(Taker)]);
    world.open(Bulk);
    world.until("a long queue", |world| world.client.stats().queued > 256 << 10);
    world.open(Typist(None));
    let mut short = 0;
    world.until("a queue that stays short", |world| {
        short = if world.client.stats().queued <= 160 << 10 { short + 1 } else { 0 };
        short == TURNS
    });
}
