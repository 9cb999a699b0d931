//! `ObscureKeystrokeTiming`: when keys are typed says much about what is typed, so an onlooker is to see packets at even
//! distances while somebody types, and for a while afterwards.
//!
//! [`Timing`] decides without clock or terminal; [`Typing`] holds back what is typed and [`Slots`] lets it go, or sends a PING of
//! the same size in its place (`ping@openssh.com`), slot by slot.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::{LogLevel, Voice};
use lh_driver::{ChannelCx, ChannelId, ControlCx, InputFilter, Source};
use lh_wire::{Message, PacketSink as _, msg::Ping};

/// How long chaff goes on after the last key: so much, and up to [`CHAFF_MORE`] more, in milliseconds.
const CHAFF: u32 = 1024;
const CHAFF_MORE: u32 = 2048;

/// The part of a slot's length that is left to chance, in percent, so that a clock cannot be told from a person's.
const FUZZ: u32 = 10;

/// More than this at once is no typing: text that is pasted hides nothing by waiting.
const BULK: usize = 128;

/// What a PING holds, so that it is as long as CHANNEL_DATA with one key.
const CHAFF_TEXT: &[u8] = b"PING!";

/// A number below the given one.
pub(crate) type Chance = Box<dyn FnMut(u32) -> u32>;

/// Which keys go when.
pub(crate) struct Timing {
    interval: Duration,
    chance: Chance,
    running: Option<Running>,
    held: Vec<u8>,
}

struct Running {
    next: Instant,
    until: Instant,
    chaff: u32,
}

/// What a slot is for.
#[derive(Debug, PartialEq, Eq)]
enum Slot {
    /// It is not time yet.
    Early,
    /// Send what is held.
    Keys,
    /// Send a PING.
    Chaff,
    /// Nobody has typed for long enough; this many PINGs were sent.
    Over(u32),
}

impl Timing {
    pub(crate) const fn new(interval: Duration, chance: Chance) -> Self {
        Self { interval, chance, running: None, held: Vec::new() }
    }

    /// The length of the next slot.
    fn slot(&mut self) -> Duration {
        let micros = u32::try_from(self.interval.as_micros()).unwrap_or(u32::MAX);
        let fuzz = micros / 100 * FUZZ;
        let more = (self.chance)(fuzz.saturating_mul(2).max(1));
        Duration::from_micros((micros - fuzz).into()) + Duration::from_micros(more.into())
    }

    /// Keys are typed. True when what is held may go at once: the first key of many, or no keys but bulk.
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
        // Even distances, unless we were kept from them.
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

/// The timing of one session, shared by those below.
pub(crate) type SharedTiming = Rc<RefCell<Timing>>;

/// Holds back what the filter before it lets through.
pub(crate) struct Typing {
    before: Box<dyn InputFilter>,
    timing: SharedTiming,
    voice: Voice,
}

impl Typing {
    pub(crate) fn new(before: Box<dyn InputFilter>, timing: SharedTiming, voice: Voice) -> Self {
        Self { before, timing, voice }
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
                self.voice.say(
                    LogLevel::Debug3,
                    &format!("obfuscate_keystroke_timing: starting: interval ~{interval}ms"),
                );
            }
        }
        if self.before.ended() {
            // EOF must not overtake it.
            out.append(&mut timing.held);
        }
    }

    fn ended(&self) -> bool {
        self.before.ended()
    }
}

/// The slots: sends what is held, or chaff.
pub(crate) struct Slots {
    pub(crate) timing: SharedTiming,
    pub(crate) channel: ChannelId,
    pub(crate) voice: Voice,
}

impl Source for Slots {
    fn next_deadline(&self) -> Option<Instant> {
        self.timing.borrow().next_slot()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let mut timing = self.timing.borrow_mut();
        let Some(mut channel) = cx.channel(self.channel) else {
            timing.running = None;
            return;
        };
        let now = channel.now();
        match timing.slot_due(now) {
            Slot::Early => {}
            Slot::Keys => {
                // What the peer's window does not take waits for a later slot.
                let sent = channel.send(&timing.held);
                timing.held.drain(..sent);
                if !channel.can_send() {
                    timing.held.clear();
                }
            }
            // During a key exchange nothing leaves, and chaff must not pile up.
            Slot::Chaff if cx.transport().can_send_bulk() => {
                cx.transport().payload(&Ping::new(CHAFF_TEXT).to_payload());
            }
            Slot::Chaff => {}
            Slot::Over(chaff) => self.voice.say(
                LogLevel::Debug3,
                &format!(
                    "obfuscate_keystroke_timing: stopping: chaff time expired ({chaff} chaff packets sent)"
                ),
            ),
        }
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
    fn keys_leave_at_even_distances_and_chaff_follows() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut timing = timing();
        assert_eq!(timing.slot_due(start), Slot::Early, "nobody types");
        assert!(timing.typed(b"a", start), "the first key waits for nothing");
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
    fn late_slots_do_not_come_in_a_bunch_and_pasted_text_does_not_wait() {
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
    fn slots_vary_by_a_tenth_either_way() {
        for (chance, micros) in [(0, 18_000), (4000, 22_000)] {
            let mut timing = Timing::new(Duration::from_millis(20), Box::new(move |below| chance.min(below)));
            assert_eq!(timing.slot(), Duration::from_micros(micros));
        }
    }
}
