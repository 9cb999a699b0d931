//! Detection of interactive channels beside bulk.
//!
//! A character that is typed waits behind all that is queued when it is sent. While some channel moves a
//! little and another one much, in any direction, short queues are worth more than the last percents of
//! throughput. Bytes sent and received count together: a copy sends much and receives short answers on one
//! channel, which is bulk.

use std::time::{Duration, Instant};

/// Length of one observation.
const SPAN: Duration = Duration::from_millis(50);
/// Bytes in an observation up to which a channel counts as interactive: a page of text, or some requests.
const LITTLE: usize = 4 << 10;
/// Bytes in an observation from which a channel counts as bulk.
const MUCH: usize = 64 << 10;
/// Time for which interactive traffic is remembered: a person pauses between words.
const MEMORY: Duration = Duration::from_secs(5);

/// Observes what the channels of a connection send and receive.
#[derive(Debug, Default)]
pub(crate) struct Mix {
    start: Option<Instant>,
    mixed_until: Option<Instant>,
}

impl Mix {
    /// True when an observation has ended, and [`observe`](Self::observe) is to be called.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let start = *self.start.get_or_insert(now);
        now.saturating_duration_since(start) >= SPAN
    }

    /// Evaluates the bytes that each channel has moved since the last observation.
    pub(crate) fn observe(&mut self, now: Instant, moved: impl Iterator<Item = usize>) {
        self.start = Some(now);
        let (mut little, mut much) = (false, false);
        for bytes in moved {
            little |= (1..=LITTLE).contains(&bytes);
            much |= bytes >= MUCH;
        }
        if little && much {
            self.mixed_until = Some(now + MEMORY);
        }
    }

    /// True while interactive channels share the connection with bulk.
    pub(crate) fn is_mixed(&self, now: Instant) -> bool {
        self.mixed_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_little_beside_much_is_a_mix() {
        let start = Instant::now();
        for (sent, mixed) in [
            (&[][..], false),
            (&[1], false),
            (&[1 << 20], false),
            (&[1, 5000], false),
            (&[0, 1 << 20], false),
            (&[1 << 20, 1 << 20], false),
            (&[1, 1 << 20], true),
            (&[1 << 20, 4096, 0], true),
        ] {
            let mut mix = Mix::default();
            assert!(!mix.is_due(start));
            assert!(!mix.is_due(start + SPAN / 2));
            assert!(mix.is_due(start + SPAN));
            mix.observe(start + SPAN, sent.iter().copied());
            assert!(!mix.is_due(start + SPAN));
            assert_eq!(mix.is_mixed(start + SPAN), mixed, "{sent:?}");
        }
    }

    #[test]
    fn a_mix_is_remembered_for_some_seconds() {
        let start = Instant::now();
        let mut mix = Mix::default();
        mix.observe(start, [1, 1 << 20].into_iter());
        mix.observe(start + MEMORY / 2, [0, 1 << 20].into_iter());
        assert!(mix.is_mixed(start + MEMORY - SPAN));
        assert!(!mix.is_mixed(start + MEMORY));
    }
}
