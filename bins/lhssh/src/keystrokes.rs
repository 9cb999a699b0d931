//! `ObscureKeystrokeTiming`: hides the times of keystrokes, which reveal much about the typed text. While the
//! user types, and for a while afterwards, packets leave at regular intervals.
//!
//! [`Timing`] decides without clock or terminal. [`Typing`] holds back typed bytes, and [`Slots`] releases
//! them, or sends a PING of equal size instead (`ping@openssh.com`), slot by slot.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::{LogLevel, Logger};
use lh_driver::{ChannelCx, ChannelId, ControlCx, InputFilter, Source};

/// Shortest duration of chaff after the last key, milliseconds.
const CHAFF: u32 = 1024;
/// Upper limit of the random addition to [`CHAFF`], milliseconds.
const CHAFF_MORE: u32 = 2048;

/// Random variation of a slot's length, percent, so that a fixed clock does not show.
const FUZZ: u32 = 10;

/// Bytes at once beyond which input is not typing: delaying pasted text hides nothing.
const BULK: usize = 128;

/// Content of a PING, which makes it as long as CHANNEL_DATA with one key.
const CHAFF_TEXT: &[u8] = b"PING!";

/// Returns a random number below the given one.
pub(crate) type RandomBelow = Box<dyn FnMut(u32) -> u32>;

/// Decides when typed keys are sent.
pub(crate) struct Timing {
    interval: Duration,
    chance: RandomBelow,
    running: Option<Running>,
    held: Vec<u8>,
}

struct Running {
    next: Instant,
    until: Instant,
    chaff: u32,
}

/// Use of a slot.
#[derive(Debug, PartialEq, Eq)]
enum Slot {
    /// The slot has not begun.
    Early,
    /// Send the held keys.
    Keys,
    /// Send a PING.
    Chaff,
    /// Chaff ends, long enough after the last key; this many PINGs were sent.
    Over(u32),
}

impl Timing {
    pub(crate) const fn new(interval: Duration, chance: RandomBelow) -> Self {
        Self { interval, chance, running: None, held: Vec::new() }
    }

    /// Length of the next slot.
    fn slot(&mut self) -> Duration {
        let micros = u32::try_from(self.interval.as_micros()).unwrap_or(u32::MAX);
        let fuzz = micros / 100 * FUZZ;
        let more = (self.chance)(fuzz.saturating_mul(2).max(1));
        Duration::from_micros((micros - fuzz).into()) + Duration::from_micros(more.into())
    }

    /// Adds typed keys. True when the held keys may be sent at once: the first key of a sequence, or bulk.
    fn typed(&mut self, keys: &[u8], now: Instant) -> bool {
        self.held.extend_from_slice(keys);
        if self.held.is_empty() {
            return false;
        }
        if self.held.len() > BULK {
            self.running = None;
            return true;
        }
        let until = now + Duration::from_millis((CHAFF + (self.chance)(CHAFF_MORE)).into());
        match &mut self.running {
            Some(running) => {
                running.until = until;
                false
            }
            None => {
                let next = now + self.slot();
                self.running = Some(Running { next, until, chaff: 0 });
                true
            }
        }
    }

    fn next_slot(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.next)
    }

    fn slot_due(&mut self, now: Instant) -> Slot {
        let length = self.slot();
        let Some(running) = &mut self.running else { return Slot::Early };
        if now < running.next {
            return Slot::Early;
        }
        // Regular intervals, unless this process was delayed.
        running.next = (running.next + length).max(now);
        if !self.held.is_empty() {
            return Slot::Keys;
        }
        if now >= running.until {
            let chaff = running.chaff;
            self.running = None;
            return Slot::Over(chaff);
        }
        running.chaff += 1;
        Slot::Chaff
    }
}

/// The timing of one session, shared by its filter and its source.
pub(crate) type SharedTiming = Rc<RefCell<Timing>>;

/// Input filter that holds back the output of the filter before it.
pub(crate) struct Typing {
    before: Box<dyn InputFilter>,
    timing: SharedTiming,
    logger: Logger,
}

impl Typing {
    pub(crate) fn new(before: Box<dyn InputFilter>, timing: SharedTiming, logger: Logger) -> Self {
        Self { before, timing, logger }
    }
}

impl InputFilter for Typing {
    fn filter(&mut self, input: &[u8], out: &mut Vec<u8>, cx: &mut ChannelCx<'_>) {
        let mut keys = Vec::new();
        self.before.filter(input, &mut keys, cx);
        let mut timing = self.timing.borrow_mut();
        let idle = timing.running.is_none();
        if timing.typed(&keys, cx.now()) {
            out.append(&mut timing.held);
            if idle && timing.running.is_some() {
                let interval = timing.interval.as_millis();
                self.logger.say(
                    LogLevel::Debug3,
                    &format!("obfuscate_keystroke_timing: starting: interval ~{interval}ms"),
                );
            }
        }
        let hidden = timing.running.is_some();
        cx.cover_acknowledgements(hidden);
        if self.before.ended() {
            // EOF must not overtake the held keys.
            out.append(&mut timing.held);
        }
    }

    fn ended(&self) -> bool {
        self.before.ended()
    }
}

/// Event source that sends held keys, or chaff, in slots.
pub(crate) struct Slots {
    pub(crate) timing: SharedTiming,
    pub(crate) channel: ChannelId,
    pub(crate) logger: Logger,
}

impl Source for Slots {
    fn next_deadline(&self) -> Option<Instant> {
        self.timing.borrow().next_slot()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let mut timing = self.timing.borrow_mut();
        let Some(mut channel) = cx.channel(self.channel) else {
            timing.running = None;
            return cx.cover_acknowledgements(false);
        };
        let now = channel.now();
        match timing.slot_due(now) {
            Slot::Early => {}
            Slot::Keys => {
                // Keys that do not fit the peer's window wait for a later slot.
                let sent = channel.send(&timing.held);
                timing.held.drain(..sent);
                if !channel.can_send() {
                    timing.held.clear();
                }
            }
            // During a key exchange no packet leaves, and chaff must not pile up.
            Slot::Chaff if cx.can_send_bulk() => {
                cx.ping(CHAFF_TEXT);
            }
            Slot::Chaff => {}
            Slot::Over(chaff) => self.logger.say(
                LogLevel::Debug3,
                &format!(
                    "obfuscate_keystroke_timing: stopping: chaff time expired ({chaff} chaff packets sent)"
                ),
            ),
        }
        cx.cover_acknowledgements(timing.running.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing() -> Timing {
        Timing::new(Duration::from_millis(20), Box::new(|below| below / 2))
    }

    /// Covers: ssh_config ObscureKeystrokeTiming
    #[test]
    fn keys_leave_at_regular_intervals_then_chaff() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut timing = timing();
        assert_eq!(timing.slot_due(start), Slot::Early, "no key was typed");
        assert!(timing.typed(b"a", start), "the first key leaves at once");
        timing.held.clear();
        assert!(!timing.typed(b"b", at(3)) && !timing.typed(b"c", at(13)));
        assert_eq!(timing.next_slot(), Some(at(20)));
        assert_eq!(timing.slot_due(at(19)), Slot::Early);
        assert_eq!(timing.slot_due(at(20)), Slot::Keys);
        assert_eq!(std::mem::take(&mut timing.held), b"bc");
        // Half of the 2048 ms after the key at 13 ms: one PING each 20 ms until then.
        let mut chaff = 0;
        let over = loop {
            let now = timing.next_slot().expect("goes on");
            match timing.slot_due(now) {
                Slot::Chaff => chaff += 1,
                Slot::Over(count) => {
                    assert_eq!(count, chaff);
                    break now;
                }
                other => panic!("{other:?}"),
            }
        };
        assert!((100..=103).contains(&chaff), "{chaff}");
        assert!(over >= at(13 + 2048) && over < at(13 + 2048 + 40));
        assert_eq!(timing.next_slot(), None);
    }

    #[test]
    fn late_slots_do_not_bunch_and_pastes_do_not_wait() {
        let start = Instant::now();
        let mut timing = timing();
        timing.typed(b"a", start);
        timing.held.clear();
        let late = start + Duration::from_millis(500);
        assert_eq!(timing.slot_due(late), Slot::Chaff);
        assert!(timing.next_slot().is_some_and(|next| next >= late));
        assert!(!timing.typed(b"b", late));
        assert!(timing.typed(&[b'x'; 200], late), "bulk");
        assert_eq!(timing.held.len(), 201);
        assert_eq!(timing.next_slot(), None, "and no chaff for it");
    }

    #[test]
    fn slots_vary_by_ten_percent() {
        for (chance, micros) in [(0, 18_000), (4000, 22_000)] {
            let mut timing = Timing::new(Duration::from_millis(20), Box::new(move |below| chance.min(below)));
            assert_eq!(timing.slot(), Duration::from_micros(micros));
        }
    }
}
